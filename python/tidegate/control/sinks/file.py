"""
Events in a file, one JSON object in a line. A file that is full is renamed `NAME.1`, the one before `NAME.2`, and so on.
"""

from __future__ import annotations

import json
import os
from typing import IO, TYPE_CHECKING

from tidegate.control.sinks.outlet import SinkError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tidegate.control.sinks.outlet import Row


class FileSink:
    """
    Writes to a file. Only its owner may read what it makes.

    Args:
        path: The file.
        bytes_max: How large it becomes before another one is begun.
        count: How many files are kept, this one among them.
    """

    def __init__(self, path: Path, bytes_max: int, count: int) -> None:
        self._path = path
        self._bytes_max = bytes_max
        self._count = count
        self._file: IO[bytes] | None = None

    def write(self, rows: Sequence[Row]) -> None:
        """See `Sink`."""
        lines = b"".join(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in rows)
        try:
            self._append(lines)
        except OSError as error:
            self.close()
            raise SinkError(f"{self._path}: {error.strerror or error}") from error

    def close(self) -> None:
        """See `Sink`."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def _append(self, lines: bytes) -> None:
        if self._file is None:
            self._file = self._open()
        size = self._file.tell()
        if size and size + len(lines) > self._bytes_max:
            self._rotate()
            self._file, size = self._open(), 0
        left = memoryview(lines)
        try:
            # A disk that is nearly full takes a part, and fails the next time.
            while left:
                left = left[self._file.write(left) :]
        except OSError:
            # Of a batch that comes again nothing may be left, least of all half a line.
            self._file.truncate(size)
            raise

    def _open(self) -> IO[bytes]:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        file = os.fdopen(os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "ab", buffering=0)
        file.seek(0, os.SEEK_END)
        return file

    def _rotate(self) -> None:
        self.close()
        for number in range(self._count - 1, 0, -1):
            older = self._numbered(number)
            newer = self._numbered(number - 1)
            if newer.exists():
                newer.replace(older)
        # If only one is kept, it begins again.
        self._path.unlink(missing_ok=True)

    def _numbered(self, number: int) -> Path:
        return self._path if number == 0 else self._path.with_name(f"{self._path.name}.{number}")

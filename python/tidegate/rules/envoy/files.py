"""
A directory of the reference service: every file in it counts, whatever its name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidegate.rules.document import Document
from tidegate.rules.problem import Problem, Report

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FILE_BYTES_MAX: Final = 8 * 1024 * 1024


def read_documents(source: Path, report: Report, *, ignore_dot_files: bool = False) -> list[Document]:
    """
    Reads a file, or all files of a directory in the order of their names.

    Args:
        source: Its path.
        report: Where problems are collected.
        ignore_dot_files: Whether files whose names begin with a dot are left out.

    Returns:
        Those that could be read.
    """
    documents = []
    for path in _paths(source, ignore_dot_files=ignore_dot_files):
        text = _text(path, report)
        if text is not None:
            documents.append(Document(str(path), path, text, report))
    return documents


def _paths(source: Path, *, ignore_dot_files: bool) -> Iterator[Path]:
    if not source.is_dir():
        yield source
        return
    for path in sorted(source.iterdir()):
        # Kubernetes keeps the files of a volume in `..data`, which is a directory.
        if not path.is_dir() and not (ignore_dot_files and path.name.startswith(".")):
            yield path


def _text(path: Path, report: Report) -> str | None:
    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except FileNotFoundError:
        report.add(Problem("file-missing", str(path), 1, 1, "", "there is no such file or directory", "look at the spelling"))
        return None
    except OSError as error:
        report.add(
            Problem(
                "file-unreadable", str(path), 1, 1, "", f"the file cannot be read: {error.strerror}", "name a file that Tidegate may read"
            )
        )
        return None
    if len(data) > FILE_BYTES_MAX:
        message = f"the file has more than {FILE_BYTES_MAX // 1024 // 1024} MiB"
        report.add(Problem("file-too-large", str(path), 1, 1, "", message, "divide it into several files"))
        return None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        report.add(Problem("not-utf-8", str(path), line, 1, "", f"byte {error.start} is not UTF-8", "save the file as UTF-8"))
        return None

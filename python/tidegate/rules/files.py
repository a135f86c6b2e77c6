"""
Which files make a rule set: a file, a directory, and what they include.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.rules.compose import compose
from tidegate.rules.document import Document
from tidegate.rules.envoy import is_envoy
from tidegate.rules.node import Mapping, Node, Scalar, Sequence
from tidegate.rules.problem import Problem, Report
from tidegate.rules.scalars import read_texts

if TYPE_CHECKING:
    from collections.abc import Iterator

FILE_BYTES_MAX = 8 * 1024 * 1024
FILES_MAX = 1000
SUFFIXES = (".yaml", ".yml", ".json")


class Files:
    """
    The files of one load, each read once.

    Args:
        report: Where problems are collected.
    """

    def __init__(self, report: Report) -> None:
        self.report = report
        self.documents: list[Document] = []
        self.descriptors: list[Document] = []
        self.included: set[str] = set()
        self.opened: list[Path] = []
        self._seen: set[Path] = set()

    def gather(self, source: Path, text: str | None) -> None:
        """
        Reads a file or a directory and everything that is included.

        Args:
            source: Its path.
            text: What the file says, if that is not to be read from it.
        """
        if text is not None:
            self._add(source, text, source.parent, ())
        elif (found := self._directory(source)) is not None:
            if not found and not self.report.has_errors:
                self._at_file(
                    source, "empty-directory", "the directory has no file of rules", f"add one that ends in {', '.join(SUFFIXES)}"
                )
            # All of them are top files, also those that another one includes.
            waiting = [path for path in found if self._is_new(path)]
            for path in waiting:
                self._read(path, source, ())
        elif self._is_new(source):
            self._read(source, source.parent, ())

    def note_opened(self, path: Path) -> None:
        """
        Notes a file that is not made of rules, such as a key.

        Args:
            path: The file.
        """
        self.opened.append(path)

    def _directory(self, source: Path) -> list[Path] | None:
        try:
            if not source.is_dir():
                return None
            self.opened.append(source)
            return list(self._list(source))
        except OSError as error:
            self._at_file(source, "file-unreadable", f"it cannot be read: {error.strerror}", "name a directory that Tidegate may read")
            return []

    def _list(self, folder: Path) -> Iterator[Path]:
        # Names that begin with a dot belong to editors, and to Kubernetes, which swaps `..data` and links every file through it.
        for path in sorted(folder.iterdir()):
            if not path.name.startswith(".") and path.suffix.lower() in SUFFIXES and not path.is_dir():
                yield path

    def _is_new(self, path: Path) -> bool:
        real = _real(path)
        if real in self._seen:
            return False
        self._seen.add(real)
        return True

    def _read(self, path: Path, top: Path, parents: tuple[Path, ...]) -> None:
        if len(self.opened) >= FILES_MAX:
            if len(self.opened) == FILES_MAX:
                self._at_file(path, "too-many-files", f"there are more than {FILES_MAX:,} files", "put several rules into one file")
                self.opened.append(path)
            return
        self.opened.append(path)
        data = self._bytes(path)
        if data is None:
            return
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            self._add_not_utf_8(path, data, error)
            return
        self._add(path, text, top, parents)

    def _bytes(self, path: Path) -> bytes | None:
        hint = "name a file that Tidegate may read"
        try:
            info = path.stat()
            if not stat.S_ISREG(info.st_mode):
                self._at_file(path, "file-unreadable", "this is no file", hint)
            elif info.st_size > FILE_BYTES_MAX:
                self._too_large(path, info.st_size)
            else:
                with path.open("rb") as file:
                    data = file.read(FILE_BYTES_MAX + 1)
                if len(data) <= FILE_BYTES_MAX:
                    return data
                self._too_large(path, len(data))
        except FileNotFoundError:
            self._at_file(
                path, "file-missing", "there is no such file or directory", "look at the spelling, and from where the path begins"
            )
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "this is no path"
            self._at_file(path, "file-unreadable", f"the file cannot be read: {reason}", hint)
        return None

    def _too_large(self, path: Path, size: int) -> None:
        message = f"the file has {size / 1024 / 1024:.0f} MiB, and at most {FILE_BYTES_MAX // 1024 // 1024} MiB are read"
        self._at_file(path, "file-too-large", message, "divide it into several files, and load the directory")

    def _add_not_utf_8(self, path: Path, data: bytes, error: UnicodeDecodeError) -> None:
        before = data[: error.start].decode("utf-8", "replace")
        line = before.count("\n") + 1
        column = len(before) - (before.rfind("\n") + 1) + 1
        message = f"byte {error.start} (0x{data[error.start]:02X}) is not UTF-8"
        self.report.add(Problem("not-utf-8", str(path), line, column, "", message, "save the file as UTF-8"))

    def _add(self, path: Path, text: str, top: Path, parents: tuple[Path, ...]) -> None:
        document = Document(str(path), path, text, self.report)
        if is_envoy(text):
            # That format has a composer of its own: it knows anchors.
            self.descriptors.append(document)
            return
        compose(document)
        if isinstance(document.root, Mapping) and (node := document.root.get("include")) is not None:
            self._include(document, node, top, (*parents, _real(path)))
        if parents:
            self.included.add(document.name)
        # Behind those that it includes, so that their rules come first.
        self.documents.append(document)

    def _include(self, document: Document, node: Node, top: Path, parents: tuple[Path, ...]) -> None:
        if isinstance(node, Sequence) and not node.items:
            return
        for scalar, name in read_texts(document, node):
            for path in self._targets(document, scalar, name, top):
                real = _real(path)
                if real in parents:
                    chain = " -> ".join(parent.name for parent in (*parents[parents.index(real) :], path))
                    document.add("include-cycle", scalar, f"files include each other: {chain}", "remove one of the includes")
                elif self._is_new(path):
                    self._read(path, top, parents)

    def _targets(self, document: Document, scalar: Scalar, name: str, top: Path) -> list[Path]:
        path = document.path.parent / name
        try:
            if not _real(path).is_relative_to(_real(top)):
                message = f"`{name:.80}` is outside of the folder {top.name or top}"
                document.add("include-escape", scalar, message, "include only what is in the folder of the first file, or below")
            elif path.is_dir():
                self.opened.append(path)
                return list(self._list(path))
            elif path.exists():
                return [path]
            else:
                document.add("include-missing", scalar, f"there is no file `{name:.80}`", "the path is relative to this file")
        except (OSError, ValueError):
            document.add("include-missing", scalar, f"`{name:.80}` is no path", "the path is relative to this file")
        return []

    def _at_file(self, path: Path, code: str, message: str, hint: str) -> None:
        self.report.add(Problem(code, str(path), 1, 1, "", message, hint))


def _real(path: Path) -> Path:
    # Unlike `Path.resolve`, this has an answer for links in a circle; reading the file then says what is wrong.
    try:
        return Path(os.path.realpath(path))
    except ValueError:
        return path

"""
Where settings come from: a file, the environment, flags. Each is read completely, so that all problems are told at once.
"""

from __future__ import annotations

import difflib
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate.rules.compose import compose
from tidegate.rules.document import Document
from tidegate.rules.names import closest, meant
from tidegate.rules.node import Mapping as Branch
from tidegate.rules.node import Node, Scalar, Sequence, kind_of
from tidegate.rules.problem import Problem, Report, TooManyProblems
from tidegate.rules.scalars import is_null, read_text
from tidegate.service.kinds import Wrong
from tidegate.service.places import Names, Networks
from tidegate.service.problem import SettingProblem
from tidegate.service.table import PREFIX, TABLE, Setting

if TYPE_CHECKING:
    from collections.abc import Mapping

FILE_BYTES_MAX = 1024 * 1024
_ALIKE = 0.9


@dataclass(frozen=True, slots=True)
class Given:
    """
    A value that somebody gave.

    Args:
        value: The value.
        where: `file:line:column`, the name of a flag, or the name of a variable.
    """

    value: Any
    where: str


class Reading:
    """
    Everything that was read, and what was wrong with it.

    `is_whole` says whether the file could be made sense of: if not, nobody knows what it says.

    Args:
        table: The settings that there are.
    """

    def __init__(self, table: Mapping[str, Setting] = TABLE) -> None:
        self.table = table
        self.is_whole = True
        self.given: dict[str, Given] = {}
        self.problems: list[SettingProblem] = []
        self.warnings: list[str] = []

    def read_file(self, path: Path) -> None:
        """
        Reads a file of settings.

        Args:
            path: The file.
        """
        report = Report()
        try:
            text = _text(path, report)
            self.is_whole = text is not None
            if text is not None and not _is_empty(text):
                document = Document(str(path), path, text, report)
                compose(document)
                self.is_whole = isinstance(document.root, Branch)
                if document.root is not None:
                    self._branch(document, document.root, "")
        except TooManyProblems:
            self.is_whole = False
        self.problems += map(SettingProblem.in_file, report.problems)

    def read_environment(self, environment: Mapping[str, str]) -> None:
        """
        Reads the variables that belong to settings. An empty one is none.

        Args:
            environment: All variables.
        """
        for setting in self.table.values():
            if text := environment.get(setting.variable):
                self._take(setting, text, setting.variable)
        known = [setting.variable for setting in self.table.values()]
        for name in environment:
            # Others may use the prefix too; only what looks like a slip is told.
            if name.startswith(PREFIX) and name not in known and (alike := difflib.get_close_matches(name, known, n=1, cutoff=_ALIKE)):
                self.warnings.append(f"the variable {name} has no meaning; did you mean {alike[0]}?")

    def read_flags(self, flags: Mapping[str, str | bool | None]) -> None:
        """
        Reads the options of the command.

        Args:
            flags: Texts by the keys of settings, `None` where the option was not used.
        """
        for key, said in flags.items():
            if said is not None:
                setting = self.table[key]
                self._take(setting, setting.kind.show(said) if isinstance(said, bool) else said, setting.flag)

    def _take(self, setting: Setting, text: str, where: str) -> None:
        try:
            self.given[setting.key] = Given(setting.kind.read(text), where)
        except Wrong as wrong:
            self.problems.append(SettingProblem(where, wrong.code, _said(setting, wrong), wrong.hint))

    def _branch(self, document: Document, node: Node, path: str) -> None:
        if not isinstance(node, Branch):
            what = f"`{path}`" if path else "a file of settings"
            document.add("wrong-type", node, f"{what} is a mapping, and this is {kind_of(node)}", self._section_hint(path))
            return
        for name, (key, value) in node.entries.items():
            inner = f"{path}.{name}" if path else name
            if inner in self.table:
                self._leaf(document, self.table[inner], value)
            elif name in self._keys(path):
                self._branch(document, value, inner)
            else:
                document.add("unknown-key", key, f"there is no setting `{inner:.80}`", meant(name, self._keys(path)))

    def _leaf(self, document: Document, setting: Setting, node: Node) -> None:
        if setting.kind.is_structured:
            if (read := setting.kind.read_node(document, node)) is not None:
                self.given[setting.key] = Given(read, _place(document, node))
            return
        text = written(document, setting, node)
        if text is None:
            return
        try:
            value = setting.kind.read(text)
        except Wrong as wrong:
            document.add(wrong.code, node, _said(setting, wrong), wrong.hint)
            return
        if isinstance(value, Path):
            value = document.path.parent / value
        self.given[setting.key] = Given(value, _place(document, node))

    def _section_hint(self, path: str) -> str:
        # `upstream: http://...` is a value of a setting whose name is almost that of the section.
        structured = [setting.key for setting in self.table.values() if setting.kind.is_structured]
        found = closest(path, structured) if path else None
        return f"did you mean `{found}`?" if found is not None else f"write keys: {', '.join(self._keys(path))}"

    def _keys(self, path: str) -> list[str]:
        start = f"{path}." if path else ""
        return list(dict.fromkeys(key[len(start) :].partition(".")[0] for key in self.table if key.startswith(start)))


def _said(setting: Setting, wrong: Wrong) -> str:
    # A message shows what was written, which nobody may see of a secret.
    return "this cannot be used" if setting.is_secret else wrong.message


def _place(document: Document, node: Node) -> str:
    return f"{document.name}:{node.start.line + 1}:{node.start.column + 1}"


def written(document: Document, setting: Setting, node: Node) -> str | None:
    """
    The text of a setting in a file.

    Args:
        document: Where problems are noted.
        setting: The setting.
        node: What stands there.

    Returns:
        What its kind reads, or `None` if that is not beyond doubt.
    """
    kind = setting.kind
    if isinstance(node, Sequence) and isinstance(kind, (Names, Networks)):
        texts = [read_text(document, item) for item in node.items]
        return None if None in texts else ",".join(filter(None, texts)) or "none"
    if isinstance(node, Scalar) and not is_null(node) and (not kind.is_text or node.text in kind.words):
        return node.text
    if setting.is_secret and isinstance(node, Scalar) and node.is_plain and node.text.isdigit():
        document.add("number-for-text", node, "a text is expected, and this is a number", "put quotes around it")
        return None
    return read_text(document, node)


def _is_empty(text: str) -> bool:
    return all(not line.strip() or line.lstrip().startswith("#") for line in text.splitlines())


def _text(path: Path, report: Report) -> str | None:
    try:
        info = path.stat()
        if not stat.S_ISREG(info.st_mode):
            _at(report, path, "file-unreadable", "this is no file", "name a file of settings")
            return None
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
        if len(data) <= FILE_BYTES_MAX:
            return data.decode("utf-8-sig")
        _at(report, path, "file-too-large", f"more than {FILE_BYTES_MAX // 1024 // 1024} MiB are no settings", "name a file of settings")
    except FileNotFoundError:
        _at(report, path, "file-missing", "there is no such file", "look at the spelling, and from where the path begins")
    except UnicodeDecodeError:
        _at(report, path, "not-utf-8", "the file is not UTF-8", "save it as UTF-8")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "this is no path"
        _at(report, path, "file-unreadable", f"the file cannot be read: {reason}", "name a file that Tidegate may read")
    return None


def _at(report: Report, path: Path, code: str, message: str, hint: str) -> None:
    report.add(Problem(code, str(path), 1, 1, "", message, hint))

"""
What a setting can be: how its text is read, how it is shown, and its JSON Schema.

The same text means the same in a file, in a flag and in a variable.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from tidegate.errors import QuotaError
from tidegate.quota import duration_ns
from tidegate.rules.names import meant

if TYPE_CHECKING:
    from tidegate.rules.document import Document
    from tidegate.rules.node import Node

Number = TypeVar("Number", int, float)

_WHOLE = re.compile(r"0|[1-9][0-9]{0,18}")
_NUMBER = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,9})?")
_SIZE = re.compile(r"([1-9][0-9]{0,11}) ?(KiB|MiB)?")
_UNITS = {None: 1, "KiB": 1024, "MiB": 1024 * 1024}


class Wrong(Exception):
    """
    A text that is no value of its kind.

    Args:
        code: A stable name for this kind of mistake.
        message: What is wrong.
        hint: What to write instead.
    """

    def __init__(self, code: str, message: str, hint: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Kind(ABC):
    """
    What a setting can be.
    """

    metavar: ClassVar[str]
    """What stands for the value in help texts."""
    words: ClassVar[tuple[str, ...]] = ()
    """Words that a file may have without quotes although YAML readers disagree on them, such as `off`."""
    is_text: ClassVar[bool] = True
    """Whether a number in a file needs quotes to be one of these."""
    is_structured: ClassVar[bool] = False
    """Whether a file may have more than one value there: then `read_node` reads it."""

    @abstractmethod
    def read(self, text: str) -> Any:  # noqa: ANN401  # each kind has a type of its own
        """
        Reads a value.

        Args:
            text: What was written.

        Returns:
            The value.

        Raises:
            Wrong: It is none.
        """

    @abstractmethod
    def schema(self) -> dict[str, Any]:
        """
        What an editor may accept in a file.

        Returns:
            A JSON Schema.
        """

    def read_node(self, document: Document, node: Node) -> Any | None:  # noqa: ANN401  # as above
        """
        Reads what stands in a file, if it is structured.

        Args:
            document: Where problems are noted.
            node: What stands there.

        Returns:
            The value, or `None` if there is none that is beyond doubt.
        """
        raise NotImplementedError

    def show(self, value: Any) -> str:  # noqa: ANN401  # as above
        """
        The text that reads as a value.

        Args:
            value: The value.

        Returns:
            The text.
        """
        return str(value)


@dataclass(frozen=True, slots=True)
class Text(Kind):
    """
    Any text that is not empty.
    """

    metavar = "TEXT"

    def read(self, text: str) -> str:
        """See `Kind`."""
        if not text:
            raise Wrong("empty-text", "the text is empty", "write something, or leave the setting out")
        return text

    def schema(self) -> dict[str, Any]:
        """See `Kind`."""
        return {"type": "string", "minLength": 1}


@dataclass(frozen=True, slots=True)
class File(Text):
    """
    The path of a file or a directory. In a file of settings it is relative to that file.
    """

    metavar = "PATH"

    def read(self, text: str) -> Path:  # type: ignore[override]  # a text that is a path
        """See `Kind`."""
        if not text or "\0" in text:
            raise Wrong("bad-path", "this is no path", "write the path of a file")
        return Path(text)


@dataclass(frozen=True, slots=True)
class Address(Text):
    """
    The address of a server, such as `http://127.0.0.1:4318`.
    """

    metavar = "URL"

    def read(self, text: str) -> str:
        """See `Kind`."""
        if not re.fullmatch(r"http://[^\s/@?#]+(?:/[^\s?#]*)?", text):
            hint = "write http:// and a host, such as http://127.0.0.1:4318; a collector there can speak TLS to others"
            raise Wrong("bad-url", "this is no address of a server", hint)
        return text


@dataclass(frozen=True, slots=True)
class FieldName(Text):
    """
    The name of a header field, in lower case.

    Args:
        taken: Names that mean something else, as regular expressions that fit them as a whole.
    """

    taken: tuple[str, ...] = ()

    metavar = "NAME"

    def read(self, text: str) -> str:
        """See `Kind`."""
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}", text):
            raise Wrong("bad-header", f"`{text:.80}` is no name of a header", "write letters, digits and hyphens, such as x-cost")
        if any(re.fullmatch(name, text, re.IGNORECASE) for name in self.taken):
            raise Wrong(
                "bad-header",
                f"`{text}` has a meaning of its own in HTTP",
                "write a name that nobody else uses, such as x-cost or x-request-id",
            )
        return text.lower()


@dataclass(frozen=True, slots=True)
class FieldNameOrOff(FieldName):
    """
    The name of a header field, or `off`.
    """

    words = ("off",)

    def read(self, text: str) -> str | None:  # type: ignore[override]  # or nothing
        """See `Kind`."""
        return None if text == "off" else FieldName.read(self, text)

    def schema(self) -> dict[str, Any]:
        """See `Kind`."""
        return {"anyOf": [FieldName.schema(self), {"const": False}]}

    def show(self, value: Any) -> str:  # noqa: ANN401  # see `Kind`
        """See `Kind`."""
        return "off" if value is None else str(value)


@dataclass(frozen=True, slots=True)
class Output(File):
    """
    Where lines go: a file, `stdout`, or `off`.
    """

    words = ("off",)

    def read(self, text: str) -> Path | str | None:  # type: ignore[override]  # or a word
        """See `Kind`."""
        if text in {"off", "stdout"}:
            return None if text == "off" else text
        return File.read(self, text)

    def schema(self) -> dict[str, Any]:
        """See `Kind`."""
        return {"anyOf": [File.schema(self), {"const": False}]}

    def show(self, value: Any) -> str:  # noqa: ANN401  # see `Kind`
        """See `Kind`."""
        return "off" if value is None else str(value)


@dataclass(frozen=True, slots=True)
class Choice(Kind):
    """
    One of several words.

    Args:
        choices: The words.
    """

    choices: tuple[str, ...] = ()

    metavar = "WORD"
    words = ("off",)

    def read(self, text: str) -> str:
        """See `Kind`."""
        if text not in self.choices:
            raise Wrong("unknown-choice", f"`{text:.80}` is none of {', '.join(self.choices)}", meant(text, self.choices))
        return text

    def schema(self) -> dict[str, Any]:
        """See `Kind`."""
        # To a reader of YAML 1.1, `off` without quotes is `false`.
        return {"enum": [*self.choices, False]} if "off" in self.choices else {"enum": [*self.choices]}


@dataclass(frozen=True, slots=True)
class Flag(Kind):
    """
    `true` or `false`.
    """

    metavar = "BOOLEAN"
    is_text = False

    def read(self, text: str) -> bool:
        """See `Kind`."""
        if text not in {"true", "false"}:
            raise Wrong("not-a-boolean", f"`true` or `false` is expected: {text:.40}", "write true or false")
        return text == "true"

    def schema(self) -> dict[str, Any]:
        """See `Kind`."""
        return {"type": "boolean"}

    def show(self, value: Any) -> str:  # noqa: ANN401  # see `Kind`
        """See `Kind`."""
        return "true" if value else "false"


@dataclass(frozen=True, slots=True)
class Whole(Kind):
    """
    A whole number.

    Args:
        low: The smallest.
        high: The largest.
    """

    low: int = 0
    high: int = 2**31 - 1

    metavar = "NUMBER"
    is_text = False

    def read(self, text: str) -> int:
        """See `Kind`."""
        if not _WHOLE.fullmatch(text):
            raise Wrong("not-a-whole-number", f"a whole number is expected: {text:.40}", "write digits only, without zeros before them")
        return _in_range(int(text), self.low, self.high, text)

    def schema(self) -> dict[str, Any]:
        """See `Kind`."""
        return {"type": "integer", "minimum": self.low, "maximum": self.high}


@dataclass(frozen=True, slots=True)
class Size(Kind):
    """
    A number of bytes: `16384`, `16KiB`, `1MiB`.

    Args:
        low: The smallest.
        high: The largest.
    """

    low: int
    high: int

    metavar = "BYTES"
    is_text = False

    def read(self, text: str) -> int:
        """See `Kind`."""
        found = _SIZE.fullmatch(text)
        if found is None:
            raise Wrong("bad-size", f"a number of bytes is expected: {text:.40}", "write 16384, 16KiB or 1MiB")
        return _in_range(int(found[1]) * _UNITS[found[2]], self.low, self.high, text)

    def schema(self) -> dict[str, Any]:
        """See `Kind`."""
        return {
            "anyOf": [{"type": "integer", "minimum": self.low, "maximum": self.high}, {"type": "string", "pattern": f"^{_SIZE.pattern}$"}]
        }

    def show(self, value: Any) -> str:  # noqa: ANN401  # see `Kind`
        """See `Kind`."""
        for unit in ("MiB", "KiB"):
            if value and value % _UNITS[unit] == 0:
                return f"{value // _UNITS[unit]}{unit}"
        return str(value)


@dataclass(frozen=True, slots=True)
class Seconds(Kind):
    """
    A duration: `10s`, `500ms`, `2m`, or a bare number of seconds.

    Args:
        low: The shortest, in seconds.
        high: The longest.
    """

    low: float
    high: float

    metavar = "DURATION"
    is_text = False

    def read(self, text: str) -> float:
        """See `Kind`."""
        try:
            seconds = float(text) if _NUMBER.fullmatch(text) else duration_ns("it", text) / 1e9
        except QuotaError:
            raise Wrong("bad-duration", f"`{text:.40}` is no duration", "write a number with its unit, such as 500ms, 10s or 2m") from None
        return _in_range(seconds, self.low, self.high, text, "s")

    def schema(self) -> dict[str, Any]:
        """See `Kind`."""
        return {"anyOf": [{"type": "number", "minimum": self.low, "maximum": self.high}, {"type": "string", "minLength": 1}]}

    def show(self, value: Any) -> str:  # noqa: ANN401  # see `Kind`
        """See `Kind`."""
        return f"{value * 1000:g}ms" if 0 < value < 1 else f"{value:.15g}s"  # never with an exponent, which is no duration


@dataclass(frozen=True, slots=True)
class Share(Kind):
    """
    A part of everything, from 0 to 1.
    """

    metavar = "SHARE"
    is_text = False

    def read(self, text: str) -> float:
        """See `Kind`."""
        if not _NUMBER.fullmatch(text):
            raise Wrong("not-a-share", f"a number from 0 to 1 is expected: {text:.40}", "write 0.01 for one in a hundred")
        return _in_range(float(text), 0, 1, text)

    def schema(self) -> dict[str, Any]:
        """See `Kind`."""
        return {"type": "number", "minimum": 0, "maximum": 1}

    def show(self, value: Any) -> str:  # noqa: ANN401  # see `Kind`
        """See `Kind`."""
        return f"{value:g}"


def _in_range(value: Number, low: float, high: float, text: str, unit: str = "") -> Number:
    if not low <= value <= high:
        told = f"from {low:,g}{unit} to {high:,g}{unit}" if isinstance(value, float) else f"from {low:,} to {high:,}"
        raise Wrong("out-of-range", f"{text} is not possible", f"write a value {told}")
    return value

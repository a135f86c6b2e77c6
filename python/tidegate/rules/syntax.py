"""
What the YAML parser cannot read, in words that say what to do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import yaml

    from tidegate.rules.document import Document

# What the parser says -> what is wrong, and what to do. The first that is found in its words counts.
_WORDS = (
    ("mapping values are not allowed", "a second `: ` stands in one line", 'put quotes around a text that contains ": "'),
    ("could not find expected ':'", "a key without a `:` behind it", "write `key: value`, with a space behind the colon"),
    ("did not find expected key", "this does not continue the mapping above", "let the keys of one mapping begin in the same column"),
    ("did not find expected '-'", "this does not continue the list above", "begin each item with `- `, in the same column"),
    ("block sequence entries are not allowed", "a list cannot begin here", "begin it in a line of its own"),
    ("did not find expected ',' or ']'", "a list in brackets is not closed", "divide its items by commas, and close it with `]`"),
    ("did not find expected ',' or '}'", "a mapping in braces is not closed", "divide its entries by commas, and close it with `}`"),
    ("expected ',' or ']'", "a list in brackets is not closed", "divide its items by commas, and close it with `]`"),
    ("expected ',' or '}'", "a mapping in braces is not closed", "divide its entries by commas, and close it with `}`"),
    ("unexpected end of stream", "the file ends inside a quoted text", "close the quotes"),
    ("document separator", "the file ends inside a quoted text", "close the quotes"),
    ("unknown escape character", "an escape that double quotes do not know", "write `\\\\` for a backslash, or use single quotes"),
    ("invalid Unicode character escape", "an escape that is no character", "write the character itself"),
    ("expected hexdecimal", "an escape without its hexadecimal digits", "write `\\\\` for a backslash, or use single quotes"),
    ("cannot start any token", "a value cannot begin with this character", "put quotes around it"),
    ("did not find expected <document start>", "the document ended before this", "let all of it be one mapping: `version: 1`, `rules:`"),
    ("did not find expected node content", "a value is missing here", "write a value"),
    ("undefined tag handle", "a tag that nobody defined", "put quotes around a text that begins with `!`"),
    ("alphabetic or numeric character", "a name is missing behind `*` or `&`", 'put quotes around the text: "*.example.org"'),
)  # fmt: skip

_OPENED = frozenset({"while scanning a quoted scalar", "while parsing a flow sequence", "while parsing a flow mapping"})


def add_syntax_problem(document: Document, error: yaml.MarkedYAMLError) -> None:
    """
    Notes what the parser could not read.

    Args:
        document: What it read.
        error: What it said.
    """
    # What is never closed is found at the end of the file, and mended where it begins.
    is_at_end = error.problem_mark is not None and error.problem_mark.line >= len(document.text.rstrip().splitlines())
    is_open = is_at_end and error.context in _OPENED and error.context_mark is not None
    mark = error.context_mark if is_open else error.problem_mark or error.context_mark
    line, column = (mark.line, mark.column) if mark is not None else (0, 0)
    if _has_tab(document, line) or (line > 0 and _has_tab(document, line - 1) and column == 0):
        line = line if _has_tab(document, line) else line - 1
        column = document.lines[line].index("\t")
        document.add_at("tab-indentation", line + 1, column + 1, "a tab indents this line", "indent by spaces: two for each level")
        return
    said = " ".join(filter(None, (error.context, error.problem)))
    known = ((message, hint) for words, message, hint in _WORDS if words in said)
    message, hint = next(known, (said or "this is no YAML", "look at this line and the one above it"))
    document.add_at("syntax", line + 1, column + 1, message, hint)


def _has_tab(document: Document, line: int) -> bool:
    if line >= len(document.lines):
        return False
    text = document.lines[line]
    return "\t" in text[: len(text) - len(text.lstrip())]

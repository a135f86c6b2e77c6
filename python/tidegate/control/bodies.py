"""
A stored rule: what is written of it becomes a `Rule` by the readers of rule files, so that mistakes are told in the same words.

It is written in one of three ways. `text` is YAML, as in a file; a mapping is the same as JSON; the simple fields are another spelling of
the commonest rules. What is kept, the *body*, is the mapping, without the name.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tidegate.rules import words
from tidegate.rules.compose import compose
from tidegate.rules.diff.secrets import shown_key, without_secrets
from tidegate.rules.document import Document
from tidegate.rules.node import Mapping, Node, Scalar, Sequence
from tidegate.rules.problem import Report, TooManyProblems
from tidegate.rules.rule import read_rule
from tidegate.rules.scalars import is_null

if TYPE_CHECKING:
    from tidegate.rules import Problem, Rule
    from tidegate.rules.model import Condition, Source

DATABASE: Final = "database"
"""What stands where rules of files have their file."""

TEXT_MAX: Final = 256 * 1024
"""The most characters of one rule: 64 quotas, some hundred tiers and some thousand overrides."""


@dataclass(frozen=True, slots=True)
class Reading:
    """
    What was made of a rule.

    Args:
        document: Where it stands, with the report of its problems.
        node: Its node; `None` if it cannot be read at all.
        rule: The rule as far as it is right.
    """

    document: Document
    node: Node | None
    rule: Rule | None

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Everything that is wrong, in the order of the text."""
        found = dict.fromkeys(self.document.report.problems)
        return tuple(sorted(found, key=lambda problem: (problem.line, problem.column)))

    @property
    def is_good(self) -> bool:
        """Whether it can come into force."""
        return self.rule is not None and not self.document.report.has_errors

    def body(self) -> dict[str, Any]:
        """
        What is kept of it.

        Returns:
            The rule as JSON says it, without its name.
        """
        found = plain(self.node) if self.node is not None else {}
        return {key: value for key, value in found.items() if key != "name"} if isinstance(found, dict) else {}


def read(rule_id: str | None, text: str, identity: tuple[Source, ...]) -> Reading:
    """
    Reads one rule.

    Args:
        rule_id: Its name; `None` if the text has to say it.
        text: The mapping of one rule, in YAML or JSON; also as the only item of a list, as it stands in a file.
        identity: How clients are named.

    Returns:
        The rule and what is wrong with it.
    """
    document = Document(DATABASE, Path(DATABASE), text[:TEXT_MAX] if text.strip() else "{}", Report())
    node: Node | None = None
    rule: Rule | None = None
    try:
        if len(text) > TEXT_MAX:
            document.add_at("file-too-large", 1, 1, f"a rule has at most {TEXT_MAX:,} characters", "make several rules of it")
            return Reading(document, None, None)
        compose(document)
        node = document.root
        if isinstance(node, Sequence) and len(node.items) == 1:
            node = node.items[0]
        if node is not None:
            if isinstance(node, Mapping) and rule_id is not None:
                _name(document, node, rule_id)
            rule = read_rule(document, node, identity)
    except TooManyProblems:
        rule = None
    return Reading(document, node, rule)


def to_text(body: dict[str, Any]) -> str:
    """
    A body as a text that the readers take.

    Args:
        body: The body.

    Returns:
        JSON in ASCII, which is YAML too.
    """
    return json.dumps(body, indent=2)


@lru_cache(maxsize=32_768)
def read_stored(rule_id: str, text: str, identity: tuple[Source, ...]) -> tuple[Rule | None, tuple[Problem, ...]]:
    """
    As `read`, for what was found good before: most of a set is as it was when it was last put together.

    Args:
        rule_id: Its name.
        text: Its body as text.
        identity: How clients are named.

    Returns:
        The rule, or `None` and the problems.
    """
    reading = read(rule_id, text, identity)
    return (reading.rule, ()) if reading.is_good else (None, reading.problems)


def plain(node: Node) -> Any:  # noqa: ANN401  # what JSON can say
    """
    A node that has been read without a problem, as JSON says it.

    Args:
        node: The node.

    Returns:
        The value. Only what the language takes for a number or a switch is one; everything else is a text.
    """
    if isinstance(node, Mapping):
        return {name: plain(value) for name, (_, value) in node.entries.items()}
    if isinstance(node, Sequence):
        return [plain(item) for item in node.items]
    if is_null(node):
        return None
    if node.is_plain and node.text in {"true", "false"}:
        return node.text == "true"
    if node.is_plain and node.text.removeprefix("-").isdecimal() and node.text.isascii():
        return int(node.text)
    return node.text


def of_file(rule: Rule, identity: tuple[Source, ...]) -> dict[str, Any] | None:
    """
    What a file says of a rule, for people to read.

    Args:
        rule: A rule of a file.
        identity: How clients are named.

    Returns:
        The body, with hidden values of credentials and without plans that show the keys of customers; `None` if the file no longer has it.
    """
    try:
        document = Document(rule.file, Path(rule.file), Path(rule.file).read_text(encoding="utf-8-sig"), Report())
        compose(document)
    except (OSError, ValueError, TooManyProblems):
        return None
    found = None if document.root is None else plain(document.root)
    listed = found.get("rules") if isinstance(found, dict) else None
    for body in listed if isinstance(listed, list) else ():
        if isinstance(body, dict) and body.get("name") == rule.name:
            kept = {key: value for key, value in body.items() if key != "name" and (key != "overrides" or not _plans_tell(rule, identity))}
            match = without_secrets(rule.match, identity)
            # A file can spell a condition in many ways, of which a secret has to be kept out; so it is written anew.
            return kept if match == rule.match else kept | {"match": {one.attribute: words.asked(one) for one in match}}
    return None


def tells_keys(rule: Rule, identity: tuple[Source, ...]) -> set[str]:
    """
    Which parts of a rule show what customers prove themselves by.

    Args:
        rule: The rule.
        identity: How clients are named.

    Returns:
        `overrides`, `match`, both or none.
    """
    told = tuple(one for one in rule.match if one.test in {"exact", "regex"} and (one.attribute != "client" or _names_keys(one, identity)))
    in_match = without_secrets(told, identity) != told
    return {name for name, is_told in (("overrides", _plans_tell(rule, identity)), ("match", in_match)) if is_told}


def _plans_tell(rule: Rule, identity: tuple[Source, ...]) -> bool:
    return any(_tells(rule.per, one.key, identity) for one in rule.overrides)


def _names_keys(condition: Condition, identity: tuple[Source, ...]) -> bool:
    # Clients are known by their keys only if a header names them.
    return any(source.kind == "header" for source in identity) and any(_tells(("client",), (one,), identity) for one in condition.texts)


def _tells(per: tuple[str, ...], key: tuple[str, ...], identity: tuple[Source, ...]) -> bool:
    return shown_key(per, key, identity) != ", ".join(map("=".join, zip(per, key, strict=True)))


def _name(document: Document, node: Mapping, rule_id: str) -> None:
    written = node.get("name")
    if isinstance(written, Scalar) and written.text != rule_id:
        message = f"the rule is `{rule_id:.80}`, and its text names it `{written.text:.80}`"
        document.add("bad-name", written, message, "remove `name`, or make a rule of that name")
    elif written is None:
        name = Scalar(rule_id, '"', node.start, node.start)
        node.entries["name"] = (name, name)

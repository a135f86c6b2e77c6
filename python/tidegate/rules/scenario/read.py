"""
From a file to scenarios, with every mistake and its place.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidegate import rules
from tidegate.errors import RuleError
from tidegate.rules.fields import Field, read_fields, table
from tidegate.rules.files import Files
from tidegate.rules.names import meant
from tidegate.rules.node import Mapping, Node, Scalar, Sequence, kind_of
from tidegate.rules.problem import Report, TooManyProblems
from tidegate.rules.scalars import is_null, read_text, read_whole
from tidegate.rules.scenario.descriptors import Count, read_count_expected, read_descriptors
from tidegate.rules.scenario.facts import ANSWERS, FACTS, WRONG, Wrong, read_ns
from tidegate.rules.scenario.model import Advance, Ask, Scenario, Step, Suite

if TYPE_CHECKING:
    import os

    from tidegate.rule_limiter import Attributes
    from tidegate.rules import RuleSet
    from tidegate.rules.document import Document

TIMES_MAX = 1_000_000

SUITE: Final = table(
    Field("rules", "The file or directory of rules, relative to this file.", {}, ("rules.yaml",), is_required=True),
    Field("scenarios", "The scenarios.", {}, is_required=True),
)
SCENARIO: Final = table(
    Field("name", "What must hold, in words.", {}, ("login is limited by address",), is_required=True),
    Field("description", "More words.", {}),
    Field("at", "When it begins: a time with its zone.", {}, ("2026-01-01T00:00:00Z",)),
    Field("steps", "What happens.", {}, is_required=True),
)
STEP: Final = table(
    Field("request", "The attributes of a request.", {}, ({"method": "POST", "path": "/login"},)),
    Field("cost", "What it costs; by default what the rules say.", {}, (5,)),
    Field("times", "How often it is made.", {}, (5,)),
    Field("expect", "What is decided.", {}, ("allowed", {"denied": True, "rule": "login"})),
    Field("advance", "Moves the clock.", {}, ("30s",)),
    Field("domain", "The domain that `descriptors` are for.", {}, ("shop",)),
    Field("descriptors", "What is asked of a domain in the reference service's format.", {}, ([{"tenant": "acme"}],)),
    Field("hits_addend", "How many hits each descriptor counts.", {}, (1,)),
)
BELONGING: Final = {
    "request": {"request", "cost", "times", "expect"},
    "advance": {"advance"},
    "descriptors": {"descriptors", "domain", "hits_addend", "times", "expect"},
}
"""The kinds of steps, and the keys that each can have."""


def read_suite(source: str | os.PathLike[str]) -> Suite:
    """
    Reads a file of scenarios and the rules that it is about.

    Args:
        source: The file.

    Returns:
        The scenarios.

    Raises:
        RuleError: Something is wrong with the scenarios or with their rules; it lists all problems with their places.
    """
    report = Report()
    path = Path(source)
    if path.is_dir():
        raise RuleError(f"{path} is a directory\nhint: name the files of scenarios in it")
    suite = None
    try:
        files = Files(report)
        files.gather(path, None)
        document = next((one for one in files.documents if one.path == path), None)
        if document is not None and document.root is not None:
            suite = _read_suite(document, document.root)
    except TooManyProblems:
        pass
    if suite is None or report.has_errors:
        raise RuleError.from_problems(tuple(dict.fromkeys(report.problems)))
    return suite


def _read_suite(document: Document, root: Node) -> Suite | None:
    entries = read_fields(document, root, SUITE, "a file of scenarios")
    if entries is None:
        return None
    rule_set = _read_rules(document, entries["rules"][1]) if "rules" in entries else None
    scenarios: dict[str, Scenario] = {}
    for node in _items(document, entries["scenarios"][1], "`scenarios` is a list") if "scenarios" in entries else ():
        scenario = _read_scenario(document, node)
        if scenario is None:
            continue
        if scenario.name in scenarios:
            document.add("duplicate-name", node, f"two scenarios have the name `{scenario.name:.80}`", "give each a name of its own")
        scenarios[scenario.name] = scenario
    return None if rule_set is None else Suite(document.path, rule_set, tuple(scenarios.values()))


def _read_rules(document: Document, node: Node) -> RuleSet | None:
    text = read_text(document, node)
    if text is None:
        return None
    path = document.path.parent / text
    if not path.exists():
        document.add("include-missing", node, f"there is no file `{text:.80}`", "the path is relative to this file")
        return None
    try:
        return rules.load(path)
    except RuleError as error:
        for problem in error.problems:
            document.report.add(problem)
        return None


def _items(document: Document, node: Node, what: str) -> list[Node]:
    if not isinstance(node, Sequence):
        document.add("wrong-type", node, f"{what}, and this is {kind_of(node)}", "begin each item with `- `")
        return []
    if not node.items:
        document.add("empty-list", node, "the list is empty", "write at least one item")
    return node.items


def _read_scenario(document: Document, node: Node) -> Scenario | None:
    entries = read_fields(document, node, SCENARIO, "a scenario")
    if entries is None:
        return None
    name = read_text(document, entries["name"][1]) if "name" in entries else None
    if "description" in entries:
        read_text(document, entries["description"][1])
    start = _read_start(document, entries["at"][1]) if "at" in entries else None
    nodes = _items(document, entries["steps"][1], "`steps` is a list") if "steps" in entries else []
    steps = tuple(step for step in (_read_step(document, one) for one in nodes) if step is not None)
    if name is None:
        return None
    return Scenario(name=name, steps=steps, file=document.name, line=node.start.line + 1, start=start)


def _read_start(document: Document, node: Node) -> float | None:
    text = node.text if isinstance(node, Scalar) else ""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    # A clock starts at the epoch at the earliest, and some tests want to go far from there.
    if found is None or found.tzinfo is None or not 1970 <= found.year < 2200:  # noqa: PLR2004  # years
        shown = f"`{text:.80}`" if isinstance(node, Scalar) else kind_of(node)
        document.add("wrong-type", node, f"a time with its zone is expected, and this is {shown}", "write 2026-01-01T00:00:00Z")
        return None
    return max(0.0, found.timestamp())


def _read_step(document: Document, node: Node) -> Step | None:
    entries = read_fields(document, node, STEP, "a step")
    if entries is None:
        return None
    kinds = [name for name in BELONGING if name in entries]
    if len(kinds) != 1:
        # A misspelt key has been told.
        if not kinds and isinstance(node, Mapping) and node.entries.keys() - STEP.keys():
            return None
        message = f"a step has exactly one of {', '.join(BELONGING)}, and this has {' and '.join(kinds) or 'none'}"
        document.add("wrong-type", node, message, "write each of them as a step of its own")
        return None
    for name in entries.keys() - BELONGING[kinds[0]]:
        document.add("unknown-key", entries[name][0], f"`{name}` does not belong to a step with `{kinds[0]}`", "remove it")
    line = node.start.line + 1
    if kinds == ["advance"]:
        moved = read_ns(document, entries["advance"][1])
        return None if isinstance(moved, Wrong) else Advance(nanoseconds=moved, line=line)
    times = read_whole(document, entries["times"][1], 1, TIMES_MAX) if "times" in entries else 1
    if kinds == ["descriptors"]:
        return _read_count(document, entries, node, times or 1)
    attributes = _read_request(document, entries["request"][1])
    cost = read_whole(document, entries["cost"][1]) if "cost" in entries else None
    expected = _read_expected(document, entries["expect"][1]) if "expect" in entries else {}
    return Ask(attributes=attributes, cost=cost, times=times or 1, expected=expected, line=line)


def _read_count(document: Document, entries: dict[str, tuple[Scalar, Node]], node: Node, times: int) -> Count:
    if "domain" not in entries:
        document.add("missing-key", node, "a step with `descriptors` needs `domain`", "add `domain: shop`")
    return Count(
        domain=(read_text(document, entries["domain"][1]) if "domain" in entries else None) or "",
        descriptors=read_descriptors(document, entries["descriptors"][1]),
        hits_addend=(read_whole(document, entries["hits_addend"][1]) if "hits_addend" in entries else None) or 0,
        times=times,
        expected=read_count_expected(document, entries["expect"][1]) if "expect" in entries else {},
        line=node.start.line + 1,
    )


def _read_request(document: Document, node: Node) -> Attributes:
    if not isinstance(node, Mapping):
        document.add("wrong-type", node, f"`request` is a mapping, and this is {kind_of(node)}", "write {method: POST, path: /login}")
        return {}
    found: dict[str, str | dict[str, str]] = {}
    for name, (_, value) in node.entries.items():
        if name in {"headers", "query"}:
            found[name] = _read_group(document, name, value)
        elif (text := _read_value(document, value)) is not None:
            found[name] = text
    # A dictionary's type does not say that it is only read.
    return {**found}


def _read_group(document: Document, group: str, node: Node) -> dict[str, str]:
    if not isinstance(node, Mapping):
        document.add("wrong-type", node, f"`{group}` is a mapping, and this is {kind_of(node)}", f"write {group}: {{name: value}}")
        return {}
    values = {name: _read_value(document, value) for name, (_, value) in node.entries.items()}
    return {name: value for name, value in values.items() if value is not None}


def _read_value(document: Document, node: Node) -> str | None:
    # Requests carry texts: `size: 12` and `debug: true` cannot mean anything else here.
    if isinstance(node, Scalar) and node.is_plain and not is_null(node):
        return node.text
    return node.text if isinstance(node, Scalar) and not node.is_plain else read_text(document, node)


def _read_expected(document: Document, node: Node) -> dict[str, object]:
    if isinstance(node, Scalar):
        if node.text in ANSWERS:
            return {node.text: node.text == "allowed"}
        document.add("unknown-choice", node, f"`{node.text:.80}` is none of {', '.join(ANSWERS)}", meant(node.text, ANSWERS))
        return {}
    if not isinstance(node, Mapping):
        document.add(
            "wrong-type", node, "`expect` is a word or a mapping, and this is a list", "write allowed, or {denied: true, rule: login}"
        )
        return {}
    found: dict[str, object] = {}
    for name, (key, value) in node.entries.items():
        if name not in FACTS:
            document.add("unknown-key", key, f"nothing called `{name:.80}` can be expected", meant(name, FACTS))
            continue
        expected = FACTS[name].read(document, value)
        if expected is not WRONG:
            found[name] = expected
    if set(ANSWERS) <= found.keys():
        document.add("wrong-type", node, "`allowed` and `denied` are the same question", "keep one of them")
    return found

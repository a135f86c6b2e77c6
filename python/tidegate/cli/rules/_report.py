"""
How scenarios went: for people, for programs and for build servers.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET  # it only writes

from tidegate._text import seconds
from tidegate.cli._table import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegate.rules.scenario import Failure, Outcome

# What XML cannot carry, not even escaped.
_NO_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def as_text(outcomes: Sequence[Outcome]) -> str:
    """
    Failures and a sum.

    Args:
        outcomes: How each scenario went.

    Returns:
        The text.
    """
    blocks = [f"\n{failure_text(outcome)}\n" for outcome in outcomes if not outcome.passed]
    return "".join((*blocks, f"\n{summary(outcomes)}\n"))


def failure_text(outcome: Outcome) -> str:
    """
    One failure, with what was expected beside what happened.

    Args:
        outcome: A scenario that failed.

    Returns:
        Its lines.
    """
    failure = outcome.failure
    if failure is None:
        return ""
    head = f"FAILED {outcome.scenario.file}:{failure.line}: {outcome.scenario.name}"
    return "\n".join((head, f"  step {failure.step} at {seconds(failure.at_ns)}: {failure.what}", _details(failure, "    ")))


def summary(outcomes: Sequence[Outcome]) -> str:
    """
    How many passed.

    Args:
        outcomes: How each scenario went.

    Returns:
        Such as `1 failed, 4 passed in 0.012 s`.
    """
    failed = sum(not outcome.passed for outcome in outcomes)
    passed = len(outcomes) - failed
    parts = [f"{number} {word}" for number, word in ((failed, "failed"), (passed, "passed")) if number]
    return f"{', '.join(parts)} in {seconds(sum(outcome.took_ns for outcome in outcomes))}"


def as_json(outcomes: Sequence[Outcome]) -> str:
    """
    For programs.

    Args:
        outcomes: How each scenario went.

    Returns:
        One object.
    """
    failed = sum(not outcome.passed for outcome in outcomes)
    counts = {"passed": len(outcomes) - failed, "failed": failed}
    return json.dumps({**counts, "scenarios": [_as_dict(outcome) for outcome in outcomes]}, indent=2, ensure_ascii=False) + "\n"


def as_junit(outcomes: Sequence[Outcome]) -> str:
    """
    For build servers.

    Args:
        outcomes: How each scenario went.

    Returns:
        XML with one suite for each file.
    """
    root = ET.Element("testsuites")
    suites: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        suites.setdefault(outcome.scenario.file, []).append(outcome)
    for file, members in suites.items():
        failed = sum(not outcome.passed for outcome in members)
        took = sum(outcome.took_ns for outcome in members)
        counts = {"tests": str(len(members)), "failures": str(failed), "errors": "0", "skipped": "0", "time": _time(took)}
        suite = ET.SubElement(root, "testsuite", {"name": _xml(file), **counts})
        for outcome in members:
            _add_case(suite, outcome)
    ET.indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _add_case(suite: ET.Element, outcome: Outcome) -> None:
    scenario = outcome.scenario
    where = {"classname": _xml(scenario.file), "file": _xml(scenario.file), "line": str(scenario.line)}
    case = ET.SubElement(suite, "testcase", {"name": _xml(scenario.name), **where, "time": _time(outcome.took_ns)})
    if outcome.failure is not None:
        message = "; ".join(f"{one.fact}: expected {one.expected}, was {one.actual}" for one in outcome.failure.differences)
        failure = ET.SubElement(case, "failure", {"message": _xml(message or outcome.failure.note), "type": "expectation"})
        failure.text = _xml(failure_text(outcome))


def _as_dict(outcome: Outcome) -> dict[str, Any]:
    scenario, failure = outcome.scenario, outcome.failure
    found = {
        "name": scenario.name,
        "file": scenario.file,
        "line": scenario.line,
        "passed": outcome.passed,
        "seconds": outcome.took_ns / 1e9,
    }
    if failure is None:
        return found
    differences = [{"fact": one.fact, "expected": one.expected, "actual": one.actual} for one in failure.differences]
    told = {"line": failure.line, "step": failure.step, "at": failure.at_ns / 1e9, "what": failure.what, "note": failure.note}
    return {**found, "failure": {**told, "differences": differences}}


def _details(failure: Failure, indent: str) -> str:
    if not failure.differences:
        return f"{indent}{failure.note}"
    rows = [["", "expected", "actual"], *([one.fact, one.expected, one.actual] for one in failure.differences)]
    return f"{plain(rows, indent)}\n{indent}decision: {failure.note}"


def _time(nanoseconds: int) -> str:
    return f"{nanoseconds / 1e9:.6f}"


def _xml(text: str) -> str:
    return _NO_XML.sub("\N{REPLACEMENT CHARACTER}", text)

"""
Reads the tables of `testdata/descriptors` and writes answers as they do.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tidegate.rules import Problem, RuleSet, envoy
from tidegate.rules.compile import compile_rules
from tidegate.rules.document import Document
from tidegate.rules.problem import Report

FOLDER = Path(__file__).parent.parent / "testdata" / "descriptors"
START = 1200


@dataclass(frozen=True)
class Case:
    """
    One case of a table.
    """

    topic: str
    name: str
    files: tuple[str, ...]
    merge: bool
    steps: tuple[dict[str, Any], ...]
    problems: tuple[str, ...]
    says: tuple[str, ...]

    def load(self) -> tuple[RuleSet, tuple[Problem, ...]]:
        """
        Loads its files.
        """
        documents = [Document(f"{number}.yaml", Path(f"{number}.yaml"), text, Report()) for number, text in enumerate(self.files)]
        domains, problems = envoy.load(documents, merge_domains=self.merge)
        return rule_set(domains), problems


def rule_set(domains: list[dict[str, Any]]) -> RuleSet:
    """
    A rule set of trees alone.
    """
    return RuleSet(compile_rules("default", (), None, (), domains), (), (), (), "default")


def cases() -> list[Any]:
    """
    All cases, as parameters of a test.
    """
    found = []
    for path in sorted(FOLDER.glob("*.yaml")):
        for case in yaml.safe_load(path.read_text(encoding="utf-8"))["cases"]:
            files = tuple(case["files"]) if "files" in case else (case["file"],)
            steps, problems, says = (tuple(case.get(name, ())) for name in ("steps", "problems", "says"))
            read = Case(path.stem, case["name"], files, case.get("merge", False), steps, problems, says)
            found.append(pytest.param(read, id=f"{path.stem}: {case['name']}"))
    return found


def descriptor(given: str | dict[str, Any]) -> dict[str, Any]:
    """
    A descriptor as the limiter takes it.
    """
    if isinstance(given, str):
        return {"entries": _entries(given)}
    ask: dict[str, Any] = {"entries": _entries(given["entries"])}
    if "limit" in given:
        requests_per_unit, unit = given["limit"].split("/")
        ask["limit"] = {"requests_per_unit": int(requests_per_unit), "unit": unit}
    if "hits" in given:
        ask["hits_addend"] = given["hits"]
    if given.get("negative"):
        ask["is_negative_hits"] = True
    return ask


def _entries(text: str) -> list[tuple[str, str]]:
    pairs = [entry.strip().partition("=") for entry in text.split(",") if entry.strip()]
    return [(key, value) for key, _, value in pairs]


def written(status: dict[str, Any]) -> str:
    """
    A status as the tables write it.
    """
    words = []
    limit = status["current_limit"]
    if limit is not None:
        words = [status["code"], str(status["limit_remaining"]), f"of {limit['requests_per_unit']}/{limit['unit']}"]
        words += [f"in {status['duration_until_reset']}", *([limit["name"]] if limit["name"] else [])]
    elif status["limit_remaining"]:
        assert (status["code"], status["limit_remaining"], status["duration_until_reset"]) == ("OK", 4294967295, None)
        words = ["unlimited"]
    else:
        assert (status["code"], status["duration_until_reset"]) == ("OK", None)
        words = ["none"]
    return " ".join([*words, *(["shadowed"] if status["shadowed"] else []), *(["quota"] if status["quota_mode"] else [])])

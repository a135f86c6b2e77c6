"""
Random trees and requests: the limiter against a naive reference service; random and broken texts: the loader never stumbles.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from tidegate import RuleLimiter
from tidegate.rules import envoy
from tidegate.rules.document import Document
from tidegate.rules.problem import Report
from tidegate.testing import ManualClock

if TYPE_CHECKING:
    from tests.envoy_model import UNITS, Model
    from tests.envoy_tables import START, cases, rule_set, written
    from tidegate.rules import Problem
else:  # Tests are scripts in a folder, not a package.
    from envoy_model import UNITS, Model
    from envoy_tables import START, cases, rule_set, written

PROFILE = settings(
    max_examples=150, deadline=None, derandomize=True, database=None, print_blob=True, suppress_health_check=list(HealthCheck)
)
SOURCES = [text for case in cases() for text in case.values[0].files]

# Keys have no underscore: there the joined texts of the reference service are ambiguous, and ours are not.
keys = st.sampled_from(["a", "b", "c"])
values = st.sampled_from(["x", "xy", "y", "x_y", ""])
names = st.sampled_from(["one", "two", "three"])


@st.composite
def limits(draw: st.DrawFn) -> dict[str, Any]:
    """
    A `rate_limit`.
    """
    if draw(st.integers(0, 9)) == 0:
        return {"unlimited": True} | draw(st.fixed_dictionaries({}, optional={"name": names}))
    limit: dict[str, Any] = {"unit": draw(st.sampled_from([*UNITS, "MINUTE"])), "requests_per_unit": draw(st.integers(0, 6))}
    if draw(st.booleans()):
        limit["name"] = draw(names)
    if draw(st.integers(0, 4)) == 0:
        limit["replaces"] = [{"name": name} for name in draw(st.lists(names, max_size=2)) if name != limit.get("name")]
    return limit


@st.composite
def levels(draw: st.DrawFn, depth: int = 3) -> list[dict[str, Any]]:
    """
    Siblings that differ.
    """
    found: dict[str, dict[str, Any]] = {}
    for _ in range(draw(st.integers(0 if depth < 3 else 1, 5))):
        node: dict[str, Any] = {"key": draw(keys)}
        value = draw(st.sampled_from([None, None, "x", "xy", "x*", "*", "*y", "x*y"]))
        if value is not None:
            node["value"] = value
            node["share_threshold"] = "*" in value and draw(st.booleans())
        if draw(st.integers(0, 3)):
            node["rate_limit"] = draw(limits())
            node |= {flag: True for flag in ("shadow_mode", "quota_mode") if draw(st.integers(0, 4)) == 0}
        if depth > 1 and draw(st.booleans()):
            node["descriptors"] = draw(levels(depth - 1))
        found.setdefault(f"{node['key']}_{value}", node)
    return list(found.values())


@st.composite
def asks(draw: st.DrawFn) -> dict[str, Any]:
    """
    A descriptor of a request.
    """
    ask: dict[str, Any] = {"entries": draw(st.lists(st.tuples(keys, values), min_size=1, max_size=3))}
    match draw(st.integers(0, 6)):
        case 0:
            ask["limit"] = {"unit": draw(st.sampled_from([*UNITS])), "requests_per_unit": draw(st.integers(0, 4))}
        case 1:
            ask |= {"hits_addend": draw(st.integers(0, 4)), "is_negative_hits": True}
        case 2 | 3:
            ask["hits_addend"] = draw(st.integers(0, 4))
    return ask


requests = st.tuples(st.sampled_from([0, 0, 0, 1, 17, 61, 4000, 90_000]), st.lists(asks(), min_size=1, max_size=5), st.integers(0, 3))


@PROFILE
@given(tree=levels(), history=st.lists(requests, min_size=1, max_size=25))
def test_every_history_is_answered_as_the_reference_service_does(
    tree: list[dict[str, Any]], history: list[tuple[int, list[dict[str, Any]], int]]
) -> None:
    """
    Codes, what is left, limits, names and seconds of every status are those of a naive model.
    """
    text = yaml.safe_dump({"domain": "d", "descriptors": tree})
    note(text)
    domains, problems = read(text)
    assert not [problem for problem in problems if problem.is_error]
    clock, model = ManualClock(START), Model({"descriptors": tree})
    limiter = RuleLimiter(rule_set(domains), clock=clock)
    for wait, descriptors, hits in history:
        clock.advance(wait)

        answer = limiter.check_descriptors("d", descriptors, hits)

        expected = model.check(int(clock.time()), descriptors, hits)
        assert expected == (answer["overall_code"], [written(status) for status in answer["statuses"]])


@PROFILE
@given(text=st.one_of(st.text(), st.text(alphabet="- :[]{}&*!|>'\"#%@`\n\tabk01.~<")))
def test_any_text_loads_or_is_refused_with_a_place(text: str) -> None:
    """
    No text makes the loader stumble.
    """
    assert_sane(text)


@PROFILE
@given(source=st.sampled_from(SOURCES), data=st.data())
def test_any_change_of_a_file_loads_or_is_refused_with_a_place(source: str, data: st.DataObject) -> None:
    """
    Files with a piece removed, doubled or replaced.
    """
    start = data.draw(st.integers(0, len(source)))
    end = data.draw(st.integers(start, min(len(source), start + 12)))
    middle = data.draw(
        st.sampled_from(["", source[start:end] * 2, "*", ": ", "\n", "- ", "{", "&a ", "*a", "1.5", "~", "\t", "\x00", "<<: "])
    )
    assert_sane(source[:start] + middle + source[end:])


def assert_sane(text: str) -> None:
    """
    Loads a text, and the result if there is one.
    """
    envoy.is_envoy(text)
    domains, problems = read(text)
    for problem in problems:
        assert problem.line >= 1
        assert problem.column >= 1
        assert problem.message
    if not any(problem.is_error for problem in problems):
        RuleLimiter(rule_set(domains))


def read(text: str) -> tuple[list[dict[str, Any]], tuple[Problem, ...]]:
    """
    Loads one file.
    """
    return envoy.load([Document("d.yaml", Path("d.yaml"), text, Report())])

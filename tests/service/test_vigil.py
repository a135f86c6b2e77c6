"""
What the log says of servers that are away or back.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

import pytest

from tidegate.service.vigil import LINES_MAX, News, Vigil, Vital, news, vitals

if TYPE_CHECKING:
    from tests.conftest import Eventually

WELL = Vital("well")


def document(*shards: tuple[bool, str, str], **groups: list[tuple[str, str | None]]) -> dict[str, Any]:
    """
    What a server says of shards (connected, breaker, why) and of groups (state, why), whose servers are called 1, 2, ...
    """
    return {
        "store": {
            "name": "single redis://h:1",
            "keys": 0,
            "shards": [{"name": "h:1", "is_up": is_up, "breaker": breaker, "why": why} for is_up, breaker, why in shards],
        },
        "upstreams": [
            {"name": name, "servers": [{"name": str(number), "state": state, "why": why} for number, (state, why) in enumerate(servers, 1)]}
            for name, servers in groups.items()
        ],
    }


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        pytest.param({}, {"x": WELL}, [], id="who-is-new-and-well-is-no-news"),
        pytest.param({"x": Vital("down", "a")}, {"x": Vital("down", "b")}, [], id="another-reason-is-no-news"),
        pytest.param({"x": Vital("down")}, {}, [], id="who-is-gone-is-no-news"),
        pytest.param({"x": Vital("down")}, {"x": WELL}, [News(logging.INFO, "x: back")], id="back"),
        pytest.param(
            {},
            {"x": Vital("down", "refused")},
            [News(logging.WARNING, "x: its health checks fail, and it gets no requests (refused)")],
            id="down",
        ),
        pytest.param(
            {"x": WELL},
            {"x": Vital("ejected", "late")},
            [News(logging.WARNING, "x: it failed too often, and gets no requests for a while (late)")],
            id="ejected",
        ),
        pytest.param(
            {"x": WELL},
            {"x": Vital("none")},
            [News(logging.ERROR, "x: none of its servers is well; requests go to all of them")],
            id="none-is-left",
        ),
    ],
)
def test_only_changes_are_told(before: dict[str, Vital], now: dict[str, Vital], expected: list[News]) -> None:
    """One line for each change, with what it means for requests and why."""
    assert expected == list(news(before, now))


@pytest.mark.parametrize(
    ("shard", "before", "expected"),
    [
        pytest.param((True, "closed", ""), "away", "well", id="answers-again"),
        pytest.param((False, "closed", ""), "well", "well", id="the-first-attempt-is-under-way"),
        pytest.param((False, "closed", "refused"), "well", "away", id="refused"),
        pytest.param((True, "open", "timed out"), "well", "open", id="too-late"),
        pytest.param((True, "open", "timed out"), "away", "away", id="connected-again-and-not-tried-yet"),
        pytest.param((True, "half_open", ""), "open", "open", id="tried-out"),
        pytest.param((True, "ramp", ""), "open", "open", id="a-part-of-the-requests-goes-there"),
    ],
)
def test_a_store_is_back_when_it_gets_all_requests_again(shard: tuple[bool, str, str], before: str, expected: str) -> None:
    """While it is tried out it is neither away nor back."""
    assert {"store h:1": expected} == {name: vital.state for name, vital in vitals(document(shard), {"store h:1": Vital(before)}).items()}


def test_a_group_is_told_of_when_nobody_of_it_is_left() -> None:
    """Of a group with one server that server's line says it all; one whose names lead nowhere has no servers."""
    found = vitals(
        document(zero=[], one=[("down", None)], two=[("up", "late"), ("down", None)], three=[("down", None), ("ejected", "late")]), {}
    )

    groups = {name: vital.state for name, vital in found.items() if "server" not in name}
    assert {"upstream zero": "nowhere", "upstream two": "well", "upstream three": "none"} == groups
    assert Vital("ejected", "late") == found["upstream three, server 2"]
    assert WELL == found["upstream two, server 1"], "why it failed once concerns nobody while it is well"


def test_a_fleet_that_is_away_does_not_fill_the_log(caplog: pytest.LogCaptureFixture, eventually: Eventually) -> None:
    """So many lines, and how many there are more."""
    count = LINES_MAX + 7
    vigil = Vigil(lambda: json.dumps(document(default=[("down", None)] * count)))
    vigil._every_s = 0.001
    with caplog.at_level(logging.INFO, "tidegate"):
        vigil.start()
        eventually(lambda: "servers more" in caplog.text)
        vigil.stop()

    # One for the group is among them.
    assert "and 8 servers more" in caplog.text
    assert LINES_MAX + 1 == len(caplog.records)


def test_a_look_that_fails_is_not_the_last_one(caplog: pytest.LogCaptureFixture, eventually: Eventually) -> None:
    """Whatever it is."""
    said = iter(["no document", json.dumps(document(one=[("down", None)]))])
    vigil = Vigil(lambda: next(said))
    vigil._every_s = 0.001
    vigil.start()
    eventually(lambda: "its health checks fail" in caplog.text)
    vigil.stop()

    assert "vigil failed, and is tried again" in caplog.text

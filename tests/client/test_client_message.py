"""
HTTP as bytes: whatever comes, in whatever pieces, is a response, not yet one, or garbage.
"""

from __future__ import annotations

import itertools
import json
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.client.answer import read_decision
from tidegate.client.away import Away
from tidegate.client.breaker import PAUSE_MAX_S, Breaker, pause
from tidegate.client.facts import Question
from tidegate.client.message import BODY_MAX, ResponseReader

if TYPE_CHECKING:
    from tests.conftest import Eventually

JSON = st.none() | st.booleans() | st.floats() | st.text() | st.integers() | st.lists(st.text())
HEADS = [
    b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello",
    b"HTTP/1.1 200\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello",
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello",
]


@given(data=st.sampled_from(HEADS), cuts=st.lists(st.integers(0, 120)))
def test_pieces_make_no_difference(data: bytes, cuts: list[int]) -> None:
    """
    A response that is cut anywhere is the same response, and is not done before its end.
    """
    reader = ResponseReader()
    places = [0, *sorted(cut for cut in cuts if cut < len(data)), len(data)]
    for start, end in itertools.pairwise(places):
        assert not reader.is_done
        if start < end:
            reader.feed(data[start:end])

    assert (True, 200, b"hello") == (reader.is_done, reader.status, reader.body)


@given(st.lists(st.binary(max_size=200) | st.sampled_from([*HEADS, b"HTTP/1.1 200 OK\r\n", b"\r\n\r\n", b"content-length: 3\r\n"])))
def test_garbage_is_only_garbage(pieces: list[bytes]) -> None:
    """
    No bytes raise anything else, and none are kept beyond the limit.
    """
    reader = ResponseReader()
    with suppress(Away):
        for piece in pieces:
            if reader.is_done:
                break
            reader.feed(piece)

    assert len(reader.body) <= BODY_MAX


def test_a_second_answer_is_not_kept_for_the_next_question() -> None:
    """
    The connection ends with it.
    """
    reader = ResponseReader()
    reader.feed(HEADS[0] * 2)

    assert (True, True, b"hello") == (reader.is_done, reader.is_last, reader.body)


@given(st.binary(max_size=100) | st.dictionaries(st.sampled_from(["allowed", "cost", "rules"]), JSON).map(json.dumps).map(str.encode))
def test_an_answer_is_a_decision_or_garbage(body: bytes) -> None:
    """
    Whatever is sent as JSON, or as none.
    """
    with pytest.raises(Away) as caught:
        read_decision(body, Question("check", {}))

    assert "service_protocol_error" == caught.value.reason


@given(tries=st.integers(0, 10_000), chance=st.floats(0, 1))
def test_pauses_are_bounded(tries: int, chance: float) -> None:
    """
    A service that comes back after a day is asked again within seconds.
    """
    assert 0.125 <= pause(tries, chance) <= 1.5 * PAUSE_MAX_S


def test_half_of_the_calls_is_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Also if they never fail five times in a row. All of them fall into one second.
    """
    monkeypatch.setattr("tidegate.client.breaker.now_ns", lambda: 1)
    breaker = Breaker(lambda: False)
    for _ in range(15):
        breaker.succeeded()
        breaker.failed()

    assert breaker.is_open
    breaker.stop()


def test_a_few_failures_among_many_calls_do_not_matter() -> None:
    """
    A service that answers nine of ten is worth asking.
    """
    breaker = Breaker(lambda: True)
    for number in range(1000):
        if number % 10:
            breaker.succeeded()
        else:
            breaker.failed()

    assert not breaker.is_open


def test_it_closes_by_itself(eventually: Eventually) -> None:
    """
    After good answers, whatever the probe raised before.
    """
    answers = iter(["raise", "good", "bad", "good", "good"])

    def probe() -> bool:
        answer = next(answers)
        if answer == "raise":
            raise OSError
        return answer == "good"

    breaker = Breaker(probe)
    for _ in range(5):
        breaker.failed()
    assert breaker.is_open
    eventually(lambda: not breaker.is_open, within=30)

    assert 1 == breaker.opened
    assert [] == list(answers)

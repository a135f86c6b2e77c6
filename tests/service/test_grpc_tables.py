"""
The tables of `testdata/descriptors` over gRPC, on a memory store whose clock the test moves, and on Redis.
"""

from __future__ import annotations

import itertools
import os
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

import grpc
import pytest

from tidegate import RuleLimiter
from tidegate._native import Server  # noqa: TID251  # the ports alone, on a limiter whose clock the test moves
from tidegate.service import load, native
from tidegate.testing import ManualClock

if TYPE_CHECKING:
    from types import TracebackType

    from tests.envoy_tables import START, Case, cases, descriptor
    from tests.servers import Single
    from tests.service.grpc_client import Client
else:
    from envoy_tables import START, Case, cases, descriptor
    from grpc_client import Client

UNITS = {"UNKNOWN": 0, "SECOND": 1, "MINUTE": 2, "HOUR": 3, "DAY": 4, "MONTH": 5, "YEAR": 6, "WEEK": 7}

_NUMBERS = itertools.count()


class Wire:
    """
    A limiter behind ports of gRPC: one for each combination of modes, which over the wire no request can choose.

    Args:
        limiter: The limiter.
    """

    def __init__(self, limiter: RuleLimiter) -> None:
        self._limiter = limiter
        self._clients: dict[tuple[bool, bool], Client] = {}
        self._stack = ExitStack()

    def ask(self, domain: str, descriptors: list[dict[str, Any]], hits_addend: int, modes: tuple[bool, bool]) -> dict[str, Any]:
        """
        Asks once; field names are those of the protocol.
        """
        client = self._clients.get(modes) or self._clients.setdefault(modes, self._open(modes))
        return client.ask(domain, [_asked(given) for given in descriptors], hits_addend)

    def _open(self, modes: tuple[bool, bool]) -> Client:
        shadow, quota = modes
        flags: dict[str, Any] = {
            "rules": "unused.yaml",
            "http.listen": "off",
            "admin.listen": "off",
            "grpc.listen": "127.0.0.1:0",
            "workers": "1",
            "rls.metadata": "all",
            "rls.shadow_mode": shadow,
            "rls.quota_mode": quota,
        }
        server = Server(self._limiter, native.to_json(load(environment={}, flags=flags)))
        self._stack.callback(server.stop)
        return self._stack.enter_context(Client(server.start()["grpc"]))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._stack.close()


def _asked(given: dict[str, Any]) -> dict[str, Any]:
    if "limit" not in given:
        return given
    return {**given, "limit": {**given["limit"], "unit": UNITS[given["limit"]["unit"]]}}


def _written(status: dict[str, Any]) -> str:
    """
    A status as the tables write it, as far as the protocol says it.
    """
    limit = status.get("current_limit")
    if limit is None:
        assert "OK" == status["code"]
        assert "duration_until_reset" not in status
        return {0: "none", 4294967295: "unlimited"}[status["limit_remaining"]]
    words = [status["code"], str(status["limit_remaining"]), f"of {limit['requests_per_unit']}/{limit['unit']}"]
    return " ".join([*words, f"in {status['duration_until_reset'].removesuffix('s')}", *filter(None, [limit["name"]])])


def _expected(text: str) -> str:
    # Which of them are in shadow or count together, a status does not say.
    return text.removesuffix(" quota").removesuffix(" shadowed")


def _without_time(text: str) -> str:
    before, _, after = text.partition(" in ")
    return " ".join([before, *after.split(" ")[1:]])


def _play(step: dict[str, Any], wire: Wire, *, is_timed: bool) -> None:
    ask = [descriptor(given) for given in step["ask"]]
    domain, hits = step.get("domain", "d"), step.get("hits", 0)
    modes = (step.get("shadow", False), step.get("quota", False))
    if step["say"].startswith("error: "):
        with pytest.raises(grpc.RpcError, match=step["say"].removeprefix("error: ")) as raised:
            wire.ask(domain, ask, hits, modes)
        assert grpc.StatusCode.INVALID_ARGUMENT == raised.value.code()
        return

    answer = wire.ask(domain, ask, hits, modes)

    expected, actual = [_expected(text) for text in step["status"]], [_written(status) for status in answer["statuses"]]
    assert expected == actual if is_timed else [*map(_without_time, expected)] == [*map(_without_time, actual)]
    assert step["say"] == answer["overall_code"]
    if "metadata" in step:
        assert step["metadata"] == answer["dynamic_metadata"].get("metadata")


def _playable() -> list[Any]:
    return [parameter for parameter in cases() if parameter.values[0].steps]


def _steady() -> list[Any]:
    """
    Cases in which the time does not matter: it is that of the server.
    """

    def is_steady(case: Case) -> bool:
        is_short = any("second" in text.lower() for text in case.files)
        return not is_short and all(step.get("at", START) == START for step in case.steps)

    return [parameter for parameter in _playable() if is_steady(parameter.values[0])]


@pytest.mark.parametrize("case", _playable())
def test_every_case_is_answered_over_the_wire_as_its_table_says(case: Case) -> None:
    """
    All statuses, limits, times and codes.
    """
    rule_set, _ = case.load()
    clock = ManualClock(START)
    with Wire(RuleLimiter(rule_set, clock=clock)) as wire:
        for step in case.steps:
            if "at" in step:
                clock.advance_ns(round(step["at"] * 1_000_000_000) - clock.time_ns())
            _play(step, wire, is_timed=True)


@pytest.mark.parametrize("case", _steady())
def test_every_case_is_answered_alike_on_redis(case: Case, server: Single) -> None:
    """
    All but the times, which are the server's. If a minute ends meanwhile, counting began afresh, and the case is played once more.
    """
    rule_set, _ = case.load()
    for _ in range(3):
        begun = datetime.now(tz=UTC).replace(second=0, microsecond=0)
        store = f"{server.url()}?prefix=g{os.getpid()}.{next(_NUMBERS)}:"
        problem: AssertionError | None = None
        with RuleLimiter(rule_set, store=store, budget=5) as limiter, Wire(limiter) as wire:
            try:
                for step in case.steps:
                    _play(step, wire, is_timed=False)
            except AssertionError as error:
                problem = error
        if problem is None:
            return
        if begun == datetime.now(tz=UTC).replace(second=0, microsecond=0):
            raise problem
    pytest.fail("no minute was long enough")

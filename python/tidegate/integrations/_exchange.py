"""
What one request took on its way to its answer, and when it is given back.
"""

from __future__ import annotations

import math
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegate import Decision
    from tidegate.integrations._guard import Guard

LISTS = ("RateLimit-Policy", "RateLimit")
"""Fields whose values are lists, so that what several guards say can stand in one of them. Of any other the last word counts."""


class Exchange:
    """
    A request and its response, from the first guard that is asked until the response has ended.

    A request that one guard admits and the next one denies was not admitted: what the first one took goes back. Slots are held until `end`.
    An exchange that is dropped without it, by a server that never closed its response, ends by itself.
    """

    __slots__ = ("__weakref__", "_denied", "_slots", "_taken", "is_denied")

    def __init__(self) -> None:
        self._taken: list[tuple[Guard, Decision]] = []
        self._slots: _Slots | None = None
        self._denied: tuple[Guard, Decision] | None = None
        self.is_denied = False
        """Whether a guard denied it."""

    @property
    def decision(self) -> Decision | None:
        """What the guard that was asked last said; `None` before the first one."""
        last = self._denied or (self._taken[-1] if self._taken else None)
        return None if last is None else last[1]

    @property
    def has_slots(self) -> bool:
        """Whether it holds something that has to be given back."""
        return self._slots is not None

    def ask(self, guard: Guard, attributes: dict[str, Any], request: Any) -> Decision:  # noqa: ANN401  # any framework's
        """
        Asks a guard, and waits as long as a `leaky_bucket` delays the start.

        Args:
            guard: The guard.
            attributes: The facts about the request; the guard adds who is counted.
            request: The request as the functions of the application take it.

        Returns:
            The decision.
        """
        if guard.is_simple and not self.is_denied:
            # The same as below, without the calls that would have nothing to do.
            decision = guard.limiter.check(attributes)
            if decision.allowed:
                if decision.delay_ns:
                    guard.delay(decision)
                self._taken.append((guard, decision))
                return decision
            return self._noted(guard, decision)
        if guard.is_by_address:
            return self.check(guard, attributes, None)
        guard.identify_request(attributes, request)
        return self.check(guard, attributes, guard.cost_of(request))

    def check(self, guard: Guard, attributes: dict[str, Any], cost: int | None) -> Decision:
        """
        As `ask`, where the attributes say already who is counted.

        Args:
            guard: The guard.
            attributes: The facts about the request.
            cost: How much; `None` for what the rules say.

        Returns:
            The decision.
        """
        return self._noted(guard, guard.check(attributes, cost))

    def _noted(self, guard: Guard, decision: Decision) -> Decision:
        for other, taken in self._note(guard, decision):
            other.refund(taken)
        return decision

    async def ask_async(self, guard: Guard, attributes: dict[str, Any], request: Any) -> Decision:  # noqa: ANN401  # any framework's
        """
        As `ask`, while other tasks run.
        """
        await guard.identify_request_async(attributes, request)
        decision = await guard.check_async(attributes, await guard.cost_of_async(request))
        for other, taken in self._note(guard, decision):
            await other.refund_async(taken)
        return decision

    def fields(self) -> list[tuple[str, str]]:
        """
        The header fields of the response: of the denial, or of all that admitted the request.

        Returns:
            Names and values, each name once.
        """
        if self._denied is not None:
            guard, decision = self._denied
            return guard.fields(decision)
        if len(self._taken) == 1:
            guard, decision = self._taken[0]
            return list(decision.headers().items()) if guard.is_telling else []
        found: dict[str, str] = {}
        for guard, decision in self._taken:
            for name, value in guard.fields(decision):
                found[name] = f"{found[name]}, {value}" if name in found and name in LISTS else value
        return list(found.items())

    def end(self) -> None:
        """
        Gives the slots back. Once is enough, and more do no harm.
        """
        for guard, decision in self._let_go():
            guard.release(decision)

    async def end_async(self) -> None:
        """
        As `end`, while other tasks run.
        """
        for guard, decision in self._let_go():
            await guard.release_async(decision)

    def _let_go(self) -> list[tuple[Guard, Decision]]:
        taken, self._taken = self._taken, []
        if self._slots is None:
            return []
        self._slots.taken, self._slots = (), None
        return taken

    def _note(self, guard: Guard, decision: Decision) -> list[tuple[Guard, Decision]] | tuple[()]:
        """
        Keeps a decision, and answers what has to go back.
        """
        if decision.allowed:
            if self._denied is not None:
                # Somebody else has denied the request already.
                return [(guard, decision)]
            self._taken.append((guard, decision))
            if decision.lease is not None and self._slots is None:
                self._slots = _Slots(self._taken)
            return ()
        # Who was denied twice has to wait for both.
        if self._denied is None or _wait(decision) >= _wait(self._denied[1]):
            self._denied, self.is_denied = (guard, decision), True
        taken = self._taken
        self._let_go()
        return taken


class _Slots:
    """
    Slots that nobody has given back when the exchange is dropped. Only who holds some pays for being watched.

    Args:
        taken: What the exchange took.
    """

    __slots__ = ("taken",)

    def __init__(self, taken: Sequence[tuple[Guard, Decision]]) -> None:
        self.taken = taken

    def __del__(self) -> None:
        if not self.taken:
            return
        # Garbage is collected anywhere, also on the thread of an event loop, and a shared store takes its time. At the end of the
        # interpreter no thread can be started any more; then the lease expires.
        with suppress(Exception):
            threading.Thread(target=_release, args=(self.taken,), name="tidegate-release", daemon=True).start()


def _release(taken: Sequence[tuple[Guard, Decision]]) -> None:
    for guard, decision in taken:
        guard.release(decision)


def _wait(denial: Decision) -> float:
    return math.inf if denial.retry_after_ns is None else denial.retry_after_ns

"""
What a host allows this client, shared by all its threads and tasks. Pure: time is passed in, and whoever has to wait is told for how long.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidegate.pacing.meter import Meter

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidegate.pacing.fields import Told
    from tidegate.pacing.throttle import Throttle

METERS_MAX = 16
"""The most limits of a host that are kept; the one that was told of longest ago goes first."""

FIRST_NS = 1_000_000_000
"""How long the first request to a host goes alone, unless it is answered sooner; and the time between probes of a host with limits."""


@dataclass(slots=True)
class Budget:
    """
    Who may send, and who waits. Not safe for threads: the pacer has a lock.

    A caller joins and gets a ticket, asks for its turn until it has it, and tells how it ended. Those who joined first go first. While
    nothing is known, because there was no answer yet or because the time of a limit is over, one request goes ahead and the others wait
    for its answer.

    Args:
        throttle: Refuses calls while the server sheds load; `None` for none.
        random: Draws a number from 0 up to 1.
    """

    throttle: Throttle | None
    random: Callable[[], float]
    _meters: dict[str, Meter] = field(default_factory=dict)
    _waiting: list[int] = field(default_factory=list)
    _under_way: dict[int, int] = field(default_factory=dict)
    """By ticket, the number of the event at which it was sent."""
    _tickets: int = 0
    _events: int = 0
    _blocked_ns: int | None = None
    _learn_event: int = 0
    """The event since which it is learning: answers to earlier requests teach nothing."""
    _is_learning: bool = True
    _is_limited: bool = False
    """Whether it has ever told of limits, or refused."""
    _probe_ns: int = 0
    """When the next one may go while the answer of the first is awaited."""

    @property
    def is_idle(self) -> bool:
        """Whether nobody is here."""
        return not self._waiting and not self._under_way

    @property
    def crowd(self) -> int:
        """How many wait."""
        return len(self._waiting)

    @property
    def quotas(self) -> str:
        """The limits with a known window that the latest answer told of, as a text of the quota language."""
        listed = (meter for meter in self._meters.values() if meter.is_listed and meter.quota and meter.window_ns)
        return ", ".join(f"{meter.quota}/{meter.window_ns}ns" for meter in listed)

    def join(self) -> int:
        """
        Queues up.

        Returns:
            The ticket.
        """
        self._tickets += 1
        self._waiting.append(self._tickets)
        return self._tickets

    def rejoin(self, ticket: int) -> None:
        """
        Queues up for another attempt, in the old place.

        Args:
            ticket: The ticket.
        """
        self._waiting.insert(bisect_left(self._waiting, ticket), ticket)

    def leave(self, ticket: int, *, is_sent: bool) -> None:
        """
        Gives a place up, whether it waits or is under way.

        Args:
            ticket: The ticket.
            is_sent: Whether the request was sent and has no answer. The server may have counted it all the same.
        """
        place = bisect_left(self._waiting, ticket)
        if self._waiting[place : place + 1] == [ticket]:
            del self._waiting[place]
        elif self._under_way.pop(ticket, None) is not None and is_sent:
            for meter in self._meters.values():
                meter.spend()

    def turn(self, ticket: int, now_ns: int) -> int | None:
        """
        Asks whether it may send; if so, it is under way.

        Args:
            ticket: The ticket.
            now_ns: The time.

        Returns:
            0 if it may, else how long to wait; `None` if that depends on answers that are under way.
        """
        if self._blocked_ns is not None and now_ns < self._blocked_ns:
            return self._blocked_ns - now_ns
        for meter in self._meters.values():
            if meter.expire(now_ns, under_way=len(self._under_way), event=self._events):
                self._learn()
        rank = bisect_left(self._waiting, ticket)
        ready_ns = self._probing_ns(rank, now_ns) if self._is_learning else self._ready_ns(rank, now_ns)
        if ready_ns is None or ready_ns > now_ns:
            return None if ready_ns is None else ready_ns - now_ns
        self._start(ticket, now_ns)
        return 0

    def probe(self, ticket: int, now_ns: int) -> bool:
        """
        Asks whether it may send although it should wait, so that a host that told an absurd time is found out. One a second may.

        Args:
            ticket: The ticket.
            now_ns: The time.

        Returns:
            Whether it may; then it is under way.
        """
        # Farther away it cannot be, unless a clock went back.
        if now_ns < self._probe_ns <= now_ns + FIRST_NS:
            return False
        self._probe_ns = now_ns + FIRST_NS
        self._start(ticket, now_ns)
        return True

    def answered(self, ticket: int, told: Told, now_ns: int) -> None:
        """
        Takes note of an answer.

        Args:
            ticket: The ticket.
            told: What it says about limits.
            now_ns: The time.
        """
        self._events += 1
        sent = self._under_way.pop(ticket)
        # What was sent before says nothing about the time after.
        if sent > self._learn_event:
            self._blocked_ns, self._is_learning = None, False
        if not told.limits:
            return
        self._is_limited = True
        for meter in self._meters.values():
            meter.is_listed = False
        for limit in told.limits:
            # Out and in again: the order is that in which they were told of.
            meter = self._meters.pop(limit.name, Meter())
            meter.is_listed = True
            meter.tell(limit, sent=sent, event=self._events, now_ns=now_ns, jitter=self.random())
            self._meters[limit.name] = meter
        while len(self._meters) > METERS_MAX:
            del self._meters[next(iter(self._meters))]

    def block(self, until_ns: int) -> None:
        """
        Lets nobody send before a time, and then one first.

        Args:
            until_ns: The time.
        """
        self._blocked_ns = max(until_ns, self._blocked_ns or until_ns)
        self._is_limited = True
        self._learn()
        for meter in self._meters.values():
            meter.refused(until_ns)

    def _learn(self) -> None:
        self._is_learning, self._learn_event = True, self._events

    def _start(self, ticket: int, now_ns: int) -> None:
        self._events += 1
        del self._waiting[bisect_left(self._waiting, ticket)]
        if self._is_learning and (self._is_limited or not self._under_way):
            self._probe_ns = now_ns + self._spacing_ns()
        self._under_way[ticket] = self._events

    def _probing_ns(self, rank: int, now_ns: int) -> int | None:
        if rank == 0 and not self._under_way:
            # The server said that there would be room now, so it does not matter what the log says.
            return self._ready_ns(rank, now_ns, by_log=False)
        # A host that has never told of limits may be one that answers late, as those do that hold a request until there is news.
        is_free = now_ns >= self._probe_ns and (rank == 0 or not self._is_limited)
        return self._ready_ns(rank, now_ns) if is_free else None

    def _ready_ns(self, rank: int, now_ns: int, *, by_log: bool = True) -> int | None:
        ahead, latest_ns = rank + len(self._under_way), now_ns
        for meter in self._meters.values():
            ready_ns = meter.ready_ns(now_ns, ahead, by_log=by_log)
            if ready_ns is None:
                return None
            latest_ns = max(latest_ns, ready_ns)
        return latest_ns

    def _spacing_ns(self) -> int:
        return max((meter.spacing_ns or FIRST_NS for meter in self._meters.values() if meter.is_listed), default=FIRST_NS)

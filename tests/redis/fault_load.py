"""
Load on a limiter while its store is broken on purpose: what every caller saw, and how far the machine itself was late.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import Counter, defaultdict
from dataclasses import dataclass
from random import Random
from time import perf_counter
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tidegate import Limiter

GRACE_S = 0.002
"""What a caller may wait longer than the budget, at the 99.9th percentile, on a machine that is never late itself."""
STALL_S = 0.05
"""A machine that is late by more has taken the whole budget from somebody."""
WITHIN_S = 45.0
"""When the store has to decide again on such a machine."""
ROOM = 10
"""What is left of a key of which something can be admitted."""


@dataclass(frozen=True, slots=True)
class Seen:
    """
    One decision, as its caller saw it.

    Args:
        key: For whom.
        start: When the caller asked, on a clock that all processes of a machine share.
        took: How long the answer took, in seconds.
        is_allowed: What it was.
        reason: Why the store was not asked; `None` if it was.
    """

    key: str
    start: float
    took: float
    is_allowed: bool
    reason: str | None

    @property
    def end(self) -> float:
        """When the caller had the answer."""
        return self.start + self.took


class Load:
    """
    Threads that ask again and again, from `with` to the end of its block.

    The pause between two questions is a wait like that for a store, on the same threads. How much longer it takes than it should is what
    the machine adds to every wait. Who asks all the time does not see a stall as one, so on each core there is a witness who only waits.

    Args:
        limiter: Who is asked.
        keys: For whom.
        threads: How many ask.
        pause: Seconds from an answer to the next question of a thread.
    """

    def __init__(self, limiter: Limiter, *, keys: Sequence[str] = tuple("abcdefgh"), threads: int = 4, pause: float = 0.003) -> None:
        self.limiter = limiter
        self.keys = keys
        self._pause = pause
        self._seen: list[list[Seen]] = [[] for _ in range(threads)]
        self._late: list[list[float]] = [[] for _ in range(threads)]
        self._left: dict[str, int] = {}
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._work, args=(number,)) for number in range(threads)]
        for core in sorted(os.sched_getaffinity(0)) if sys.platform == "linux" else [0]:
            self._late.append([])
            self._threads.append(threading.Thread(target=self._witness, args=(core, self._late[-1])))
        self.gone_at: float | None = None
        """When the server was surely gone, where the fault knows."""

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _work(self, number: int) -> None:
        seen, late, random = self._seen[number], self._late[number], Random(number)
        while not self._stop.is_set():
            key = random.choice(self.keys)
            start = perf_counter()
            decision = self.limiter.check(key)
            end = perf_counter()
            seen.append(Seen(key, start, end - start, decision.allowed, decision.reason))
            self._left[key] = decision.remaining or 0
            self._stop.wait(self._pause)
            late.append(perf_counter() - end - self._pause)

    def _witness(self, core: int, late: list[float]) -> None:
        if sys.platform == "linux":
            os.sched_setaffinity(0, {core})  # of this thread alone
        while not self._stop.is_set():
            start = perf_counter()
            self._stop.wait(self._pause)
            late.append(perf_counter() - start - self._pause)

    def go_on(self, seconds: float) -> None:
        """
        Lets time pass under load.
        """
        self._stop.wait(seconds)

    def go_on_until(self, condition: Callable[[], bool], within: float) -> None:
        """
        Waits for something under load.

        Raises:
            TimeoutError: It did not come true in time.
        """
        deadline = perf_counter() + within
        while not condition():
            if perf_counter() > deadline:
                raise TimeoutError(f"not within {within} s: {self.limiter.health()}")
            self._stop.wait(0.01)

    def is_enforced(self) -> bool:
        """
        Whether the store decides again: it is healthy, and so were the last decisions of every thread.
        """
        last = [seen[-5:] for seen in self._seen]
        return self.limiter.health().status == "ok" and all(seen and not any(one.reason for one in seen) for seen in last)

    def is_ready(self) -> bool:
        """
        Whether the store decides, and has something left of some key: after a start that took long, all of them may be used up at once.
        """
        return self.is_enforced() and any(left >= ROOM for left in self._left.copy().values())

    def note_end(self) -> None:
        """
        Notes that the server is gone.
        """
        self.gone_at = perf_counter()

    @property
    def seen(self) -> list[Seen]:
        """All decisions so far, in the order in which they were asked for."""
        return sorted((one for seen in self._seen for one in list(seen)), key=lambda one: one.start)

    @property
    def stall_s(self) -> float:
        """By how much the machine was late at its worst: a stall that hits one wait in a thousand may hit two in another thousand."""
        return max((late for lates in self._late for late in lates), default=0.0)


@dataclass(frozen=True, slots=True)
class Story:
    """
    What callers saw before, during and after a fault.

    Args:
        seen: Every decision.
        stall_s: By how much the machine was late at its worst.
        broke_at: When the fault began.
        gone_at: When nobody could be answered by the broken server any more; the same, where the fault does not know better.
        mended_at: When it ended.
        enforced_at: When the store decided again.
        by_reason: Decisions without the store, by reason, as the limiter counted them.
    """

    seen: tuple[Seen, ...]
    stall_s: float
    broke_at: float
    gone_at: float
    mended_at: float
    enforced_at: float
    by_reason: dict[str, int]

    @property
    def soon_s(self) -> float:
        """
        How soon the store has to decide again.

        A probe that meets a machine which stands still has failed, and each one that fails doubles the time to the next, up to ten seconds.
        """
        return 15.0 if self.stall_s < STALL_S else WITHIN_S

    @property
    def strays(self) -> Counter[str]:
        """
        What was admitted of each key without the store although nothing was wrong with it: the machine stood still.
        """
        is_as_it_should_be = [one for one in self.seen if one.start < self.broke_at or one.start > self.enforced_at]
        return Counter(one.key for one in is_as_it_should_be if one.is_allowed and one.reason)

    @property
    def reasons(self) -> set[str]:
        """Why the store was not asked, during the fault and after it."""
        return {one.reason for one in self.seen if one.reason and one.start >= self.broke_at}

    def took_s(self, share: float) -> float:
        """
        How long a decision took, at a percentile of the decisions from the fault on.
        """
        return quantile([one.took for one in self.seen if one.end >= self.broke_at], share)

    def summary(self, name: str) -> str:
        """
        Its numbers, to read.
        """
        took = {share: self.took_s(share) * 1000 for share in (0.5, 0.99, 0.999, 1.0)}
        counts = Counter(one.reason or "store" for one in self.seen)
        return (
            f"{name}: {len(self.seen)} decisions, p50 {took[0.5]:.2f} ms, p99 {took[0.99]:.2f} ms, p99.9 {took[0.999]:.2f} ms, "
            f"worst {took[1.0]:.2f} ms; machine late by {self.stall_s * 1000:.2f} ms; "
            f"enforced {self.enforced_at - self.mended_at:.2f} s after the end; {dict(counts)}"
        )


def suffer(limiter: Limiter, fault: Callable[[Load], None], *, within: float = WITHIN_S) -> Story:
    """
    Puts load on a limiter, breaks its store, and waits until it enforces again.

    Args:
        limiter: With its store as it should be.
        fault: Breaks the store and mends it.
        within: Seconds until the store must decide again.

    Returns:
        What callers saw.
    """
    with Load(limiter) as load:
        load.go_on(0.3)
        load.go_on_until(load.is_ready, within)
        broke_at = perf_counter()
        fault(load)
        mended_at = perf_counter()
        load.go_on_until(load.is_enforced, within)
        enforced_at = perf_counter()
        load.go_on(0.5)
    gone_at = load.gone_at or broke_at
    return Story(tuple(load.seen), load.stall_s, broke_at, gone_at, mended_at, enforced_at, limiter.health().degraded)


def quantile(values: Iterable[float], share: float) -> float:
    """
    The smallest value that is no smaller than so large a share of all.
    """
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def most_in_window(seen: Iterable[Seen], window: float) -> dict[str, int]:
    """
    The most that was admitted of each key in any window.

    Only what was surely within it counts: each decision was taken at some instant between question and answer.
    """
    admitted: defaultdict[str, list[Seen]] = defaultdict(list)
    for one in sorted(seen, key=lambda one: one.start):
        if one.is_allowed:
            admitted[one.key].append(one)
    return {key: max(_surely_within(ones, window)) for key, ones in admitted.items()}


def _surely_within(ones: list[Seen], window: float) -> Iterable[int]:
    for index, first in enumerate(ones):
        count = 0
        for other in ones[index:]:
            if other.start - first.start >= window:
                break
            count += other.end - first.start < window
        yield count

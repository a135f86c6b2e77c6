"""
Keeps slots alive while they are held: one daemon thread per process, for blocking and for async code alike.
"""

from __future__ import annotations

import atexit
import heapq
import os
import threading
import weakref
from itertools import count
from typing import TYPE_CHECKING, Protocol

from tidegate._sleep import now_ns

if TYPE_CHECKING:
    from tidegate import Decision

# Below this many entries it is not worth looking for those of slots that were given back.
_COMPACT_MIN = 64


class Renewable(Protocol):
    """
    Something that is held under a lease: a `Slot`, or a request that an integration lets run.
    """

    @property
    def decision(self) -> Decision:
        """The decision that admitted it."""
        ...

    @property
    def held(self) -> bool:
        """Whether it is still held."""
        ...

    def renew(self) -> bool:
        """
        Extends the lease; false when that is in vain.
        """
        ...


class Renewer:
    """
    Renews each slot every third of its lease, so that one late renewal does not lose it.

    It knows slots by weak references only, and so keeps neither them nor their limiters alive. The thread starts with the first slot, and
    again with the first slot after a fork.
    """

    def __init__(self) -> None:
        self._ticket = count()
        self._is_stopped = False
        self._reset()
        os.register_at_fork(after_in_child=self._reset)
        atexit.register(self._stop)

    def _reset(self) -> None:
        # In a forked child the thread is gone, the lock may have been held and the heap half changed by a thread that is gone as well.
        # The slots in it belong to the parent, which goes on renewing them.
        # The lock inside is one that its holder may take again: the garbage collector can end a generator, and with it a slot, anywhere.
        self._wake = threading.Condition()
        self._thread: threading.Thread | None = None
        self._stale = 0
        self._heap: list[_Entry] = []

    def add(self, slot: Renewable, lease: str, every_ns: int) -> None:
        """
        Renews a slot until it is given back, lost or dropped.

        Args:
            slot: The slot.
            lease: The lease that it holds now; under another one it is another slot.
            every_ns: The time between two renewals.
        """
        entry = (now_ns() + every_ns, next(self._ticket), every_ns, weakref.ref(slot), lease)
        with self._wake:
            heapq.heappush(self._heap, entry)
            if self._thread is None or not self._thread.is_alive():
                self._start()
            elif self._heap[0] is entry:
                self._wake.notify()

    def forget(self) -> None:
        """
        Counts a slot that was given back. Its entry goes when it is due, or earlier when there are many such.
        """
        with self._wake:
            self._stale += 1
            if self._stale * 2 > len(self._heap) >= _COMPACT_MIN:
                self._heap = [entry for entry in self._heap if _slot_of(entry) is not None]
                heapq.heapify(self._heap)
                self._stale = 0

    def _start(self) -> None:
        if not self._is_stopped:
            self._thread = threading.Thread(target=self._run, name="tidegate-renew", daemon=True)
            self._thread.start()

    def _stop(self) -> None:
        # A daemon thread that is still running while the interpreter is taken apart could fail noisily.
        with self._wake:
            self._is_stopped = True
            self._wake.notify()
            thread = self._thread
        if thread is not None:
            thread.join(timeout=1)

    def _run(self) -> None:
        while (entry := self._next()) is not None:
            due_ns, _, every_ns, reference, lease = entry
            slot = _slot_of(entry)
            if slot is not None and slot.renew():
                again_ns = max(due_ns + every_ns, now_ns())
                with self._wake:
                    heapq.heappush(self._heap, (again_ns, next(self._ticket), every_ns, reference, lease))
            # Otherwise this thread would be the one who keeps the slot alive until the next is due.
            del slot

    def _next(self) -> _Entry | None:
        """
        Waits for the first entry that is due.
        """
        with self._wake:
            while not self._is_stopped:
                if not self._heap:
                    self._wake.wait()
                elif (wait_ns := self._heap[0][0] - now_ns()) > 0:
                    self._wake.wait(wait_ns / 1e9)
                else:
                    return heapq.heappop(self._heap)
        return None


def _slot_of(entry: _Entry) -> Renewable | None:
    *_, reference, lease = entry
    slot = reference()
    return slot if slot is not None and slot.held and slot.decision.lease == lease else None


if TYPE_CHECKING:
    _Entry = tuple[int, int, int, weakref.ref[Renewable], str]

RENEWER = Renewer()

"""
Slots of a `concurrent` quota, held while a block runs.
"""

from __future__ import annotations

import secrets
import weakref
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Self

from tidegate._renew import RENEWER
from tidegate._wait import Ask, admit, admit_async
from tidegate.errors import UsageError

if TYPE_CHECKING:
    from types import TracebackType

    from tidegate import Decision
    from tidegate._gate import Gate


class Slot:
    """
    A place among those that may run at the same time: `with limiter.slot(key)`, or `async with`.

    Entering takes it, and leaving gives it back on every path. While it is held, a background thread renews its lease, so a block may run
    longer than the lease. A process that dies gives its slots back when their leases expire.

    Only the slot is given back. Rate quotas that were checked together with it stay charged. A block that was admitted without the store
    (`decision.degraded`) runs without holding one.

    Args:
        ask: Who is asked, for whom, and for how long.
    """

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._decision: Decision | None = None
        self._lease: str | None = None
        self._is_lost = False
        self._finalizer: weakref.finalize[[Gate, Decision], Slot] | None = None

    @property
    def decision(self) -> Decision:
        """
        The decision that admitted it.

        Raises:
            UsageError: It was not entered yet.
        """
        if self._decision is None:
            raise UsageError("the slot has no decision before it is entered")
        return self._decision

    @property
    def held(self) -> bool:
        """Whether it was entered, not given back, and not found lost."""
        return self._lease is not None and not self._is_lost

    @property
    def lost(self) -> bool:
        """Whether a renewal found it gone: somebody else may hold it, so the block should stop or enter again."""
        return self._is_lost

    def renew(self) -> bool:
        """
        Extends the lease now. Needed only where the background thread cannot know: with a `ManualClock`.

        Returns:
            False when it is not held any more.
        """
        lease, decision = self._lease, self._decision
        if lease is None or decision is None or self._is_lost:
            return False
        with suppress(UsageError):
            if self._ask.gate.renew(decision):
                return True
        # A slot given back while the renewal was under way is gone too, but not lost.
        if self._lease == lease:
            self._is_lost = True
        return False

    def release(self) -> None:
        """
        Gives the slot back before the block ends. Once is enough, and more do no harm.
        """
        # The lease goes first: a renewal under way then sees a slot given back, and not a lost one.
        finalizer, self._finalizer, self._lease = self._finalizer, None, None
        if finalizer is not None:
            finalizer()
            RENEWER.forget()

    async def _release_async(self) -> None:
        """
        As `release`, while other tasks run: a shared store or a service may take its time.
        """
        finalizer, self._finalizer, self._lease = self._finalizer, None, None
        given = None if finalizer is None else finalizer.detach()
        if given is not None and self._decision is not None:
            RENEWER.forget()
            with suppress(UsageError):
                await self._ask.gate.release_async(self._decision)

    def __enter__(self) -> Self:
        ask = self._prepare()
        return self._hold(ask, admit(ask))

    async def __aenter__(self) -> Self:
        ask = self._prepare()
        return self._hold(ask, await admit_async(ask))

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.release()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        await self._release_async()

    def __repr__(self) -> str:
        state = "held" if self.held else "lost" if self._is_lost else "not held"
        return f"<Slot: {state}>"  # without the key, which may be a secret

    def _prepare(self) -> Ask:
        if self._lease is not None:
            raise UsageError("the slot is held already: ask the limiter for another one")
        require_slots(self._ask.gate)
        # Made here and not by the store, so that a call repeated after an error takes the same slot and not a second one.
        return replace(self._ask, lease=secrets.token_hex(16))

    def _hold(self, ask: Ask, decision: Decision) -> Self:
        lease = decision.lease
        self._decision, self._lease, self._is_lost = decision, lease, False
        # Admitted without the store (`on_store_error="allow"`): the block may run, and there is nothing to hold.
        if lease is None:
            return self
        # For slots that are dropped without being left, such as one entered by hand. A forked child has a copy of the counters together
        # with the copy of the slot, so its finalizer gives back the copy and never the parent's slot. At exit the counters go as well.
        self._finalizer = weakref.finalize(self, _give_back, ask.gate, decision)
        self._finalizer.atexit = False
        if ask.gate.clock is None:
            RENEWER.add(self, lease, round((ask.gate.lease_ttl or 1) * 1e9 / 3))
        return self


def require_slots(gate: Gate) -> None:
    """
    Refuses a limiter that has no slots to give.

    Args:
        gate: Who is asked.

    Raises:
        UsageError: It has no `concurrent` quota.
    """
    if gate.lease_ttl is None:
        raise UsageError('slots need a concurrent quota, such as Limiter("20 concurrent"); for other quotas use check')


def _give_back(gate: Gate, decision: Decision) -> None:
    # A limiter that was closed in the meantime has no slots to take back, and leaving a block is no time to complain about it.
    with suppress(UsageError):
        gate.release(decision)

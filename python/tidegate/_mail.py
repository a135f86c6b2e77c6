"""
How decisions of a shared store come to an event loop.

The store's own thread never waits for the interpreter: it puts decisions into a mailbox and rings once for all that have come. Each event
loop has one mailbox; tasks that wait at the same time are answered by one wake-up.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from tidegate._native import Decision, Mailbox

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from tidegate._native import Engine, RuleEngine

    T = TypeVar("T")


class LoopMail:
    """
    The mailbox of one event loop.

    Args:
        loop: The loop.
    """

    # No reference to the loop: the table of mailboxes must not keep loops alive.
    __slots__ = ("_waiting", "box")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.box = Mailbox()
        self._waiting: dict[int, asyncio.Future[Decision]] = {}
        loop.add_reader(self.box.fileno(), self._take)

    def expect(self, ticket: int, future: asyncio.Future[Decision]) -> asyncio.Future[Decision]:
        """
        Waits for a decision that was begun.

        Args:
            ticket: Its number.
            future: What is resolved when it comes.

        Returns:
            The decision, later.
        """
        self._waiting[ticket] = future
        return future

    def _take(self) -> None:
        waiting = self._waiting
        for ticket, decision in self.box.take():
            future = waiting.pop(ticket)
            # A task that was cancelled meanwhile wants no answer; what it took stays taken.
            if not future.done():
                future.set_result(decision)


_MAIL: WeakKeyDictionary[asyncio.AbstractEventLoop, LoopMail] = WeakKeyDictionary()


async def decide(engine: Engine | RuleEngine, name: str, subject: Any, cost: int | None = None, **options: Any) -> Decision:  # noqa: ANN401  # a key, or attributes
    """
    Asks a shared store, while other tasks run.

    Args:
        engine: Who is asked.
        name: What: `check`, `peek` or `debit`.
        subject: For whom: a key, or the attributes of a request.
        cost: How much.
        options: As the engine's method of that name takes them.

    Returns:
        The decision.
    """
    loop = asyncio.get_running_loop()
    mail = _MAIL.get(loop)
    if mail is None:
        mail = _MAIL[loop] = LoopMail(loop)
    begun = engine.begin_async(mail.box, name, subject, cost, **options)
    return await mail.expect(begun, loop.create_future()) if isinstance(begun, int) else begun


async def without_waiting(engine: Engine | RuleEngine, method: Callable[..., T], *arguments: Any) -> T:  # noqa: ANN401  # as the method takes them
    """
    Calls a method of a limiter without holding up the event loop: on a shared store it may take as long as the budget.

    What is rare has no way of its own through the mailbox; a thread of the loop's pool does it.

    Args:
        engine: The limiter.
        method: The method.
        arguments: With what.

    Returns:
        What the method returns.
    """
    return await asyncio.to_thread(method, *arguments) if engine.is_shared else method(*arguments)

"""
How decisions of a shared store come to an event loop.

Each event loop has one mailbox. Tasks that ask in the same round of the loop are asked together, and answered by one wake-up. Where the
loop can have a connection for itself, its own thread sends the questions, and the answers wake the loop. Otherwise the store's thread does,
which never waits for the interpreter: it puts decisions into the mailbox and rings once for all that have come.
"""

from __future__ import annotations

import asyncio
from asyncio import get_running_loop
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, ref

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

    # The loop only weakly: the table of mailboxes must not keep loops alive.
    __slots__ = ("box", "is_hurrying", "is_sending", "loop", "waiting")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.box = Mailbox()
        self.is_sending = False
        self.is_hurrying = False
        self.waiting: dict[int, asyncio.Future[Decision]] = {}
        self.loop = ref(loop)
        loop.add_reader(self.box.fileno(), self._take)

    def send(self) -> None:
        """
        Sends the questions of this round.
        """
        self.is_sending = False
        self.box.send()
        if not self.is_hurrying:
            self.watch_time()

    def watch_time(self) -> None:
        """
        Sees to it that no question that was sent from here waits for too long.

        There is one timer for all of them: when it goes off, it looks how long the last one has waited.
        """
        loop, patience = self.loop(), self.box.patience
        self.is_hurrying = patience is not None and loop is not None
        if patience is not None and loop is not None:
            loop.call_later(patience, self._hurry)

    def _hurry(self) -> None:
        self.box.hurry()
        self.watch_time()

    def _take(self) -> None:
        take = self.waiting.pop
        for ticket, decision in self.box.take():
            future = take(ticket)
            # A task that was cancelled meanwhile wants no answer; what it took stays taken.
            if not future.done():
                future.set_result(decision)


_MAIL: WeakKeyDictionary[asyncio.AbstractEventLoop, LoopMail] = WeakKeyDictionary()
# Most processes have one loop, and looking it up in the table takes longer than comparing it with the last one.
_last: LoopMail | None = None


def _mail_of(loop: asyncio.AbstractEventLoop) -> LoopMail:
    global _last  # noqa: PLW0603  # a guess: any thread may replace it at any time
    mail = _MAIL.get(loop)
    if mail is None:
        # Answers that were never taken, because their loop was closed first, keep it alive through their futures.
        for closed in [old for old in list(_MAIL) if old.is_closed()]:
            _MAIL.pop(closed, None)
        mail = _MAIL[loop] = LoopMail(loop)
    _last = mail
    return mail


def ask(  # noqa: PLR0913, PLR0917  # the hot path: keywords for each call, or one more coroutine, would cost more than the call
    engine: Engine | RuleEngine,
    name: str,
    subject: Any,  # noqa: ANN401  # a key, or attributes
    cost: int | None,
    lease: str | None = None,
    max_delay: float | None = None,
) -> Decision | asyncio.Future[Decision]:
    """
    Puts a question to a shared store, together with the others of this round of the loop.

    Args:
        engine: Who is asked.
        name: What: `check`, `peek` or `debit`.
        subject: For whom: a key, or the attributes of a request.
        cost: How much.
        lease: As the engine's method of that name takes it.
        max_delay: The same.

    Returns:
        The decision, if it is known; else what it will be in.
    """
    loop = get_running_loop()
    mail = _last
    if mail is None or mail.loop() is not loop:
        mail = _mail_of(loop)
    begun = engine.begin_async(mail.box, name, subject, cost, lease, max_delay)
    if not isinstance(begun, int):
        return begun
    if mail.box.has_unsent:
        if not mail.is_sending:
            mail.is_sending = True
            loop.call_soon(mail.send)
    elif not mail.is_hurrying:
        mail.watch_time()
    future = mail.waiting[begun] = loop.create_future()
    return future


async def decide(engine: Engine | RuleEngine, name: str, subject: Any, cost: int | None) -> Decision:  # noqa: ANN401  # a key, or attributes
    """
    Asks a shared store, while other tasks run.

    Args:
        engine: Who is asked.
        name: What: `check`, `peek` or `debit`.
        subject: For whom: a key, or the attributes of a request.
        cost: How much.

    Returns:
        The decision.
    """
    answer = ask(engine, name, subject, cost)
    return answer if isinstance(answer, Decision) else await answer


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

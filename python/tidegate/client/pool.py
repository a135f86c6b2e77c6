"""
Connections to a service that are kept and used again, by threads and by tasks of any event loop alike.

All sockets are non-blocking, and none belongs to an event loop while nobody waits for it: so one pool serves both kinds of callers, and
`close` may be called anywhere. A connection is opened by a thread of its own, because looking up a name and agreeing on keys cannot be
interrupted: who does not want to wait for it any longer goes away, and whoever asks next finds it ready.
"""

from __future__ import annotations

import os
import socket
import threading
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidegate.client.away import Away

if TYPE_CHECKING:
    import ssl

    from tidegate.client.address import Address

CONNECT_S = 5.0
"""How long opening one may take. Nobody waits for it longer than the budget."""

WOULD_BLOCK: tuple[type[BaseException], ...] = (BlockingIOError, InterruptedError)


class Connection:
    """
    One connection, used by one caller at a time.

    Args:
        stream: Its socket.
        epoch: The number of the pool's life in which it was made.
    """

    __slots__ = ("epoch", "is_used", "stream")

    def __init__(self, stream: socket.socket, epoch: int) -> None:
        self.stream = stream
        self.epoch = epoch
        self.is_used = False
        """Whether it has carried a request before: the other side may have become tired of it in the meantime."""

    def is_stale(self) -> bool:
        """
        Whether the other side has closed it, or says what it was not asked.
        """
        try:
            self.stream.recv(1)
        except WOULD_BLOCK:
            return False
        except OSError as error:
            return not is_would_block(error)
        return True

    def close(self) -> None:
        """
        Ends it. A forked child ends its copy only.
        """
        self.stream.close()

    def __del__(self) -> None:
        self.stream.close()


def is_would_block(error: OSError) -> bool:
    """
    Whether an error of a TLS connection says that there is nothing to read, or no room to write, at the moment.

    Args:
        error: The error.
    """
    return type(error).__name__ in {"SSLWantReadError", "SSLWantWriteError"}


@dataclass(slots=True)
class _State:
    """
    What a forked child must not inherit.
    """

    process: int = field(default_factory=os.getpid)
    lock: threading.Lock = field(default_factory=threading.Lock)
    idle: list[Connection] = field(default_factory=list)
    waiting: list[Future[Connection]] = field(default_factory=list)
    open: int = 0
    """Connections that there are, in use or not, and those that are being opened."""


class Pool:
    """
    The connections of one client.

    Args:
        address: Where to.
        size: How many at most.
        context: With TLS: whom to trust, and who one is.
    """

    def __init__(self, address: Address, size: int, context: ssl.SSLContext | None) -> None:
        self._address = address
        self._size = size
        self._context = context
        self._epoch = 0
        self._is_closed = False
        self._state = _State()

    def take(self) -> Connection | Future[Connection]:
        """
        Asks for a connection that nobody else uses.

        Returns:
            The connection, or what it will be in. Who does not wait for it any longer has to `forget` it.
        """
        state = self._current()
        stale: list[Connection] = []
        try:
            with state.lock:
                while state.idle:
                    connection = state.idle.pop()
                    if not connection.is_stale():
                        return connection
                    state.open -= 1
                    stale.append(connection)
                waiter: Future[Connection] = Future()
                state.waiting.append(waiter)
                is_room = state.open < self._size
                state.open += is_room
        finally:
            for connection in stale:
                connection.close()
        if is_room:
            self._begin_to_open(state)
        return waiter

    def forget(self, waiter: Future[Connection]) -> None:
        """
        Ends waiting for a connection. One that has come in the meantime is for somebody else.

        Args:
            waiter: What it was to be in.
        """
        state = self._current()
        with state.lock:
            if waiter in state.waiting:
                state.waiting.remove(waiter)
                return
        # Whatever came into it came under the lock, so it is all there.
        if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
            self.give(waiter.result())

    def give(self, connection: Connection) -> None:
        """
        Takes a connection back that can be used again.

        Args:
            connection: The connection.
        """
        connection.is_used = True
        state = self._current()
        with state.lock:
            if not self._is_closed and connection.epoch == self._epoch:
                self._hand_over(state, connection)
                return
        connection.close()

    def drop(self, connection: Connection) -> None:
        """
        Ends a connection that cannot be used again.

        Args:
            connection: The connection.
        """
        connection.close()
        state = self._current()
        with state.lock:
            if connection.epoch != self._epoch:
                return
            state.open -= 1
            # Somebody who waited for it needs another one.
            is_wanted = any(not waiter.done() for waiter in state.waiting) and not self._is_closed
            state.open += is_wanted
        if is_wanted:
            self._begin_to_open(state)

    def close(self) -> None:
        """
        Ends all connections: those in use when they are given back.
        """
        self._is_closed = True
        state = self._current()
        with state.lock:
            idle, state.idle = state.idle, []
            self._disappoint(state, "the client is closed")
        for connection in idle:
            connection.close()

    def _current(self) -> _State:
        # A forked child has copies of its parent's sockets, and of a lock that nobody there will ever open.
        if self._state.process != os.getpid():
            inherited, self._state = self._state, _State()
            self._epoch += 1
            for connection in inherited.idle:
                connection.close()
        return self._state

    def _begin_to_open(self, state: _State) -> None:
        try:
            threading.Thread(target=self._open, args=(state,), name="tidegate-connect", daemon=True).start()
        except RuntimeError as error:
            # The system has no more threads, or the interpreter is about to end.
            with state.lock:
                state.open -= 1
                self._disappoint(state, f"no connection can be opened: {error}")

    def _open(self, state: _State) -> None:
        try:
            connection = Connection(self._connect(), self._epoch)
        except (OSError, ValueError) as error:  # a name of 300 letters is a ValueError
            with state.lock:
                state.open -= 1
                self._disappoint(state, f"the service cannot be reached: {error}")
            return
        with state.lock:
            if not self._is_closed:
                self._hand_over(state, connection)
                return
            self._disappoint(state, "the client is closed")
        connection.close()

    def _connect(self) -> socket.socket:
        address = self._address
        if address.path:
            stream = socket.socket(socket.AF_UNIX)
        else:
            stream = socket.create_connection((address.host, address.port), timeout=CONNECT_S)
        try:
            stream.settimeout(CONNECT_S)
            if address.path:
                stream.connect(address.path)
            else:
                stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._context is not None:
                stream = self._context.wrap_socket(stream, server_hostname=address.host)
            stream.settimeout(0)
        except BaseException:
            stream.close()
            raise
        return stream

    @staticmethod
    def _disappoint(state: _State, detail: str) -> None:
        """
        For all who wait for a connection it is the same: there is none.
        """
        waiting, state.waiting = state.waiting, []
        for waiter in waiting:
            if waiter.set_running_or_notify_cancel():
                waiter.set_exception(Away("service_unavailable", detail))

    @staticmethod
    def _hand_over(state: _State, connection: Connection) -> None:
        while state.waiting:
            waiter = state.waiting.pop(0)
            # False if who waited for it has gone.
            if waiter.set_running_or_notify_cancel():
                waiter.set_result(connection)
                return
        state.idle.append(connection)

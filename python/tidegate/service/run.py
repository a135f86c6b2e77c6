"""
A service in the foreground: signals in, an exit code out.

| signal | does |
| --- | --- |
| SIGTERM | readiness off, serves on for `shutdown.grace`, drains, ends |
| SIGINT (Ctrl-C) | drains without serving on, ends |
| a second one of these | ends at once |
| SIGHUP | loads rules and certificates again |
"""

from __future__ import annotations

import contextlib
import signal
import socket
import threading
import time
from typing import TYPE_CHECKING, Final, Protocol, Self

from tidegate.service.log import LOG
from tidegate.service.notify import notify

if TYPE_CHECKING:
    from types import TracebackType

    from tidegate.service.settings import Settings

EXIT_DONE = 0
EXIT_CUT = 1
# Windows knows no SIGHUP.
SIGHUP: Final = getattr(signal, "SIGHUP", None)
SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, *((SIGHUP,) if SIGHUP is not None else ()))

# Beside the numbers of signals: how a drain ended.
_DRAINED: Final = 0
_CUT: Final = 255


class Signals:
    """
    Collects signals from the moment on in which it is entered, on the main thread.

    The kernel gives a signal to any thread, and most threads of a service are not Python's. The interpreter writes the number into a socket
    whoever gets it, so waiting for the socket never misses one.
    """

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)  # noqa: FBT003  # the interpreter asks for it
        self._before: dict[signal.Signals, object] = {}
        self._fd = -1

    def next(self) -> int:
        """
        Waits for the next event.

        Returns:
            The number of a signal, or what was told.
        """
        return self._reader.recv(1)[0]

    def tell(self, event: int) -> None:
        """
        Tells an event that is no signal, from any thread.

        Args:
            event: A byte.
        """
        self._writer.send(bytes([event]))

    def __enter__(self) -> Self:
        self._fd = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        self._before = {number: signal.signal(number, _nothing) for number in SIGNALS}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # what it was before
        signal.set_wakeup_fd(self._fd)
        self._reader.close()
        self._writer.close()


class Runs(Protocol):
    """
    What can run in the foreground: a service, a proxy, a control plane on its own.
    """

    settings: Settings

    def reload(self) -> object:
        """
        Loads again what is in files.
        """

    def drain(self, grace: float | None = None) -> int:
        """
        Serves on for a while, waits for requests that run, and answers how many were cut.
        """

    def stop(self) -> None:
        """
        Ends at once.
        """


def run_until_told(service: Runs, signals: Signals) -> int:
    """
    Waits for signals until the service has ended.

    Args:
        service: A service that was started.
        signals: What was collected since before it was started.

    Returns:
        0 if every request got its answer, 1 if some were cut.
    """
    notify("READY=1")
    is_draining = False
    while (event := signals.next()) not in {_DRAINED, _CUT}:
        if event == SIGHUP:
            notify(f"RELOADING=1\nMONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}")
            try:
                service.reload()
            except Exception:  # noqa: BLE001  # whatever it is, what is in force stays and the service goes on
                LOG.exception("what is in files could not be loaded again; what is in force stays")
            notify("READY=1")
        elif event in SIGNALS and is_draining:
            LOG.warning("stopping at once, because of a second %s", signal.Signals(event).name)
            event = _CUT
            break
        elif event in SIGNALS:
            is_draining = True
            _begin_drain(service, signals, signal.Signals(event))
    service.stop()
    if event == _CUT:
        LOG.warning("stopped; requests that still ran were cut")
        return EXIT_CUT
    LOG.info("stopped")
    return EXIT_DONE


def _begin_drain(service: Runs, signals: Signals, number: signal.Signals) -> None:
    # Who presses Ctrl-C has no load balancer that must notice first.
    grace = 0.0 if number == signal.SIGINT else float(service.settings["shutdown.grace"])
    notify("STOPPING=1")
    LOG.info("%s: readiness is off; serving on for %g s, then waiting for running requests", number.name, grace)

    def drain() -> None:
        cut = service.drain(grace)
        # After a second signal nobody listens any more.
        with contextlib.suppress(OSError):
            signals.tell(_CUT if cut else _DRAINED)

    threading.Thread(target=drain, name="tidegate-drain", daemon=True).start()


def _nothing(_number: int, _frame: object) -> None:
    """
    Signals need a handler to be written into the socket.
    """

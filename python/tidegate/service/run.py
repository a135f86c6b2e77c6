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

import queue
import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from tidegate.service.log import LOG
from tidegate.service.notify import notify

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from tidegate.service.service import Service

EXIT_DONE = 0
EXIT_CUT = 1
SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

_DRAINED: Final = "drained"
_CUT: Final = "cut"


def run_until_told(service: Service) -> int:
    """
    Waits for signals, on the main thread, until the service has ended.

    Args:
        service: A service that was started.

    Returns:
        0 if every request got its answer, 1 if some were cut.
    """
    # Signal handlers may only do what can happen in the middle of anything: `SimpleQueue.put` is made for that.
    told: queue.SimpleQueue[signal.Signals | str] = queue.SimpleQueue()
    is_draining = False
    with _signals(told):
        notify("READY=1")
        while True:
            event = told.get()
            if event in {_DRAINED, _CUT}:
                break
            if event is signal.SIGHUP:
                notify("RELOADING=1")
                service.reload()
                notify("READY=1")
            elif is_draining:
                LOG.warning("stopping at once, because of a second %s", _name(event))
                event = _CUT
                break
            else:
                is_draining = True
                _begin_drain(service, event, told)
        service.stop()
    if event == _CUT:
        LOG.warning("stopped; requests that still ran were cut")
        return EXIT_CUT
    LOG.info("stopped")
    return EXIT_DONE


def _begin_drain(service: Service, event: signal.Signals | str, told: queue.SimpleQueue[signal.Signals | str]) -> None:
    # Who presses Ctrl-C has no load balancer that must notice first.
    grace = 0.0 if event is signal.SIGINT else float(service.settings["shutdown.grace"])
    notify("STOPPING=1")
    LOG.info("%s: readiness is off; serving on for %g s, then waiting for running requests", _name(event), grace)
    threading.Thread(target=lambda: told.put(_CUT if service.drain(grace) else _DRAINED), name="tidegate-drain", daemon=True).start()


@contextmanager
def _signals(told: queue.SimpleQueue[signal.Signals | str]) -> Iterator[None]:
    def tell(number: int, _: FrameType | None) -> None:
        told.put(signal.Signals(number))

    before = {number: signal.signal(number, tell) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _name(event: signal.Signals | str) -> str:
    return event.name if isinstance(event, signal.Signals) else event

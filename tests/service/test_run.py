"""
A service in the foreground: what signals make it do.
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from tidegate.service import load
from tidegate.service.run import EXIT_DONE, Signals, run_until_told

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


class Fragile:
    """
    A service that cannot load anything again.
    """

    def __init__(self, rules: Path) -> None:
        self.settings = load(environment={}, flags={"rules": str(rules), "shutdown.grace": "0s"})
        self.reloads = 0

    def reload(self) -> object:
        """
        Fails as nobody thought of.
        """
        self.reloads += 1
        raise IndexError("nobody thought of it")

    def drain(self, grace: float | None = None) -> int:
        """
        Cuts nobody.
        """
        assert grace == 0
        return 0

    def stop(self) -> None:
        """
        Ends at once.
        """


def test_a_reload_that_fails_never_ends_the_process(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever is wrong with files, who asked for a reload keeps a service that serves, and the log says why."""
    rules = tmp_path / "rules.yaml"
    rules.write_text("version: 1\nrules: []\n", encoding="utf-8")
    service = Fragile(rules)
    with Signals() as signals:
        for number in (signal.SIGHUP, signal.SIGHUP, signal.SIGTERM):
            signals.tell(number)
        code = run_until_told(service, signals)

    assert (EXIT_DONE, 2) == (code, service.reloads)
    assert 2 == caplog.text.count("could not be loaded again; what is in force stays")

"""
How a control plane on its own is set up: by the file and the variables of the service, of which it needs a part.

    load("tidegate.yaml", checking=ControlChecking)
"""

from __future__ import annotations

from tidegate.service.settings import Checking


class ControlChecking(Checking):
    """
    What can be said of a control plane on its own only when all settings are known. Its arguments are those of `Checking`.
    """

    needs_rules = False

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]  # those of `Checking`
        # Those of the data plane are not listened on.
        self.ports = ()

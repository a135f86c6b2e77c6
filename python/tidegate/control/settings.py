"""
How a control plane on its own is set up: by the file and the variables of the service, of which it needs a part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.service.settings import Checking, Settings
from tidegate.service.settings import load as load_settings

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping


def load(
    config: str | os.PathLike[str] | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    flags: Mapping[str, str | bool | None] | None = None,
) -> Settings:
    """
    Reads settings: flags win over variables, variables over the file, the file over defaults.

    Args:
        config: The file; `None` for none.
        environment: The variables; by default those of the process.
        flags: Texts by the keys of settings.

    Returns:
        The settings.

    Raises:
        SettingsError: Something is wrong; it lists all problems.
    """
    return load_settings(config, environment=environment, flags=flags, checking=ControlChecking)


class ControlChecking(Checking):
    """
    What can be said of a control plane on its own only when all settings are known. Its arguments are those of `Checking`.
    """

    needs_rules = False

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]  # those of `Checking`
        # Those of the data plane are not listened on.
        self.ports = ()

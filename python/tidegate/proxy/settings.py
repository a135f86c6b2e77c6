"""
How the proxy is set up: read and checked.
"""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.proxy.table import TABLE
from tidegate.proxy.upstreams import DEFAULT_GROUP
from tidegate.service.settings import Checking, Settings
from tidegate.service.settings import load as load_settings

if TYPE_CHECKING:
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
    read = partial(load_settings, config, environment=environment, flags=flags, table=TABLE, checking=ProxyChecking)
    return replace(read(), config=None if config is None else Path(os.path.abspath(config)), again=read)  # noqa: PTH100  # keeps links, which are swapped


class ProxyChecking(Checking):
    """
    What can be said of a proxy only when all settings are known. Its arguments are those of `Checking`.
    """

    def check(self) -> None:
        """
        Looks for problems, and notes them.
        """
        super().check()
        if self.values["proxy.listen"] is None:
            self.add("proxy.listen", "nothing-listens", "a proxy that is off forwards nothing", "name a host and a port")
        self._check_routes()
        self._check_groups()

    def warnings(self) -> list[str]:
        """
        See `Checking`.

        Returns:
            Sentences for people.
        """
        upstreams, routes = self.values["upstreams"] or (), self.values["routes"]
        used = {route.upstream for route in routes} if routes is not None else {group.name for group in upstreams}
        idle = [group.name for group in upstreams if group.name not in used]
        return super().warnings() + [f"no route leads to the group `{name}`: its servers get no requests" for name in idle]

    def _check_groups(self) -> None:
        for group in self.values["upstreams"] or ():
            cert, key = (group.options.get(name, self.values[f"upstream.{name}"]) for name in ("tls_cert", "tls_key"))
            if (cert is None) != (key is None) and not self.is_said("upstream.tls_cert", "upstream.tls_key"):
                given, missing = ("tls_cert", "tls_key") if key is None else ("tls_key", "tls_cert")
                where = "upstreams" if given in group.options else f"upstream.{given}"
                self.add(where, "missing-key", f"the group `{group.name}` has {given} and needs {missing} too", "give both, or none")
            shortest, longest = (group.options.get(name, self.values[f"upstream.{name}"]) for name in ("eject_time", "eject_time_max"))
            if shortest > longest:
                where = "upstreams" if {"eject_time", "eject_time_max"} & set(group.options) else "upstream.eject_time"
                self.add(where, "out-of-range", f"the group `{group.name}` has an eject_time above its eject_time_max", "swap them")

    def _check_routes(self) -> None:
        upstreams, routes = self.values["upstreams"], self.values["routes"]
        if upstreams is None:
            is_told = self.is_said("upstreams") or self._is_wrong("upstreams") or self._is_misspelt()
            if self.is_whole and not is_told:
                hint = "name a server: --upstream http://10.0.0.1:8000, TIDEGATE_UPSTREAMS, or `upstreams:` in the file of settings"
                self.add("upstreams", "missing-key", "there is nowhere to forward to", hint)
            return
        names = [group.name for group in upstreams]
        if routes is None:
            if len(names) > 1 and not self._is_wrong("routes"):
                self.add("upstreams", "missing-key", "with several groups, routes say which requests go where", "add `routes:` to the file")
            return
        for route in routes:
            if route.upstream not in names:
                self.add("routes", "unknown-upstream", f"there is no group `{route.upstream:.80}`", self._known(names))

    def _known(self, names: list[str]) -> str:
        setting, origin = self.table["upstreams"], self.origins.get("upstreams")
        if origin in {setting.flag, setting.variable}:
            return (
                f"{origin} took the place of the groups in the file, with one called `{DEFAULT_GROUP}`: leave it out, or lead routes there"
            )
        return f"the groups are {', '.join(names)}"

    def _is_misspelt(self) -> bool:
        # Servers under `upstream`: that these are meant is said there.
        return any(problem.message.startswith("upstream: ") for problem in self.problems)

    def _is_wrong(self, key: str) -> bool:
        # Problems in a file say where in it they are.
        return any(problem.message.startswith((f"{key}: ", f"{key}.", f"{key}[")) for problem in self.problems)

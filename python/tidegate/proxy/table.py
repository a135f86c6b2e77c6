"""
Every setting of the proxy, once: those of the service, and its own.

What holds for all upstreams (`upstream.idle_timeout`) can be said for each group again, under the same name (`upstreams.app.idle_timeout`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tidegate.proxy.checks import CheckPath, Statuses
from tidegate.proxy.routes import Routes
from tidegate.proxy.upstreams import Upstreams
from tidegate.service.kinds import Choice, FieldName, FieldNameOrOff, File, Flag, Output, Seconds, Share, Whole
from tidegate.service.places import Listen, Networks, Place
from tidegate.service.table import GROUPS as SERVICE_GROUPS
from tidegate.service.table import Setting, tls

DAY: Final = 86_400

TAKEN: Final = (
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "keep-alive",
    "proxy-.+",
    "te",
    "trailer",
    "upgrade",
    "expect",
    "via",
    "forwarded",
    "x-forwarded-.+",
)
"""Fields that say where a message ends, are meant for one connection, or that the proxy writes itself."""

OWN_GROUPS: Final[dict[str, tuple[Setting, ...]]] = {
    "Proxy": (
        Setting(
            "proxy.listen",
            Listen(is_optional=False),
            Place("127.0.0.1", 8000),
            "Where clients come in: host and port, or `unix:/path`. Port 0 is any.",
        ),
        *tls("proxy"),
        Setting(
            "proxy.trusted_proxies",
            Networks(),
            (),
            "Whose `Forwarded` and `X-Forwarded-*` are passed on; those of others are replaced. Who a client is, the rules' identity says.",
        ),
        Setting(
            "proxy.proxy_protocol",
            Networks(),
            (),
            "Load balancers that begin each connection with the PROXY protocol, version 1 or 2. They have to; from others it is garbage.",
        ),
        Setting(
            "proxy.request_id",
            FieldNameOrOff(TAKEN),
            "x-request-id",
            "The header with the id of a request, for servers, clients and the access log; what trusted proxies say is kept. Or `off`.",
        ),
        Setting(
            "proxy.cost_header",
            FieldName(TAKEN),
            None,
            "The header in which upstreams say what a request really cost. What it took is corrected to that, and the header ends here.",
        ),
    ),
    "Access log": (
        Setting("access_log.to", Output(), None, "Where a line for each request goes: a file, `stdout`, or `off`. It may be moved away."),
        Setting("access_log.format", Choice(("json", "common")), "json", "One JSON object each, or the Common Log Format and more."),
        Setting("access_log.query", Flag(), False, "Whether lines have the query behind the path, which may hold secrets."),
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
            "upstream.tls_ca",
            File(),
            None,
            "Who signs the certificates of `https://` servers, or these certificates themselves, in PEM; else whom the system trusts.",
        ),
        Setting("upstream.tls_cert", File(), None, "The chain of certificates that `https://` servers are shown, in PEM."),
        Setting("upstream.tls_key", File(), None, "Its private key in PEM, not encrypted."),
        Setting(
            "upstream.connect_timeout",
            Seconds(0, 3600),
            2.0,
            "How long a connection may take. 0 is no limit, here and for the three below.",
        ),
        Setting(
            "upstream.first_byte_timeout", Seconds(0, DAY), 60.0, "How long the head of a response may take once the request was sent."
        ),
        Setting("upstream.idle_timeout", Seconds(0, DAY), 60.0, "How long nothing may come of a request's body, and of a response's."),
        Setting(
            "upstream.total_timeout", Seconds(0, DAY), 0.0, "How long a request may take, from the decision to the end of its response."
        ),
        Setting(
            "upstream.keep_alive",
            Seconds(0, 3600),
            4.0,
            "How long an unused connection is kept; shorter than servers keep it, or requests are lost. 0: none is used again.",
        ),
        Setting("upstream.idle_connections", Whole(0, 10_000), 64, "HTTP/1: how many unused connections to a server each worker keeps."),
        Setting(
            "upstream.retries",
            Whole(0, 100),
            2,
            "How many other servers are tried when one cannot be reached, or breaks off and the request may be repeated.",
        ),
    ),
    "Balance and health": (
        Setting(
            "upstream.balance",
            Choice(("round_robin", "least_requests")),
            "round_robin",
            "Which server is next: in turn, or who has the fewest requests under way; both by weights.",
        ),
        Setting(
            "upstream.resolve_interval", Seconds(0, DAY), 10.0, "How often names of servers are looked up; all their addresses are used."
        ),
        Setting(
            "upstream.check_path", CheckPath(), None, "The path that servers are asked for to know whether they are well. None: no checks."
        ),
        Setting("upstream.check_interval", Seconds(0.05, 3600), 5.0, "How often, each time up to a fifth later."),
        Setting("upstream.check_timeout", Seconds(0.01, 3600), 2.0, "How long that may take, with the connection."),
        Setting(
            "upstream.check_status", Statuses(), ((200, 399),), "The statuses of a server that is well, such as `200` or `200-299,404`."
        ),
        Setting("upstream.check_unhealthy", Whole(1, 100), 3, "How many checks in a row must fail until a server gets no requests."),
        Setting("upstream.check_healthy", Whole(1, 100), 2, "How many must pass until it does again."),
        Setting(
            "upstream.eject_after",
            Whole(0, 1000),
            5,
            "How many requests in a row must fail until a server gets none for a while. 0: never.",
        ),
        Setting(
            "upstream.eject_on",
            Choice(("connect", "5xx")),
            "connect",
            "What is a failure: no connection, no answer or none in time; with `5xx` also an answer with such a status.",
        ),
        Setting("upstream.eject_time", Seconds(0.01, DAY), 5.0, "How long that lasts at first. Each time it is twice as long ..."),
        Setting("upstream.eject_time_max", Seconds(0.01, DAY), 300.0, "... up to this. So long after the last time it begins anew."),
        Setting("upstream.panic_below", Share(), 0.2, "If a smaller share of the servers is well, all are used. If none is, always."),
        Setting(
            "upstream.slow_start",
            Seconds(0, 3600),
            10.0,
            "How long it takes until a server that comes back or is new gets its whole share.",
        ),
    ),
}
"""The settings that only the proxy has, by their headings."""

_START: Final = "upstream."

GROUP_OPTIONS: Final[dict[str, Setting]] = {
    setting.key.removeprefix(_START): setting for group in OWN_GROUPS.values() for setting in group if setting.key.startswith(_START)
}
"""What holds for all upstreams and can be said for each group again, by the names that it has there."""

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

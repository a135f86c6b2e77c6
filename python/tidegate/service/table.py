"""
Every setting of the service, once: its key, its kind, its default, what it means.

Files, flags, variables, the help, the reference and the JSON Schema are made from this table; nothing is said twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tidegate.service.kinds import Address, Choice, File, Flag, Seconds, Share, Size, Text, Whole
from tidegate.service.places import Attributes, Listen, Names, Networks, Place

if TYPE_CHECKING:
    from tidegate.service.kinds import Kind

PREFIX = "TIDEGATE_"
"""How the names of variables begin."""

GATEWAYS: Final = ("127.0.0.0/8", "::1/128", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7")
"""Loopback and private networks."""


@dataclass(frozen=True, slots=True)
class Setting:
    """
    One setting.

    Args:
        key: Its place in a file, such as `http.tls.cert`.
        kind: What it can be.
        default: Its value if nobody gives one; `None` is nothing.
        about: What it means, in a sentence or two.
        is_secret: Whether it must never be shown.
        option: The option of the command, if it is not made from the key.
    """

    key: str
    kind: Kind
    default: Any
    about: str
    is_secret: bool = False
    option: str | None = None

    @property
    def flag(self) -> str:
        """The option of the command, such as `--http-tls-cert`."""
        return self.option or "--" + self.key.replace(".", "-").replace("_", "-")

    @property
    def parameter(self) -> str:
        """The same as a name in Python: `http_tls_cert`."""
        return self.key.replace(".", "_")

    @property
    def variable(self) -> str:
        """The environment variable, such as `TIDEGATE_HTTP_TLS_CERT`."""
        return PREFIX + self.parameter.upper()

    @property
    def default_text(self) -> str:
        """The default, as it would be written; empty for nothing."""
        return "" if self.default is None else self.kind.show(self.default)


def tls(port: str) -> tuple[Setting, ...]:
    """
    The settings of TLS on a port.

    Args:
        port: The name of the port.

    Returns:
        The settings.
    """
    return (
        Setting(f"{port}.tls.cert", File(), None, "The chain of certificates in PEM. Read again when it changes."),
        Setting(f"{port}.tls.key", File(), None, "Its private key in PEM, not encrypted."),
        Setting(f"{port}.tls.client_ca", File(), None, "Who signs the certificates of clients, in PEM. Clients without one are refused."),
    )


GROUPS: Final[dict[str, tuple[Setting, ...]]] = {
    "Rules": (
        Setting("rules", File(), None, "A file or a directory of rules. The only setting without which nothing starts."),
        Setting("merge_domains", Flag(), False, "Join files of the reference service that have one domain, instead of refusing them."),
        Setting("watch", Flag(), True, "Whether changed rules come into force by themselves. SIGHUP works in any case."),
    ),
    "Store": (
        Setting("store", Text(), "memory://", "Where counters live: `memory://`, or a Redis or Valkey such as `redis://localhost:6379`."),
        Setting("on_store_error", Choice(("local", "allow", "deny")), "local", "What is decided when the store cannot. A rule can differ."),
        Setting("budget", Seconds(0.0001, 60), 0.005, "How long a decision on a shared store may take, with all waiting."),
        Setting(
            "secret",
            Text(),
            None,
            "What keys are digested with before they reach a shared store; the same on all instances. Others see flags: use a file.",
            is_secret=True,
        ),
        Setting("secret_file", File(), None, "A file with the secret."),
        Setting("instances", Whole(1), 1, "How many instances share the store at least, for those that start while it is away."),
        Setting("deny_cache", Whole(0, 2**24), 65_536, "How many denials of a shared store are remembered; 0 is none."),
        Setting("max_keys", Whole(1, 2**53), 10_000_000, "The most states that this process holds."),
    ),
    "HTTP": (
        Setting(
            "http.listen", Listen(), Place("127.0.0.1", 8080), "Where it listens: host and port, `unix:/path`, or `off`. Port 0 is any."
        ),
        *tls("http"),
        Setting(
            "http.token",
            Text(),
            None,
            "What callers have to show in `Authorization: Bearer`. Others see flags: use a file or the variable.",
            is_secret=True,
        ),
        Setting("http.token_file", File(), None, "A file with the token."),
    ),
    "gRPC": (
        Setting(
            "grpc.listen", Listen(), Place("127.0.0.1", 8081), "Where it listens: host and port, `unix:/path`, or `off`. Port 0 is any."
        ),
        *tls("grpc"),
        Setting("grpc.reflection", Flag(), True, "Whether clients may ask which services there are."),
    ),
    "Control plane": (
        Setting(
            "admin.listen",
            Listen(),
            Place("127.0.0.1", 8090),
            "Where the control plane listens: host and port, `unix:/path`, or `off`. Port 0 is any. It needs `tidegate[admin]`.",
        ),
        *tls("admin"),
        Setting(
            "admin.database",
            Text(),
            "sqlite:///tidegate.db",
            "Where rules, quotas, tokens and the audit log are: a file of SQLite, relative to the working directory, or `postgresql://...`.",
        ),
        Setting(
            "admin.hosts", Names(), (), "Names by which browsers ask for the control plane, beside addresses, `localhost` and its own."
        ),
        Setting("admin.session", Seconds(60, 2_592_000), 43_200.0, "How long people stay signed in."),
        Setting(
            "admin.cache",
            Text(),
            "tidegate.cache",
            "Where the last good rules and plans are kept, for a start without the database: a file, relative to the working directory, or "
            "`off`.",
        ),
        Setting(
            "admin.keys",
            Choice(("masked", "digest", "plain")),
            "masked",
            "What is kept and shown of customers' API keys: their first characters, a digest, or all of it.",
        ),
        Setting("admin.approval", Flag(), False, "Whether a change of rules needs the approval of a second person."),
    ),
    "Events": (
        Setting(
            "events.buffer",
            Whole(0, 1_000_000),
            16_384,
            "How many decisions wait for the control plane at most; more are dropped and counted. 0 is none.",
        ),
        Setting("events.share", Share(), 1.0, "The largest share of allowed decisions that it is told of. Denied ones all are."),
        Setting(
            "events.per_second",
            Whole(0, 1_000_000),
            1000,
            "About how many of them a second at most: the share shrinks by halves, and each stands for more.",
        ),
        Setting(
            "events.recordings_per_second",
            Whole(0, 10_000),
            20,
            "About how many requests a second are recorded to be decided again; 0 is none.",
        ),
        Setting(
            "events.attributes",
            Attributes(),
            ("method", "path", "host", "scheme", "tier", "tenant"),
            "Facts that are recorded as they are, of all others only digests. A list in a file, commas elsewhere, or `none`.",
        ),
        Setting("events.instance", Text(), None, "The name of this instance among others; by default its host and process."),
        Setting("events.recent", Whole(0, 1_000_000), 20_000, "How many of the last events the database keeps."),
        Setting("events.keys", Whole(0, 100_000), 500, "Of how many keys a minute, those that ask most, the database keeps the use."),
        Setting("events.keep_recordings", Seconds(60, 2_592_000), 7200.0, "How long recordings are kept."),
        Setting(
            "events.keep_minutes", Seconds(3600, 31_536_000), 86_400.0, "How long the use of single minutes is kept; then that of hours."
        ),
        Setting("events.keep_hours", Seconds(86_400, 315_360_000), 7_776_000.0, "How long the use of hours is kept."),
        Setting("events.file", File(), None, "A file to which events are written, one JSON object in a line."),
        Setting(
            "events.file_bytes", Size(65_536, 1024 * 1024 * 1024), 64 * 1024 * 1024, "How large it becomes before another one is begun."
        ),
        Setting("events.file_count", Whole(1, 1000), 5, "How many such files are kept, this one among them."),
        Setting("events.kafka", Text(), None, "Servers of Kafka to which events go, such as `broker1:9092,broker2:9092`."),
        Setting("events.kafka_topic", Text(), "tidegate.events", "The topic."),
        Setting("events.kafka_config", File(), None, "A JSON file with more options of librdkafka, such as how to sign in."),
        Setting("events.clickhouse", Address(), None, "A ClickHouse to which events go, such as `http://127.0.0.1:8123`."),
        Setting("events.clickhouse_table", Text(), "tidegate_events", "Its table, `name` or `database.name`. It is made if it is missing."),
        Setting("events.clickhouse_user", Text(), None, "Who signs in there."),
        Setting("events.clickhouse_password_file", File(), None, "A file with the password."),
    ),
    "Threads": (
        Setting("workers", Whole(0, 1024), 0, "Threads that serve; 0 is one for each core that the process may use."),
        Setting(
            "busy_poll",
            Seconds(0, 0.001),
            0.0,
            "How long a busy thread looks for the next request before it sleeps, such as `100us`: lower latency for more processor time.",
        ),
        Setting("reuse_port", Flag(), False, "Whether several processes may listen on one port (SO_REUSEPORT)."),
    ),
    "Limits": (
        Setting("limits.connections", Whole(1, 1_000_000), 20_000, "The most connections; more wait to be accepted."),
        Setting("limits.head_bytes", Size(8192, 1024 * 1024), 16_384, "The most bytes of a request's head."),
        Setting("limits.body_bytes", Size(1024, 64 * 1024 * 1024), 1024 * 1024, "The most bytes of a request's body."),
        Setting("limits.streams", Whole(1, 100_000), 1000, "HTTP/2: the most requests at a time on one connection."),
        Setting("limits.batch", Whole(1, 100_000), 1000, "The most checks of one batch."),
        Setting(
            "limits.read_timeout", Seconds(0.1, 3600), 10.0, "How long a request's head, then its body, and the handshake of TLS may take."
        ),
        Setting("limits.idle_timeout", Seconds(1, 86_400), 300.0, "How long a connection may be idle."),
        Setting(
            "limits.connection_age",
            Seconds(0, 86_400),
            0.0,
            "When a connection is asked to come again, to reach new instances; 0 is never.",
        ),
    ),
    "Headers": (
        Setting("headers.standard", Flag(), True, "Whether `RateLimit` and `RateLimit-Policy` are sent."),
        Setting("headers.retry_after", Flag(), True, "Whether denials have `Retry-After`."),
        Setting(
            "headers.x_ratelimit",
            Choice(("off", "epoch", "delta", "draft03")),
            "off",
            "The form of `X-RateLimit-*`: `Reset` as a time (`epoch`) or a wait (`delta`), or as Envoy writes it (`draft03`).",
        ),
    ),
    "Answers": (
        Setting("rls.headers", Choice(("off", "notable", "all")), "notable", "gRPC: when header fields and a body are told to Envoy."),
        Setting("rls.metadata", Choice(("off", "notable", "all")), "notable", "gRPC: when the deciding rule is told as dynamic metadata."),
        Setting("rls.shadow_mode", Flag(), False, "Descriptors: whether nothing is ever over its limit."),
        Setting("rls.quota_mode", Flag(), False, "Descriptors: whether a request is over only if all its descriptors are."),
        Setting(
            "trusted_gateways", Networks(), GATEWAYS, "Whose `X-Forwarded-*` is believed. A list in a file, commas elsewhere, or `none`."
        ),
        Setting("deny_status", Whole(400, 599), 429, "The status of a denial by forward-auth, unless the caller says another."),
    ),
    "Telemetry": (
        Setting("top.size", Whole(0, 100_000), 1000, "How many keys are watched for the list of those denied most; 0 is none."),
        Setting("top.keys", Choice(("plain", "masked", "digest")), "masked", "How that list shows keys."),
        Setting("otlp.endpoint", Address(), None, "Where traces go by OTLP over HTTP, such as `http://127.0.0.1:4318`."),
        Setting("otlp.share", Share(), 0.01, "The share of requests that are traced; those that callers sampled are always."),
        Setting("log.level", Choice(("debug", "info", "warning", "error")), "info", "What is logged, on standard error."),
        Setting("log.format", Choice(("text", "json")), "text", "Lines for people, or one JSON object each."),
    ),
    "Shutdown": (
        Setting(
            "shutdown.grace", Seconds(0, 3600), 5.0, "After SIGTERM: how long to serve on while readiness is off, so that others notice."
        ),
        Setting("shutdown.limit", Seconds(0, 3600), 30.0, "How long running requests may take after that before they are cut."),
    ),
}
"""The settings by the headings under which people look for them."""

TABLE: Final[dict[str, Setting]] = {setting.key: setting for group in GROUPS.values() for setting in group}
"""The settings by their keys."""

"""
Every key of a rule file, once: its description, its shape, its place in the order of `fmt`.

Readers take unknown and missing keys from here, `schema` the JSON Schema, `fmt` the order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, get_args

from tidegate.quota import Algorithm
from tidegate.rules.names import closest, meant
from tidegate.rules.node import Mapping, Node, Scalar, kind_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tidegate.rules.document import Document

ALGORITHMS: Final[tuple[str, ...]] = get_args(Algorithm)
JWT_ALGORITHMS: Final = (
    *("HS256", "HS384", "HS512", "RS256", "RS384", "RS512"),
    *("PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA"),
)
MODES: Final = ("enforce", "shadow", "off")
STORE_ERROR_POLICIES: Final = ("local", "allow", "deny")
TESTS: Final = ("exact", "prefix", "suffix", "glob", "regex", "cidr", "pattern")


@dataclass(frozen=True, slots=True)
class Field:
    """
    One key.

    Args:
        name: The key.
        about: What it means, for editors.
        shape: The JSON Schema of its value.
        examples: Values that are right.
        is_required: Whether it must be given.
    """

    name: str
    about: str
    shape: dict[str, Any]
    examples: tuple[Any, ...] = ()
    is_required: bool = False


def table(*entries: Field) -> dict[str, Field]:
    """
    Fields by their names, in their order.

    Args:
        entries: The fields.

    Returns:
        The table.
    """
    return {entry.name: entry for entry in entries}


TEXT: Final[dict[str, Any]] = {"type": "string", "minLength": 1}
FLAG: Final[dict[str, Any]] = {"type": "boolean"}
WHOLE: Final[dict[str, Any]] = {"type": "integer", "minimum": 0}


def ref(name: str) -> dict[str, Any]:
    """
    A shape that is defined once.

    Args:
        name: Its name among the definitions of the schema.

    Returns:
        The reference.
    """
    return {"$ref": f"#/$defs/{name}"}


FILE: Final = table(
    Field("version", "The version of the language.", {"const": 1}, (1,), is_required=True),
    Field("domain", "The name of the rule set.", {"type": "string", "pattern": "^[A-Za-z0-9_.-]{1,128}$"}, ("api_platform",)),
    Field("include", "Files or directories with more rules, relative to this file.", ref("texts"), ("common.yaml", ["teams/"])),
    Field(
        "identity",
        "How `client` is found; the first source that is present wins.",
        {"type": "array", "minItems": 1, "items": ref("source")},
    ),
    Field("jwt", "How the claims of tokens are verified.", ref("jwt")),
    Field("rules", "The rules; all that match apply.", {"type": "array", "items": ref("rule")}),
)

SOURCE: Final = table(
    Field("header", "A header that names the client. It also sets an attribute: `x-api-key` sets `api_key`.", TEXT, ("x-api-key",)),
    Field("jwt_claim", "A verified claim that names the client. `sub` sets the attribute `user`, others their own name.", TEXT, ("sub",)),
    Field("attribute", "An attribute that the caller passes.", TEXT, ("user_id",)),
    Field("ip", "The client's address.", ref("ip"), ({}, {"trusted_proxies": ["10.0.0.0/8"], "ipv6_prefix": 64})),
    Field(
        "valid",
        "Keys of a header, or patterns with `*` and `?` that keys fit. What fits none names nobody, and the next source is asked.",
        ref("texts"),
        (["sk_live_????????????????", "partner"],),
    ),
    Field("as", "The name of the attribute that a header or a claim sets.", ref("attribute"), ("tenant",)),
)

IP: Final = table(
    Field("trusted_proxies", "Networks of proxies whose `X-Forwarded-For` is believed.", ref("texts"), (["10.0.0.0/8"],)),
    Field("ipv6_prefix", "How many bits of an IPv6 address make one client. Default: 64.", WHOLE | {"maximum": 128}, (64,)),
)

JWT: Final = table(
    Field("header", "The header that holds the token. Default: `authorization`.", TEXT, ("authorization",)),
    Field(
        "algorithms",
        "Accepted algorithms.",
        {"anyOf": [{"enum": [*JWT_ALGORITHMS]}, {"type": "array", "minItems": 1, "items": {"enum": [*JWT_ALGORITHMS]}}]},
        (["HS256"],),
    ),
    Field("secret_file", "A file with the shared secret, relative to this file.", TEXT, ("/run/secrets/jwt",)),
    Field("secret_env", "An environment variable with the shared secret.", TEXT, ("JWT_SECRET",)),
    Field("public_key_file", "A file with the public key in PEM, relative to this file.", TEXT, ("jwt.pem",)),
    Field("issuer", "The issuer to insist on.", TEXT, ("https://login.example.com",)),
    Field("audience", "Audiences of which the token must name one.", ref("texts"), ("api",)),
    Field("leeway", "How wrong clocks may be. Default: 0s.", {"type": ["string", "integer"]}, ("30s",)),
    Field("verified_by", "`upstream`: somebody in front has verified the signature, and it is not looked at here.", {"const": "upstream"}),
)

RULE: Final = table(
    Field("name", "Unique in the rule set.", {"type": "string", "pattern": "^[A-Za-z0-9_.-]{1,64}$"}, ("write_orders",), is_required=True),
    Field("description", "What the rule is for.", TEXT),
    Field("owner", "Who to ask about it.", TEXT),
    Field(
        "match",
        "Conditions on the request that must all hold; absent: every request.",
        ref("match"),
        ({"method": "POST", "path": "/api/v1/orders/**"},),
    ),
    Field(
        "per",
        "The attributes that make the key; `global` counts everybody together.",
        {"anyOf": [ref("attribute"), {"type": "array", "minItems": 1, "items": ref("attribute")}]},
        ("client", ["ip", "path"], "global"),
    ),
    Field(
        "quotas", "What is allowed; several are charged together or not at all.", ref("quotas"), ("100/minute", ["10/second", "200/minute"])
    ),
    Field("algorithm", "What quotas of this rule use that name none.", {"enum": [*ALGORITHMS]}, ("gcra",)),
    Field("tiers", "Plans by the attribute `tier`.", {"type": "object", "additionalProperties": ref("quotas")}, ({"pro": "1000/minute"},)),
    Field(
        "overrides",
        "Plans of single keys; they win over tiers.",
        ref("overrides"),
        ({"abc": "500/minute"}, [{"key": "abc", "tier": "pro"}]),
    ),
    Field(
        "cost",
        "What a request costs: a number, or the attribute that says it. Default: 1.",
        ref("cost"),
        (1, "size", {"attribute": "size", "default": 1, "max": 1000}),
    ),
    Field("mode", "`shadow` counts and tells, but lets everything pass. Default: enforce.", {"enum": [*MODES]}, ("shadow",)),
    Field(
        "rollout",
        "The share of keys for which the rule is enforced; for the rest it is shadow. Default: 100%.",
        ref("percent"),
        ("25%", 50),
    ),
    Field(
        "priority",
        "Higher ones are looked at first, then the order of the file. Default: 0.",
        {"type": "integer", "minimum": -1000, "maximum": 1000},
        (10,),
    ),
    Field("stop", "Whether no later rule is looked at once this one applies. Default: false.", FLAG, (True,)),
    Field("on_store_error", "What is decided when the store cannot answer in time.", {"enum": [*STORE_ERROR_POLICIES]}, ("deny",)),
    Field("budget_ms", "How long the store may take, in milliseconds.", {"type": "integer", "minimum": 1, "maximum": 10_000}, (5,)),
    Field("headers", "Whether clients are told about these quotas. Default: true.", FLAG, (False,)),
)

COST: Final = table(
    Field("attribute", "The attribute that says what a request costs.", ref("attribute"), ("size", "header:x-cost"), is_required=True),
    Field("default", "What it costs if the attribute is absent or no number. Default: 1.", WHOLE, (1,)),
    Field("max", "The most that it costs.", WHOLE | {"minimum": 1}, (1000,)),
)

OVERRIDE: Final = table(
    Field(
        "key",
        "The value of the `per` attribute, or a mapping with one for each.",
        {"anyOf": [TEXT, {"type": "object", "additionalProperties": TEXT}]},
        ("abc", {"client": "abc", "ip": "10.0.0.1"}),
        is_required=True,
    ),
    Field("quotas", "What this key is allowed.", ref("quotas"), ("500/minute",)),
    Field("tier", "The tier that this key has.", TEXT, ("pro",)),
)

CONDITION: Final = table(
    *(
        Field(name, about, ref("texts"), examples)
        for name, about, examples in (
            ("exact", "The same text.", ("POST",)),
            ("prefix", "Begins so.", ("/api/",)),
            ("suffix", "Ends so.", (".example.com",)),
            ("glob", "`*` is any characters, `?` is one.", ("*.example.com",)),
            ("regex", "A regular expression for the whole text.", ("v[0-9]+",)),
            ("cidr", "The address is in a network.", ("10.0.0.0/8",)),
            ("pattern", "A path: `*` is one segment, `**` the rest, `{name}` one that becomes an attribute.", ("/users/{id}/**",)),
        )
    ),
    Field("present", "Whether the attribute is there.", FLAG, (True,)),
    Field("not", "The opposite of any of these.", ref("condition"), ("GET", {"prefix": "/internal/"})),
    Field("ignore_case", "Whether `A` is `a`.", FLAG, (True,)),
)

QUOTA: Final = table(
    Field("limit", "Units per period, or in flight. 0 denies everything.", WHOLE, (100,)),
    Field("period", "The window: a text with its unit, or seconds.", ref("duration"), ("1m", 60)),
    Field("algorithm", "How it is enforced.", {"enum": [*ALGORITHMS]}, ("gcra",)),
    Field("burst", "`gcra`: the most units at once.", WHOLE, (20,)),
    Field("queue", "`leaky_bucket`: the longest delay.", ref("duration"), ("200ms",)),
    Field("nodelay", "`leaky_bucket`: units that start at once although the queue is not empty.", WHOLE, (5,)),
    Field("max_cost", "`leaky_bucket`: the largest cost of one request.", WHOLE, (10,)),
    Field("entries", "`sliding_window`: the most pairs of time and count that are kept.", WHOLE, (16,)),
    Field("buckets", "`sliding_window_counter`: the number of sub-windows.", WHOLE, (6,)),
    Field(
        "calendar", "`fixed_window`: one window per calendar unit.", {"enum": ["minute", "hour", "day", "week", "month", "year"]}, ("day",)
    ),
    Field("zone", "The time zone of `calendar`.", TEXT, ("Europe/Berlin",)),
    Field("ttl", "`concurrency`: how long a slot is held without being renewed.", ref("duration"), ("60s",)),
    Field("min_interval", "The smallest gap between two admitted requests of one key.", ref("duration"), ("100ms",)),
    Field("advance", "On a shared store: how long before they are spent units may be taken.", ref("duration"), ("100ms",)),
    Field("max_debt", "How far later debits may overdraw.", WHOLE, (100,)),
    Field("name", "A name for headers and metrics.", TEXT, ("per_minute",)),
    Field("unlimited", "No limit at all.", FLAG, (True,)),
)


def read_fields(document: Document, node: Node, known: dict[str, Field], what: str) -> dict[str, tuple[Scalar, Node]] | None:
    """
    The entries of a mapping whose keys are known.

    Args:
        document: Where problems are noted.
        node: What stands there.
        known: Its keys.
        what: What it is, for messages.

    Returns:
        The entries that are known, or `None` if it is no mapping.
    """
    if not isinstance(node, Mapping):
        document.add("wrong-type", node, f"{what} is a mapping, and this is {kind_of(node)}", f"write keys and values: {_some(known)}")
        return None
    entries = node.entries
    if entries.keys() <= known.keys():
        found = entries
    else:
        found = {}
        for name, entry in entries.items():
            if name in known:
                found[name] = entry
            else:
                document.add("unknown-key", entry[0], f"{what} has no `{name:.80}`", meant(name, known))
    for field in known.values():
        if field.is_required and lacks(node, field.name, known):
            document.add("missing-key", node, f"{what} needs `{field.name}`", f"add `{field.name}: {_example(field)}`")
    return found


def lacks(node: Mapping, name: str, known: Iterable[str]) -> bool:
    """
    Whether a key is missing, and not only misspelt: that has been said.

    Args:
        node: The mapping.
        name: The key.
        known: All keys that it may have.

    Returns:
        Whether there is neither the key nor one like it.
    """
    known = tuple(known)
    return name not in node.entries and not any(closest(other, known) == name for other in node.entries if other not in known)


def _some(known: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name, _ in zip(known, range(4), strict=False))


def _example(field: Field) -> str:
    return str(field.examples[0]) if field.examples else "..."

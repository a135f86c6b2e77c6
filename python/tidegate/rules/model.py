"""
Rules as Python sees them: checked, with every default filled in, and immutable.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from tidegate.quota import Quota

if TYPE_CHECKING:
    from collections.abc import Mapping

Mode: TypeAlias = Literal["enforce", "shadow", "off"]
StoreErrorPolicy: TypeAlias = Literal["local", "allow", "deny"]
Test: TypeAlias = Literal["present", "exact", "prefix", "suffix", "glob", "regex", "cidr", "pattern"]

ROLLOUT_ALL = 10_000
"""All keys, in hundredths of a percent."""


@dataclass(frozen=True, slots=True)
class QuotaText:
    """
    One quota of a rule.

    Args:
        text: Its canonical text.
        name: Its name in headers and metrics.
        parameters: What it says, as the compiled module tells it; durations in nanoseconds.
    """

    text: str
    name: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def quota(self) -> Quota:
        """
        The same as an object.
        """
        return replace(Quota.parse(self.text), name=self.name)


@dataclass(frozen=True, slots=True)
class Condition:
    """
    What a rule asks of one attribute.

    Args:
        attribute: Its name, `header:name` or `query:name`.
        test: How its value is looked at.
        texts: What it is compared with; one of them has to fit. None for `present`.
        is_negated: Whether it must not fit.
        ignore_case: Whether `A` is `a`.
    """

    attribute: str
    test: Test
    texts: tuple[str, ...] = ()
    is_negated: bool = False
    ignore_case: bool = False


@dataclass(frozen=True, slots=True)
class Override:
    """
    The plan of one key.

    Args:
        key: The values of the rule's `per` attributes, in their order.
        quotas: Its quotas; empty if `tier` is given.
        tier: The tier that it has whatever the request says.
    """

    key: tuple[str, ...]
    quotas: tuple[QuotaText, ...] = ()
    tier: str | None = None


@dataclass(frozen=True, slots=True)
class Cost:
    """
    What a request costs.

    Args:
        units: Always so much; `None` if an attribute says it.
        attribute: The attribute that says it.
        default: What it costs if the attribute is absent or no number.
        max: The most that it costs.
    """

    units: int | None = 1
    attribute: str | None = None
    default: int = 1
    max: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """
    A named, matched, partitioned set of quotas.

    Args:
        name: Unique in the set.
        per: Attributes that make the key; none counts everybody together.
        match: Conditions that must all hold.
        quotas: The plan of keys that have no other.
        algorithm: What quotas of this rule use that name none.
        tiers: Plans by the attribute `tier`.
        overrides: Plans of single keys.
        cost: What a request costs.
        mode: Whether it decides.
        rollout: The share of keys for which it does, in hundredths of a percent.
        rollout_from: Where that share begins, while another version of the rule takes over; no file can say it.
        priority: Higher ones are looked at first.
        stop: Whether no later rule is looked at once this one applies.
        on_store_error: What is decided when the store cannot; `None` is the engine's default.
        budget_ms: How long the store may take.
        headers: Whether clients are told about its quotas.
        description: For people.
        owner: For people.
        file: Where it is written.
        line: The line in which it begins.
    """

    name: str
    per: tuple[str, ...] = ()
    match: tuple[Condition, ...] = ()
    quotas: tuple[QuotaText, ...] = ()
    algorithm: str | None = None
    tiers: Mapping[str, tuple[QuotaText, ...]] = field(default_factory=dict)
    overrides: tuple[Override, ...] = ()
    cost: Cost = Cost()
    mode: Mode = "enforce"
    rollout: int = ROLLOUT_ALL
    rollout_from: int = 0
    priority: int = 0
    stop: bool = False
    on_store_error: StoreErrorPolicy | None = None
    budget_ms: int | None = None
    headers: bool = True
    description: str | None = None
    owner: str | None = None
    file: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True)
class Source:
    """
    One place where a client can be named.

    Args:
        kind: Which place.
        name: The name of the header, of the claim or of the attribute; empty for `ip`.
        attribute: The attribute that it sets.
        trusted_proxies: `ip`: networks whose `X-Forwarded-For` is believed.
        ipv6_prefix: `ip`: how many bits of an IPv6 address make one client.
        valid: `header`: keys, or patterns that they fit; none is that everything is one.
    """

    kind: Literal["header", "jwt_claim", "attribute", "ip"]
    name: str
    attribute: str
    trusted_proxies: tuple[str, ...] = ()
    ipv6_prefix: int = 64
    valid: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Jwt:
    """
    How claims are verified.

    Args:
        header: The header that holds the token.
        verified_by: `upstream`: somebody in front has looked at the signature.
        algorithms: Accepted algorithms.
        secret: The shared secret. It is in no message and in no representation.
        public_key: The public key, in PEM.
        issuer: The issuer to insist on.
        audience: Audiences of which one must be named.
        leeway_s: How wrong clocks may be, in seconds.
    """

    header: str = "authorization"
    verified_by: Literal["upstream"] | None = None
    algorithms: tuple[str, ...] = ()
    secret: bytes | None = field(default=None, repr=False)
    public_key: str | None = field(default=None, repr=False)
    issuer: str | None = None
    audience: tuple[str, ...] = ()
    leeway_s: int = 0

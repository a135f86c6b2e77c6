"""
From models to the RuleSet IR: the one document that crosses to the engine.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tidegate.rules.model import Condition, Cost, Jwt, Override, QuotaText, Rule, Source

IR_VERSION = 1


def compile_rules(
    domain: str, identity: Iterable[Source], jwt: Jwt | None, rules: Iterable[Rule], domains: Sequence[Any] = ()
) -> dict[str, Any]:
    """
    Writes the document that the engine loads.

    Args:
        domain: The name of the set.
        identity: Where clients are named.
        jwt: How claims are verified.
        rules: The rules, in the order of the files.
        domains: Trees in the reference service's format, compiled.

    Returns:
        The RuleSet IR. It holds the secret of `jwt`: it is for the engine, not for logs.
    """
    return {
        "version": IR_VERSION,
        "domain": domain,
        "identity": [_source(source) for source in identity],
        "jwt": None if jwt is None else _jwt(jwt),
        "rules": [compile_rule(rule) for rule in rules],
        "domains": list(domains),
    }


def compile_rule(rule: Rule) -> dict[str, Any]:
    """
    One rule of the document.

    Args:
        rule: The rule.

    Returns:
        Its part of the RuleSet IR.
    """
    return {
        "name": rule.name,
        "match": [_condition(condition) for condition in rule.match],
        "per": list(rule.per),
        "quotas": _quotas(rule.quotas),
        "tiers": {name: _quotas(quotas) for name, quotas in rule.tiers.items()},
        "overrides": [_override(override) for override in rule.overrides],
        # Its own quotas have it in their texts; those of members may not.
        **({} if rule.algorithm is None else {"algorithm": rule.algorithm}),
        "cost": _cost(rule.cost),
        "mode": rule.mode,
        "rollout": rule.rollout,
        "rollout_from": rule.rollout_from,
        "priority": rule.priority,
        "stop": rule.stop,
        "on_store_error": rule.on_store_error,
        "budget_ms": rule.budget_ms,
        "headers": rule.headers,
        "description": rule.description,
        "owner": rule.owner,
    }


def _quotas(quotas: Iterable[QuotaText]) -> list[dict[str, Any]]:
    return [{"text": quota.text, "name": quota.name} for quota in quotas]


def _condition(condition: Condition) -> dict[str, Any]:
    return {
        "attribute": condition.attribute,
        "test": "present" if condition.test == "present" else {condition.test: list(condition.texts)},
        "not": condition.is_negated,
        "ignore_case": condition.ignore_case,
    }


def _override(override: Override) -> dict[str, Any]:
    key = list(override.key)
    return {"key": key, "tier": override.tier} if override.tier is not None else {"key": key, "quotas": _quotas(override.quotas)}


def _cost(cost: Cost) -> dict[str, Any]:
    if cost.units is not None:
        return {"units": cost.units}
    return {"attribute": cost.attribute, "default": cost.default, "max": cost.max}


def _source(source: Source) -> dict[str, Any]:
    if source.kind == "ip":
        return {"ip": {"trusted_proxies": list(source.trusted_proxies), "ipv6_prefix": source.ipv6_prefix}}
    if source.kind == "attribute":
        return {"attribute": source.attribute}
    if source.kind == "jwt_claim":
        return {"claim": source.name, "attribute": source.attribute}
    return {"header": source.name, "attribute": source.attribute, "valid": list(source.valid)}


def _jwt(jwt: Jwt) -> dict[str, Any]:
    if jwt.verified_by is not None:
        return {"header": jwt.header, "verified_by": jwt.verified_by}
    return {
        "header": jwt.header,
        "algorithms": list(jwt.algorithms),
        "secret": None if jwt.secret is None else base64.b64encode(jwt.secret).decode("ascii"),
        "public_key": jwt.public_key,
        "issuer": jwt.issuer,
        "audience": list(jwt.audience),
        "leeway_s": jwt.leeway_s,
    }

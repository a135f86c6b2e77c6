"""
Parts of rules in words, for people who read what a rule does or what has changed in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.rules.model import ROLLOUT_ALL

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tidegate.rules.model import Condition, Cost, QuotaText, Source

_TESTS = {
    "exact": "",
    "pattern": "",
    "glob": "",
    "prefix": "begins with ",
    "suffix": "ends with ",
    "regex": "fits the expression ",
    "cidr": "is in ",
}


def asked(condition: Condition) -> str:
    """
    What a condition asks of its attribute.

    Args:
        condition: The condition.

    Returns:
        Such as `POST`, `not begins with /internal/` or `present`.
    """
    if condition.test == "present":
        return "absent" if condition.is_negated else "present"
    text = f"{_TESTS[condition.test]}{' or '.join(condition.texts)}"
    text = f"not {text}" if condition.is_negated else text
    # Methods and hosts have no case anyway.
    is_told = condition.ignore_case and condition.attribute not in {"method", "host"}
    return f"{text} in any case" if is_told else text


def match(conditions: Iterable[Condition]) -> str:
    """
    What a rule asks of requests.

    Args:
        conditions: All its conditions.

    Returns:
        Such as `method POST, path /login`.
    """
    return ", ".join(f"{condition.attribute} {asked(condition)}" for condition in conditions) or "every request"


def per(attributes: tuple[str, ...]) -> str:
    """
    Who is counted.

    Args:
        attributes: The attributes that make the key.

    Returns:
        Their names, or `global`.
    """
    return ", ".join(attributes) or "global"


def quotas(texts: Iterable[QuotaText]) -> str:
    """
    A plan.

    Args:
        texts: Its quotas.

    Returns:
        Them, as they are written.
    """
    return ", ".join(quota(text) for text in texts) or "no quotas"


def quota(text: QuotaText) -> str:
    """
    One quota.

    Args:
        text: The quota.

    Returns:
        Its text, with its name if it has one.
    """
    return text.text if text.name is None else f"{text.name} ({text.text})"


def cost(given: Cost) -> str:
    """
    What a request costs.

    Args:
        given: The cost.

    Returns:
        A number, or the attribute that says it.
    """
    if given.units is not None:
        return str(given.units)
    most = "" if given.max is None else f", at most {given.max}"
    return f"{given.attribute} or else {given.default}{most}"


def rollout(hundredths: int) -> str:
    """
    A share of keys.

    Args:
        hundredths: In hundredths of a percent.

    Returns:
        Such as `25%`.
    """
    return f"{hundredths * 100 / ROLLOUT_ALL:g}%"


def source(one: Source) -> str:
    """
    Where a client is named.

    Args:
        one: The source.

    Returns:
        Such as `header x-api-key`.
    """
    if one.kind == "ip":
        proxies = f" behind {' or '.join(one.trusted_proxies)}" if one.trusted_proxies else ""
        return f"ip{proxies}, IPv6 by /{one.ipv6_prefix}"
    kind = {"header": "header", "jwt_claim": "claim", "attribute": "attribute"}[one.kind]
    return f"{kind} {one.name}" if one.attribute == one.name else f"{kind} {one.name} as {one.attribute}"

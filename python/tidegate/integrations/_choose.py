"""
By what an integration decides: quotas in the code, rules in files, a limiter that exists, or a service.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from tidegate.errors import ConfigError
from tidegate.integrations._inline import Inline
from tidegate.integrations._shared import shared_limiter
from tidegate.rule_limiter import RuleLimiter
from tidegate.rules import RuleSet

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidegate import StoreOptions
    from tidegate.integrations._decider import Decider
    from tidegate.quota import Quotas

__all__ = ["Chosen", "Inline", "Source", "choose"]


@dataclass(frozen=True, slots=True)
class Source:
    """
    What was given; exactly one of them says by what to decide.

    Args:
        quotas: Quotas for each client.
        rules: A rule file, a directory of them, or a rule set.
        limiter: A limiter that exists.
        service: The address of a Tidegate service.
    """

    quotas: Quotas | None
    rules: str | os.PathLike[str] | RuleSet | None
    limiter: Decider | None
    service: str | None


@dataclass(frozen=True, slots=True)
class Chosen:
    """
    Who decides.

    Args:
        limiter: The limiter.
        is_owned: Whether nobody else has it.
        mark: The same for limiters that decide the same.
    """

    limiter: Decider
    is_owned: bool
    mark: str


def choose(source: Source, inline: Inline, *, watch: bool, options: StoreOptions) -> Chosen:
    """
    Makes the limiter.

    Args:
        source: By what to decide.
        inline: What quotas need to become a rule.
        watch: Whether changes of rule files come into force by themselves.
        options: The store.

    Returns:
        The limiter.

    Raises:
        ConfigError: The arguments do not go together, or one of them is wrong.
    """
    given = [name for name in ("quotas", "rules", "limiter", "service") if getattr(source, name) is not None]
    if len(given) != 1:
        raise ConfigError(
            'say by what to decide, once: quotas such as "100/minute", rules="rules.yaml", limiter=... or service="http://..."'
            f"; given {'are ' + ' and '.join(given) if given else 'is none of them'}"
        )
    if source.rules is None:
        _refuse("rules", watch=watch)
    if source.quotas is not None:
        return _by_quotas(inline.rule_set(source.quotas), options, is_scoped=inline.is_scoped)
    _refuse("quotas", trusted_proxies=inline.trusted_proxies, scoped=inline.is_scoped)
    if source.rules is not None:
        chosen = Chosen(RuleLimiter(source.rules, watch=watch, **options), True, _mark(source.rules, options))  # noqa: FBT003  # `is_owned`
    else:
        _refuse("quotas or rules", **options)
        chosen = _by_another(source)
    if inline.is_named and isinstance(chosen.limiter, RuleLimiter) and chosen.limiter.rule_set.identity:
        raise ConfigError("the rules say who the client is, by `identity`: leave out key, or remove `identity` from the rules")
    return chosen


def _by_quotas(rule_set: RuleSet, options: StoreOptions, *, is_scoped: bool) -> Chosen:
    limiter = shared_limiter(rule_set, **options) if is_scoped else RuleLimiter(rule_set, **options)
    return Chosen(limiter, not is_scoped, _mark(rule_set, options))


def _by_another(source: Source) -> Chosen:
    limiter = source.limiter
    if limiter is None:
        import tidegate  # noqa: PLC0415  # it offers the client only to those who ask for it

        made = cast("Callable[[str | None], Decider]", tidegate.Client)(source.service)
        return Chosen(made, True, f"service {source.service}")  # noqa: FBT003  # `is_owned`
    # A limiter by keys cannot read requests.
    if not hasattr(limiter, "check_async") or hasattr(limiter, "quotas"):
        raise ConfigError("the limiter decides by rules: Limiter.from_rules(...) or tidegate.Client(...); for quotas, write them instead")
    return Chosen(limiter, False, f"limiter {id(limiter)}")  # noqa: FBT003  # `is_owned`


def _mark(rules: str | os.PathLike[str] | RuleSet, options: StoreOptions) -> str:
    said = rules.to_json() if isinstance(rules, RuleSet) else os.fspath(rules)
    # A digest: rules and addresses may hold secrets.
    return hashlib.blake2b(repr((said, options.get("store"))).encode(), digest_size=16).hexdigest()


def _refuse(needed: str, **given: object) -> None:
    for name, value in given.items():
        if value:
            raise ConfigError(f"{name} goes with {needed} only")

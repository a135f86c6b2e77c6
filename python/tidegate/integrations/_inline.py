"""
Quotas that stand in the code, as a rule set of one rule: whoever decides then knows only rules.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING

from tidegate.errors import ConfigError
from tidegate.integrations._address import IPV6_PREFIX, NOWHERE
from tidegate.quota import parameters, quotas_of
from tidegate.rules import Rule, RuleSet
from tidegate.rules.compile import compile_rules
from tidegate.rules.model import QuotaText, Source
from tidegate.rules.names import RULE_NAME

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tidegate.quota import Quota, Quotas

_NAME_MAX = 64

UNIX = "unix"
"""Among trusted proxies: whoever has no address, because it comes through a socket in the file system."""


@dataclass(frozen=True, slots=True)
class Inline:
    """
    What quotas in the code need to become a rule.

    Args:
        name: The name of the rule. Limits of the same name and quota share their counters on a shared store.
        is_named: Whether the application says who the client is, in the attribute `client`. Else, and where it does not, the address does.
        is_scoped: Whether the attribute `scope` is counted separately.
        trusted_proxies: Networks whose `X-Forwarded-For` is believed.
    """

    name: str | None = None
    _: KW_ONLY
    is_named: bool = False
    is_scoped: bool = False
    trusted_proxies: Iterable[str] = ()

    def rule_set(self, quotas: Quotas) -> RuleSet:
        """
        One rule, for each client.

        Args:
            quotas: As for `Limiter`.

        Returns:
            The rule set.

        Raises:
            QuotaError: The quotas are wrong.
            ConfigError: The name or a network is.
        """
        found = quotas_of(quotas)
        name = self.name or ("-".join(map(_spelled, found))[:_NAME_MAX] if self.is_scoped else "limit")
        if not RULE_NAME.fullmatch(name):
            raise ConfigError(f"{name!r:.80} cannot be a name: write up to {_NAME_MAX} letters, digits, `_`, `-` and `.`")
        proxies = [self.trusted_proxies] if isinstance(self.trusted_proxies, str) else self.trusted_proxies
        # With two sources a client is written `client:...` or `ip:...`, and nobody can pose as an address by the name that it gives itself.
        named = (Source("attribute", "client", "client"),) if self.is_named else ()
        identity = (*named, Source("ip", "", "ip", tuple(map(_network, proxies)), IPV6_PREFIX))
        texts = tuple(QuotaText(str(quota), quota.name, parameters(quota)) for quota in found)
        rule = Rule(name=name, per=("client", "scope") if self.is_scoped else ("client",), quotas=texts)
        return RuleSet(compile_rules("default", identity, None, (rule,)), (rule,), (), (), "default", identity)


def _spelled(quota: Quota) -> str:
    # Several limits of one route have to differ in the headers.
    return re.sub(r"[^A-Za-z0-9_.]+", "-", str(quota).replace("/", "-per-"))


def _network(text: str) -> str:
    if text == UNIX:
        return NOWHERE
    try:
        return str(ipaddress.ip_network(text))
    except (ValueError, TypeError) as error:
        raise ConfigError(f'{text!r:.80} is no network: write trusted_proxies=["10.0.0.0/8"], or "unix" for a socket') from error

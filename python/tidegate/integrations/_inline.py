"""
Quotas that stand in the code, as a rule set of one rule: whoever decides then knows only rules.
"""

from __future__ import annotations

import ipaddress
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

    from tidegate.quota import Quotas

UNIX = "unix"
"""Among trusted proxies: whoever has no address, because it comes through a socket in the file system."""


def rule_set_of(quotas: Quotas, *, name: str, is_named: bool, is_scoped: bool, trusted_proxies: Iterable[str]) -> RuleSet:
    """
    One rule for each client.

    Args:
        quotas: As for `Limiter`.
        name: The name of the rule. Limits of the same name and quota share their counters on a shared store.
        is_named: Whether the application says who the client is, in the attribute `client`. Else, and where it does not, the address does.
        is_scoped: Whether the attribute `scope` is counted separately.
        trusted_proxies: Networks whose `X-Forwarded-For` is believed.

    Returns:
        The rule set.

    Raises:
        QuotaError: The quotas are wrong.
        ConfigError: The name or a network is.
    """
    if not RULE_NAME.fullmatch(name):
        raise ConfigError(f"{name!r:.80} cannot be a name: write up to 64 letters, digits, `_`, `-` and `.`")
    networks = tuple(_network(text) for text in ([trusted_proxies] if isinstance(trusted_proxies, str) else trusted_proxies))
    # With two sources a client is written `client:...` or `ip:...`, and nobody can pose as an address by the name that it gives itself.
    named = (Source("attribute", "client", "client"),) if is_named else ()
    identity = (*named, Source("ip", "", "ip", networks, IPV6_PREFIX))
    texts = tuple(QuotaText(str(quota), quota.name, parameters(quota)) for quota in quotas_of(quotas))
    rule = Rule(name=name, per=("client", "scope") if is_scoped else ("client",), quotas=texts)
    return RuleSet(compile_rules("default", identity, None, (rule,)), (rule,), (), (), "default", identity)


def _network(text: str) -> str:
    if text == UNIX:
        return NOWHERE
    try:
        return str(ipaddress.ip_network(text))
    except (ValueError, TypeError) as error:
        raise ConfigError(f'{text!r:.80} is no network: write trusted_proxies=["10.0.0.0/8"], or "unix" for a socket') from error

"""
Addresses and networks in rules.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidegate.rules.document import Document
    from tidegate.rules.node import Scalar

_MAPPED_BITS = 96


def read_network(document: Document, scalar: Scalar, text: str) -> str | None:
    """
    A network such as `10.0.0.0/8`; a single address is one too.

    Args:
        document: Where problems are noted.
        scalar: Where it stands.
        text: The network.

    Returns:
        Its canonical text, or `None`.
    """
    try:
        if "%" in text or "." in text.partition("/")[2]:
            raise ValueError(text)  # noqa: TRY301  # scopes and netmasks are valid in Python only
        return str(_unmapped(ipaddress.ip_network(text)))
    except ValueError:
        document.add("bad-network", scalar, f"`{text:.80}` is no network", _network_hint(text))
        return None


def _unmapped(network: ipaddress.IPv4Network | ipaddress.IPv6Network) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    # The engine sees IPv4 addresses as such, however a socket spells them.
    mapped = network.network_address.ipv4_mapped if isinstance(network, ipaddress.IPv6Network) else None
    if mapped is None or network.prefixlen < _MAPPED_BITS:
        return network
    return ipaddress.IPv4Network((mapped, network.prefixlen - _MAPPED_BITS))


def _network_hint(text: str) -> str:
    try:
        return f"the bits behind the prefix must be zero: write {ipaddress.ip_network(text, strict=False)}"
    except ValueError:
        return "write an address and the number of its bits that count, such as 10.0.0.0/8 or 2001:db8::/32"


def read_address(document: Document, scalar: Scalar, text: str, ipv6_prefix: int | None = None) -> str | None:
    """
    One address.

    Args:
        document: Where problems are noted.
        scalar: Where it stands.
        text: The address.
        ipv6_prefix: How many bits of an IPv6 address count; `None` for all.

    Returns:
        The form in which the engine compares it, or `None`.
    """
    try:
        if "%" in text:
            raise ValueError(text)  # noqa: TRY301  # as above
        address = ipaddress.ip_address(text)
    except ValueError:
        hint = f"write {{cidr: {text:.60}}} for a network" if "/" in text else "write an address such as 203.0.113.7 or 2001:db8::1"
        document.add("bad-address", scalar, f"`{text:.80}` is no address", hint)
        return None
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        if ipv6_prefix is not None:
            return str(ipaddress.ip_network((address, ipv6_prefix), strict=False).network_address)
    return str(address)

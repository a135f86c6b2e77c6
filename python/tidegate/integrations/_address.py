"""
The address of a peer, as rules can read it.
"""

from __future__ import annotations

import ipaddress
import re
from functools import lru_cache

NOWHERE = "0.0.0.0"  # noqa: S104  # nobody listens there: it stands for all who have no address
"""The address of all whose server does not tell one, such as those behind a socket in the file system: they are counted together."""

IPV6_PREFIX = 64
"""The smallest network that one customer gets: the rules' own default."""

_WITH_PORT = re.compile(r"\[(?P<v6>[^]]*)\](:\d+)?|(?P<v4>[\d.]+):\d+")


# Longer than every address with a zone and a port.
_HOST_MAX = 64


def peer_address(host: str | None) -> str:
    """
    What the attribute `ip` of a request is.

    Never nothing: a rule by address does not apply to a request without one, and such a request would be free. And some servers take the
    peer from a header, where anything can be written.

    Args:
        host: What the server says.

    Returns:
        An address.
    """
    return _parsed(host) if host and len(host) <= _HOST_MAX else NOWHERE


# Servers spell the same few thousand peers again for each request.
@lru_cache(maxsize=8192)
def _parsed(host: str) -> str:
    found = _WITH_PORT.fullmatch(host)
    bare = (found["v6"] or found["v4"] or "") if found else host
    try:
        # The rules do not know zones such as `%eth0`, which say by which way the peer is reached and not who it is.
        return str(ipaddress.ip_address(bare.partition("%")[0]))
    except ValueError:
        return NOWHERE


@lru_cache(maxsize=8192)
def client_of_address(address: str) -> str:
    """
    Who is counted when only the address is known and the rules do not say it.

    Args:
        address: What `peer_address` returned.

    Returns:
        The address; of IPv6 the network that one customer has.
    """
    found = ipaddress.ip_address(address)
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
        return str(ipaddress.ip_network((found, IPV6_PREFIX), strict=False).network_address)
    return address

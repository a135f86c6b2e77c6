"""
One server: `http://10.0.0.1:8000`, or `http://app:8000 weight 3`.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Final

from tidegate.service.kinds import Wrong

URL_HINT: Final = "write http:// or https:// and a host, such as http://10.0.0.1:8000 or http://app:8000 weight 3; paths belong into routes"
_URL = re.compile(r"(?P<scheme>https?)://(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9](?:[A-Za-z0-9._-]{0,252}))(?::(?P<port>[^/:]*))?/?")
_WEIGHT = re.compile(r"(?P<url>\S+)(?: +weight +(?P<weight>[1-9][0-9]{0,2}))?")
_PORT = re.compile(r"[1-9][0-9]{0,4}")
_PORT_MAX = 65_535
_NUMBERS = re.compile(r"[0-9.]+")


@dataclass(frozen=True, slots=True)
class Server:
    """
    A server, or several behind one name.

    Args:
        url: Its address.
        weight: How many requests it gets, beside others.
    """

    url: str
    weight: int = 1

    def __str__(self) -> str:
        return self.url if self.weight == 1 else f"{self.url} weight {self.weight}"


def read_server(text: str) -> Server:
    """
    Reads a server.

    Args:
        text: Its address, perhaps with a slash behind it, and perhaps a weight.

    Returns:
        The server; its address has no slash.

    Raises:
        Wrong: It is none, or none that anybody can reach.
    """
    refuse_password(text)
    found = _WEIGHT.fullmatch(text)
    url = None if found is None else _URL.fullmatch(found["url"])
    if found is None or url is None:
        raise Wrong("bad-upstream", f"`{text:.80}` is no address of a server", URL_HINT)
    port = url["port"]
    if port is not None and (not _PORT.fullmatch(port) or int(port) > _PORT_MAX):
        raise Wrong("bad-upstream", f"`{text:.80}` has no port", f"write a port from 1 to {_PORT_MAX}, or none for that of the scheme")
    if (hint := _wrong_host(url["host"])) is not None:
        raise Wrong("bad-upstream", f"`{url['host']:.80}` is no host", hint)
    return Server(found["url"].removesuffix("/"), int(found["weight"] or 1))


def refuse_password(text: str) -> None:
    """
    Refuses an address with a user and a password in it, without showing them.

    Args:
        text: One address, or several with commas: a password may have commas too, so this comes before they are divided.

    Raises:
        Wrong: There is an `@`, which is nowhere else in the address of a server.
    """
    before, at, behind = text.rpartition("@")
    if at:
        host = re.split(r"[\s,]", behind, maxsplit=1)[0]
        hint = f"write {'https' if 'https:' in before else 'http'}://{host:.80}; what servers ask for, clients send, in `Authorization`"
        raise Wrong("bad-upstream", "the address of a server has no user and no password", hint)


def _wrong_host(host: str) -> str | None:
    if host.startswith("["):
        return None if _is_address(ipaddress.IPv6Address, host[1:-1]) else "write an address of IPv6 in brackets, such as http://[::1]:8000"
    # To some resolvers fewer numbers, and numbers with a zero before them, are addresses too; which ones, they disagree on.
    if _NUMBERS.fullmatch(host) and not _is_address(ipaddress.IPv4Address, host):
        return "write four numbers from 0 to 255, such as http://10.0.0.1:8000"
    return "write a name with something between its dots, such as http://app.example.com:8000" if ".." in host else None


def _is_address(kind: type[ipaddress.IPv4Address | ipaddress.IPv6Address], text: str) -> bool:
    try:
        kind(text)
    except ValueError:
        return False
    return True

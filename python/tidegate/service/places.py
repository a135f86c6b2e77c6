"""
Kinds of settings that are places in a network: where a port listens, and networks.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Any

from tidegate.service.kinds import Kind, Wrong

_HOST = re.compile(r"\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252}))")
_PORT = re.compile(r"0|[1-9][0-9]{0,4}")
_PORT_MAX = 65_535
_SOCKET_PATH_MAX = 107
"""What the kernel has room for."""

_ATTRIBUTE = re.compile(r"(?:(?:header|query):)?[A-Za-z0-9_.-]{1,100}")


@dataclass(frozen=True, slots=True)
class Place:
    """
    Where a port listens: a host and a port, or a socket in the file system.

    Args:
        host: A name or an address, without brackets.
        port: The port; 0 is any free one.
        path: The socket.
    """

    host: str = ""
    port: int = 0
    path: str = ""

    @property
    def is_private(self) -> bool:
        """Whether nobody on another machine can reach it."""
        if self.path or self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def __str__(self) -> str:
        if self.path:
            return f"unix:{self.path}"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Listen(Kind):
    """
    Where a port listens: `127.0.0.1:8080`, `[::1]:8080`, `unix:/run/tidegate.sock`, or `off`.

    Args:
        is_optional: Whether `off` is offered. It is read in any case, so that who writes it is told what it would mean.
    """

    is_optional: bool = True

    metavar = "ADDRESS"
    words = ("off",)

    def read(self, text: str) -> Place | None:
        """See `Kind`."""
        if text == "off":
            return None
        if text.startswith("unix:"):
            return self._socket(text.removeprefix("unix:"))
        host, colon, port = text.rpartition(":")
        found = _HOST.fullmatch(host)
        if not colon or found is None or not _PORT.fullmatch(port) or int(port) > _PORT_MAX or not _is_host(found):
            or_off = ", unix:/run/tidegate.sock, or off" if self.is_optional else " or unix:/run/tidegate.sock"
            hint = f"write 127.0.0.1:8080 for this machine, 0.0.0.0:8080 for all, [::1]:8080{or_off}"
            raise Wrong("bad-listen", f"`{text:.80}` is nowhere to listen", hint)
        return Place(host=found["six"] or found["name"], port=int(port))

    def schema(self) -> dict[str, Any]:
        """See `Kind`."""
        text = {"type": "string", "minLength": 1}
        return {"anyOf": [text, {"const": False}]} if self.is_optional else text

    def show(self, value: Any) -> str:  # noqa: ANN401  # see `Kind`
        """See `Kind`."""
        return "off" if value is None else str(value)

    def _socket(self, path: str) -> Place:
        if not path.startswith("/") or len(path.encode()) > _SOCKET_PATH_MAX or "\0" in path:
            hint = f"write unix: and a path from the root on with at most {_SOCKET_PATH_MAX} bytes, such as unix:/run/tidegate.sock"
            raise Wrong("bad-listen", f"`{path:.120}` cannot be the path of a socket", hint)
        return Place(path=path)


@dataclass(frozen=True, slots=True)
class Networks(Kind):
    """
    Networks such as `10.0.0.0/8`: a list in a file, divided by commas elsewhere. `none` is no network.
    """

    metavar = "NETWORKS"
    words = ("none",)

    def read(self, text: str) -> tuple[str, ...]:
        """See `Kind`."""
        if text == "none":
            return ()
        return tuple(self._one(part.strip()) for part in text.split(","))

    def schema(self) -> dict[str, Any]:
        """See `Kind`."""
        return {"anyOf": [{"type": "string", "minLength": 1}, {"type": "array", "items": {"type": "string", "minLength": 1}}]}

    def show(self, value: Any) -> str:  # noqa: ANN401  # see `Kind`
        """See `Kind`."""
        return ", ".join(value) or "none"

    def _one(self, text: str) -> str:
        try:
            return str(ipaddress.ip_network(text))
        except ValueError:
            hint = "write an address and the number of its bits that count, the others zero, such as 10.0.0.0/8 or 2001:db8::/32"
            raise Wrong("bad-network", f"`{text:.80}` is no network", hint) from None


@dataclass(frozen=True, slots=True)
class Names(Kind):
    """
    Names of hosts such as `tidegate.example.com`: a list in a file, divided by commas elsewhere. `none` is no name.
    """

    metavar = "NAMES"
    words = ("none",)

    def read(self, text: str) -> tuple[str, ...]:
        """See `Kind`."""
        return () if text == "none" else tuple(self._one(part.strip()) for part in text.split(","))

    def schema(self) -> dict[str, Any]:
        """See `Kind`."""
        return {"anyOf": [{"type": "string", "minLength": 1}, {"type": "array", "items": {"type": "string", "minLength": 1}}]}

    def show(self, value: Any) -> str:  # noqa: ANN401  # see `Kind`
        """See `Kind`."""
        return ", ".join(value) or "none"

    def _one(self, text: str) -> str:
        found = _HOST.fullmatch(text)
        if found is None or found["name"] is None:
            raise Wrong(
                "bad-host", f"`{text:.80}` is no name of a host", "write names without a scheme and a port, such as limits.example.com"
            )
        return text.lower()


@dataclass(frozen=True, slots=True)
class Attributes(Names):
    """
    Names of attributes as rules write them, such as `path` or `header:x-plan`. `none` is no name.
    """

    def _one(self, text: str) -> str:
        if not _ATTRIBUTE.fullmatch(text):
            raise Wrong("bad-attribute", f"`{text:.80}` is no attribute", "write names as rules do, such as path or header:x-plan")
        return text


def _is_host(found: re.Match[str]) -> bool:
    if found["six"] is None:
        return True
    try:
        ipaddress.IPv6Address(found["six"])
    except ValueError:
        return False
    return True

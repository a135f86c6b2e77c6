"""
Where a service is: what an address says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from tidegate.errors import ConfigError, UsageError

_PORTS = {"http": 8080, "grpc": 8081}
_HINT = "write http://host:8080, grpc://host:8081, https:// or grpcs:// with TLS, or unix:///path and grpc+unix:///path for a socket"


@dataclass(frozen=True, slots=True)
class Address:
    """
    Where a service is, and how it is spoken to.

    Args:
        protocol: Which of its ports.
        host: Its name or its number; empty for a socket.
        port: The port; 0 for a socket.
        path: The socket in the file system; empty otherwise.
        is_tls: Whether the connection is encrypted.
    """

    protocol: Literal["http", "grpc"]
    host: str = ""
    port: int = 0
    path: str = ""
    is_tls: bool = False

    def __str__(self) -> str:
        if self.path:
            return f"{'grpc+' if self.protocol == 'grpc' else ''}unix://{self.path}"
        return f"{self.protocol}{'s' if self.is_tls else ''}://{self.authority}"

    @property
    def authority(self) -> str:
        """Host and port, as `Host` says them."""
        if self.path:
            return "localhost"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @classmethod
    def parse(cls, text: str) -> Address:
        """
        Reads an address.

        Args:
            text: Such as `http://127.0.0.1:8080`.

        Returns:
            The address.

        Raises:
            ConfigError: It is none, or says more than where the service is.
            UsageError: It is no text.
        """
        if not isinstance(text, str):
            raise UsageError(f"the address is a text such as http://127.0.0.1:8080, not {type(text).__name__}")
        # What is shown of a wrong address is its scheme: the rest may hold a password.
        try:
            parts = urlsplit(text)
            port = parts.port
        except ValueError:
            raise ConfigError(f"this is no address of a service\nhint: {_HINT}") from None
        if any(not " " < letter <= "~" for letter in text):
            raise ConfigError(f"an address has printable letters only\nhint: {_HINT}")
        if parts.username is not None or parts.password is not None:
            raise ConfigError("an address has no name and no password: give the service's token as token=")
        if parts.query or parts.fragment:
            raise ConfigError(f"an address ends with the port\nhint: {_HINT}")
        if parts.scheme in {"unix", "grpc+unix"}:
            if parts.netloc or len(parts.path) <= 1:
                raise ConfigError("the address of a socket has three slashes and a path: unix:///run/tidegate.sock")
            return cls("grpc" if parts.scheme == "grpc+unix" else "http", path=parts.path)
        protocol: Literal["http", "grpc"] | None = {"http": "http", "https": "http", "grpc": "grpc", "grpcs": "grpc"}.get(parts.scheme)  # type: ignore[assignment]  # the table has no other values
        if protocol is None or not parts.hostname or parts.path not in {"", "/"}:
            raise ConfigError(f"this is no address of a service\nhint: {_HINT}")
        return cls(protocol, parts.hostname, _PORTS[protocol] if port is None else port, is_tls=parts.scheme.endswith("s"))

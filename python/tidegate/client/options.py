"""
What a client may be told, checked once.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypedDict

from tidegate.client.address import Address
from tidegate.errors import ConfigError, UsageError

if TYPE_CHECKING:
    import os
    import ssl
    from typing import Unpack

    from tidegate.client.grpc import GrpcTransport
    from tidegate.client.http import HttpTransport
    from tidegate.rules import RuleSet

BUDGET = 0.05
"""How long a decision may take, in seconds, before it is taken without the service."""

_BUDGET_MAX = 60.0
_CONNECTIONS_MAX = 10_000
_POLICIES = ("local", "allow", "deny")


class ClientOptions(TypedDict, total=False):
    """
    What a client may be told; all of it has a default.
    """

    token: str
    """What the service wants to see (`http.token` of its settings)."""
    budget: float
    """How long a decision may take in seconds, with connecting and all waiting, before it is taken without the service. Default: 0.05."""
    on_service_error: Literal["local", "allow", "deny"]
    """What to answer when the service cannot: `local` counts this process's fair share by the rules of `fallback`, `allow` lets everything
    pass, `deny` nothing. Default: `local` with a `fallback`, `allow` without."""
    fallback: str | os.PathLike[str] | RuleSet
    """The rules to decide by when the service cannot: a rule file, a directory of them, or a rule set, usually those of the service."""
    instances: int
    """How many processes ask the service: what `local` divides by. Default: 1."""
    connections: int
    """HTTP: the most connections at a time. Default: 64."""
    ca: str | os.PathLike[str]
    """With TLS: a file in PEM with those who may sign the service's certificate. Default: whom the system trusts."""
    certificate: tuple[str | os.PathLike[str], str | os.PathLike[str]]
    """With TLS: the files of a certificate and its key, for a service that wants to see one."""
    domain: str
    """gRPC: the domain of the service's rules. Default: `default`."""


@dataclass(frozen=True, slots=True)
class Checked:
    """
    Options that make sense.

    Args:
        budget_ns: How long a decision may take.
        policy: What to answer when the service cannot.
        fallback: The rules for `local`.
        instances: How many processes there are.
    """

    budget_ns: int
    policy: Literal["local", "allow", "deny"]
    fallback: str | os.PathLike[str] | RuleSet | None
    instances: int


def check_options(**options: Unpack[ClientOptions]) -> Checked:
    """
    Checks all but what is about the way to the service.

    Args:
        options: As `ClientOptions`.

    Returns:
        The options.

    Raises:
        ConfigError: They do not go together.
        UsageError: One of them is wrong.
    """
    unknown = [name for name in options if name not in ClientOptions.__annotations__]
    if unknown:
        raise TypeError(f"unknown option {unknown[0]!r}: the options are {', '.join(ClientOptions.__annotations__)}")
    budget = options.get("budget", BUDGET)
    if isinstance(budget, bool) or not isinstance(budget, (int, float)) or not 0 < budget <= _BUDGET_MAX:
        raise UsageError(f"the budget is a number of seconds above 0, up to {_BUDGET_MAX:.0f}")
    instances = options.get("instances", 1)
    if type(instances) is not int or not 1 <= instances < 2**31:
        raise UsageError("instances is a whole number from 1 up")
    fallback = options.get("fallback")
    policy = options.get("on_service_error", "allow" if fallback is None else "local")
    if policy not in _POLICIES:
        raise UsageError(f"on_service_error is one of {', '.join(_POLICIES)}, not {policy!r:.40}")
    if (policy == "local") is (fallback is None):
        raise ConfigError(
            'on_service_error="local" counts by rules, and nothing else does: give it fallback="rules.yaml", or choose "allow" or "deny"'
        )
    return Checked(max(1, round(budget * 1e9)), policy, fallback, instances)


def transport_of(text: str, **options: Unpack[ClientOptions]) -> tuple[Address, HttpTransport | GrpcTransport]:
    """
    Makes the way to the service.

    Args:
        text: Its address.
        options: As `ClientOptions`.

    Returns:
        What the address says, and the way.

    Raises:
        ConfigError: The address is none, or the options do not go with it.
        UsageError: One of them is wrong.
    """
    address = Address.parse(text)
    if not address.is_tls and ("ca" in options or "certificate" in options):
        raise ConfigError("ca and certificate go with TLS: write https:// or grpcs://")
    if address.protocol == "grpc":
        from tidegate.client.grpc import GrpcTransport  # noqa: PLC0415  # an extra, and slow to import

        if "token" in options or "connections" in options:
            raise ConfigError("token and connections go with http:// and https://: the port of gRPC has certificates, and one connection")
        return address, GrpcTransport(address, options.get("domain", "default"), _pem(address, **options))
    if "domain" in options:
        raise ConfigError("the domain goes with grpc:// and grpcs://: over HTTP there is only that of the rules")
    connections = options.get("connections", 64)
    if type(connections) is not int or not 1 <= connections <= _CONNECTIONS_MAX:
        raise UsageError(f"connections is a whole number from 1 to {_CONNECTIONS_MAX}")
    from tidegate.client.http import HttpTransport  # noqa: PLC0415  # as above, for programs that speak gRPC

    return address, HttpTransport(address, options.get("token"), connections, _context(address, **options))


def _context(address: Address, **options: Unpack[ClientOptions]) -> ssl.SSLContext | None:
    if not address.is_tls:
        return None
    import ssl  # noqa: PLC0415  # plain text needs none of it

    try:
        context = ssl.create_default_context(cafile=options.get("ca"))
        if "certificate" in options:
            context.load_cert_chain(*options["certificate"])
    except OSError as error:
        raise ConfigError(f"ca or certificate cannot be read: {error}\nhint: they are files in PEM") from None
    return context


def _pem(address: Address, **options: Unpack[ClientOptions]) -> tuple[bytes | None, bytes | None, bytes | None] | None:
    if not address.is_tls:
        return None
    try:
        ca = Path(options["ca"]).read_bytes() if "ca" in options else None
        certificate, key = (Path(file).read_bytes() for file in options["certificate"]) if "certificate" in options else (None, None)
    except OSError as error:
        raise ConfigError(f"ca or certificate cannot be read: {error}\nhint: they are files in PEM") from None
    return ca, key, certificate

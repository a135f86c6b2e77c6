"""
Services and gateways with the files of the examples.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.gateways.client import BALANCER
    from tests.gateways.gateway import BALANCERS, EXAMPLES, Behind, Gateway, Missing
    from tests.gateways.upstream import Upstream
    from tests.service.running import Running
else:
    from gateways.client import BALANCER
    from gateways.gateway import BALANCERS, EXAMPLES, Behind, Gateway, Missing
    from service.running import Running


def open_service(rules: str, settings: Mapping[str, Any] | None = None) -> Running:
    """
    A service with the rules of an example, which trust the load balancer of the tests.
    """
    return Running((EXAMPLES / rules).read_text(encoding="utf-8").replace(BALANCERS, f"{BALANCER}/32"), settings)


def open_gateway(
    name: str, upstream: Upstream, service: Running, changes: Mapping[str, str] | None = None, *, is_patient: bool = True
) -> Gateway:
    """
    A gateway, or a skipped test where it is not installed.
    """
    ports = {port: int(address.rpartition(":")[2]) for port, address in service.addresses.items()}
    try:
        return Gateway(name, Behind(upstream.port, ports["http"], ports["grpc"]), changes or {}, is_patient)
    except Missing as missing:
        pytest.skip(str(missing))

"""
A service, an API, and gateways between them and the tests.
"""

from __future__ import annotations

import itertools
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping

    from tests.gateways.gateway import Gateway
    from tests.gateways.starting import open_gateway, open_service
    from tests.gateways.upstream import Upstream
    from tests.service.running import Running
else:
    from gateways.gateway import Gateway
    from gateways.starting import open_gateway, open_service
    from gateways.upstream import Upstream

STARTED = pytest.StashKey[list[Gateway]]()
"""The gateways that run, also those that tests share."""

_NUMBERS = itertools.count()


class StartGateway(Protocol):
    """
    Starts gateways that end with the test.
    """

    def __call__(self, name: str, service: Running, changes: Mapping[str, str] | None = None, *, is_patient: bool = True) -> Gateway:
        """
        A gateway in front of a service.
        """


class StartService(Protocol):
    """
    Starts services that end with the test.
    """

    def __call__(self, rules: str, settings: Mapping[str, Any] | None = None) -> Running:
        """
        A service with the rules of an example, such as `envoy/rules.yaml`.
        """


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """
    A test that fails shows what the gateways had to say.
    """
    report = yield
    if report.failed:
        for gateway in item.session.stash.get(STARTED, []):
            report.sections.append((f"log of {gateway.name}", gateway.log()))
    return report


@pytest.fixture(scope="session")
def upstream() -> Iterator[Upstream]:
    """
    The API.
    """
    with Upstream() as upstream:
        yield upstream


@pytest.fixture
def start_service() -> Iterator[StartService]:
    """
    Services with which a test does more than ask.
    """
    with ExitStack() as stack:

        def start(rules: str, settings: Mapping[str, Any] | None = None) -> Running:
            return stack.enter_context(open_service(rules, settings))

        yield start


@pytest.fixture(scope="session")
def running_gateways(request: pytest.FixtureRequest) -> list[Gateway]:
    """
    Those whose logs are shown when a test fails.
    """
    return request.session.stash.setdefault(STARTED, [])


@pytest.fixture
def start_gateway(upstream: Upstream, running_gateways: list[Gateway]) -> Iterator[StartGateway]:
    """
    Gateways of which a test needs one of its own.
    """
    with ExitStack() as stack:

        def start(name: str, service: Running, changes: Mapping[str, str] | None = None, *, is_patient: bool = True) -> Gateway:
            gateway = stack.enter_context(open_gateway(name, upstream, service, changes, is_patient=is_patient))
            running_gateways.append(gateway)
            stack.callback(running_gateways.remove, gateway)
            return gateway

        yield start


@pytest.fixture
def key() -> str:
    """
    A customer whom no other test knows.
    """
    return f"customer-{next(_NUMBERS)}"

"""
A service with rules of every kind, and clients of it.
"""

from __future__ import annotations

import itertools
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from tidegate import Client

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.service.running import here
    from tidegate.service import Service
else:
    from service.running import here

BUDGET = 10.0
"""Long enough for any machine: what a test is about is not how fast it is."""

RULES = """
version: 1
rules:
  - {name: few, match: {path: /few}, per: client, quotas: 5/hour}
  - {name: costly, match: {path: /costly}, per: client, quotas: 10/hour, cost: 4}
  - {name: slots, match: {path: /slots}, per: client, quotas: 2 concurrent ttl 30s}
  - {name: paced, match: {path: /paced}, per: client, quotas: 1/minute queue 1h}
  - {name: brief, match: {path: /brief}, per: client, quotas: 10/second queue 1m}
  - {name: fast, match: {path: /fast}, per: client, quotas: 20/second burst 1}
  - {name: owed, match: {path: /owed}, per: client, quotas: [{limit: 10, period: 3600, max_debt: 5}]}
  - {name: by_header, match: {path: /header}, per: "header:x-api-key", quotas: 1/hour}
  - {name: by_query, match: {path: /query}, per: "query:page", quotas: 1/hour}
  - {name: tried, match: {path: /tried}, per: client, quotas: 1/hour, mode: shadow}
  - {name: quiet, match: {path: /quiet}, per: client, quotas: 5/hour, headers: false}
"""


class Connect(Protocol):
    """
    Makes clients that are closed with the test.
    """

    def __call__(self, address: str, **options: Any) -> Client:  # noqa: ANN401  # as `Client`
        """
        A client, with a budget that no machine is too slow for.
        """


@pytest.fixture
def connect() -> Iterator[Connect]:
    """
    Makes clients.
    """
    with ExitStack() as stack:

        def make(address: str, **options: Any) -> Client:  # noqa: ANN401  # as above
            return stack.enter_context(Client(address, **{"budget": BUDGET, **options}))

        yield make


@pytest.fixture(scope="session")
def service() -> Iterator[Service]:
    """
    A service that many tests share: each uses names of its own.
    """
    with here(RULES) as service:
        yield service


_NUMBERS = itertools.count()


@pytest.fixture
def facts() -> Callable[..., dict[str, Any]]:
    """
    The facts about a request by a client that nobody else is.
    """
    name = f"client-{next(_NUMBERS)}"
    return lambda path, **more: {"client": name, "path": path} | more

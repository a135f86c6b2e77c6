"""
Servers that many tests share, one of each per run.

A test leaves them as it found them: it uses keys of its own, and kills, freezes and reconfigures only servers that it has started itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from . import NAMES, Cluster, Missing, Sentinel, Single

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def server() -> Iterator[Single]:
    """
    The default server.
    """
    with Single() as server:
        yield server


@pytest.fixture(scope="session", params=NAMES)
def every_server(request: pytest.FixtureRequest) -> Iterator[Single]:
    """
    Each server that is installed, one after the other; the others are skipped by name.
    """
    try:
        server = Single(server=request.param)
    except Missing as missing:
        pytest.skip(str(missing))
    with server:
        yield server


@pytest.fixture(scope="session")
def sentinel() -> Iterator[Sentinel]:
    """
    A primary, its replica and their sentinels.
    """
    # Nobody kills it, so nobody is to be thought down who has no core for a second.
    with Sentinel(down_after_ms=4_000) as servers:
        yield servers


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """
    Three primaries and three replicas.
    """
    # As above.
    with Cluster(node_timeout_ms=4_000) as cluster:
        yield cluster

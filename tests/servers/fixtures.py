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
    with Sentinel() as servers:
        yield servers


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """
    Three primaries and three replicas.
    """
    with Cluster() as cluster:
        yield cluster

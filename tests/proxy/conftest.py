"""
Servers behind the proxies under test.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.proxy.upstream import Upstream
else:
    from upstream import Upstream


@pytest.fixture(scope="session")
def upstream() -> Iterator[Upstream]:
    """
    A server that all tests share; how many requests it got is everybody's.
    """
    with Upstream() as server:
        yield server

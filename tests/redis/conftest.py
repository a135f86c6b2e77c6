"""
Limiters on the servers that all tests share, each test under a prefix of its own.
"""

from __future__ import annotations

import itertools
import os
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from tidegate import Limiter, RuleLimiter, rules

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers import Cluster, Single

PATIENCE = 5.0
"""A budget for tests of counts: a busy machine must not turn them into tests of the fallback."""

CONNECTS = "connect_timeout=10s"
"""As above: nor must it end an attempt to connect."""

_NUMBERS = itertools.count()


class Make(Protocol):
    """
    Makes limiters that are closed after the test.
    """

    def __call__(self, quotas: Any, /, *, store: str | None = None, **options: Any) -> Limiter:  # noqa: ANN401  # whatever a limiter takes
        """
        A limiter on the test's store, or on another one.
        """


class MakeRules(Protocol):
    """
    Makes limiters from rules that are written in braces.
    """

    def __call__(self, text: str, /, *, head: str = "", store: str | None = None, **options: Any) -> RuleLimiter:  # noqa: ANN401  # as above
        """
        A limiter on the test's store, or on another one.
        """


def unique_prefix() -> str:
    """
    A prefix under which nobody else counts.
    """
    return f"t{os.getpid()}.{next(_NUMBERS)}:"


@pytest.fixture
def prefix() -> str:
    """
    How the keys of this test begin.
    """
    return unique_prefix()


@pytest.fixture
def url(server: Single, prefix: str) -> str:
    """
    The shared server, under the prefix of this test.
    """
    return f"{server.url()}?prefix={prefix}&{CONNECTS}"


@pytest.fixture
def cluster_url(cluster: Cluster, prefix: str) -> str:
    """
    The shared cluster, under the prefix of this test.
    """
    return f"{cluster.url()}?prefix={prefix}&{CONNECTS}"


@pytest.fixture
def open_limiters() -> Iterator[ExitStack]:
    """
    The limiters of the test.
    """
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def make(request: pytest.FixtureRequest, open_limiters: ExitStack) -> Make:
    """
    Limiters by quotas.
    """

    def build(quotas: Any, /, *, store: str | None = None, **options: Any) -> Limiter:  # noqa: ANN401  # whatever a limiter takes
        options.setdefault("budget", PATIENCE)
        limiter = Limiter(quotas, store=store or request.getfixturevalue("url"), **options)
        return open_limiters.enter_context(limiter)

    return build


@pytest.fixture
def make_rules(request: pytest.FixtureRequest, open_limiters: ExitStack) -> MakeRules:
    """
    Limiters by rules.
    """

    def build(text: str, /, *, head: str = "", store: str | None = None, **options: Any) -> RuleLimiter:  # noqa: ANN401  # as above
        options.setdefault("budget", PATIENCE)
        found = rules.load("rules.yaml", text=f"version: 1\n{head}rules: [{text}]")
        limiter = Limiter.from_rules(found, store=store or request.getfixturevalue("url"), **options)
        return open_limiters.enter_context(limiter)

    return build

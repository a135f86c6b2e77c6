"""
Services that tests share or start for themselves.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.service.running import RULES, Running
else:
    from running import RULES, Running


class Serve(Protocol):
    """
    Starts services that end with the test.
    """

    def __call__(self, rules: str = RULES, settings: Mapping[str, Any] | None = None, **options: Any) -> Running:  # noqa: ANN401  # as `Running`
        """
        A service that listens.
        """


@pytest.fixture
def serve() -> Iterator[Serve]:
    """
    Starts services as child processes; see `Running`.
    """
    with ExitStack() as stack:

        def start(rules: str = RULES, settings: Mapping[str, Any] | None = None, **options: Any) -> Running:  # noqa: ANN401  # as above
            return stack.enter_context(Running(rules, settings, **options))

        yield start

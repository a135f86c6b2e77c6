"""
The public names, in both directions.
"""

from __future__ import annotations

import inspect
from types import ModuleType

import pytest

import tidegate
import tidegate.testing
from tidegate import errors


def test_all_is_exactly_what_is_public() -> None:
    """Nothing public is left out of `__all__`, and nothing in it is missing."""
    public = {name for name, value in vars(tidegate).items() if not name.startswith("_") and not isinstance(value, ModuleType)}

    assert public | {"Client", "RuleLimiter", "__version__", "errors"} == set(tidegate.__all__)


def test_every_exception_is_exported() -> None:
    """`tidegate.errors.__all__` lists every class of the module."""
    classes = {name for name, value in vars(errors).items() if inspect.isclass(value) and value.__module__ == errors.__name__}

    assert classes == set(errors.__all__)


@pytest.mark.parametrize("name", ["Client", "Limiter", "Quota", "RuleLimiter", "errors", "limit"])
def test_exports_are_documented(name: str) -> None:
    """Every name that is written in Python explains itself; the stub does it for the compiled ones."""
    assert inspect.getdoc(getattr(tidegate, name))


@pytest.mark.parametrize("kind", [tidegate.Client, tidegate.Limiter])
def test_methods_are_documented(kind: type) -> None:
    """Those written in Python; the stub does it for the compiled ones."""
    assert all(inspect.getdoc(getattr(kind, name)) for name in vars(kind) if not name.startswith("_"))


def test_manual_clock_is_public() -> None:
    """Tests of other projects import it from `tidegate.testing`."""
    assert ["ManualClock"] == tidegate.testing.__all__

"""
One version, wherever it is shown.
"""

from __future__ import annotations

import re
from importlib.metadata import version
from pathlib import Path

import tidegate

CHANGELOG = Path(__file__).parent.parent / "CHANGELOG.md"


def test_version_is_that_of_the_installed_package() -> None:
    """The compiled module and the package's metadata come from one number."""
    assert version("tidegate") == tidegate.__version__


def test_version_is_the_first_in_the_changelog() -> None:
    """Who raises the version says what changed."""
    heading = re.search(r"^## (\S+)", CHANGELOG.read_text(encoding="utf-8"), flags=re.MULTILINE)

    assert heading is not None
    assert heading[1] == tidegate.__version__

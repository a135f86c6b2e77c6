"""
The files of `examples/gateways`, without running them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tidegate import rules

if TYPE_CHECKING:
    from tests.gateways.gateway import EXAMPLES, KINDS
else:
    from gateways.gateway import EXAMPLES, KINDS

ROOT = EXAMPLES.parents[1]
RULES = ("rules.yaml", "envoy/rules.yaml", "envoy/descriptors.yaml")
FILES = sorted(path.relative_to(EXAMPLES).as_posix() for path in EXAMPLES.rglob("*") if path.is_file() and path.suffix != ".md")


@pytest.mark.parametrize("name", RULES)
def test_rules_have_no_mistakes(name: str) -> None:
    """
    Not even something to be warned of.
    """
    assert () == rules.load(EXAMPLES / name).warnings


@pytest.mark.parametrize("name", FILES)
def test_each_file_is_shown_on_a_page(name: str) -> None:
    """
    Under its own name, so that nobody has to look for it.
    """
    shown = f'title="examples/gateways/{name}"\n--8<-- "examples/gateways/{name}"\n'

    assert any(shown in page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "gateways").glob("*.md"))


@pytest.mark.parametrize("kind", KINDS)
def test_each_gateway_is_listed_with_the_examples(kind: str) -> None:
    """
    With a link to its file.
    """
    folder = KINDS[kind].config.partition("/")[0]

    assert re.search(rf"\[{folder}\]\({folder}/", (EXAMPLES / "README.md").read_text(encoding="utf-8"))

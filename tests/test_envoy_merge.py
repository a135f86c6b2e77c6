"""
Several files of one domain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tidegate import Limiter
from tidegate.cli import run
from tidegate.errors import RuleError

if TYPE_CHECKING:
    from pathlib import Path

FILE = "domain: shop\ndescriptors:\n  - key: {key}\n    rate_limit: {{unit: minute, requests_per_unit: 1}}\n"


def test_two_files_of_one_domain_are_joined_only_if_asked(tmp_path: Path) -> None:
    """
    A domain in two files is a mistake unless somebody says that it is meant; a reload remembers that.
    """
    for key in ("tenant", "user"):
        (tmp_path / f"{key}.yaml").write_text(FILE.format(key=key), encoding="utf-8")

    with pytest.raises(RuleError) as caught:
        Limiter.from_rules(tmp_path)
    assert "duplicate-domain" in {problem.code for problem in caught.value.problems}

    limiter = Limiter.from_rules(tmp_path, merge_domains=True)
    ask = [{"entries": [(key, "a")]} for key in ("tenant", "user")]
    assert "OK" == limiter.check_descriptors("shop", ask)["overall_code"]
    assert 2 == limiter.load(tmp_path)
    assert "OVER_LIMIT" == limiter.check_descriptors("shop", ask)["overall_code"]


def test_lint_joins_them_as_the_limiter_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """
    What loads is what the linter passes.
    """
    for key in ("tenant", "user"):
        (tmp_path / f"{key}.yaml").write_text(FILE.format(key=key), encoding="utf-8")

    assert 1 == run(["rules", "lint", str(tmp_path)])
    assert "error[duplicate-domain]" in capsys.readouterr().out
    assert 0 == run(["rules", "lint", "--merge-domains", str(tmp_path)])

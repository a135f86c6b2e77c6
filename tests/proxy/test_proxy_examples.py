"""
What people copy works: the files of `examples/proxy`, and the settings and rules of the guide.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tidegate import rules
from tidegate.cli import run
from tidegate.proxy import load

if TYPE_CHECKING:
    from tests.servers import certificates
else:
    from servers import certificates

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples" / "proxy").glob("*.yaml"))
GUIDE = (ROOT / "docs" / "guides" / "proxy.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```yaml(?: title=\"(?P<name>[\w.-]+)\")?\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS = [(found["name"], found["text"]) for found in BLOCK.finditer(GUIDE)]
SETTINGS = [text for name, text in BLOCKS if name == "tidegate.yaml"]
RULES = [text for name, text in BLOCKS if name == "rules.yaml"]
PARTS = [text for name, text in BLOCKS if name is None and text.startswith("proxy:")]
IDENTITIES = [text for name, text in BLOCKS if name is None and text.startswith("identity:")]
REST_OF_SETTINGS = "rules: rules.yaml\nupstreams: [http://10.0.0.1:8000]\n"
REST_OF_RULES = "version: 1\nrules: [{name: per_client, per: client, quotas: 100/minute}]\n"
TOLERATED = re.compile(r"warning: proxy listens on 0\.0\.0\.0:8000 without TLS: .*\n")
"""What is said of a proxy behind a load balancer, and is meant to be."""


def check(folder: Path, capsys: pytest.CaptureFixture[str], settings: str, rule_text: str) -> tuple[int, str]:
    """
    The exit code of `tidegate proxy --check` with these files, and what it has to say against them.
    """
    (folder / "tidegate.yaml").write_text(settings, encoding="utf-8")
    (folder / "rules.yaml").write_text(rule_text, encoding="utf-8")
    code = run(["proxy", "--config", str(folder / "tidegate.yaml"), "--check"])
    return code, TOLERATED.sub("", capsys.readouterr().err)


def test_the_examples_are_right(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command accepts them where they are copied to, and warns of nothing."""
    for file in EXAMPLES:
        shutil.copy(file, tmp_path)
    code = run(["proxy", "--config", str(tmp_path / "tidegate.yaml"), "--check"])
    told = capsys.readouterr()

    assert ["rules.yaml", "tidegate.yaml"] == [file.name for file in EXAMPLES]
    assert (0, "") == (code, told.err)
    assert "settings and rules are right: 3 rules" in told.out
    assert () == rules.load(tmp_path / "rules.yaml").warnings


def test_what_the_examples_leave_to_the_reader_is_right_too(tmp_path: Path) -> None:
    """Who takes the mark of a comment away has a setting that exists, with a value that it may have."""
    text = (ROOT / "examples" / "proxy" / "tidegate.yaml").read_text(encoding="utf-8")
    meant, count = re.subn(r"^( *)# (?=(?:store|tls|trusted_proxies): )", r"\1", text, flags=re.MULTILINE)
    made = certificates()
    meant = meant.replace("/etc/tidegate/tls.crt", str(made.server_cert)).replace("/etc/tidegate/tls.key", str(made.server_key))
    (tmp_path / "tidegate.yaml").write_text(meant, encoding="utf-8")
    (tmp_path / "rules.yaml").write_text(RULES[0], encoding="utf-8")

    assert 3 == count == len(re.findall(r"^ *# [a-z_]+: ", text, re.MULTILINE))
    settings = load(tmp_path / "tidegate.yaml", environment={})
    assert {"store", "proxy.tls.cert", "proxy.tls.key", "proxy.trusted_proxies"} <= set(settings.origins)


@pytest.mark.parametrize("rule_text", RULES, ids=range(len(RULES)))
@pytest.mark.parametrize("settings", SETTINGS, ids=range(len(SETTINGS)))
def test_the_files_of_the_guide_are_right(tmp_path: Path, capsys: pytest.CaptureFixture[str], settings: str, rule_text: str) -> None:
    """All settings with all rules, as a reader may put them together."""
    assert (0, "") == check(tmp_path, capsys, settings, rule_text)


@pytest.mark.parametrize("part", PARTS, ids=range(len(PARTS)))
def test_the_sections_of_the_guide_are_right(tmp_path: Path, capsys: pytest.CaptureFixture[str], part: str) -> None:
    """What is shown alone fits into a file of settings."""
    assert (0, "") == check(tmp_path, capsys, REST_OF_SETTINGS + part, RULES[0])


@pytest.mark.parametrize("part", IDENTITIES, ids=range(len(IDENTITIES)))
def test_the_identities_of_the_guide_are_right(tmp_path: Path, capsys: pytest.CaptureFixture[str], part: str) -> None:
    """They fit into a file of rules."""
    assert (0, "") == check(tmp_path, capsys, REST_OF_SETTINGS, REST_OF_RULES + part)


def test_all_of_the_guide_is_looked_at() -> None:
    """No file and no section escapes the tests above."""
    assert (2, 2, 1, 1) == tuple(map(len, (SETTINGS, RULES, PARTS, IDENTITIES)))
    assert len(BLOCKS) == len(SETTINGS) + len(RULES) + len(PARTS) + len(IDENTITIES)

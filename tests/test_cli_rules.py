"""
The commands `tidegate rules ...`.
"""

from __future__ import annotations

import io
import json
import stat
import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING

import jsonschema
import pytest

from tidegate.cli.rules import COMMANDS
from tidegate.rules.catalogue import CATALOGUE

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Run

GOOD = "version: 1\n\nrules:\n  - name: a\n    per: ip\n    quotas: 1/s\n"
WARNED = GOOD.replace("1/s", "[10/s, 5/minute]")
BAD = GOOD.replace("1/s", "100/minuet").replace("per:", "pre:")
MESSY = "rules:\n- {per: ip, quotas: '1/s', name: a}   # why\nversion: 1\n"


@pytest.fixture
def cli(cli: Run) -> Run:
    """
    Runs a command on rules.
    """
    return partial(cli, "rules")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """
    Where the test is, with a file of each kind.
    """
    for name, text in {"good": GOOD, "warned": WARNED, "bad": BAD, "messy": MESSY}.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_each_command(cli: Run, command: str) -> None:
    """Every command explains itself and its exit codes."""
    code, output, _ = cli(command, "--help")

    assert 0 == code
    assert f"tidegate rules {command}" in output
    assert "Exit code 0" in output


def test_help_lists_the_commands(cli: Run) -> None:
    """With their exit codes."""
    code, output, _ = cli("--help")

    assert 0 == code
    assert all(f" {command} " in output for command in COMMANDS)
    assert "Exit codes: 0 good, 1 problems found, 2 wrong usage." in " ".join(output.split())


@pytest.mark.parametrize("arguments", [(), ("lnt",), ("lint",), ("lint", "--format", "xml", "a.yaml"), ("fmt",)], ids=str)
def test_wrong_usage(cli: Run, arguments: tuple[str, ...]) -> None:
    """Exit code 2, and where the help is."""
    code, output, errors = cli(*arguments)

    assert (2, "") == (code, output)
    assert errors.startswith("error: ")
    assert "hint: see tidegate rules" in errors


@pytest.mark.usefixtures("folder")
def test_lint_shows_the_line_the_place_and_a_hint(cli: Run) -> None:
    """All problems at once, in the order of the file."""
    code, output, errors = cli("lint", "bad.yaml")

    assert (1, "2 errors\n") == (code, errors)
    assert output == (
        "bad.yaml:5:5: error[unknown-key]: a rule has no `pre`\n"
        "  5 |     pre: ip\n"
        "    |     ^^^\n"
        "  hint: did you mean `per`?\n"
        "\n"
        'bad.yaml:6:17: error[bad-quota]: unknown unit "minuet"\n'
        "  6 |     quotas: 100/minuet\n"
        "    |                 ^^^^^^\n"
        '  hint: did you mean "minute"?\n'
        "\n"
    )


@pytest.mark.usefixtures("folder")
def test_lint_says_that_all_is_well(cli: Run) -> None:
    """And how many rules it has seen."""
    assert (0, "no problems in 2 rules\n", "") == cli("lint", "good.yaml", "messy.yaml")


@pytest.mark.usefixtures("folder")
def test_warnings_fail_only_if_asked(cli: Run) -> None:
    """They are told either way."""
    code, output, errors = cli("lint", "warned.yaml")
    strict, same, _ = cli("lint", "--strict", "warned.yaml")

    assert (0, 1, "1 warning\n") == (code, strict, errors)
    assert output == same
    assert "warned.yaml:6:13: warning[quota-never-binds]" in output


@pytest.mark.usefixtures("folder")
def test_lint_for_programs(cli: Run) -> None:
    """One object per problem with everything that is known."""
    code, output, errors = cli("lint", "--format", "json", "bad.yaml", "warned.yaml")

    found = json.loads(output)

    assert (1, "") == (code, errors)
    assert ["unknown-key", "bad-quota", "quota-never-binds"] == [problem["code"] for problem in found]
    assert found[0] == {
        "code": "unknown-key",
        "severity": "error",
        "file": "bad.yaml",
        "line": 5,
        "column": 5,
        "length": 3,
        "path": "rules[0].pre",
        "message": "a rule has no `pre`",
        "hint": "did you mean `per`?",
    }


@pytest.mark.usefixtures("folder")
def test_lint_for_builds(cli: Run) -> None:
    """One annotation per problem, with line ends escaped."""
    code, output, _ = cli("lint", "--format", "github", "bad.yaml")

    assert 1 == code
    assert output.splitlines()[0] == (
        "::error file=bad.yaml,line=5,col=5,endColumn=8,title=unknown-key::a rule has no `pre`%0Ahint: did you mean `per`?"
    )


def test_annotations_cannot_be_forged(cli: Run, tmp_path: Path) -> None:
    """A file cannot speak for the build, whatever it contains."""
    path = tmp_path / "rules.yaml"
    path.write_text('version: 1\n"x\\n::error::forged%0A": 1\n')

    _, output, _ = cli("lint", "--format", "github", str(path))

    assert 1 == len(output.splitlines())
    assert "%0A::error::forged%250A" in output


def test_lint_reads_the_input(cli: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """From a pipe, with the line that is wrong."""
    monkeypatch.setattr(sys, "stdin", io.StringIO(BAD))

    code, output, _ = cli("lint", "-")

    assert 1 == code
    assert "<stdin>:5:5: error[unknown-key]" in output
    assert "  5 |     pre: ip\n" in output


@pytest.mark.usefixtures("folder")
def test_lint_of_a_file_that_is_not_there(cli: Run) -> None:
    """A problem like others, without a line to show."""
    code, output, _ = cli("lint", "nowhere.yaml")

    assert 1 == code
    assert output.startswith("nowhere.yaml:1:1: error[file-missing]: there is no such file or directory\n  hint: ")


def test_an_excerpt_of_a_long_line_shows_the_place(cli: Run, tmp_path: Path) -> None:
    """Terminals get neither a megabyte nor a control character."""
    path = tmp_path / "rules.yaml"
    path.write_text("version: 1\nrules: [{name: a, per: ip, quotas: [" + "1/s, " * 5000 + "\x1b]}]\n")

    _, output, _ = cli("lint", str(path))
    excerpt = output.splitlines()[1:3]

    assert "\x1b" not in output
    assert all(len(line) < 150 for line in excerpt)
    assert excerpt[1].index("^") < len(excerpt[0])


@pytest.mark.usefixtures("folder")
def test_fmt_rewrites_files_and_says_which(cli: Run, folder: Path) -> None:
    """Only those that were not in their form; who may read them stays."""
    messy = folder / "messy.yaml"
    messy.chmod(0o640)

    code, output, _ = cli("fmt", "messy.yaml", "good.yaml")

    assert (0, "changed messy.yaml\n") == (code, output)
    assert "version: 1\n\nrules:\n  - {name: a, per: ip, quotas: 1/s}        # why\n" == messy.read_text().replace("}   #", "}        #")
    assert 0o640 == stat.S_IMODE(messy.stat().st_mode)
    assert (0, "", "") == cli("fmt", "messy.yaml")
    assert {"good.yaml", "warned.yaml", "bad.yaml", "messy.yaml"} == {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("option", ["--check", "--diff"])
def test_fmt_can_only_look(cli: Run, folder: Path, option: str) -> None:
    """Exit code 1 tells a build that somebody forgot it."""
    code, output, _ = cli("fmt", option, str(folder))

    assert 1 == code
    assert MESSY == (folder / "messy.yaml").read_text()
    assert ("would change" in output) == (option == "--check")
    assert ("+version: 1" in output) == (option == "--diff")
    assert (0, "", "") == cli("fmt", option, str(folder / "good.yaml"))


def test_fmt_follows_links(cli: Run, folder: Path) -> None:
    """The file changes, the link stays."""
    link = folder / "link.yaml"
    link.symlink_to("messy.yaml")

    cli("fmt", str(link))

    assert link.is_symlink()
    assert MESSY != (folder / "messy.yaml").read_text()


def test_fmt_formats_the_input(cli: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """For editors."""
    monkeypatch.setattr(sys, "stdin", io.StringIO("rules: []\nversion: 1\n"))

    assert (0, "version: 1\n\nrules: []\n", "") == cli("fmt", "-")


def test_fmt_leaves_files_of_the_reference_service(cli: Run, folder: Path) -> None:
    """Another program reads them too."""
    path = folder / "envoy.yaml"
    path.write_text("domain:   shop\ndescriptors: [{key:   a}]\n")

    assert (0, "", "") == cli("fmt", str(path))


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"a: [", "error[syntax]"), (b"\xff", "byte 0 is not UTF-8"), (None, "no such file")],
    ids=["syntax", "bytes", "missing"],
)
def test_fmt_refuses_what_is_no_document(cli: Run, tmp_path: Path, content: bytes | None, words: str) -> None:
    """And changes nothing."""
    path = tmp_path / "rules.yaml"
    if content is not None:
        path.write_bytes(content)

    code, _, errors = cli("fmt", str(path))

    assert 2 == code
    assert words in errors
    assert content is None or content == path.read_bytes()


def test_schema_is_printed(cli: Run) -> None:
    """As JSON, ready for a file."""
    code, output, _ = cli("schema")

    assert 0 == code
    jsonschema.Draft202012Validator.check_schema(json.loads(output))


def test_errors_prints_the_catalogue(cli: Run) -> None:
    """Each code with a sentence, a mistake and its mended form."""
    code, output, _ = cli("errors")

    assert 0 == code
    assert all(f"[{name}]: {entry.about}\n  wrong: {entry.wrong}\n  right: {entry.right}\n" in output for name, entry in CATALOGUE.items())
    assert "error[bad-quota]: " in output
    assert "warning[no-rules]: " in output


def test_errors_explains_one(cli: Run) -> None:
    """For who has it on the screen."""
    code, output, _ = cli("errors", "bad-quota")
    found = json.loads(cli("errors", "--json", "bad-quota")[1])

    assert 0 == code
    assert output.startswith("error[bad-quota]: ")
    assert {"bad-quota"} == found.keys()
    assert (2, "") == cli("errors", "bad-qouta")[:2]


def test_the_commands_of_rules_do_not_slow_the_others_down() -> None:
    """What only some commands need is imported by them."""
    script = "import sys, tidegate; sys.exit('tidegate.cli' in sys.modules)"

    assert 0 == subprocess.run([sys.executable, "-c", script], check=False).returncode

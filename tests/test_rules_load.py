"""
Which files make a rule set, and what `load` answers.
"""

from __future__ import annotations

import gc
import json
import os
import pickle
from typing import TYPE_CHECKING

import pytest

from tidegate import rules
from tidegate.errors import ConfigError, RuleError
from tidegate.rules import Problem
from tidegate.rules.files import FILE_BYTES_MAX, FILES_MAX
from tidegate.rules.problem import PROBLEMS_MAX

if TYPE_CHECKING:
    from pathlib import Path

RULE = "  - {name: %s, per: ip, quotas: 1/s}\n"


def file(*names: str, more: str = "") -> str:
    """
    A file with rules of these names.
    """
    return f"version: 1\n{more}rules:\n" + "".join(RULE % name for name in names)


def names(rule_set: rules.RuleSet) -> list[str]:
    """
    The names of its rules.
    """
    return [rule.name for rule in rule_set.rules]


def codes(source: Path, text: str | None = None) -> list[str]:
    """
    The codes with which a load fails.
    """
    with pytest.raises(RuleError) as caught:
        rules.load(source, text=text)
    return [problem.code for problem in caught.value.problems]


def test_a_file_becomes_a_rule_set(tmp_path: Path) -> None:
    """Models, the document for the engine, and the files to watch."""
    path = tmp_path / "rules.yaml"
    path.write_text(file("a", "b", more="domain: shop\n"))

    rule_set = rules.load(path)

    assert "shop" == rule_set.domain
    assert ["a", "b"] == names(rule_set)
    assert (path,) == rule_set.files
    assert () == rule_set.warnings
    assert rule_set.ir == json.loads(rule_set.to_json())
    assert (str(path), 4) == (rule_set.rules[0].file, rule_set.rules[0].line)


def test_text_takes_the_place_of_the_file(tmp_path: Path) -> None:
    """An editor or a database has rules that are no file yet; includes are found from where it would be."""
    (tmp_path / "more.yaml").write_text(file("more"))

    rule_set = rules.load(tmp_path / "rules.yaml", text=file("own", more="include: more.yaml\n"))

    assert ["more", "own"] == names(rule_set)


def test_the_path_may_be_a_text(tmp_path: Path) -> None:
    """As everywhere in Python."""
    (tmp_path / "rules.yaml").write_text(file("a"))

    assert ["a"] == names(rules.load(str(tmp_path / "rules.yaml")))


def test_a_mark_at_the_beginning_is_no_character(tmp_path: Path) -> None:
    """Some editors write one into every file."""
    path = tmp_path / "rules.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + file("a").encode())

    assert ["a"] == names(rules.load(path))


def test_a_directory_is_one_set_in_the_order_of_its_names(tmp_path: Path) -> None:
    """Other files, folders and names with a dot are not looked at."""
    (tmp_path / "20.yaml").write_text(file("second"))
    (tmp_path / "10.yml").write_text(file("first", more="identity: [{header: x-api-key}]\n"))
    (tmp_path / "30.json").write_text('{"version": 1, "rules": [{"name": "third", "per": "client", "quotas": "1/s"}]}')
    (tmp_path / ".swap.yaml").write_text("[")
    (tmp_path / "notes.txt").write_text("[")
    (tmp_path / "folder.yaml").mkdir()

    rule_set = rules.load(tmp_path)

    assert ["first", "second", "third"] == names(rule_set)
    assert ["x-api-key"] == [source.name for source in rule_set.identity]
    assert tmp_path in rule_set.files


def test_a_volume_of_kubernetes_is_read_once(tmp_path: Path) -> None:
    """Every file is a link through `..data`, which is a link to a folder with a date."""
    real = tmp_path / "..2026_11_16"
    real.mkdir()
    (real / "rules.yaml").write_text(file("a", more="include: more.yaml\n"))
    (real / "more.yaml").write_text(file("b"))
    (tmp_path / "..data").symlink_to(real.name)
    for name in ("rules.yaml", "more.yaml"):
        (tmp_path / name).symlink_to(f"..data/{name}")

    assert ["b", "a"] == sorted(names(rules.load(tmp_path)), reverse=True)
    assert ["b", "a"] == names(rules.load(tmp_path / "rules.yaml"))


def test_included_rules_come_first_and_once(tmp_path: Path) -> None:
    """Files that two others include are read where they are named first."""
    (tmp_path / "teams").mkdir()
    (tmp_path / "rules.yaml").write_text(file("own", more="include: [a.yaml, teams/, a.yaml]\n"))
    (tmp_path / "a.yaml").write_text(file("a", more="include: teams/x.yaml\n"))
    (tmp_path / "teams" / "w.yaml").write_text(file("w", more="include: ../a.yaml\n"))
    (tmp_path / "teams" / "x.yaml").write_text(file("x"))

    assert ["x", "a", "w", "own"] == names(rules.load(tmp_path / "rules.yaml"))


def test_a_file_of_a_directory_may_be_included_too(tmp_path: Path) -> None:
    """It is a file of the directory first, and may have every section."""
    (tmp_path / "a.yaml").write_text(file("a", more="include: b.yaml\n"))
    (tmp_path / "b.yaml").write_text(file("b", more="domain: shop\n"))

    assert "shop" == rules.load(tmp_path).domain


def test_a_file_that_includes_itself_is_a_cycle(tmp_path: Path) -> None:
    """The shortest one."""
    (tmp_path / "a.yaml").write_text(file("a", more="include: ./a.yaml\n"))

    assert ["include-cycle"] == codes(tmp_path / "a.yaml")


def test_a_link_out_of_the_folder_is_an_escape(tmp_path: Path) -> None:
    """A repository of rules cannot make the server read what it likes."""
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "secret.yaml").write_text(file("secret"))
    (inside / "link.yaml").symlink_to("../secret.yaml")
    (inside / "rules.yaml").write_text(file("a", more="include: link.yaml\n"))

    assert ["include-escape"] == codes(inside / "rules.yaml")


def test_native_and_descriptor_files_are_one_set(tmp_path: Path) -> None:
    """The reference service's files are recognised by what they say."""
    (tmp_path / "a.yaml").write_text(file("a"))
    (tmp_path / "b.yaml").write_text("domain: shop\ndescriptors:\n  - key: tenant\n    rate_limit: {unit: minute, requests_per_unit: 5}\n")

    rule_set = rules.load(tmp_path)

    assert ["a"] == names(rule_set)
    assert ["shop"] == [domain["domain"] for domain in rule_set.ir["domains"]]


@pytest.mark.parametrize(
    ("make", "code"),
    [
        pytest.param(lambda path: None, "file-missing", id="nothing"),
        pytest.param(lambda path: path.mkdir(), "empty-directory", id="empty-directory"),
        pytest.param(os.mkfifo, "file-unreadable", id="pipe"),
        pytest.param(lambda path: path.write_bytes(b" " * (FILE_BYTES_MAX + 1)), "file-too-large", id="large"),
        pytest.param(lambda path: path.symlink_to(path.name), "file-unreadable", id="loop"),
    ],
)
def test_what_cannot_be_read_is_a_problem(tmp_path: Path, make: object, code: str) -> None:
    """Without waiting for a pipe, and without reading what is too large."""
    path = tmp_path / "rules.yaml"
    make(path)  # type: ignore[operator]

    assert [code] == codes(path)


@pytest.mark.parametrize("name", ["a" * 300, "a\0b", "a/" * 3000], ids=["long", "nul", "deep"])
def test_what_is_no_path_is_a_problem(tmp_path: Path, name: str) -> None:
    """Whoever gives it."""
    assert ["file-unreadable"] == codes(tmp_path / name)


@pytest.mark.parametrize("name", ["a" * 300, "a\\0b", "a/" * 3000], ids=["long", "nul", "deep"])
def test_what_is_no_path_cannot_be_included(tmp_path: Path, name: str) -> None:
    """The place of the name is told."""
    assert ["include-missing"] == codes(tmp_path / "rules.yaml", f'version: 1\ninclude: "{name}"\n')


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_a_problem(tmp_path: Path) -> None:
    """It says why."""
    path = tmp_path / "rules.yaml"
    path.write_text(file("a"))
    path.chmod(0)

    assert ["file-unreadable"] == codes(path)


def test_too_many_files_are_a_problem(tmp_path: Path) -> None:
    """It is told once, at the first that is too many."""
    for number in range(FILES_MAX + 5):
        (tmp_path / f"{number:04}.yaml").write_text("version: 1\n")

    assert ["too-many-files"] == codes(tmp_path)


def test_too_many_problems_end_the_search(tmp_path: Path) -> None:
    """Nobody reads the ten thousandth."""
    found = codes(tmp_path / "rules.yaml", "version: 1\n" + "".join(f"key{number}: 1\n" for number in range(PROBLEMS_MAX * 3)))

    assert PROBLEMS_MAX + 1 == len(found)
    assert "too-many-problems" in found


def test_warnings_never_end_a_load(tmp_path: Path) -> None:
    """However many there are."""
    many = "".join(f"  - {{name: r{number}, per: ip, quotas: [10/s, 5/minute]}}\n" for number in range(PROBLEMS_MAX * 2))

    rule_set = rules.load(tmp_path / "rules.yaml", text=f"version: 1\nrules:\n{many}")

    assert PROBLEMS_MAX == len(rule_set.warnings)
    assert PROBLEMS_MAX * 2 == len(rule_set.rules)


def test_an_error_tells_all_problems_and_travels(tmp_path: Path) -> None:
    """In the order of the file, as text and as objects, also from another process."""
    with pytest.raises(RuleError) as caught:
        rules.load(tmp_path / "rules.yaml", text="version: 2\nrules:\n  - {name: a b, per: ip, quotas: 1/x}\n")
    error = caught.value

    restored = pickle.loads(pickle.dumps(error))

    assert isinstance(error, ConfigError)
    assert ["unknown-version", "bad-name", "bad-quota"] == [problem.code for problem in error.problems]
    assert str(error).startswith("the rules cannot be loaded: 3 problems\n")
    assert all(str(problem) in str(error) for problem in error.problems)
    assert error.problems == restored.problems


def test_a_problem_says_where_what_and_how() -> None:
    """One line that editors can jump to, and a hint."""
    problem = Problem("unknown-key", "rules.yaml", 12, 5, "rules[2].quota", "a rule has no `quota`", "did you mean `quotas`?")

    assert "rules.yaml:12:5: error[unknown-key]: a rule has no `quota`\n  hint: did you mean `quotas`?" == str(problem)
    assert ("error", True) == (problem.severity, problem.is_error)
    assert "warning" == Problem("no-rules", "rules.yaml", 1, 1, "", "none").severity


def test_secrets_are_in_no_message_and_in_no_representation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the document for the engine has them."""
    monkeypatch.setenv("TIDEGATE_TEST_SECRET", "hush-hush")
    head = "version: 1\nidentity: [{jwt_claim: sub}]\njwt: {algorithms: %s, secret_env: TIDEGATE_TEST_SECRET}\n"
    good = rules.load(tmp_path / "rules.yaml", text=head % "HS256" + "rules:\n" + RULE % "a")
    with pytest.raises(RuleError) as caught:
        rules.load(tmp_path / "rules.yaml", text=head % "RS256")

    assert ["jwt-secret-short"] == [problem.code for problem in good.warnings]
    assert "aHVzaC1odXNo" in good.to_json()
    for shown in (repr(good), str(good.warnings), str(caught.value), repr(caught.value.problems)):
        assert "hush" not in shown
        assert "aHVzaC1odXNo" not in shown


def test_key_files_are_watched_too(tmp_path: Path) -> None:
    """A new key is a new rule set."""
    (tmp_path / "key").write_text("s" * 40 + "\r\n")
    text = "version: 1\nidentity: [{jwt_claim: sub}]\njwt: {algorithms: HS256, secret_file: key}\nrules:\n" + RULE % "a"
    (tmp_path / "rules.yaml").write_text(text)

    rule_set = rules.load(tmp_path / "rules.yaml")

    assert {tmp_path / "rules.yaml", tmp_path / "key"} == set(rule_set.files)
    assert "c3NzcyNzc3" not in rule_set.to_json()


def test_ten_thousand_rules_are_loaded_and_garbage_is_collected_again(tmp_path: Path) -> None:
    """A load pauses the collector, and never leaves it so."""
    body = "".join(
        f"  - {{name: r{n}, match: {{method: POST, path: /s{n}/**}}, per: client, quotas: {n + 1}/minute}}\n" for n in range(10_000)
    )

    rule_set = rules.load(tmp_path / "rules.yaml", text=f"version: 1\nrules:\n{body}")

    assert 10_000 == len(rule_set.ir["rules"])
    assert gc.isenabled()


def test_the_collector_stays_off_if_it_was(tmp_path: Path) -> None:
    """It is somebody else's decision."""
    gc.disable()
    try:
        rules.load(tmp_path / "rules.yaml", text=file("a"))

        assert not gc.isenabled()
    finally:
        gc.enable()

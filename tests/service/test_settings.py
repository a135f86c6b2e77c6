"""
Settings: one table, read from a file, variables and flags; all problems at once.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
import yaml

from tidegate import RuleLimiter, rules
from tidegate._native import Server  # noqa: TID251  # the other side of the contract
from tidegate.errors import ConfigError
from tidegate.service import SettingsError, load, native
from tidegate.service.describe import json_schema
from tidegate.service.kinds import Choice, Flag
from tidegate.service.native import to_json
from tidegate.service.table import TABLE

if TYPE_CHECKING:
    from collections.abc import Iterator

RULES = {"rules": "rules.yaml"}


def problems_of(text: str, folder: Path, **given: Any) -> list[str]:  # noqa: ANN401  # as `load`
    """
    What is wrong with a file, in the form that people see, without its folder.
    """
    file = folder / "tidegate.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(SettingsError) as caught:
        load(file, **{"environment": {}, **given})
    return [str(problem).replace(f"{folder}/", "") for problem in caught.value.problems]


def test_defaults_listen_on_loopback_only() -> None:
    """Who says nothing but where the rules are gets a service that nobody else can reach."""
    settings = load(environment={}, flags=RULES)

    assert ("127.0.0.1:8080", "127.0.0.1:8081") == (str(settings["http.listen"]), str(settings["grpc.listen"]))
    assert () == settings.warnings
    assert {"rules": "--rules"} == settings.origins


def test_flags_win_over_variables_and_variables_over_the_file(tmp_path: Path) -> None:
    """Each source overrides the ones before it, key by key."""
    file = tmp_path / "tidegate.yaml"
    file.write_text("rules: r.yaml\nworkers: 1\ndeny_status: 403\ninstances: 7\n")
    environment = {"TIDEGATE_WORKERS": "2", "TIDEGATE_DENY_STATUS": "503"}
    settings = load(file, environment=environment, flags={"workers": "3"})

    assert (3, 503, 7) == (settings["workers"], settings["deny_status"], settings["instances"])
    assert "--workers" == settings.origins["workers"]
    assert "TIDEGATE_DENY_STATUS" == settings.origins["deny_status"]
    assert f"{file}:4:12" == settings.origins["instances"]


def test_an_empty_variable_is_none() -> None:
    """Compose files and units set variables to nothing when they mean the default."""
    assert 0 == load(environment={"TIDEGATE_WORKERS": ""}, flags=RULES)["workers"]


def test_paths_in_a_file_begin_at_the_file(tmp_path: Path) -> None:
    """Whoever moves a folder of settings moves the rules with it; flags begin where the command was typed."""
    file = tmp_path / "tidegate.yaml"
    file.write_text("rules: rules/api.yaml\n")

    assert tmp_path / "rules" / "api.yaml" == load(file, environment={})["rules"]
    assert "here.yaml" == str(load(file, environment={}, flags={"rules": "here.yaml"})["rules"])


@pytest.mark.parametrize("text", ["", "# rules: r.yaml\n\n  # all commented out\n"], ids=["empty", "comments"])
def test_a_file_may_say_nothing(tmp_path: Path, text: str) -> None:
    """A template with every line commented out is a file of settings."""
    file = tmp_path / "tidegate.yaml"
    file.write_text(text)

    assert 429 == load(file, environment={}, flags=RULES)["deny_status"]


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    """In the file, in variables and in flags; each with its place and what to write instead."""
    text = "rules: r.yaml\nhttp:\n  listn: off\n  listen: 8080\nlimits: {streams: many, body_bytes: 12 MB}\nwatch: yes\n"
    found = problems_of(text, tmp_path, environment={"TIDEGATE_BUDGET": "soon"}, flags={"rls.headers": "some"})

    assert [
        "tidegate.yaml:3:3: error[unknown-key]: http.listn: there is no setting `http.listn`\n  hint: did you mean `listen`?",
        'tidegate.yaml:4:11: error[number-for-text]: http.listen: a text is expected, and 8080 is a number\n  hint: write "8080"',
        ("tidegate.yaml:5:19: error[not-a-whole-number]: limits.streams: a whole number is expected: many\n"
        "  hint: write digits only, without zeros before them"),
        ("tidegate.yaml:5:37: error[bad-size]: limits.body_bytes: a number of bytes is expected: 12 MB\n"
        "  hint: write 16384, 16KiB or 1MiB"),
        "tidegate.yaml:6:8: error[not-a-boolean]: watch: `true` or `false` is expected: yes\n  hint: write true or false",
        ("TIDEGATE_BUDGET: error[bad-duration]: `soon` is no duration\n"
        "  hint: write a number with its unit, such as 500ms, 10s or 2m"),
        "--rls-headers: error[unknown-choice]: `some` is none of off, notable, all\n  hint: known here: off, notable, all",
    ] == found  # fmt: skip


@pytest.mark.parametrize(
    ("text", "code"),
    [
        pytest.param("rules: r.yaml\nhttp: on\n", "wrong-type", id="section"),
        pytest.param("[rules]\n", "wrong-type", id="list"),
        pytest.param("rules: [r.yaml]\n", "wrong-type", id="list-for-text"),
        pytest.param("rules: r.yaml\nworkers:\n", "missing-value", id="nothing"),
        pytest.param("rules: r.yaml\nworkers: 1\nworkers: 2\n", "duplicate-key", id="twice"),
        pytest.param("rules: r.yaml\nhttp: {listen: 'localhost:99999'}\n", "bad-listen", id="port"),
        pytest.param("rules: r.yaml\nhttp: {listen: 'unix:tidegate.sock'}\n", "bad-listen", id="relative-socket"),
        pytest.param("rules: r.yaml\nhttp: {listen: '[::g]:80'}\n", "bad-listen", id="ipv6"),
        pytest.param("rules: r.yaml\nhttp: {listen: off}\ngrpc: {listen: off}\n", "nothing-listens", id="both-off"),
        pytest.param("rules: r.yaml\nhttp: {listen: 'a:1'}\ngrpc: {listen: 'a:1'}\n", "same-address", id="same"),
        pytest.param("workers: 1\n", "missing-key", id="no-rules"),
        pytest.param("rules: r.yaml\nstore: postgres://x\n", "bad-store", id="store"),
        pytest.param("rules: r.yaml\nstore: redis://host:6379/first\n", "bad-store", id="store-database"),
        pytest.param("rules: r.yaml\ntrusted_gateways: [10.0.0.1/8]\n", "bad-network", id="network"),
        pytest.param("rules: r.yaml\nbudget: 2h\n", "out-of-range", id="range"),
        pytest.param("rules: r.yaml\nhttp: {token_file: missing}\n", "file-missing", id="token-file"),
        pytest.param("rules: r.yaml\nhttp: {token: abc, token_file: tidegate.yaml}\n", "given-twice", id="token-twice"),
        pytest.param("rules: r.yaml\nhttp: {token: 'a b'}\n", "bad-token", id="token-space"),
        pytest.param("rules: r.yaml\nhttp: {tls: {cert: tidegate.yaml}}\n", "missing-key", id="cert-alone"),
        pytest.param("rules: r.yaml\nhttp: {tls: {client_ca: tidegate.yaml}}\n", "missing-key", id="client-ca-alone"),
        pytest.param("rules: r.yaml\notlp: {endpoint: 'collector:4318'}\n", "bad-url", id="url"),
        pytest.param("rules: r.yaml\notlp: {share: 2}\n", "out-of-range", id="share"),
        pytest.param("rules: [\n", "syntax", id="syntax"),
        pytest.param("rules: &a r.yaml\n", "anchor", id="anchor"),
    ],
)
def test_each_mistake_is_one_problem(tmp_path: Path, text: str, code: str) -> None:
    """With a code of its own, a place in the file and a hint; nothing that follows from it is told too."""
    found = problems_of(text, tmp_path)

    assert [code] == [problem.partition("error[")[2].partition("]")[0] for problem in found]
    assert "hint: " in found[0]


def test_a_missing_file_is_a_problem() -> None:
    """And so is everything else that is wrong."""
    with pytest.raises(SettingsError, match=r"(?s)2 problems.*no such file.*--workers"):
        load("/nowhere/tidegate.yaml", environment={}, flags={**RULES, "workers": "-1"})


def test_secrets_come_from_files_and_are_never_shown(tmp_path: Path) -> None:
    """Neither in what a settings object says of itself, nor in a problem."""
    token = tmp_path / "token"
    token.write_text("s3cret-s3cret-s3cret\n")
    settings = load(environment={"TIDEGATE_SECRET": "hush"}, flags={**RULES, "http.token_file": str(token)})

    assert "s3cret-s3cret-s3cret" == json.loads(to_json(settings))["http"]["token"]
    assert "hush" == settings.store_options["secret"]
    assert "s3cret" not in repr(settings)
    assert "hush" not in repr(settings)

    found = problems_of("rules: r.yaml\nhttp: {token: 20261116}\nsecret: ''\n", tmp_path)

    assert 2 == len(found)
    assert "20261116" not in "".join(found)


@pytest.mark.parametrize(
    ("flags", "count"),
    [
        pytest.param({}, 0, id="loopback"),
        pytest.param({"http.listen": "[::1]:0", "grpc.listen": "localhost:0"}, 0, id="other-loopback"),
        pytest.param({"http.listen": "unix:/tmp/x"}, 0, id="unix"),
        pytest.param({"http.listen": "0.0.0.0:80"}, 2, id="http"),
        pytest.param({"grpc.listen": "[::]:81"}, 1, id="grpc"),
        pytest.param({"http.listen": "10.0.0.1:80", "http.token": "x" * 32}, 1, id="token"),
        pytest.param({"http.token": "short"}, 1, id="short-token"),
        pytest.param({"reuse_port": True}, 1, id="memory-is-not-shared"),
    ],
)
def test_what_others_can_reach_is_warned_of(flags: dict[str, str | bool | None], count: int) -> None:
    """A port beyond loopback without TLS or without a token is possible, and told."""
    assert count == len(load(environment={}, flags={**RULES, **flags}).warnings)


def test_a_misspelt_variable_is_warned_of() -> None:
    """Without a token because of a letter, nobody would notice. Variables that mean something else are left alone."""
    environment = {"TIDEGATE_HTTP_TOKN": "x", "TIDEGATE_SERVICE_HOST": "10.0.0.1", "TIDEGATE_JWT_SECRET": "x"}

    assert ("the variable TIDEGATE_HTTP_TOKN has no meaning; did you mean TIDEGATE_HTTP_TOKEN?",) == load(
        environment=environment, flags=RULES
    ).warnings


@pytest.mark.parametrize("setting", TABLE.values(), ids=list(TABLE))
def test_every_default_can_be_written(setting: Any) -> None:  # noqa: ANN401  # a `Setting`
    """The text that is documented reads as the value that is used; names are as people derive them."""
    if setting.default is not None:
        assert setting.default == setting.kind.read(setting.default_text)
    assert setting.flag.startswith("--")
    assert setting.about.endswith(".")


def test_the_schema_accepts_what_the_reader_accepts(tmp_path: Path) -> None:
    """And refuses unknown keys, so that an editor says so first."""
    validator = jsonschema.Draft202012Validator(json_schema())
    good = """
        rules: rules.yaml
        store: redis://localhost
        budget: 5ms
        http: {listen: off}
        grpc: {listen: "0.0.0.0:8081", tls: {cert: tidegate.yaml, key: tidegate.yaml}}
        limits: {body_bytes: 1MiB, read_timeout: 2.5}
        headers: {x_ratelimit: off}
        trusted_gateways: [10.0.0.0/8]
    """
    file = tmp_path / "tidegate.yaml"
    file.write_text(good)
    load(file, environment={})

    assert [] == list(validator.iter_errors(yaml.safe_load(good)))
    assert [] != list(validator.iter_errors({"htpp": {}}))
    assert [] != list(validator.iter_errors({"http": {"listn": "x"}}))
    assert [] != list(validator.iter_errors({"workers": "many"}))


def test_the_reference_is_up_to_date() -> None:
    """`docs/make_settings.py` writes it from the table."""
    script = Path(__file__).parents[2] / "docs" / "make_settings.py"
    done = subprocess.run([sys.executable, script, "--check"], timeout=60, check=False)

    assert 0 == done.returncode, "run docs/make_settings.py"


@pytest.fixture
def limiter() -> Iterator[RuleLimiter]:
    """
    Rules that a server could decide by.
    """
    with RuleLimiter(rules.load("rules.yaml", text="version: 1\nrules: [{name: a, per: global, quotas: 1/s}]\n")) as made:
        yield made


CHOICES = [(setting.key, word) for setting in TABLE.values() if isinstance(setting.kind, Choice) for word in setting.kind.choices]


@pytest.mark.parametrize(
    "flags",
    [
        *(pytest.param({key: word}, id=f"{key}-{word}") for key, word in CHOICES),
        pytest.param({"http.listen": "off"}, id="http-off"),
        pytest.param({"grpc.listen": "unix:/tmp/x"}, id="unix"),
        pytest.param({"trusted_gateways": "none"}, id="no-gateways"),
        pytest.param({"trusted_gateways": "10.0.0.0/8, 2001:db8::/32, 192.0.2.1"}, id="gateways"),
        pytest.param({"otlp.endpoint": "http://collector:4318/otlp"}, id="otlp"),
        pytest.param({"workers": "1024", "top.size": "0", "limits.connection_age": "1d"}, id="extremes"),
        pytest.param({setting.key: not setting.default for setting in TABLE.values() if isinstance(setting.kind, Flag)}, id="flags"),
    ],
)
def test_rust_takes_what_python_accepts(limiter: RuleLimiter, flags: dict[str, str | bool | None]) -> None:
    """Both sides of the contract know the same keys and words; a server that is not started listens nowhere."""
    document = to_json(load(environment={}, flags={**RULES, **flags}))

    assert {} == Server(limiter, document).addresses


def test_rust_refuses_what_it_does_not_know(limiter: RuleLimiter) -> None:
    """A key that only one side knows would be a setting without effect."""
    document = json.loads(to_json(load(environment={}, flags=RULES)))
    with pytest.raises(ConfigError, match="unknown field `more`"):
        Server(limiter, json.dumps({**document, "more": 1}))


@pytest.mark.parametrize(
    ("text", "count"),
    [
        pytest.param("150000 100000\n", 2, id="one-and-a-half"),
        pytest.param("10000 100000\n", 1, id="a-tenth"),
        pytest.param("max 100000\n", 4, id="no-limit"),
        pytest.param("6400000 100000\n", 4, id="more-than-there-are"),
        pytest.param(None, 4, id="no-container"),
    ],
)
def test_threads_are_as_many_as_the_container_may_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, count: int
) -> None:
    """Four cores are there; a share of one rounds up."""
    if text is not None:
        (tmp_path / "cpu.max").write_text(text)
    monkeypatch.setattr(native, "_CPU_MAX", tmp_path / "cpu.max")
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1, 2, 3}, raising=False)

    assert count == native.cores()

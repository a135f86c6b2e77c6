"""
The files in `deploy/` are what they claim to be: each passes the linter of its kind, and says what the settings say.
"""

from __future__ import annotations

import configparser
import os
import re
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped]  # it says nothing of its types
import pytest
import yaml

from tidegate import rules
from tidegate.service import load
from tidegate.service.table import PREFIX, TABLE

ROOT = Path(__file__).parent.parent
DEPLOY = ROOT / "deploy"
DOCKER = DEPLOY / "docker"
KUBERNETES = DEPLOY / "kubernetes"
UNIT = DEPLOY / "systemd" / "tidegate.service"
MANIFESTS = ["availability.yaml", "deployment.yaml", "network.yaml", "service.yaml"]
VARIABLE = re.compile(rf"{PREFIX}[A-Z_]+")


def tool(name: str) -> str:
    """
    A program that was installed with the tests.
    """
    found = shutil.which(name, path=os.pathsep.join((sysconfig.get_path("scripts"), os.environ.get("PATH", ""))))
    assert found is not None, f"{name} is not installed: make setup"
    return found


def lint(*words: str | Path) -> None:
    """
    Runs a linter, which must find nothing.
    """
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert 0 == done.returncode, done.stdout + done.stderr


def documents(name: str) -> list[dict[str, Any]]:
    """
    The objects of a manifest.
    """
    return list(yaml.safe_load_all((KUBERNETES / name).read_text(encoding="utf-8")))


def pod() -> dict[str, Any]:
    """
    What the deployment runs.
    """
    spec: dict[str, Any] = documents("deployment.yaml")[0]["spec"]["template"]["spec"]
    return spec


def seconds_to_stop(config: Path | None = None) -> float:
    """
    How long an end takes at most, with these settings.
    """
    settings = load(config, environment={}, flags={"rules": "rules.yaml"})
    return float(settings["shutdown.grace"] + settings["shutdown.limit"])


def test_the_dockerfile_passes_hadolint() -> None:
    """Down to its advice on style."""
    lint(tool("hadolint"), "--failure-threshold", "style", DOCKER / "Dockerfile")


def test_the_dockerfile_copies_what_exists_and_nothing_else() -> None:
    """Every path that it copies is in the repository, and let through to the builder."""
    text = (DOCKER / "Dockerfile").read_text(encoding="utf-8")
    copied = [source for line in re.findall(r"^COPY (?!--)(.*)$", text, re.MULTILINE) for source in line.split()[:-1]]
    let_through = [line[1:] for line in (DOCKER / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines() if line[:1] == "!"]

    assert [] == [source for source in copied if not (ROOT / source).exists()]
    assert [] == [source for source in copied if not any(Path(source).is_relative_to(path) for path in let_through)]
    assert [] == [path for path in let_through if not (ROOT / path).exists()]


def test_the_dockerfile_compiles_with_the_rust_of_the_workspace() -> None:
    """The image of the first stage is as new as `rust-version` asks for."""
    wanted = re.search(r'^rust-version = "(.*)"', (ROOT / "Cargo.toml").read_text(encoding="utf-8"), re.MULTILINE)
    used = re.search(r"^FROM rust:([0-9.]+)", (DOCKER / "Dockerfile").read_text(encoding="utf-8"), re.MULTILINE)

    assert wanted is not None
    assert used is not None
    assert wanted[1] == used[1]


def test_the_compose_file_passes_its_schema() -> None:
    """That of the specification of compose files."""
    lint(tool("check-jsonschema"), "--builtin-schema", "vendor.compose-spec", DOCKER / "compose.yaml")


@pytest.mark.parametrize("name", MANIFESTS)
def test_manifests_pass_the_schema_of_kubernetes(name: str) -> None:
    """Strictly: a key that does not exist is an error."""
    found = documents(name)

    assert found
    for document in found:
        kubernetes_validate.validate(document, "1.37", strict=True)


def test_all_manifests_are_applied() -> None:
    """Kustomize takes every file of the folder."""
    kustomization = documents("kustomization.yaml")[0]
    generated = [file for generator in kustomization["configMapGenerator"] for file in generator["files"]]
    files = {path.name for path in KUBERNETES.iterdir()} - {"kustomization.yaml"}

    assert files == {*kustomization["resources"], *generated}
    assert {generator["name"] for generator in kustomization["configMapGenerator"]} == {
        volume["configMap"]["name"] for volume in pod()["volumes"]
    }


def test_services_find_the_pods() -> None:
    """By a label that the pods have, on ports that they name."""
    labels = documents("deployment.yaml")[0]["spec"]["template"]["metadata"]["labels"]
    ports = {port["name"]: port["containerPort"] for port in pod()["containers"][0]["ports"]}
    for service in documents("service.yaml"):
        assert service["spec"]["selector"].items() <= labels.items()
        assert all(ports[port["targetPort"]] == port["port"] for port in service["spec"]["ports"])


@pytest.mark.parametrize(
    "config", [DOCKER / "tidegate.yaml", KUBERNETES / "tidegate.yaml", ROOT / "examples" / "service" / "tidegate.yaml"], ids=str
)
def test_settings_and_rules_that_are_shipped_are_right(config: Path) -> None:
    """What people copy works."""
    settings = load(config, environment={})

    assert all("without" in warning for warning in settings.warnings)
    path = settings["rules"] if settings["rules"].exists() else config.parent / "rules.yaml"
    rules.load(path if path.exists() else ROOT / "examples" / "service" / "rules.yaml")


def test_everything_waits_longer_than_an_end_takes() -> None:
    """Who is killed in the middle of a drain loses requests."""
    unit = re.search(r"^TimeoutStopSec=(\d+)$", UNIT.read_text(encoding="utf-8"), re.MULTILINE)
    compose = yaml.safe_load((DOCKER / "compose.yaml").read_text(encoding="utf-8"))["services"]["tidegate"]["stop_grace_period"]

    assert unit is not None
    assert int(unit[1]) > seconds_to_stop()
    assert int(compose.removesuffix("s")) > seconds_to_stop(DOCKER / "tidegate.yaml")
    assert pod()["terminationGracePeriodSeconds"] > seconds_to_stop(KUBERNETES / "tidegate.yaml")


@pytest.mark.parametrize(
    "path", sorted(path for path in DEPLOY.rglob("*") if path.is_file()), ids=lambda path: str(path.relative_to(DEPLOY))
)
def test_variables_are_settings(path: Path) -> None:
    """No file sets a variable that means nothing."""
    text = path.read_text(encoding="utf-8")
    known = {setting.variable for setting in TABLE.values()} | {"TIDEGATE_CONFIG", "TIDEGATE_PORT"}

    assert set(VARIABLE.findall(text)) <= known


def test_the_unit_parses_and_names_options_that_exist() -> None:
    """The command that it runs is one that `tidegate serve` takes, and every section is one of systemd's."""
    parser = configparser.RawConfigParser(strict=False, comment_prefixes=("#",), delimiters=("=",))
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # directives have case
    parser.read_string(UNIT.read_text(encoding="utf-8"))
    command = parser["Service"]["ExecStart"].split()

    assert ["Unit", "Service", "Install"] == parser.sections()
    assert ["serve", "--config"] == command[1:3]
    assert "notify" == parser["Service"]["Type"]
    assert "/bin/kill -HUP $MAINPID" == parser["Service"]["ExecReload"]


def test_the_unit_passes_systemd(tmp_path: Path) -> None:
    """Where systemd is installed: every directive is known, and little is exposed."""
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not installed")
    # It looks for the program of the command, which is not installed where it will be.
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text(encoding="utf-8").replace("/opt/tidegate/bin/tidegate", "/bin/true"), encoding="utf-8")
    done = subprocess.run([program, "verify", unit], capture_output=True, text=True, timeout=60, check=False)

    assert (0, "") == (done.returncode, done.stderr)
    lint(program, "security", "--offline=true", "--threshold=25", unit)

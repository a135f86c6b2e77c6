"""
What the documentation shows is true: its Python runs, its timelines are rows of the truth tables, its examples end without an error.
"""

from __future__ import annotations

import ast
import asyncio
import os
import re
import subprocess
import sys
import textwrap
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import CodeType, ModuleType
from typing import TYPE_CHECKING

import pytest

import tidegate
from tidegate import rules

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers import Cluster, Sentinel, Single
    from tests.service.running import here
else:
    from servers import Single
    from service.running import here

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
MODULES = sorted((ROOT / "python" / "tidegate").rglob("*.py"))
EXAMPLES = sorted([*(ROOT / "examples").glob("*.py"), *(ROOT / "examples" / "integrations").glob("*.py")])
ALGORITHMS = ROOT / "crates" / "core" / "src" / "algorithm"
FENCE = re.compile(r"^(?P<indent> *)```python\n(?P<code>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r'^```yaml title="(?P<name>[\w.-]+)"\n(?P<text>.*?)^```$', re.MULTILINE | re.DOTALL)
RULES = re.compile(r"^```yaml[^\n]*\n(?P<text>(?:version|domain): .*?)^```$", re.MULTILINE | re.DOTALL)
NO_RUN = "<!-- no-run -->"
STORES = {
    "redis://localhost:6379": "own_server",
    "redis+sentinel://localhost:26379/mymaster": "sentinel",
    "redis+cluster://localhost:7000": "cluster",
}
"""What pages call the servers that a reader has, and the fixtures that are there instead when they are tested."""
SERVICE = "http://127.0.0.1:8080"
"""What pages call the service that a reader has: one with the rules of the page is there instead."""


@dataclass(frozen=True)
class Block:
    """
    A fenced block of Python in a file.
    """

    path: Path
    line: int
    code: str

    def compile(self) -> CodeType:
        """
        The code, compiled so that a traceback shows the line of the page.
        """
        source = "\n" * self.line + self.code
        code = compile(source, str(self.path), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        assert isinstance(code, CodeType)
        return code


def blocks_of(path: Path) -> Iterator[Block]:
    """
    The blocks that are meant to run.
    """
    text = path.read_text(encoding="utf-8")
    for found in FENCE.finditer(text):
        before = text[: found.start()]
        if not before.rstrip().endswith(NO_RUN):
            yield Block(path, before.count("\n") + 1, textwrap.dedent(found["code"]))


@pytest.fixture
def own_server() -> Iterator[Single]:
    """
    A server that nobody else counts on.
    """
    with Single() as server:
        yield server


def with_servers(blocks: list[Block], request: pytest.FixtureRequest) -> list[Block]:
    """
    The same blocks with the addresses of servers that run.
    """
    used = [address for address in STORES if any(address in block.code for block in blocks)]
    servers: dict[str, Single | Sentinel | Cluster] = {address: request.getfixturevalue(STORES[address]) for address in used}
    for address, server in servers.items():
        blocks = [replace(block, code=block.code.replace(address, server.url())) for block in blocks]
    return blocks


@contextmanager
def with_service(blocks: list[Block]) -> Iterator[list[Block]]:
    """
    The same blocks with the address of a service that runs.
    """
    if not any(f'"{SERVICE}' in block.code for block in blocks):
        yield blocks
        return
    with here(Path("rules.yaml").read_text(encoding="utf-8")) as service:
        address = f"http://{service.addresses['http']}"
        yield [replace(block, code=block.code.replace(SERVICE, address)) for block in blocks]


def run(blocks: list[Block], **names: object) -> None:
    """
    Runs blocks one after the other, as if they had been typed into one session that knows these names.
    """
    module = ModuleType("__main__")
    module.__dict__.update(names)
    for block in blocks:
        coroutine = eval(block.compile(), module.__dict__)  # noqa: S307, RUF100  # our own documentation
        if coroutine is not None:
            asyncio.run(coroutine)


def with_blocks(paths: list[Path]) -> list[object]:
    """
    Parameters for the files that have something to run.
    """
    return [pytest.param(path, id=str(path.relative_to(ROOT))) for path in paths if any(blocks_of(path))]


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("page", with_blocks(PAGES))
def test_the_python_of_a_page_runs(page: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    From top to bottom, in one namespace; what must not run is marked `<!-- no-run -->` on the line before.

    Files that it shows are there, and so are the servers. They may take their time: the machine of a test is busy.
    """
    monkeypatch.setattr("tidegate._options.BUDGET", 2.0)
    monkeypatch.setattr("tidegate.client.options.BUDGET", 10.0)
    for file in FILE.finditer(page.read_text(encoding="utf-8")):
        Path(file["name"]).write_text(file["text"], encoding="utf-8")
    with with_service(with_servers(list(blocks_of(page)), request)) as blocks:
        run(blocks)


@pytest.mark.parametrize(
    "page", [pytest.param(page, id=str(page.relative_to(ROOT))) for page in PAGES if RULES.search(page.read_text("utf-8"))]
)
def test_the_rules_of_a_page_load(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Every rule file that is shown is correct.
    """
    monkeypatch.setenv("TIDEGATE_JWT_SECRET", "a secret of at least thirty-two bytes")
    for number, found in enumerate(RULES.finditer(page.read_text(encoding="utf-8"))):
        file = Path(f"rules-{number}.yaml")
        file.write_text(found["text"], encoding="utf-8")

        assert () == rules.load(file).warnings


@pytest.mark.parametrize("module", with_blocks(MODULES))
def test_the_python_in_docstrings_runs(module: Path) -> None:
    """
    Each example of a docstring stands alone; it need not import what it documents, and finds a rule file.
    """
    Path("rules.yaml").write_text("version: 1\nrules:\n  - {name: per_client, per: client, quotas: 100/minute}\n", encoding="utf-8")
    for block in blocks_of(module):
        run([block], **{name: getattr(tidegate, name) for name in tidegate.__all__})


@pytest.mark.parametrize("page", [pytest.param(page, id=str(page.relative_to(ROOT))) for page in PAGES])
def test_every_block_of_python_is_fenced_properly(page: Path) -> None:
    """
    No block escapes the tests by an odd fence.
    """
    text = page.read_text(encoding="utf-8")

    assert text.count("```python") == len(FENCE.findall(text))
    assert text.count("```") % 2 == 0
    assert not re.search(r"```(py|python3|Python|pycon)\b", text.replace("```python\n", ""))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs(example: Path, request: pytest.FixtureRequest) -> None:
    """
    As a program of its own, with warnings as errors, and it says nothing on standard error. Who needs a Redis is told of one.
    """
    # The C core of gRPC tells of every connection that a server ends, if it has the time to.
    environment = os.environ | {"PYTHONWARNINGS": "error", "GRPC_VERBOSITY": "ERROR"}
    if "REDIS_URL" in example.read_text(encoding="utf-8"):
        server: Single = request.getfixturevalue("server")
        environment["REDIS_URL"] = server.url()
    done = subprocess.run(
        [sys.executable, str(example)], capture_output=True, text=True, timeout=30, stdin=subprocess.DEVNULL, check=False, env=environment
    )

    assert (0, "") == (done.returncode, done.stderr)


def test_there_are_examples() -> None:
    """
    The folder is not empty, so the test above tests something.
    """
    assert EXAMPLES
    assert any(blocks_of(ROOT / "README.md"))


# --- Timelines --------------------------------------------------------------------------------------------------------------------------

TIMELINES = {
    "concurrency": ["concurrency"],
    "fixed_window": ["fixed_window"],
    "gcra": ["gcra"],
    "leaky_bucket": ["leaky_bucket"],
    "sliding_window": ["sliding_window"],
    "sliding_window_log": ["sliding_window_log"],
    "sliding_window_counter": ["sliding_window_counter", "sliding_window_ring"],
}
"""From the page of an algorithm to the files whose timelines it shows. Those are compared with the truth tables in `test_vectors.py`."""


def timeline(path: Path) -> list[str]:
    """
    The lines of the timelines in a file, without the marks of a comment.
    """
    lines = (line.removeprefix("//!").strip() for line in path.read_text(encoding="utf-8").splitlines())
    return [line for line in lines if re.match(r"t=[\d.]+s ", line)]


@pytest.mark.parametrize("page", TIMELINES)
def test_the_timeline_of_a_page_is_that_of_the_code(page: str) -> None:
    """
    Line by line, so that the page is as tested as the truth tables are.
    """
    expected = [line for name in TIMELINES[page] for line in timeline(ALGORITHMS / f"{name}.rs")]

    assert expected == timeline(ROOT / "docs" / "concepts" / f"{page}.md")


def test_every_algorithm_has_a_page() -> None:
    """
    With its picture; a new algorithm is not finished without them.
    """
    with_timeline = {path.stem for path in ALGORITHMS.glob("*.rs") if timeline(path)}

    assert with_timeline == {name for names in TIMELINES.values() for name in names}
    for page in TIMELINES:
        assert f"{page}.svg" in (ROOT / "docs" / "concepts" / f"{page}.md").read_text(encoding="utf-8")

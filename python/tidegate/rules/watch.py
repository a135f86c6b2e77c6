"""
Hot reload: rules that change on disk come into force by themselves.
"""

from __future__ import annotations

import logging
import os
import threading
import weakref
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import watchfiles

from tidegate import rules
from tidegate._sleep import now_ns
from tidegate.errors import RuleError, TidegateError, UsageError
from tidegate.rules import footprint
from tidegate.rules.files import SUFFIXES

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from tidegate.rule_limiter import RuleLimiter
    from tidegate.rules import RuleSet

_WATCHERS: weakref.WeakSet[Watcher] = weakref.WeakSet()

LOG = logging.getLogger("tidegate.rules")

QUIET_MS = 50
"""A file that is wrong is believed to be so when it stays as it is for so long: editors write in several steps."""
STEP_MS = 200
"""How often somebody looks for notices: a core that serves requests does not do so for a tenth of a millisecond each time, or more."""
GROUP_MS = 300
"""But not later than this after the first step."""
LOOK_MS = 400
"""Without a notice the files are looked at this often: some file systems send none."""
STOP_S = 2.0
ATTEMPTS_MAX = 5


class Watcher:
    """
    Reloads the rules of a limiter when their files change, in a thread of its own.

    A good change is in force within a second, as a whole. A bad one is refused: the rules in force stay, the problems are logged once under
    `tidegate.rules` and kept in `problem` until the files are good again.

    The limiter is not kept alive: once it is garbage, watching ends. A forked child begins to watch anew, because threads stay behind.

    Args:
        limiter: Whose rules are reloaded.
        source: The file or the directory that they come from.

    Raises:
        UsageError: There is no source, because the limiter was made from rules in memory.
    """

    def __init__(self, limiter: RuleLimiter, source: str | os.PathLike[str] | None) -> None:
        if source is None:
            raise UsageError("rules that were loaded before cannot be watched: give the path of their file or directory")
        # Absolute, because a service may change its working directory after the start.
        self._source = Path(os.path.abspath(source))  # noqa: PTH100  # Path.resolve would follow links that Kubernetes swaps
        self._files = self._absolute(limiter.rule_set)
        self._merge_domains = limiter.rule_set.merge_domains
        self._stop = threading.Event()
        self._limiter = weakref.ref(limiter, self._on_garbage)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._glance: footprint.Look = {}
        self._content: footprint.Look | None = None
        self._retry_at_ns = 0
        self._is_blind = False
        self._is_loading = False
        self._reloads = 0
        self._failures = 0
        self._problem: RuleError | None = None
        self._listener: Callable[[RuleError | None], None] | None = None
        self._last_loaded_at = datetime.now(tz=UTC)
        _WATCHERS.add(self)

    @property
    def reloads(self) -> int:
        """How often changed rules came into force."""
        return self._reloads

    @property
    def failures(self) -> int:
        """How many changes were refused."""
        return self._failures

    @property
    def problem(self) -> RuleError | None:
        """Why the files as they are now are not in force; `None` if they are."""
        return self._problem

    @property
    def last_loaded_at(self) -> datetime:
        """When the rules in force were loaded."""
        return self._last_loaded_at

    @property
    def is_running(self) -> bool:
        """Whether the thread runs, in this process."""
        return self._thread is not None and self._thread.is_alive()

    def listen(self, listener: Callable[[RuleError | None], None]) -> None:
        """
        Asks to be told how each reload went; of the last problem at once, if there is one.

        Args:
            listener: Called in the thread that watches: with the problem, or with `None` when the files are in force.
        """
        self._listener = listener
        if self._problem is not None:
            listener(self._problem)

    def start(self) -> None:
        """
        Begins to watch. Nothing happens if it does already.
        """
        with self._lock:
            if self.is_running and not self._stop.is_set():
                return
            # Of its own: a thread that was told to stop must not take it back.
            self._stop = threading.Event()
            self._thread = threading.Thread(target=self._run, args=(self._stop,), name="tidegate-rules-watcher", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """
        Ends watching. Nothing is loaded afterwards. Nothing happens if nobody watches.
        """
        with self._lock:
            self._stop.set()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(STOP_S)

    def __repr__(self) -> str:
        state = "running" if self.is_running else "stopped"
        return f"Watcher({str(self._source)!r}, {state}, {self._reloads} reloads, {self._failures} failures)"

    def _after_fork(self) -> None:
        was_running = self._thread is not None and not self._stop.is_set()
        # The thread that held the lock or loaded a change stayed with the parent.
        self._lock, self._thread = threading.Lock(), None
        if (limiter := self._limiter()) is not None:
            limiter._loading = threading.Lock()  # noqa: SLF001  # as above
        if self._is_loading:
            self._is_loading, self._content = False, None
        if was_running:
            self.start()

    def _on_garbage(self, _: object) -> None:
        self._stop.set()

    def _run(self, stop: threading.Event) -> None:
        # What changed since the limiter was made, or since the thread before: nobody watched.
        self._look(stop, is_told=True)
        while not stop.is_set():
            try:
                self._watch(stop)
            except Exception as error:  # noqa: BLE001  # no notices, for whatever reason: looking from time to time is enough
                self._note_blind(error)
                stop.wait(LOOK_MS / 1000)
                self._look(stop, is_told=False)

    def _watch(self, stop: threading.Event) -> None:
        watched = footprint.directories(self._paths())
        folders = [folder for folder, _, _ in watched]
        if not folders:
            stop.wait(LOOK_MS / 1000)
            self._look(stop, is_told=False)
            return
        with closing(_notices(folders, stop, self._is_relevant)) as notices:
            for changed in notices:
                self._look(stop, is_told=not changed.isdisjoint(map(str, self._paths())))
                # Another include, or a directory that was deleted and made again.
                if footprint.directories(self._paths()) != watched:
                    return

    def _is_relevant(self, _: watchfiles.Change, path: str) -> bool:
        # What Kubernetes swaps begins with two dots. What is overlooked here is seen at the next look.
        name = os.path.basename(path)  # noqa: PTH119  # called for every change in a directory that may hold other files
        return name.startswith("..") or name.lower().endswith(SUFFIXES) or path in map(str, self._paths())

    def _note_blind(self, error: Exception) -> None:
        if not self._is_blind:
            self._is_blind = True
            LOG.warning("no notices about changed files, looking at them every %d ms instead: %s", LOOK_MS, error)

    def _look(self, stop: threading.Event, *, is_told: bool) -> None:
        paths = self._paths()
        seen = footprint.glance(paths)
        # What is missing may be made where nobody watches, so a problem is looked at again.
        is_due = self._problem is not None and now_ns() >= self._retry_at_ns
        if not (is_told or is_due or seen != self._glance):
            return
        self._glance = seen
        content = footprint.read(paths)
        if content != self._content or is_due:
            self._reload(stop, content)

    def _reload(self, stop: threading.Event, content: footprint.Look) -> None:
        for attempt in range(1, ATTEMPTS_MAX + 1):
            # Of the moment before loading: what is written meanwhile is a change of its own.
            is_change, self._content = content != self._content, content
            self._is_loading = True
            began_ns = now_ns()
            try:
                self._put_in_force(rules.load(self._source, merge_domains=self._merge_domains), stop)
            except Exception as error:  # noqa: BLE001  # whatever it is, the rules in force stay and the thread lives on
                took_ns = now_ns() - began_ns
                # Half of a file is a bad file: it is believed when it stays so.
                if stop.wait(QUIET_MS / 1000):
                    return
                content = footprint.read(self._paths())
                if content == self._content or attempt == ATTEMPTS_MAX:
                    self._retry_at_ns = now_ns() + max(LOOK_MS * 1_000_000, 20 * took_ns)
                    self._refuse(error, is_change=is_change)
                    return
            else:
                return
            finally:
                self._is_loading = False

    def _put_in_force(self, rule_set: RuleSet, stop: threading.Event) -> None:
        is_news = self._problem is not None
        with self._lock:
            limiter = self._limiter()
            if limiter is None or limiter.closed or stop.is_set():
                stop.set()
                return
            if rule_set.to_json() != limiter.file_rules.to_json():
                generation = limiter.load(rule_set)
                self._reloads += 1
                is_news = True
                self._last_loaded_at = datetime.now(tz=UTC)
                LOG.info("rules reloaded from %s: generation %d", self._source, generation)
            elif is_news:
                LOG.info("the problem with %s is gone: it has the rules that are in force", self._source)
        self._problem = None
        if is_news and self._listener is not None:
            self._listener(None)
        if (files := self._absolute(rule_set)) != self._files:
            # New ones may have changed since they were read.
            self._files, self._content = files, None

    def _refuse(self, error: Exception, *, is_change: bool) -> None:
        problem = error if isinstance(error, RuleError) else RuleError(f"the rules cannot be loaded: {error}")
        if not is_change and self._problem is not None and str(problem) == str(self._problem):
            return
        self._failures += 1
        LOG.error("changed rules refused, those in force stay: %s", problem, exc_info=None if isinstance(error, TidegateError) else error)
        # Its frames would keep alive what they refer to.
        self._problem = problem.with_traceback(None)
        if self._listener is not None:
            self._listener(self._problem)

    def _paths(self) -> tuple[Path, ...]:
        problems = () if self._problem is None else self._problem.problems
        return tuple(dict.fromkeys((self._source, *self._files, *(Path(problem.file) for problem in problems))))

    def _absolute(self, rule_set: RuleSet) -> tuple[Path, ...]:
        return tuple(Path(os.path.abspath(path)) for path in rule_set.files)  # noqa: PTH100  # as above


def _notices(
    folders: list[str], stop: threading.Event, is_relevant: Callable[[watchfiles.Change, str], bool]
) -> Generator[set[str], None, None]:
    changes = watchfiles.watch(
        *folders,
        watch_filter=is_relevant,
        recursive=False,
        debounce=GROUP_MS,
        step=STEP_MS,
        rust_timeout=LOOK_MS,
        yield_on_timeout=True,
        stop_event=stop,
        raise_interrupt=False,
    )
    for change in changes:
        yield {path for _, path in change}


def _after_fork() -> None:
    for watcher in list(_WATCHERS):
        watcher._after_fork()  # noqa: SLF001  # the other half of the class


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

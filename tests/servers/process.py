"""
Child processes that end with the process that started them, also if that one is killed.

One guard per process, a shell that reads what was started and what has ended, and kills the rest when its input ends. That is
independent of the thread that starts a server, which PR_SET_PDEATHSIG is not, and needs no Python code between fork and exec.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_GUARD = r"""
pids=' '
while read -r sign pid; do
    case $sign in
        +) pids="$pids$pid " ;;
        -) pids="${pids%% $pid *} ${pids#* $pid }" ;;
    esac
done
for pid in $pids; do kill -KILL "$pid" 2>/dev/null; done
rm -rf -- "$1"
"""


class _Guard:
    """
    The shell, what it guards, and the folder that it removes in the end.
    """

    def __init__(self) -> None:
        self.owner = os.getpid()
        self.folder = Path(tempfile.mkdtemp(prefix="tg-"))  # short: the path of a Unix socket has at most 107 bytes
        self.running: set[Process] = set()
        self.folders = 0
        # A session of its own, so that Ctrl-C in a terminal does not reach it before it has done its work.
        self.shell = subprocess.Popen(
            ["/bin/sh", "-c", _GUARD, "guard", self.folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        atexit.register(self.close)

    def tell(self, sign: str, pid: int) -> None:
        assert self.shell.stdin is not None
        self.shell.stdin.write(f"{sign} {pid}\n".encode())
        self.shell.stdin.flush()

    def close(self) -> None:
        # A forked child inherits the guard and these handlers, but the servers are not its own.
        if self.owner != os.getpid() or self.shell.returncode is not None:
            return
        for process in list(self.running):
            process.kill()
        self.shell.communicate()
        shutil.rmtree(self.folder, ignore_errors=True)


_lock = threading.Lock()
_guard: _Guard | None = None


def _guarded() -> _Guard:
    global _guard  # noqa: PLW0603 - one per process, and another one after a fork
    with _lock:
        if _guard is None or _guard.owner != os.getpid():
            _guard = _Guard()
        return _guard


def new_folder(name: str) -> Path:
    """
    A folder for one server. It is removed when this process ends.
    """
    guard = _guarded()
    with _lock:
        guard.folders += 1
        folder = guard.folder / f"{guard.folders}-{name}"
    folder.mkdir()
    return folder


class Process:
    """
    One running child. It never outlives this process.
    """

    def __init__(self, argv: Sequence[str | Path], *, log: Path, env: Mapping[str, str] | None = None) -> None:
        self._guard = _guarded()
        with log.open("ab") as output:
            self._child = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=log.parent,
                env={**os.environ, **(env or {})},
                start_new_session=True,
            )
        with _lock:
            self._guard.tell("+", self.pid)
            self._guard.running.add(self)

    @property
    def pid(self) -> int:
        """
        The number of the process.
        """
        return self._child.pid

    @property
    def is_running(self) -> bool:
        """
        Whether it has not ended. A frozen one has not.
        """
        return self._child.poll() is None

    @property
    def exit_code(self) -> int | None:
        """
        What it ended with; `None` while it runs.
        """
        return self._child.poll()

    def send(self, number: signal.Signals) -> None:
        """
        Sends a signal. Nothing happens if it has ended already.
        """
        self._child.send_signal(number)

    def kill(self) -> None:
        """
        SIGKILL: no good-bye, connections are reset by the kernel. Nothing happens if it has ended already.
        """
        self._child.kill()
        self._child.wait()
        with _lock:
            if self in self._guard.running:
                self._guard.running.remove(self)
                with contextlib.suppress(OSError):  # the guard itself was killed: nobody to tell
                    self._guard.tell("-", self.pid)

    def freeze(self) -> None:
        """
        SIGSTOP: connections stay open and accept bytes, and nothing is answered.

        Returns when its last thread stands still: on a busy machine the others answer for milliseconds after the signal.
        """
        self._child.send_signal(signal.SIGSTOP)
        with contextlib.suppress(ChildProcessError):  # it has ended, and was waited for
            os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def thaw(self) -> None:
        """
        SIGCONT: what was sent meanwhile is answered.
        """
        self._child.send_signal(signal.SIGCONT)

"""
The server that everybody is measured on, and what it says of its own work.

It is one of `tests/servers`: a real Valkey from a wheel, and Redis 7.0 where it is installed.
"""

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.servers import Single

ROOT = Path(__file__).resolve().parent.parent
STATISTIC = re.compile(r"^cmdstat_([^:]+):calls=(\d+),usec=(\d+)", re.MULTILINE)


def start(name: str = "valkey") -> "Single":
    """
    Starts a server, which ends with its `with` block.

    Raises:
        tests.servers.Missing: This machine has none of that name.
    """
    # The servers of the tests are found from the root of the repository, not from this folder.
    if str(ROOT) not in sys.path:
        sys.path.append(str(ROOT))
    from tests.servers import Single  # noqa: PLC0415 - only now can it be found

    # What writes to disk or evicts is off already; a slow log would measure itself.
    return Single(server=name, config=["slowlog-log-slower-than -1"])


def installed(names: tuple[str, ...]) -> list[str]:
    """Return those of the servers that this machine has."""
    if str(ROOT) not in sys.path:
        sys.path.append(str(ROOT))
    from tests.servers import available  # noqa: PLC0415 - only now can it be found

    found = {binary.name for binary in available()}
    return [name for name in names if name in found]


@dataclass(frozen=True)
class Work:
    """What the server did, by command: how often, and for how many microseconds."""

    calls: dict[str, int]
    usec: dict[str, int]

    @classmethod
    def of(cls, server: "Single") -> "Work":
        """Ask for everything since the start."""
        found = STATISTIC.findall(server.node.ask("INFO", "commandstats"))
        return cls({name: int(calls) for name, calls, _ in found}, {name: int(usec) for name, _, usec in found})

    def since(self, earlier: "Work") -> "Work":
        """Return what was done between two questions."""
        calls = {name: count - earlier.calls.get(name, 0) for name, count in self.calls.items()}
        usec = {name: count - earlier.usec.get(name, 0) for name, count in self.usec.items()}
        return Work(calls, usec)

    @property
    def scripts(self) -> int:
        """How many scripts ran."""
        return self.calls.get("evalsha", 0)

    @property
    def script_us(self) -> float:
        """Microseconds of one script, with everything that it called."""
        return self.usec.get("evalsha", 0) / max(1, self.scripts)

    def inner_calls(self, commands: tuple[str, ...]) -> float:
        """How many of these commands one script called."""
        return sum(self.calls.get(name, 0) for name in commands) / max(1, self.scripts)

    def round_trips(self, decisions: int) -> float:
        """
        How many commands a decision took, whatever they were.

        Heartbeats, which come every second or so, are known by the command that only they call.
        """
        asked = sum(self.calls.get(name, 0) for name in ("evalsha", "eval", "evalsha_ro", "get", "set", "multi", "script|load"))
        inner = sum(self.calls.get(name, 0) for name in ("get", "set"))
        return (asked - inner - self.calls.get("zadd", 0)) / decisions


def used_memory(server: "Single") -> int:
    """Return the bytes that the server has allocated."""
    return int(re.findall(r"^used_memory:(\d+)", server.node.ask("INFO", "memory"), re.MULTILINE)[0])

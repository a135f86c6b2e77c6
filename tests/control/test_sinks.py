"""
Where events go beside the database, and what happens when they cannot.
"""

from __future__ import annotations

import errno
import json
import threading
from typing import TYPE_CHECKING, Any

import pytest

from tidegate.control import events, sinks
from tidegate.control.events import COLUMNS, Event
from tidegate.control.sinks import Outlet, SinkError
from tidegate.control.sinks import outlet as module
from tidegate.control.sinks.file import FileSink
from tidegate.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    Eventually = Callable[..., None]

    from tests.control.controlling import settings_for
    from tests.control.telling import line
else:
    from controlling import settings_for
    from telling import line

CLICKHOUSE = {"events.clickhouse": "http://127.0.0.1:1"}


def row(**said: Any) -> dict[str, Any]:  # noqa: ANN401  # parts of an event
    """
    An event as sinks get it.
    """
    return Event.from_json(json.dumps(line(**said)).encode()).row()


class Sink:
    """
    A sink that fails until it is told to be well.
    """

    def __init__(self, *, is_well: bool = True) -> None:
        self.is_well = threading.Event()
        self.rows: list[dict[str, Any]] = []
        self.is_closed = False
        if is_well:
            self.is_well.set()

    def write(self, rows: Sequence[dict[str, Any]]) -> None:
        """See `Sink`."""
        if not self.is_well.is_set():
            raise SinkError("it is down")
        self.rows.extend(rows)

    def close(self) -> None:
        """See `Sink`."""
        self.is_closed = True


def test_an_event_has_exactly_the_columns() -> None:
    """In their order, with the time in UTC to the microsecond."""
    made = row(event_id="1" * 32, at=1_000_000.000001, method="GET", path="/a", rule=None, current=None, limit=None)

    assert COLUMNS == tuple(made)
    assert ["1" * 32, "abcd…", "GET /a", "", False, None, None, "1970-01-12T13:46:40.000001Z"] == list(made.values())


def test_a_queue_is_bounded_and_drops_are_counted(monkeypatch: pytest.MonkeyPatch, eventually: Eventually) -> None:
    """A sink that is down costs what does not fit; when it is back it gets the rest, in order and once."""
    monkeypatch.setattr(module, "PAUSE_MIN_S", 0.01)
    sink = Sink(is_well=False)
    outlet = Outlet("test", sink, queue_max=10)
    outlet.start()
    outlet.put([{"number": number} for number in range(7)])
    outlet.put([{"number": number} for number in range(7, 14)])
    eventually(lambda: outlet.state.why == "it is down")
    assert (4, 10) == (outlet.state.dropped, outlet.state.waiting)
    sink.is_well.set()
    eventually(lambda: outlet.state.written == 10)
    outlet.stop()

    assert list(range(10)) == [one["number"] for one in sink.rows]
    assert (4, 0, "") == (outlet.state.dropped, outlet.state.waiting, outlet.state.why)
    assert sink.is_closed


def test_what_was_not_written_before_the_end_is_counted() -> None:
    """A sink that stays down does not keep the process from ending."""
    outlet = Outlet("test", Sink(is_well=False))
    outlet.start()
    outlet.put([{}, {}])
    outlet.stop()

    assert (0, 2) == (outlet.state.written, outlet.state.dropped)


def test_files_are_rotated(tmp_path: Path) -> None:
    """A file that is full is renamed, only so many are kept, and no line is cut in two."""
    path = tmp_path / "deep" / "events.jsonl"
    one = len(json.dumps(row(), ensure_ascii=False).encode()) + 1
    sink = FileSink(path, bytes_max=3 * one, count=3)
    made = [row() for _ in range(20)]
    for single in made:
        sink.write([single])
    sink.close()

    kept = [path.with_name(name) for name in ("events.jsonl.2", "events.jsonl.1", "events.jsonl")]
    assert sorted(kept) == sorted(path.parent.iterdir())
    read = [json.loads(text) for file in kept for text in file.read_text(encoding="utf-8").splitlines()]
    assert made[-len(read) :] == read
    assert 8 == len(read)
    assert 0o600 == path.stat().st_mode & 0o777


def test_a_file_goes_on_where_it_ended(tmp_path: Path) -> None:
    """A process that starts again adds to the file, and counts what is in it."""
    path = tmp_path / "events.jsonl"
    for _ in range(2):
        sink = FileSink(path, bytes_max=10**6, count=1)
        sink.write([row(), row()])
        sink.close()

    assert 4 == len(path.read_text(encoding="utf-8").splitlines())


def test_a_full_disk_leaves_no_half_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was written of a batch that failed is taken back, and the batch comes again as a whole."""
    path = tmp_path / "events.jsonl"
    sink = FileSink(path, bytes_max=10**6, count=2)
    sink.write([row()])

    class Full:
        """
        A disk with room for ten bytes.
        """

        def __init__(self, file: Any) -> None:  # noqa: ANN401  # an open file
            self.file = file
            self.room = 10

        def write(self, data: memoryview) -> int:
            """
            Writes what has room.
            """
            if not self.room:
                raise OSError(errno.ENOSPC, "No space left on device")
            written, self.room = self.file.write(data[: self.room]), 0
            return int(written)

        def __getattr__(self, name: str) -> Any:  # noqa: ANN401  # whatever files have
            return getattr(self.file, name)

    monkeypatch.setattr(sink, "_file", Full(sink._file))
    with pytest.raises(SinkError, match="No space left"):
        sink.write([row(), row()])
    assert 1 == len(path.read_text(encoding="utf-8").splitlines())
    sink.write([row(), row()])
    sink.close()

    assert [True] * 3 == [bool(json.loads(text)) for text in path.read_text(encoding="utf-8").splitlines()]


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    """With the path and the reason."""
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(SinkError, match=r"file/events\.jsonl: \w"):
        FileSink(tmp_path / "file" / "events.jsonl", 10**6, 2).write([row()])


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        pytest.param(
            {"events.clickhouse": "http://127.0.0.1:1", "events.clickhouse_table": "a; DROP TABLE b"}, "no name of a table", id="table"
        ),
        pytest.param(
            {"events.clickhouse": "http://127.0.0.1:1", "events.clickhouse_password_file": "/no/such"}, "password_file", id="password"
        ),
        pytest.param({"events.kafka": "127.0.0.1:1", "events.kafka_config": "/no/such"}, "kafka_config", id="options"),
    ],
)
def test_what_is_wrong_with_a_sink_is_told_at_the_start(said: dict[str, str | bool], expected: str, tmp_path: Path) -> None:
    """Before anything is served."""
    with pytest.raises(ConfigError, match=expected):
        sinks.outlets(settings_for("sqlite:///x.db", tmp_path, said))


def test_no_sink_is_wanted_by_default(tmp_path: Path) -> None:
    """And events are read all the same."""
    assert [] == sinks.outlets(settings_for("sqlite:///x.db", tmp_path))
    assert [] == list(events.read(b""))

"""
Events to ClickHouse: statements on chdb, which is ClickHouse in a process, and the HTTP interface on a stub.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import pytest

from tidegate.control.sinks import SinkError
from tidegate.control.sinks.clickhouse import ClickHouseSink, create_statement, insert_statement, lines

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.control.test_sinks import row
else:
    from test_sinks import row

TABLE = "tidegate_events"

# In a process of its own: it brings a ClickHouse along, with its threads and signal handlers.
CHDB = """
import json, sys
from chdb.session import Session
session = Session(sys.argv[1])
session.query("CREATE DATABASE IF NOT EXISTS test ENGINE = Atomic")
session.query("USE test")
for statement in json.load(sys.stdin):
    print(json.dumps(str(session.query(statement, "JSONCompactEachRow"))))
session.close()
"""


@pytest.mark.skipif(find_spec("chdb") is None, reason="chdb is not installed")
@pytest.mark.timeout(180)
def test_the_statements_are_those_of_clickhouse(tmp_path: Path) -> None:
    """The table is made twice without harm, takes every value, and keeps one row of an event that came twice."""
    events = [
        row(event_id="1" * 32, client="abcd…'\"\\", path="/a\tb", at=1_700_000_000.123456),
        row(event_id="2" * 32, allowed=True, current=None, limit=None, rule=None),
        row(event_id="3" * 32, current=2**63 - 1, limit=2**63 - 1, at=1_700_000_000.000001),
    ]
    insert = f"{insert_statement(TABLE)}\n{lines(events).decode()}"
    statements = [
        create_statement(TABLE),
        create_statement(TABLE),
        insert,
        insert,
        f"SELECT * FROM {TABLE} FINAL ORDER BY event_id",
        f"SELECT name FROM system.columns WHERE table = '{TABLE}' AND database = 'test' ORDER BY position",
    ]
    ran = subprocess.run(
        [sys.executable, "-c", CHDB, str(tmp_path)], input=json.dumps(statements), capture_output=True, text=True, check=False, timeout=150
    )
    assert 0 == ran.returncode, ran.stderr
    *_, rows, columns = (json.loads(line) for line in ran.stdout.splitlines())

    found = [json.loads(line) for line in rows.splitlines()]
    assert ["1" * 32, "abcd…'\"\\", "GET /a\tb", "strict", False] == found[0][:5]
    assert [["2" * 32, True, None, None], ["3" * 32, False]] == [[found[1][0], *found[1][4:7]], [found[2][0], found[2][4]]]
    assert [2**63 - 1] * 2 == [int(number) for number in found[2][5:7]]
    assert ["2023-11-14 22:13:20.123456", "2023-11-14 22:13:20.000001"] == [found[0][7], found[2][7]]
    assert list(events[0]) == [json.loads(line)[0] for line in columns.splitlines()]


@dataclass
class Stub:
    """
    The HTTP interface of a ClickHouse, as much of it as is used.
    """

    has_table: bool = False
    status: int = 200
    calls: list[str] = field(default_factory=list)
    rows: list[dict[str, object]] = field(default_factory=list)
    signed_in: list[str | None] = field(default_factory=list)
    address: str = ""

    def answer(self, statement: str, body: bytes) -> tuple[int, str | None]:
        """
        The status, and the code of an error.
        """
        self.calls.append(statement.split(" ", 1)[0])
        if self.status != 200:
            return self.status, "242"
        if statement.startswith("CREATE TABLE IF NOT EXISTS"):
            self.has_table = True
        elif not self.has_table:
            return 404, "60"
        else:
            self.rows += [json.loads(line) for line in body.splitlines()]
        return 200, None


@pytest.fixture
def stub() -> Iterator[Stub]:
    """
    A stub that listens.
    """
    stub = Stub()

    class Handler(BaseHTTPRequestHandler):
        """
        Answers.
        """

        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            """
            Runs a statement.
            """
            body = self.rfile.read(int(self.headers["Content-Length"]))
            stub.signed_in.append(self.headers.get("Authorization"))
            status, code = stub.answer(parse_qs(urlsplit(self.path).query)["query"][0], body)
            self.send_response(status)
            if code is not None:
                self.send_header("X-ClickHouse-Exception-Code", code)
            self.send_header("Content-Length", "7")
            self.end_headers()
            self.wfile.write(b"a word\n")

        def log_message(self, *arguments: object) -> None:
            """
            Nothing is logged.
            """

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    stub.address = f"http://127.0.0.1:{server.server_port}"
    yield stub
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_table_that_is_missing_is_made(stub: Stub) -> None:
    """Only then, and the batch that found it missing arrives."""
    sink = ClickHouseSink(stub.address, TABLE)
    first, second = row(), row()
    sink.write([first])
    sink.write([second])
    sink.close()

    assert ["INSERT", "CREATE", "INSERT", "INSERT"] == stub.calls
    assert [first, second] == stub.rows
    assert [None] * 4 == stub.signed_in


def test_who_signs_in_is_told_in_a_header(stub: Stub) -> None:
    """And not in the address, which is logged by everybody on the way."""
    sink = ClickHouseSink(stub.address, TABLE, "tide", "gate")
    sink.write([row()])
    sink.close()

    assert {"Basic dGlkZTpnYXRl"} == set(stub.signed_in)


def test_what_clickhouse_refuses_is_told(stub: Stub) -> None:
    """With its own words; the next batch is a new try."""
    sink = ClickHouseSink(stub.address, TABLE)
    stub.status = 500
    with pytest.raises(SinkError, match="ClickHouse answers 500: a word"):
        sink.write([row()])
    stub.status = 200
    sink.write([row()])
    sink.close()

    assert 1 == len(stub.rows)


def test_a_clickhouse_that_is_away_is_an_error() -> None:
    """And no wait."""
    sink = ClickHouseSink("http://127.0.0.1:1", TABLE)
    with pytest.raises(SinkError, match="ClickHouse does not answer"):
        sink.write([row()])

"""
Events to ClickHouse, over its HTTP interface. The table is made if it is missing.

A batch that comes again, because nobody knows whether it arrived, is the same to the last byte: the table keeps one row of each `event_id`
once its parts are merged, and `SELECT ... FINAL` sees one at once.
"""

from __future__ import annotations

import base64
import http.client
import json
import re
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode, urlsplit

from tidegate.control.sinks.outlet import SinkError
from tidegate.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tidegate.control.sinks.outlet import Row

WITHIN_S: Final = 10.0
"""How long a call may take."""

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,100}(?:\.[A-Za-z_][A-Za-z0-9_]{0,100})?")
_NO_TABLE: Final = "60"
"""The code of ClickHouse for a table that is not there."""


def create_statement(table: str) -> str:
    """
    Makes the table.

    Args:
        table: Its name.

    Returns:
        A statement.
    """
    return f"""\
CREATE TABLE IF NOT EXISTS {table} (
    event_id String,
    client_id String,
    endpoint String,
    rule_id LowCardinality(String),
    allowed Bool,
    current_count Nullable(UInt64),
    limit_count Nullable(UInt64),
    timestamp DateTime64(6, 'UTC')
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMMDD(timestamp)
ORDER BY (rule_id, timestamp, event_id)"""


def insert_statement(table: str) -> str:
    """
    Adds events; their rows follow as JSON, one in a line.

    Args:
        table: Its name.

    Returns:
        A statement.
    """
    columns = "event_id, client_id, endpoint, rule_id, allowed, current_count, limit_count, timestamp"
    return f"INSERT INTO {table} ({columns}) SETTINGS date_time_input_format = 'best_effort' FORMAT JSONEachRow"


def lines(rows: Sequence[Row]) -> bytes:
    """
    Rows as they follow an insert.

    Args:
        rows: The events.

    Returns:
        JSON, one in a line.
    """
    return b"\n".join(json.dumps(row, ensure_ascii=False).encode() for row in rows)


class ClickHouseSink:
    """
    Writes to a table.

    Args:
        address: Where it is, such as `http://127.0.0.1:8123`.
        table: `name` or `database.name`.
        user: Who signs in; `None` is nobody.
        password: The password.

    Raises:
        ConfigError: The name of the table is none.
    """

    def __init__(self, address: str, table: str, user: str | None = None, password: str = "") -> None:
        if not _NAME.fullmatch(table):
            raise ConfigError(f"`{table:.80}` is no name of a table\nhint: write events.clickhouse_table as name or database.name")
        parts = urlsplit(address)
        self._host, self._port, self._path = parts.hostname or "", parts.port or 8123, parts.path.rstrip("/") + "/"
        self._table = table
        self._headers = {"Content-Type": "application/x-ndjson"}
        if user is not None:
            self._headers["Authorization"] = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
        self._connection: http.client.HTTPConnection | None = None

    def write(self, rows: Sequence[Row]) -> None:
        """See `Sink`."""
        insert, body = insert_statement(self._table), lines(rows)
        code = self._call(insert, body, may_lack_table=True)
        if code == _NO_TABLE:
            self._call(create_statement(self._table))
            self._call(insert, body)

    def close(self) -> None:
        """See `Sink`."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _call(self, statement: str, body: bytes = b"", *, may_lack_table: bool = False) -> str | None:
        """
        Runs a statement; answers the code of an error that is expected.
        """
        if self._connection is None:
            self._connection = http.client.HTTPConnection(self._host, self._port, timeout=WITHIN_S)
        try:
            self._connection.request("POST", f"{self._path}?{urlencode({'query': statement})}", body, self._headers)
            response = self._connection.getresponse()
            said = response.read(2000)
            # What is left unread would be taken for the next answer.
            if not response.isclosed():
                self.close()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise SinkError(f"ClickHouse does not answer: {type(error).__name__}: {error}") from error
        if response.status == http.client.OK:
            return None
        code = response.headers.get("X-ClickHouse-Exception-Code")
        if may_lack_table and code == _NO_TABLE:
            return code
        raise SinkError(f"ClickHouse answers {response.status}: {said.decode(errors='replace').strip():.300}")


def read_password(path: Path | None) -> str:
    """
    Reads the password.

    Args:
        path: A file; `None` is none.

    Returns:
        What is in it, without the end of the line.

    Raises:
        ConfigError: It cannot be read.
    """
    if path is None:
        return ""
    try:
        return path.read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, ValueError) as error:
        raise ConfigError(f"events.clickhouse_password_file cannot be read: {getattr(error, 'strerror', None) or error}") from None

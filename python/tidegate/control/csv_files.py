"""
Quotas of customers as CSV: one row for each override, with the quotas of each rule in a column of its own.

    api_key,tenant,tier,effective_at,expires_at,reason,quota:per_client,quota:write_orders
    k-1,acme,pro,,,,500/minute,

`api_key` is a key, or `digest:` and its digest, which is what an export has. Several quotas of one rule are separated by commas.
A cell that a spreadsheet would take for a formula has an apostrophe before it, in exports, and loses it when it is imported.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import IO, TYPE_CHECKING, Final

from tidegate.control import quotas
from tidegate.control.keys import BY_DIGEST, BadKey, Key, Keys
from tidegate.control.quotas import Refused, Wanted

if TYPE_CHECKING:
    from _csv import Reader as _Reader
    from collections.abc import Iterable, Iterator

    from tidegate.control.models import QuotaOverride

ROWS_MAX: Final = 1_000_000
PROBLEMS_MAX: Final = 1_000
NAME_MAX: Final = 128
QUOTA: Final = "quota:"
COLUMNS: Final = ("api_key", "tenant", "tier", "effective_at", "expires_at", "reason")
_CELL_MAX: Final = 10_000
# With them a spreadsheet begins a formula, also behind blanks.
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "'")


@dataclass(slots=True)
class Imported:
    """
    What a file says.

    Args:
        rows: Keys, with what each is to have.
        problems: Everything that is wrong, by line; with any, nothing of the file is used.
        left_off: How many more problems there are than are listed.
    """

    rows: list[tuple[Key, Wanted]] = field(default_factory=list)
    problems: list[dict[str, str | int]] = field(default_factory=list)
    left_off: int = 0

    def add(self, line: int, column: str, message: str, code: str = "bad-value") -> None:
        """
        Notes a problem.
        """
        if len(self.problems) < PROBLEMS_MAX:
            self.problems.append({"path": column, "message": message, "line": line, "code": code})
        else:
            self.left_off += 1


def read(lines: IO[str], keys: Keys) -> Imported:
    """
    Reads a file as a whole, without using any of it.

    Args:
        lines: The file.
        keys: How keys are digested and shown.

    Returns:
        What it says, and everything that is wrong with it.
    """
    found = Imported()
    reader = csv.reader(lines, strict=True)
    # A quote that is never closed makes one cell of a whole file.
    before = csv.field_size_limit(_CELL_MAX)
    try:
        _read(reader, keys, found)
    except csv.Error as error:
        found.add(reader.line_num, "", f"this is no CSV: {error}", "bad-csv")
    except UnicodeDecodeError:
        found.add(reader.line_num + 1, "", "this is no text in UTF-8", "bad-csv")
    finally:
        csv.field_size_limit(before)
    return found


def _read(reader: _Reader, keys: Keys, found: Imported) -> None:
    header = [name.strip().removeprefix("\ufeff") for name in next(reader, [])]
    for name in header:
        if name not in COLUMNS and not (name.startswith(QUOTA) and len(name) > len(QUOTA)):
            found.add(
                1,
                name[:NAME_MAX],
                f"there is no such column: there are {', '.join(COLUMNS)}, and quota:RULE for each rule",
                "unknown-column",
            )
        if header.count(name) > 1:
            found.add(1, name[:NAME_MAX], "two columns have this name", "twin-columns")
    if "api_key" not in header:
        found.add(1, "api_key", "the file has no column api_key", "missing-column")
    if found.problems:
        return
    seen: dict[tuple[str, datetime | None], int] = {}
    for cells in reader:
        if not cells:
            continue
        if len(seen) >= ROWS_MAX:
            found.add(reader.line_num, "", f"a file has at most {ROWS_MAX:,} rows", "too-many")
            return
        if len(cells) != len(header):
            found.add(reader.line_num, "", f"the row has {len(cells)} cells, and the header {len(header)}", "bad-row")
            continue
        _read_row(dict(zip(header, map(_unguarded, cells), strict=True)), reader.line_num, keys, found, seen)


def _read_row(row: dict[str, str], line: int, keys: Keys, found: Imported, seen: dict[tuple[str, datetime | None], int]) -> None:
    count = len(found.problems) + found.left_off
    try:
        key = keys.read(row["api_key"])
    except BadKey as error:
        found.add(line, "api_key", str(error), "bad-key")
        return
    times = {name: _time(row.get(name, ""), line, name, found) for name in ("effective_at", "expires_at")}
    names = {name: _name(row.get(name, ""), line, name, found) for name in ("tenant", "tier")}
    given = {name.removeprefix(QUOTA): text for name, text in row.items() if name.startswith(QUOTA) and text}
    texts: dict[str, list[str]] = {}
    try:
        texts = quotas.read(given, "quota")
    except Refused as refused:
        for problem in refused.problems:
            found.add(line, problem["path"].replace("quota.", QUOTA, 1), problem["message"], problem["code"])
    begins, ends = times["effective_at"], times["expires_at"]
    if ends is not None and begins is not None and ends <= begins:
        found.add(line, "expires_at", "it ends before it begins")
    if len(reason := row.get("reason", "")) > quotas.REASON_MAX:
        found.add(line, "reason", f"a reason has at most {quotas.REASON_MAX:,} characters", "too-long")
    twin = seen.setdefault((key.digest, begins), line)
    if twin != line:
        found.add(line, "api_key", f"the key stands in line {twin} too, with the same beginning", "twin-rows")
    if count == len(found.problems) + found.left_off:
        # Without the key itself: a hundred thousand of them are not held in memory.
        found.rows.append((Key(key.digest, key.shown), Wanted(names["tenant"], names["tier"], texts, begins, ends, reason)))


def _time(text: str, line: int, column: str, found: Imported) -> datetime | None:
    if not text.strip():
        return None
    try:
        time = datetime.fromisoformat(text.strip())
    except ValueError:
        found.add(line, column, "this is no time: write 2026-12-31T23:59:59Z", "bad-time")
        return None
    if time.tzinfo is None:
        found.add(line, column, "the time has no zone: write Z behind it for UTC", "bad-time")
        return None
    return time.astimezone(UTC)


def _name(text: str, line: int, column: str, found: Imported) -> str | None:
    if len(text) > NAME_MAX or not text.isprintable():
        found.add(line, column, f"a name has at most {NAME_MAX} characters, none of which is a control character", "bad-name")
        return None
    return text or None


def write(rows: Iterable[QuotaOverride], rules: list[str]) -> Iterator[str]:
    """
    Writes a file, piece by piece.

    Args:
        rows: The overrides.
        rules: The rules that have a column.

    Yields:
        Parts of the file.
    """
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(map(_guarded, [*COLUMNS, *(f"{QUOTA}{rule}" for rule in rules)]))
    for number, row in enumerate(rows, 1):
        times = ["" if time is None else time.isoformat() for time in (row.effective_at, row.expires_at)]
        texts = [", ".join(row.quotas.get(rule, [])) for rule in rules]
        writer.writerow(map(_guarded, [f"{BY_DIGEST}{row.digest}", row.tenant or "", row.tier or "", *times, row.reason, *texts]))
        if number % 500 == 0:
            yield buffer.getvalue()
            buffer.seek(0)
            buffer.truncate()
    yield buffer.getvalue()


def _guarded(cell: str) -> str:
    return f"'{cell}" if cell.lstrip(" ").startswith(_FORMULA) else cell


def _unguarded(cell: str) -> str:
    return cell[1:] if cell.startswith("'") and cell[1:].lstrip(" ").startswith(_FORMULA) else cell

"""
Quotas of customers as CSV: all rows or none, and nothing that a spreadsheet would run.
"""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import func, select

from tidegate.control import csv_files
from tidegate.control.keys import Keys
from tidegate.control.models import QuotaOverride

if TYPE_CHECKING:
    from tests.control.controlling import Clients

PATH = "/admin/v1/quotas.csv"
KEYS = Keys(b"0123456789abcdef")


def count(client: Clients) -> int:
    """
    How many overrides there are.
    """
    with client.control.database.reading() as session:
        return session.scalar(select(func.count()).select_from(QuotaOverride)) or 0


def test_what_is_exported_can_be_imported(client: Clients) -> None:
    """
    By digests, and with every field.
    """
    header = "api_key,tenant,tier,effective_at,expires_at,reason,quota:a,quota:b\n"
    rows = header + 'k-1,acme,pro,2030-01-01T00:00:00Z,,why,"5/minute, 9/hour",\nk-2,,gold,,,,,7/day\n'
    assert {"rows": 2, "replaced": 0, "is_dry": False} == client.editor.post(PATH, content=rows, params={"reason": "a list"}).json()

    exported = client.viewer.get(PATH).text

    assert "k-1" not in exported
    assert {"rows": 2, "replaced": 2, "is_dry": False} == client.editor.post(PATH, content=exported).json()
    assert exported == client.viewer.get(PATH).text
    assert client.viewer.get("/admin/v1/quotas/k-2").json()["in_force"] == {"tenant": None, "tier": "gold", "quotas": {"b": ["7/day"]}}


def test_a_whole_file_replaces_everything_else(client: Clients) -> None:
    """
    And without that, other keys stay.
    """
    client.editor.post(PATH, content="api_key,tier\na,pro\nb,pro\n")
    client.editor.post(PATH, content="api_key,tier\nc,pro\n")
    assert count(client) == 3

    assert client.editor.post(PATH, content="api_key,tier\nd,pro\n", params={"whole": True}).json()["replaced"] == 3

    assert count(client) == 1


def test_one_wrong_row_keeps_all_out_and_every_problem_has_its_line(client: Clients) -> None:
    """
    Also when there are several in one row.
    """
    rows = "api_key,tier,expires_at,quota:a\ngood,pro,,\n,pro,,\nbad,pro,tomorrow,many\ngood,x,,\nshort,pro\n"

    response = client.editor.post(PATH, content=rows)

    assert 422 == response.status_code
    problems = [(problem["line"], problem["path"], problem["code"]) for problem in response.json()["problems"]]
    assert [(3, "api_key", "bad-key"), (4, "expires_at", "bad-time"), (4, "quota:a")] == [*problems[:2], problems[2][:2]]
    assert [(5, "api_key", "twin-rows"), (6, "", "bad-row")] == problems[3:]
    assert count(client) == 0


def test_a_file_can_be_checked_only(client: Clients) -> None:
    """
    Then nothing changes.
    """
    before = client.control.database.number()

    assert {"rows": 1, "replaced": 0, "is_dry": True} == client.editor.post(
        PATH, content="api_key,tier\na,pro\n", params={"dry": True}
    ).json()

    assert (0, before) == (count(client), client.control.database.number())


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "'=1", "  =1", "'", "plain"])
def test_a_cell_that_looks_like_a_formula_is_inert_and_comes_back(text: str) -> None:
    """
    Behind an apostrophe, which is taken off again.
    """
    row = QuotaOverride(digest="0" * 32, shown="x", tenant=None, tier=None, quotas={}, reason=text, effective_at=None, expires_at=None)

    written = "".join(csv_files.write([row], []))

    cell = list(csv.reader(io.StringIO(written)))[1][5]
    assert not cell.lstrip(" ").startswith(("=", "+", "-", "@", "\t"))
    assert text == csv_files.read(io.StringIO(written, newline=""), KEYS).rows[0][1].reason


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "missing-column"),
        ("api_key,plan\n", "unknown-column"),
        ("api_key,api_key\n", "twin-columns"),
        ('api_key\n"never closed', "bad-csv"),
        ("api_key\n" + "x" * 20_000, "bad-csv"),
        ("api_key,effective_at\nk,2026-01-01T00:00:00\n", "bad-time"),
        ("api_key,tier\nk,a\x07b\n", "bad-name"),
    ],
)
def test_what_is_no_file_of_quotas_is_refused(text: str, code: str) -> None:
    """
    With its reason, and without any row.
    """
    found = csv_files.read(io.StringIO(text, newline=""), KEYS)

    assert (code, []) == (found.problems[0]["code"], found.rows)


def test_bytes_that_are_no_text_are_refused(client: Clients) -> None:
    """
    As a file that is no CSV.
    """
    response = client.editor.post(PATH, content=b"api_key\n\xff\xfe\n")

    assert (422, "bad-csv") == (response.status_code, response.json()["problems"][0]["code"])


def test_more_problems_than_anybody_reads_are_counted() -> None:
    """
    And not listed.
    """
    found = csv_files.read(io.StringIO("api_key\n" + '""\n' * 1_500, newline=""), KEYS)

    assert (1_000, 500) == (len(found.problems), found.left_off)

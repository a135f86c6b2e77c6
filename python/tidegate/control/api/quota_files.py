"""
Quotas of customers as CSV: `/admin/v1/quotas.csv`.
"""

from __future__ import annotations

import io
import tempfile
from typing import IO, TYPE_CHECKING, Annotated

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel
from sqlalchemy import select
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

from tidegate.control import csv_files, quotas
from tidegate.control.api.access import Caller, Control, InControl, needs
from tidegate.control.api.fields import WhyQuery
from tidegate.control.api.problem import Problem, described
from tidegate.control.keys import Keys
from tidegate.control.models import QuotaOverride
from tidegate.control.roles import Role

if TYPE_CHECKING:
    from collections.abc import Iterator

router = APIRouter(tags=["quotas"])
PATH = "/admin/v1/quotas.csv"
BODY_BYTES = 64 * 1024 * 1024
_IN_MEMORY = 4 * 1024 * 1024
_FETCH = 1_000
_CSV = {"content": {"text/csv": {"schema": {"type": "string"}}}}


class Imported(BaseModel):
    """
    What became of a file.
    """

    rows: int
    """How many overrides it has."""
    replaced: int
    """How many there were before in their place."""
    is_dry: bool
    """Whether the file was only checked."""


@router.post(
    PATH,
    responses=described(400, 401, 403, 413, 422, 503, 507),
    openapi_extra={"requestBody": {"required": True, **_CSV}},
)
async def import_all(  # noqa: PLR0913, PLR0917  # who, what and how
    request: Request,
    control: InControl,
    caller: Annotated[Caller, needs(Role.EDITOR)],
    whole: Annotated[bool, Query(description="Whether overrides that the file does not have go.")] = False,  # noqa: FBT002  # in a query
    dry: Annotated[bool, Query(description="Only says what is wrong with the file.")] = False,  # noqa: FBT002  # in a query
    reason: WhyQuery = "",
) -> Imported:
    """
    Imports overrides from CSV: all rows or, if anything is wrong with any of them, none.
    """
    with tempfile.SpooledTemporaryFile(_IN_MEMORY) as body:
        async for chunk in request.stream():
            await run_in_threadpool(body.write, chunk)
        body.seek(0)
        return await run_in_threadpool(_import, control, caller, body, whole, dry, reason)


def _import(control: Control, caller: Caller, body: IO[bytes], whole: bool, dry: bool, reason: str) -> Imported:  # noqa: PLR0913, PLR0917
    found = csv_files.read(io.TextIOWrapper(body, "utf-8-sig", newline=""), Keys.of(control.settings))
    if found.problems:
        count = len(found.problems) + found.left_off
        more = f"; {found.left_off:,} more are not listed" if found.left_off else ""
        first = found.problems[0]
        detail = f"{count:,} problems, and nothing was imported{more}; the first is in line {first['line']}: {first['message']}"
        raise Problem(422, detail, problems=found.problems)
    if dry:
        return Imported(rows=len(found.rows), replaced=0, is_dry=True)
    with control.database.session() as session:
        replaced = quotas.put_all(session, caller, found.rows, is_whole=whole, reason=reason)
        control.database.changed(session)
    return Imported(rows=len(found.rows), replaced=replaced, is_dry=False)


@router.get(PATH, responses={200: _CSV, **described(401, 403, 503)}, response_class=StreamingResponse)
def export_all(control: InControl, _caller: Annotated[Caller, needs(Role.VIEWER)]) -> StreamingResponse:
    """
    Exports all overrides as CSV, which `POST` takes again. Keys are in it as digests.
    """
    headers = {"Content-Disposition": 'attachment; filename="quotas.csv"'}
    return StreamingResponse(_export(control), media_type="text/csv; charset=utf-8", headers=headers)


def _export(control: Control) -> Iterator[str]:
    with control.database.reading() as session:
        # Twice, in one transaction: only then the columns are known, and no more than a few rows are held.
        rules = sorted(
            {rule for found in session.scalars(select(QuotaOverride.quotas).execution_options(yield_per=_FETCH)) for rule in found}
        )
        rows = session.scalars(select(QuotaOverride).order_by(QuotaOverride.id).execution_options(yield_per=_FETCH))
        yield from csv_files.write(rows, rules)

"""
`tidegate admin token ...`: tokens of the control plane, made and revoked by who can reach its database.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate.cli._table import NOTHING, show_table
from tidegate.cli.admin import _open
from tidegate.errors import UsageError
from tidegate.quota import duration_ns

if TYPE_CHECKING:
    from datetime import datetime

    from tidegate.control.models import Token

HEADINGS = ("id", "name", "role", "state", "made", "by", "ends", "used last")

app = typer.Typer(help="Make, list and revoke tokens of the control plane.", add_completion=False)


@app.callback()
def before() -> None:
    """
    Make, list and revoke tokens of the control plane.
    """


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="Whose it is: the audit log names them by it.")],
    *,
    role: Annotated[str, typer.Option(help="What it lets them do: viewer, editor, approver or admin.")] = "viewer",
    expires: Annotated[
        str | None, typer.Option(metavar="DURATION", help="How long it is good for, such as 90d. Default: for good.")
    ] = None,
    config: _open.Config = None,
    admin_database: _open.Address = None,
) -> None:
    """
    Make a token, and print it this once; only its digest is kept.

    tidegate admin token create alice --role admin

    tidegate admin token create ci --role editor --expires 90d > token
    """
    with _open.opened(config, admin_database) as database:
        from tidegate.control import tokens  # noqa: PLC0415  # an extra
        from tidegate.control.roles import Role  # noqa: PLC0415  # as above

        if role not in list(Role):
            raise UsageError(f"there is no role `{role:.40}`\nhint: choose one of {', '.join(Role)}")
        if not name.isprintable() or not 0 < len(name) <= tokens.NAME_MAX:
            raise UsageError(f"this is no name\nhint: write up to {tokens.NAME_MAX} characters that can be printed")
        caller = _open.operator()
        ends = None if expires is None else caller.at + timedelta(microseconds=duration_ns("--expires", expires) // 1000)
        database.migrate()
        try:
            with database.session() as session:
                _, secret = tokens.create(session, caller, name, Role(role), expires_at=ends)
        except tokens.NameTaken:
            raise UsageError(
                f"there is a token `{name}`\nhint: choose another name; the audit log goes by them, so none is given twice"
            ) from None
    typer.echo(secret)
    typer.echo(f"the token of `{name}`, {role}{'' if ends is None else f', good until {_time(ends)}'}; it cannot be shown again", err=True)


@app.command(name="list")
def list_(*, config: _open.Config = None, admin_database: _open.Address = None) -> None:
    """
    List all tokens, also those that have ended. Nobody can list what they are, only whose.
    """
    with _open.opened(config, admin_database) as database:
        from tidegate.control import tokens  # noqa: PLC0415  # an extra

        now = _open.operator().at
        database.migrate()
        with database.reading() as session:
            found = tokens.listed(session)
        rows = [_row(token, is_good=tokens.is_good(token, now)) for token in found]
    show_table(HEADINGS, rows, styles=["" if row[3] == "good" else "dim" for row in rows], words=frozenset(HEADINGS) - {"id"})


@app.command()
def revoke(
    name: Annotated[str, typer.Argument(metavar="NAME_OR_ID", help="The token, by its name or its number.")],
    *,
    reason: Annotated[str, typer.Option(help="Why, for the audit log.")] = "",
    config: _open.Config = None,
    admin_database: _open.Address = None,
) -> None:
    """
    Revoke a token at once, and end the sessions that were opened with it.
    """
    with _open.opened(config, admin_database) as database:
        from tidegate.control import tokens  # noqa: PLC0415  # an extra

        database.migrate()
        with database.session() as session:
            meant = [token.id for token in tokens.listed(session) if name in {token.name, str(token.id)}]
            if not meant:
                raise UsageError(f"there is no token `{name:.128}`\nhint: tidegate admin token list")
            for token_id in meant[:1]:
                tokens.revoke(session, _open.operator(), token_id, reason=reason)
    typer.echo(f"revoked: {name}")


def _row(token: Token, *, is_good: bool) -> list[str]:
    state = "good" if is_good else "revoked" if token.revoked_at else "ended"
    made, ends, used = (_time(at) for at in (token.created_at, token.expires_at, token.used_at))
    return [str(token.id), token.name, token.role, state, made, token.created_by, ends, used]


def _time(at: datetime | None) -> str:
    return NOTHING if at is None else f"{at:%Y-%m-%d %H:%M}Z"

"""
What all pages have: who looks at them, how they are rendered, and how errors are shown.

Templates escape everything; only `charts` makes markup. Answers carry a policy of content: no script but ours, and no other host.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from importlib.resources import files
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Depends, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from jinja2 import Environment, PackageLoader, StrictUndefined
from sqlalchemy import func, select
from starlette.responses import HTMLResponse, RedirectResponse, Response

from tidegate.control.api.access import Caller, InControl, needs
from tidegate.control.api.problem import Problem
from tidegate.control.control import Control
from tidegate.control.errors import DatabaseError
from tidegate.control.models import ChangeRequest
from tidegate.control.refused import Refused
from tidegate.control.roles import Role
from tidegate.dashboard import shown, words
from tidegate.dashboard.recent import LASTS, Recent

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping
    from datetime import datetime, timedelta

_Value = TypeVar("_Value")

THEMES: Final = frozenset({"", "light", "dark"})
THEME_COOKIE: Final = "tidegate_theme"
PART_HEADER: Final = "tidegate-part"
"""By which the script asks for the content of a page without its frame."""


@dataclass(frozen=True, slots=True)
class Link:
    """
    A page of the navigation, and the key that leads to it after `g`.
    """

    href: str
    name: str
    key: str
    role: Role = Role.VIEWER


NAVIGATION: Final = (
    ("Traffic", (Link("/", "Overview", "o"), Link("/instances", "Instances", "i"))),
    (
        "Limits",
        (
            Link("/rules", "Rules", "r"),
            Link("/changes", "Change requests", "c"),
            Link("/keys", "Keys", "k"),
            Link("/tiers", "Tiers and tenants", "t"),
        ),
    ),
    ("Record", (Link("/audit", "Audit log", "a"), Link("/tokens", "Tokens", "n", Role.ADMIN))),
)

DONE: Final = {
    "saved": "Saved. Every instance has it within two seconds.",
    "proposed": "Proposed. Somebody else has to approve it before it takes effect.",
    "started": "The change begins with its first step.",
    "deleted": "Deleted.",
    "blocked": "The key is blocked.",
    "unblocked": "The key may pass again.",
    "override": "The override is saved.",
    "granted": "Granted.",
    "reset": "Its counters are reset.",
    "approved": "Approved.",
    "rejected": "Rejected.",
    "advanced": "The next step is taken.",
    "finished": "The change is in force for everybody.",
    "stopped": "Stopped: what was before is in force.",
    "revoked": "Revoked. Whoever used it is signed out.",
}
"""What is told after a form was sent, by the word in the address of the next page: nothing but these texts can be made to appear."""


@cache
def environment() -> Environment:
    """
    The templates, read once.
    """
    made = Environment(
        loader=PackageLoader("tidegate.dashboard"), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    made.filters |= {name: getattr(words, name) for name in ("count", "micros", "share", "span", "ago", "stamp", "plural", "told")}
    made.filters |= {name: getattr(shown, name) for name in ("maybe", "quotas", "quotas_text", "step_class", "change_lines", "has")}
    made.globals["static"] = static_address
    return made


@cache
def static_file(name: str) -> bytes | None:
    """
    A file that pages load; `None` if there is none.
    """
    found = {file.name: file for file in (files("tidegate.dashboard") / "static").iterdir() if file.is_file()}
    return found[name].read_bytes() if name in found else None


@cache
def static_address(name: str) -> str:
    """
    Where a file is found. It changes with what the file says, so that browsers may keep it for ever.
    """
    return f"/static/{name}?v={hashlib.sha256(static_file(name) or b'').hexdigest()[:12]}"


@dataclass(frozen=True, slots=True)
class Visit:
    """
    Somebody who signed in looks at a page.

    Args:
        control: What the page is about.
        request: What the browser asked.
        caller: Who it is.
    """

    control: Control
    request: Request
    caller: Caller

    @property
    def now(self) -> datetime:
        """When they asked; everything on a page is as seen from then."""
        return self.caller.at

    def may(self, role: Role) -> bool:
        """
        Whether they may do what this role may.
        """
        return self.caller.role.may(role)

    def recently(self, name: str, read: Callable[[], _Value], lasts: timedelta = LASTS) -> _Value:
        """
        What somebody, perhaps another one, read a moment ago; read now if nobody did.
        """
        state = self.request.app.state
        if not hasattr(state, "recent"):
            state.recent = Recent()
        recent: Recent = state.recent
        return recent.get(name, self.now, read, lasts)

    def page(self, template: str, title: str, here: str, *, status: int = 200, **context: object) -> HTMLResponse:
        """
        Renders a page, or only its content if the script asks.

        Args:
            template: The file.
            title: Its title.
            here: The page of the navigation that it belongs to.
            status: The status of the response.
            context: What the template shows.
        """
        is_part = PART_HEADER in self.request.headers
        query = f"?{self.request.url.query}" if self.request.url.query and self.request.method == "GET" else ""
        common: dict[str, object] = {
            "layout": "part.html" if is_part else "layout.html",
            "title": title,
            "here": here,
            "back": f"{self.request.url.path if self.request.method == 'GET' else here}{query}",
            "now": self.now,
            "caller": self.caller,
            "csrf": self.caller.csrf or "",
            "theme": theme_of(self.request),
            "navigation": [(group, [link for link in links if self.may(link.role)]) for group, links in NAVIGATION],
            "waiting": 0 if is_part else self._waiting(),
            "done": DONE.get(self.request.query_params.get("done", "")),
            "error": None,
            "may_edit": self.may(Role.EDITOR),
        }
        return HTMLResponse(environment().get_template(template).render(common | context), status)

    def _waiting(self) -> int:
        try:
            with self.control.database.reading() as session:
                return session.scalar(select(func.count()).where(ChangeRequest.state == "proposed")) or 0
        except DatabaseError:
            return 0


def theme_of(request: Request) -> str:
    """
    The colours that this browser chose; empty follows the system.
    """
    chosen = request.cookies.get(THEME_COOKIE, "")
    return chosen if chosen in THEMES else ""


def _visit(role: Role) -> Any:  # noqa: ANN401  # stands where FastAPI takes any default
    # As a default, because an annotation is read where `role` is not known.
    def found(request: Request, control: InControl, caller: Caller = needs(role)) -> Visit:  # noqa: B008  # as FastAPI reads it
        request.state.visit = visit = Visit(control, request, caller)
        return visit

    return Depends(found)


Viewer = Annotated[Visit, _visit(Role.VIEWER)]
Editor = Annotated[Visit, _visit(Role.EDITOR)]
Approver = Annotated[Visit, _visit(Role.APPROVER)]
Admin = Annotated[Visit, _visit(Role.ADMIN)]


async def _fields(request: Request) -> dict[str, str]:
    return {name: value for name, value in (await request.form()).items() if isinstance(value, str)}


Fields = Annotated[dict[str, str], Depends(_fields)]
"""The fields of a form that was sent."""


def go(path: str, **query: object) -> RedirectResponse:
    """
    Leads to another page after a form was sent, so that loading it again sends nothing again.
    """
    return RedirectResponse(f"{path}?{urlencode(query, quote_via=quote)}" if query else path, 303)


class PageRoute(APIRoute):
    """
    A route whose errors are pages too: they say what is wrong and what to do.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """
        As FastAPI asks for it.
        """
        answer = super().get_route_handler()

        async def told(request: Request) -> Response:
            try:
                return await answer(request)
            except (Refused, DatabaseError, RequestValidationError, Problem) as error:
                # Who has to sign in is led there by the application.
                if isinstance(error, Problem) and error.status == HTTPStatus.UNAUTHORIZED:
                    raise
                visit: Visit | None = getattr(request.state, "visit", None)
                status, title, detail, hint = _told(error)
                if visit is None:
                    text = (
                        environment()
                        .get_template("signin.html")
                        .render(theme=theme_of(request), next="/", error={"title": title, "detail": detail})
                    )
                    return HTMLResponse(text, status)
                return visit.page("error.html", title, "", status=status, failure={"title": title, "detail": detail, "hint": hint})

        return told


_REFUSED: Final[Mapping[str, tuple[int, str, str]]] = {
    "unknown": (404, "Not found", "It may have been deleted. Go back and load the list again."),
    "taken": (409, "The name is taken", "Choose another name, or edit the one that has it."),
    "stale": (409, "Somebody else was faster", "Go back, copy your text, load the page again and make the change on what is there now."),
    "busy": (409, "Something else has to end first", "Look under Change requests, and finish or stop what is under way."),
    "over": (409, "It has been decided", "Load the page again to see how it stands."),
    "own": (403, "A second person has to do this", "Ask somebody with the role approver."),
    "wrong": (422, "This cannot be done", "Go back and correct it; your input is still there."),
}


def _told(error: Exception) -> tuple[int, str, str, str]:
    if isinstance(error, Refused):
        status, title, hint = _REFUSED.get(error.why, (409, "This cannot be done now", ""))
        return status, title, str(error), hint
    if isinstance(error, DatabaseError):
        return 503, "The database cannot be used", str(error), "Decisions go on by the last good rules. Try again in a moment."
    if isinstance(error, Problem):
        title = {403: "Not allowed", 404: "Not found", 409: "This cannot be done now", 429: "Too many attempts"}.get(
            error.status, "This cannot be done"
        )
        return error.status, title, error.detail, "Go back and correct it; your input is still there." if error.status == 422 else ""  # noqa: PLR2004
    return (
        422,
        "Something in the form or address is wrong",
        "A number or a time was expected and something else came.",
        "Go back and correct it.",
    )


def router() -> APIRouter:
    """
    What a module of pages adds its routes to.
    """
    return APIRouter(route_class=PageRoute, include_in_schema=False, default_response_class=HTMLResponse)

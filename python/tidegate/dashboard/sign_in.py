"""
The page to sign in, signing out, the choice of colours, and the files that pages load.
"""

from __future__ import annotations

import mimetypes
from urllib.parse import urlsplit

from fastapi import Request
from starlette.responses import HTMLResponse, Response

from tidegate.control import sessions
from tidegate.control.api.access import InControl, address_of
from tidegate.control.api.problem import SIGN_IN
from tidegate.control.api.session import refusal, set_cookie
from tidegate.control.signin import Refused
from tidegate.dashboard.page import THEME_COOKIE, THEMES, Fields, Viewer, environment, go, router, static_file, theme_of

routes = router()
_YEAR_S = 365 * 24 * 3600


def _inside(path: str) -> str:
    r"""
    A path of ours. Anything that a browser could take for another host is not: `//host`, `/\\host`, `https:`.
    """
    parts = urlsplit(path)
    is_ours = path.startswith("/") and not path.startswith(("//", "/\\")) and not parts.netloc and not parts.scheme and path.isprintable()
    return path if is_ours else "/"


@routes.get(SIGN_IN)
def form(request: Request, next: str = "/") -> HTMLResponse:  # noqa: A002  # the name in the address
    """
    The form.
    """
    return _form(request, next)


@routes.post(SIGN_IN)
def sign_in(request: Request, control: InControl, fields: Fields) -> Response:
    """
    Opens a session, and leads to where somebody wanted to go.
    """
    try:
        _, opened = control.sign_in.attempt(fields.get("token", ""), address_of(request), control.now())
    except Refused as refused:
        problem = refusal(refused)
        title = "Too many attempts." if refused.retry_after is not None else "Not signed in."
        response = _form(request, fields.get("next", "/"), problem.status, {"title": title, "detail": _sentence(problem.detail)})
        response.headers.update(problem.headers)
        return response
    answer = go(_inside(fields.get("next", "/")))
    set_cookie(request, answer, opened)
    return answer


@routes.post("/sign-out")
def sign_out(visit: Viewer) -> Response:
    """
    Ends the session of this browser.
    """
    if (secret := visit.request.cookies.get(sessions.COOKIE)) is not None:
        with visit.control.database.session() as session:
            sessions.close_session(session, secret)
    answer = go(SIGN_IN)
    answer.delete_cookie(sessions.COOKIE, path="/", httponly=True, samesite="strict")
    return answer


@routes.post("/theme")
def theme(visit: Viewer, fields: Fields) -> Response:
    """
    Remembers the colours in this browser.
    """
    answer = go(_inside(fields.get("back", "/")))
    chosen = fields.get("theme", "")
    if chosen in THEMES:
        secure = visit.request.url.scheme == "https"
        answer.set_cookie(THEME_COOKIE, chosen, max_age=_YEAR_S, path="/", httponly=True, samesite="strict", secure=secure)
    return answer


@routes.get("/static/{name}")
def static(name: str) -> Response:
    """
    A file that pages load. Its address changes with it.
    """
    found = static_file(name)
    if found is None:
        return Response("there is no such file", 404, media_type="text/plain")
    kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
    return Response(found, media_type=kind, headers={"Cache-Control": f"public, max-age={_YEAR_S}, immutable"})


def _form(request: Request, to: str, status: int = 200, error: dict[str, str] | None = None) -> HTMLResponse:
    return HTMLResponse(environment().get_template("signin.html").render(theme=theme_of(request), next=_inside(to), error=error), status)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."

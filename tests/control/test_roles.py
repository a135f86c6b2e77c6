"""
Who may call what, as a whole table: every route, every role.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from starlette.routing import Mount

from tidegate.control.api.document import role_of, routes_of
from tidegate.control.app import ROUTERS
from tidegate.control.edits import DECISIONS
from tidegate.control.roles import Role
from tidegate.dashboard.pages import PAGES

if TYPE_CHECKING:
    from tests.control.controlling import Clients

ANYBODY = None
VIEWER, EDITOR, APPROVER, ADMIN = Role

TABLE: dict[tuple[str, str], Role | None] = {
    ("GET", "/healthz"): ANYBODY,
    ("GET", "/readyz"): ANYBODY,
    ("POST", "/api/v1/session"): ANYBODY,
    ("GET", "/api/v1/session"): VIEWER,
    ("DELETE", "/api/v1/session"): VIEWER,
    ("POST", "/admin/v1/tokens"): ADMIN,
    ("GET", "/admin/v1/tokens"): ADMIN,
    ("DELETE", "/admin/v1/tokens/{token_id}"): ADMIN,
    ("GET", "/admin/v1/audit"): VIEWER,
    ("POST", "/admin/v1/quotas.csv"): EDITOR,
    ("GET", "/admin/v1/quotas.csv"): VIEWER,
    ("GET", "/admin/v1/quotas"): VIEWER,
    ("GET", "/admin/v1/quotas/{api_key:path}"): VIEWER,
    ("PUT", "/admin/v1/quotas/{api_key:path}"): EDITOR,
    ("POST", "/admin/v1/quotas/{api_key:path}/grant"): EDITOR,
    ("DELETE", "/admin/v1/quotas/{api_key:path}"): EDITOR,
    ("GET", "/admin/v1/tiers"): VIEWER,
    ("GET", "/admin/v1/tiers/{name}"): VIEWER,
    ("PUT", "/admin/v1/tiers/{name}"): EDITOR,
    ("DELETE", "/admin/v1/tiers/{name}"): EDITOR,
    ("GET", "/admin/v1/tenants"): VIEWER,
    ("GET", "/admin/v1/tenants/{name}"): VIEWER,
    ("PUT", "/admin/v1/tenants/{name}"): EDITOR,
    ("DELETE", "/admin/v1/tenants/{name}"): EDITOR,
    ("GET", "/admin/v1/blocks"): VIEWER,
    ("PUT", "/admin/v1/blocks/{api_key:path}"): EDITOR,
    ("DELETE", "/admin/v1/blocks/{api_key:path}"): EDITOR,
    ("GET", "/admin/v1/usage/{api_key:path}"): VIEWER,
    ("POST", "/admin/v1/usage/{api_key:path}/reset"): EDITOR,
    ("POST", "/api/v1/rate-limit/rules/validate"): VIEWER,
    ("POST", "/api/v1/rate-limit/rules/explain"): VIEWER,
    ("GET", "/api/v1/rate-limit/rules"): VIEWER,
    ("GET", "/api/v1/rate-limit/rules/{rule_id}"): VIEWER,
    ("POST", "/api/v1/rate-limit/rules"): EDITOR,
    ("PUT", "/api/v1/rate-limit/rules/{rule_id}"): EDITOR,
    ("DELETE", "/api/v1/rate-limit/rules/{rule_id}"): EDITOR,
    ("POST", "/api/v1/rate-limit/rules/{rule_id}/rollback"): EDITOR,
    ("GET", "/api/v1/rate-limit/rules/{rule_id}/revisions"): VIEWER,
    ("GET", "/api/v1/rate-limit/rules/{rule_id}/revisions/{number}"): VIEWER,
    ("GET", "/api/v1/rate-limit/rules/{rule_id}/diff"): VIEWER,
    ("POST", "/api/v1/rate-limit/rules/replay"): VIEWER,
    ("GET", "/api/v1/rate-limit/rules/{rule_id}/if-enforced"): VIEWER,
    ("GET", "/api/v1/rate-limit/changes"): VIEWER,
    ("GET", "/api/v1/rate-limit/changes/{change_id}"): VIEWER,
    ("POST", "/api/v1/rate-limit/changes/{change_id}/approve"): APPROVER,
    ("POST", "/api/v1/rate-limit/changes/{change_id}/reject"): EDITOR,
    ("POST", "/api/v1/rate-limit/changes/{change_id}/advance"): EDITOR,
    ("POST", "/api/v1/rate-limit/changes/{change_id}/finish"): EDITOR,
    ("POST", "/api/v1/rate-limit/changes/{change_id}/stop"): EDITOR,
    ("GET", "/admin/v1/events"): VIEWER,
    ("GET", "/admin/v1/live"): VIEWER,
    ("GET", "/admin/v1/instances"): VIEWER,
    ("GET", "/sign-in"): ANYBODY,
    ("POST", "/sign-in"): ANYBODY,
    ("POST", "/sign-out"): VIEWER,
    ("POST", "/theme"): VIEWER,
    ("GET", "/static/{name}"): ANYBODY,
    ("GET", "/"): VIEWER,
    ("GET", "/instances"): VIEWER,
    ("GET", "/rules"): VIEWER,
    ("GET", "/rule"): VIEWER,
    ("POST", "/rule/delete"): EDITOR,
    ("GET", "/editor"): VIEWER,
    ("POST", "/editor/check"): VIEWER,
    ("POST", "/editor/explain"): VIEWER,
    ("POST", "/editor/replay"): VIEWER,
    ("POST", "/editor/save"): EDITOR,
    ("GET", "/revisions"): VIEWER,
    ("POST", "/revisions/rollback"): EDITOR,
    ("GET", "/changes"): VIEWER,
    ("GET", "/change"): VIEWER,
    ("POST", "/change/decide"): EDITOR,
    ("GET", "/keys"): VIEWER,
    ("POST", "/keys/find"): VIEWER,
    ("GET", "/key"): VIEWER,
    ("POST", "/key/block"): EDITOR,
    ("POST", "/key/unblock"): EDITOR,
    ("POST", "/key/override"): EDITOR,
    ("POST", "/key/override/delete"): EDITOR,
    ("POST", "/key/grant"): EDITOR,
    ("POST", "/key/reset"): EDITOR,
    ("GET", "/tiers"): VIEWER,
    ("POST", "/tiers/save"): EDITOR,
    ("POST", "/tenants/save"): EDITOR,
    ("POST", "/tiers/delete"): EDITOR,
    ("POST", "/tenants/delete"): EDITOR,
    ("GET", "/audit"): VIEWER,
    ("GET", "/tokens"): ADMIN,
    ("POST", "/tokens/create"): ADMIN,
    ("POST", "/tokens/revoke"): ADMIN,
}
"""The least that a caller has to be. A route that is not here fails the test below: add it with care."""

ALL = (*ROUTERS, *PAGES)
ROUTES = [(method, route.path) for route in routes_of(ALL) for method in sorted(route.methods or ())]
IDS = [f"{method} {path}" for method, path in ROUTES]


def test_every_route_is_in_the_table() -> None:
    """
    And the table has no other.
    """
    assert sorted(TABLE) == sorted(ROUTES)


def test_every_route_is_known() -> None:
    """
    Files that anybody may have are the only other kind.
    """
    others = [route for router in ALL for route in router.routes if not isinstance(route, Mount)]

    assert len(others) == len(list(routes_of(ALL)))


def test_routes_say_themselves_who_may_call_them() -> None:
    """
    By their dependency, from which the OpenAPI document is made.
    """
    said = {(method, route.path): role_of(route) for route in routes_of(ALL) for method in route.methods or ()}

    assert TABLE == said


LOOKS = {"validate", "explain", "replay", "check", "find", "session", "sign-in", "sign-out", "theme"}
"""Last words of addresses that are sent something and keep nothing but a session or a cookie of who sends it."""


def test_whatever_changes_something_needs_an_editor() -> None:
    """
    The table above was filled from what the routes say; this is what they have to say.
    """
    changing = {(method, path): role for (method, path), role in TABLE.items() if method != "GET" and path.split("/")[-1] not in LOOKS}

    assert [] == [route for route, role in changing.items() if role in {ANYBODY, VIEWER}]
    assert {path for _, path in TABLE if "token" in path} == {path for (_, path), role in TABLE.items() if role is ADMIN}
    assert [APPROVER] == [role for (_, path), role in TABLE.items() if path.endswith("/approve")]
    # What a page of change requests sends names what is to be done: `edits.DECISIONS` says who may.
    assert {APPROVER: ["approve"], EDITOR: ["reject", "advance", "finish", "stop"]} == {
        role: [word for word, (needed, _) in DECISIONS.items() if needed is role] for role in (APPROVER, EDITOR)
    }


def test_each_role_may_call_what_the_table_says(client: Clients) -> None:
    """
    Who may is not told 401 or 403, whatever else is wrong with the request; who may not is told nothing else.
    """
    for role in (None, *Role):
        for (method, path), needed in TABLE.items():
            answer = client.of(role).request(method, re.sub(r"{\w+(:path)?}", "987654", path))
            is_refused = needed is not None and (role is None or not role.may(needed))
            expected = {401 if role is None else 403} if is_refused else {200, 201, 202, 204, 303, 400, 404, 409, 415, 422, 428}

            if path == "/sign-in":
                # Who signs in without a token has shown no good one.
                expected |= {401}

            assert answer.status_code in expected, (method, path, role, answer.text[:300])


@pytest.mark.parametrize(("low", "high"), [(low, high) for low in Role for high in Role if list(Role).index(low) < list(Role).index(high)])
def test_a_role_may_what_those_before_it_may(low: Role, high: Role) -> None:
    """
    And none may what only those behind it may.
    """
    assert high.may(low)
    assert low.may(low)
    assert not low.may(high)

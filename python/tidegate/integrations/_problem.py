"""
The body of a denial: problem details (RFC 9457), in the words of the service.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidegate import Decision

STATUS = 429
PROBLEM_JSON = "application/problem+json"

_TYPE = "https://iana.org/assignments/http-problem-types#"
_SECOND_NS = 1_000_000_000


def problem(decision: Decision) -> bytes:
    """
    The body of the response to a denied request.

    Args:
        decision: The denial.

    Returns:
        JSON in UTF-8.
    """
    return json.dumps(problem_members(decision), separators=(",", ":"), ensure_ascii=False).encode()


def problem_members(decision: Decision) -> dict[str, Any]:
    """
    The members of the problem details, for frameworks that write JSON themselves.

    Args:
        decision: The denial.

    Returns:
        `type`, `title`, `status`, `detail`, `retry_after` in whole seconds (absent if it is never admitted), `rule` (if clients are told
        of it) and `violated-policies`.
    """
    # Who is denied because the store is away is not the one who asked too often.
    is_theirs = not decision.degraded
    wait_ns = decision.retry_after_ns
    wait_s = None if wait_ns is None else max(1, -(-wait_ns // _SECOND_NS))
    members: dict[str, Any] = {
        "type": _TYPE + ("quota-exceeded" if is_theirs else "temporary-reduced-capacity"),
        "title": "Quota Exceeded" if is_theirs else "Temporary Reduced Capacity",
        "status": STATUS,
        "detail": "this request is never admitted" if wait_s is None else f"try again in {wait_s} s",
    }
    if wait_s is not None:
        members["retry_after"] = wait_s
    # Of rules with `headers: false` clients are not told, here as little as in the headers.
    told = decision.headers().get("RateLimit-Policy", "")
    violated = [quota for quota in decision.quotas if not quota.allowed and quota.mode == "enforce" and f'"{quota.name}";' in told]
    if any(quota.rule == decision.rule for quota in violated):
        members["rule"] = decision.rule
    members["violated-policies"] = [quota.name for quota in violated]
    return members

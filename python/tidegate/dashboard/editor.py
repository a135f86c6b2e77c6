"""
The editor of a rule: errors while typing, what it makes of a request, what it would have made of the last hour.

The form is one, and each of its buttons sends all of it: what was typed is never lost.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from starlette.responses import HTMLResponse, Response

from tidegate.control import bodies, compose, rules
from tidegate.control.rules import Edit
from tidegate.dashboard import in_force, replay, saving, shown
from tidegate.dashboard.page import Editor, Fields, Viewer, Visit, router
from tidegate.errors import RuleError, TidegateError, UsageError
from tidegate.rules import words
from tidegate.rules.compile import compile_rule
from tidegate.rules.explain import explain
from tidegate.rules.replay import facts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidegate.control.bodies import Reading
    from tidegate.rules import Rule, RuleSet

routes = router()


@dataclass(frozen=True, slots=True)
class Start:
    """
    A text to start from.
    """

    word: str
    name: str
    text: str


STARTS: Final = (
    Start("client", "Per client", "per: client\nquotas: 100/minute\ntiers:\n  pro: 1000/minute\nmode: shadow\n"),
    Start(
        "endpoint",
        "One endpoint",
        "match:\n  method: POST\n  path: /api/v1/orders/**\nper: client\nquotas:\n  - 10/second\n  - 200/minute\n",
    ),
    Start("login", "Sign-in", "match:\n  method: POST\n  path: /login\nper: ip\nquotas: 5/minute\non_store_error: deny\n"),
    Start("tenant", "Per tenant", "per: tenant\nquotas: 5000/minute burst 500\n"),
    Start("slots", "In flight", "per: client\nquotas: 20 concurrent\n"),
    Start("all", "Everybody together", "per: global\nquotas: 10000/second\nmode: shadow\n"),
)

LANGUAGE: Final = (
    ("match", "Which requests: method, path, host, header:name, any attribute. Without it, every request."),
    ("per", "Who is counted: client, ip, tenant, a list of attributes, or global."),
    ("quotas", "How much: 100/minute, 10/second burst 50, 20 concurrent; several are charged together."),
    ("tiers", "Other quotas for keys of a tier."),
    ("mode", "enforce, shadow (counts and denies nothing) or off."),
    ("rollout", "The share of keys for which it is enforced, such as 25%."),
    ("priority, stop", "Higher ones come first; stop: true ends the search, for lists of who always passes."),
    ("on_store_error", "Without the store: local, allow or deny."),
)
"""What the editor reminds people of; the specification of the language says the rest."""


@routes.get("/editor")
def editor(visit: Viewer, id: str = "") -> HTMLResponse:  # noqa: A002  # the name in the address
    """
    An empty editor, one with a text to start from, or one with a stored rule.
    """
    chosen = next((one for one in STARTS if one.word == visit.request.query_params.get("from")), STARTS[0])
    text, revision = chosen.text, 0
    if id:
        with visit.control.database.reading() as session:
            stored = rules.get(session, id)
        text, revision = shown.text_of(stored.body), stored.revision
    return _page(visit, {"id": id, "text": text, "revision": str(revision)}, is_known=bool(id), start=chosen.word)


@routes.post("/editor/check")
def check(visit: Viewer, fields: Fields) -> HTMLResponse:
    """
    The same page with what is wrong: the script shows only that.
    """
    return _page(visit, fields)


@routes.post("/editor/explain")
def explain_request(visit: Viewer, fields: Fields) -> HTMLResponse:
    """
    What the rules in force, with this text, make of a request.
    """
    reading, rule_set = _read(visit, fields)
    if not reading.is_good:
        return _page(visit, fields, explanation_error="The rule has errors. Mend them first.")
    attributes = facts(dict(_attributes(fields)))
    try:
        explanation = explain(rule_set, attributes)
    except TidegateError as error:
        return _page(visit, fields, explanation_error=str(error))
    is_allowed = explanation.binding is None or explanation.binding.allowed
    told = {"summary": explanation.summary, "verdicts": explanation.verdicts, "is_allowed": is_allowed}
    return _page(visit, fields, explanation=told)


@routes.post("/editor/replay")
def replay_hour(visit: Viewer, fields: Fields) -> HTMLResponse:
    """
    What the recorded traffic of the last hour would have looked like.
    """
    reading, rule_set = _read(visit, fields)
    if not reading.is_good:
        return _page(visit, fields, replay_error="The rule has errors. Mend them first.")
    try:
        with visit.control.database.reading() as session:
            current = in_force.composed(visit.control, session).rule_set
            told = replay.compare(session, visit.now, current, rule_set, fields.get("id", "").strip())
    except (RuleError, UsageError) as error:
        return _page(visit, fields, replay_error=f"The traffic cannot be decided again: {error}")
    return _page(visit, fields, replay=told)


@routes.post("/editor/save")
def save(visit: Editor, fields: Fields) -> Response:
    """
    Saves or proposes the rule. A wrong one comes back with its errors, and its text.
    """
    reading, _ = _read(visit, fields)
    if not reading.is_good:
        return _page(visit, fields, status=422)
    _, steps = saving.ROLLOUTS.get(fields.get("rollout", ""), saving.ROLLOUTS["once"])
    edit = Edit(fields.get("id", "").strip(), reading.body(), saving.number(fields, "revision"), fields.get("reason", ""))
    return saving.save(visit, edit, steps)


def _read(visit: Visit, fields: Mapping[str, str]) -> tuple[Reading, RuleSet]:
    with visit.control.database.reading() as session:
        composed = in_force.composed(visit.control, session).rule_set
    # Browsers send the ends of lines as HTTP writes them, and positions count characters.
    text = fields.get("text", "").replace("\r\n", "\n")
    reading = bodies.read(fields.get("id", "").strip(), text, composed.identity)
    compose.check(reading, composed)
    return reading, composed if reading.rule is None or not reading.is_good else _with(composed, reading.rule)


def _with(composed: RuleSet, rule: Rule) -> RuleSet:
    others = tuple(one for one in composed.rules if one.name.partition("~")[0] != rule.name)
    found = (*others, rule)
    return replace(composed, rules=found, ir=composed.ir | {"rules": [compile_rule(one) for one in found]})


def _attributes(fields: Mapping[str, str]) -> list[tuple[str, str]]:
    lines = [line.partition("=") for line in fields.get("attributes", "").splitlines() if line.strip()]
    named = [(name.strip(), value.strip()) for name, _, value in lines]
    return [(name, fields[name].strip()) for name in ("method", "path") if fields.get(name, "").strip()] + named


def _page(
    visit: Visit, fields: Mapping[str, str], *, status: int = 200, is_known: bool | None = None, start: str = "", **told: object
) -> HTMLResponse:
    # A rule that has a revision is known, and keeps its name.
    known = fields.get("revision", "0") not in {"", "0"} if is_known is None else is_known
    name = fields.get("id", "")
    is_new = not known and not name.strip()
    reading, _ = _read(visit, dict(fields) | ({"id": "new_rule"} if is_new else {}))
    context: dict[str, object] = {
        "id": name if known else "",
        "name": name,
        "text": fields.get("text", ""),
        "revision": fields.get("revision", "0"),
        "reason": fields.get("reason", ""),
        "rollout": fields.get("rollout", "once"),
        "rollouts": [(word, name) for word, (name, _) in saving.ROLLOUTS.items()],
        "starts": STARTS,
        "language": LANGUAGE,
        "start": start,
        "found": reading.problems,
        "said": _said(reading.rule),
        "needs_approval": visit.control.needs_approval,
        "request_method": fields.get("method", ""),
        "request_path": fields.get("path", ""),
        "request_attributes": fields.get("attributes", ""),
        "explanation": None,
        "explanation_error": None,
        "replay": None,
        "replay_error": None,
    }
    return visit.page("editor.html", f"Edit {name}" if known else "New rule", "/rules", status=status, **(context | told))


def _said(rule: Rule | None) -> str:
    if rule is None:
        return ""
    return f"{words.quotas(rule.quotas)} per {words.per(rule.per)}, for {words.match(rule.match)}"

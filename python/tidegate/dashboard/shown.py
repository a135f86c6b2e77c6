"""
Values as templates show them: quotas by rule, differences, where a change is.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml

from tidegate.dashboard import words

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tidegate.control.models import AuditEntry, ChangeRequest, QuotaOverride


@dataclass(frozen=True, slots=True)
class Line:
    """
    One line of a difference. `kind` is `added`, `removed` or empty.
    """

    kind: str
    text: str


def text_of(body: Mapping[str, Any] | None) -> str:
    """
    A rule, or anything else that is kept as JSON, as people write it.
    """
    if body is None:
        return ""
    return yaml.safe_dump(dict(body), sort_keys=False, allow_unicode=True, default_flow_style=None, width=100)


def difference(old: str, new: str) -> list[Line]:
    """
    Two texts line by line; those that they have in common are kept, because rules are short.
    """
    marks = {"+ ": "added", "- ": "removed", "  ": ""}
    lines = difflib.ndiff(old.splitlines(), new.splitlines())
    return [Line(marks[line[:2]], line) for line in lines if line[:2] in marks]


def change_lines(entry: AuditEntry) -> list[Line]:
    """
    What an entry of the audit log changed.
    """
    return difference(text_of(entry.before), text_of(entry.after))


def maybe(number: float | None) -> str:
    """
    A number, or a dash where there is none.
    """
    return words.NOTHING if number is None else words.count(number)


def quotas(by_rule: Mapping[str, Any]) -> str:
    """
    Quotas by rule in one line: `per_client 500/minute`.
    """
    return "; ".join(f"{rule} {', '.join(map(_quota, said)) if isinstance(said, list) else _quota(said)}" for rule, said in by_rule.items())


def has(override: QuotaOverride) -> str:
    """
    What an override gives: `tier pro, tenant acme, per_client 500/minute`.
    """
    named = [f"{name} {value}" for name, value in (("tier", override.tier), ("tenant", override.tenant)) if value]
    return ", ".join([*named, *([quotas(override.quotas)] if override.quotas else [])]) or "nothing"


def quotas_text(by_rule: Mapping[str, Any]) -> str:
    """
    The same as a text that a form can send: one `rule: quota` per line.
    """
    return "\n".join(
        f"{rule}: {', '.join(map(_quota, said)) if isinstance(said, list) else _quota(said)}" for rule, said in by_rule.items()
    )


def _quota(said: object) -> str:
    return said if isinstance(said, str) else yaml.safe_dump(said, default_flow_style=True, width=1000).strip()


def read_quotas(text: str) -> Iterator[tuple[str, str]]:
    """
    Reads what `quotas_text` shows. A line without a colon is a rule with an empty quota, which its check then refuses by name.
    """
    for line in text.splitlines():
        if line.strip():
            rule, _, quota = line.partition(":")
            yield rule.strip(), quota.strip()


def step_class(change: ChangeRequest, index: int) -> str:
    """
    How a step of a change is drawn: `past`, `now`, or nothing while it is ahead.
    """
    if change.state == "done":
        return "past"
    if change.state not in {"shadow", "rolling"}:
        return ""
    return "past" if index < change.step else "now" if index == change.step else ""

"""
`tidegate rules explain`: what the rules make of one request, and why.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate import rules
from tidegate.cli._attributes import attributes_of
from tidegate.cli._table import NOTHING, plain, show_table
from tidegate.rules.explain import explain as explain_request

if TYPE_CHECKING:
    from tidegate.rules.explain import Verdict

HEADINGS = ("", "rule", "outcome", "mode", "key", "plan", "quotas", "cost", "why")
OUTCOMES = {"applies": "applies", "no_match": "no match", "no_key": "no key", "stopped": "stopped", "off": "off"}


def explain(
    path: Annotated[str, typer.Argument(help="A file or a directory of rules.")],
    words: Annotated[
        list[str] | None, typer.Argument(metavar="NAME=VALUE...", help="The request, such as method=POST path=/login header:x-plan=pro.")
    ] = None,
    *,
    cost: Annotated[int | None, typer.Option(help="The cost of the request; by default what the rules say.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """
    Show which rules apply to a request, why the others do not, and which quota binds.

    tidegate rules explain rules.yaml method=POST path=/login ip=203.0.113.7

    Rules are listed in the order in which they are looked at. The answer is that of a client who has used nothing yet.

    Exit code 0: explained, whatever the answer is. 2: wrong usage, or wrong rules.
    """
    rule_set = rules.load(path)
    explanation = explain_request(rule_set, attributes_of(words or (), rule_set), cost)
    if as_json:
        typer.echo(json.dumps(explanation.to_dict(), indent=2))
        return
    seen = [[name, value] for name, value in explanation.attributes.items()]
    typer.echo("the request, as the rules see it")
    typer.echo(plain(seen, indent="  ") if seen else "  nothing that a rule asks for")
    typer.echo("")
    if explanation.verdicts:
        binding = None if explanation.binding is None else explanation.binding.rule
        rows = [_row(verdict, is_binding=verdict.rule == binding) for verdict in explanation.verdicts]
        show_table(HEADINGS, rows, styles=[_style(verdict) for verdict in explanation.verdicts], words=frozenset(HEADINGS) - {"cost"})
        typer.echo("")
    typer.echo(explanation.summary)
    if explanation.shadowed:
        typer.echo(f"in shadow, these would deny it: {', '.join(explanation.shadowed)}")


def _row(verdict: Verdict, *, is_binding: bool) -> list[str]:
    stops = "stops: no later rule is looked at" if verdict.stops else ""
    why = "; ".join(filter(None, (verdict.why, stops))) or NOTHING
    if not verdict.applies:
        return ["", verdict.rule, OUTCOMES[verdict.outcome], verdict.mode, NOTHING, NOTHING, NOTHING, NOTHING, why]
    key = ", ".join(verdict.key) or "global"
    quotas = ", ".join(verdict.quotas) or "none"
    return [">" if is_binding else "", verdict.rule, "applies", verdict.mode, key, verdict.plan, quotas, str(verdict.cost), why]


def _style(verdict: Verdict) -> str:
    if not verdict.applies:
        return "dim"
    return "yellow" if verdict.mode == "shadow" else "green"

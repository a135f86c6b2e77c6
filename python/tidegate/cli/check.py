"""
`tidegate check`: what a quota or a file of rules answers, before it is deployed or by a store that is in use.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

from tidegate import Limiter
from tidegate._sleep import now_ns, sleep
from tidegate.cli._attributes import attributes_of
from tidegate.cli._table import show
from tidegate.errors import UsageError
from tidegate.quota import duration_ns
from tidegate.testing import ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tidegate import Decision
    from tidegate._options import StoreOptions
    from tidegate.rule_limiter import RuleLimiter

EXIT_DENIED = 1
SEE_HELP = "hint: see tidegate check --help"


class Asked(NamedTuple):
    """
    Who is asked, and what.

    Args:
        limiter: Who.
        about: The key or the attributes, for programs that read the answer.
        ask: Asks once.
    """

    limiter: Limiter | RuleLimiter
    about: dict[str, Any]
    ask: Callable[[], Decision]


def check(  # noqa: PLR0913  # a command's parameters are its options
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY | NAME=VALUE...", help="Who is counted, such as user:42; with --rules the attributes of the request."),
    ] = None,
    *,
    quota: Annotated[list[str] | None, typer.Option("--quota", "-q", help='What is allowed, such as "5/minute"; may be repeated.')] = None,
    rules: Annotated[str | None, typer.Option("--rules", "-r", help="A file or a directory of rules that decide instead.")] = None,
    cost: Annotated[int | None, typer.Option(help="The cost of each request; by default 1, or what the rules say.")] = None,
    times: Annotated[int | None, typer.Option(min=1, max=100_000, help="Ask this many times.")] = None,
    every: Annotated[str | None, typer.Option(help="The time between them, such as 1s; by default all come at once.")] = None,
    store: Annotated[
        str | None, typer.Option(metavar="URL", help="Ask the store that is in use there, such as redis://localhost, and charge it.")
    ] = None,
    on_store_error: Annotated[
        Literal["local", "allow", "deny"] | None, typer.Option(help="With --store: what to answer when it cannot; by default local.")
    ] = None,
    budget: Annotated[str | None, typer.Option(help="With --store: how long a decision may take; by default 5ms.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per decision and line.")] = False,
) -> None:
    """
    Ask a fresh limiter, once or many times on a simulated clock; or, with --store, a store that is in use.

    tidegate check user:42 --quota 5/minute

    tidegate check --rules rules.yaml method=POST path=/orders api_key=abc header:x-plan=pro query:page=1

    tidegate check user:42 --quota 5/minute --store redis://localhost:6379

    Without --store nothing sleeps and nothing is stored: it shows what quotas and rules do before they are deployed.

    Exit code 0: all were allowed. 1: at least one was denied. 2: wrong usage.
    """
    if every is not None and times is None:
        raise UsageError("--every needs --times\nhint: add --times 10 to ask ten times")
    if rules is not None and quota:
        raise UsageError("--quota and --rules are two ways to say what is allowed\nhint: keep one of them")
    every_ns = duration_ns("--every", every or 0)
    # Tokens and calendars know what time it is, so it begins now.
    clock = None if _is_shared(store) else ManualClock(datetime.now(tz=UTC).timestamp() if rules is not None else None)
    options = _options(store, on_store_error, budget, clock)
    asked = _of_key(words or (), quota or (), cost, options) if rules is None else _of_request(words or (), rules, cost, options)
    with asked.limiter:
        timeline = list(_timeline(asked.ask, clock, times or 1, every_ns))
        warnings = asked.limiter.health().warnings
    if as_json:
        for at_ns, decision in timeline:
            typer.echo(json.dumps({"at": at_ns / 1e9, **asked.about, **_as_dict(decision, has_rules=rules is not None)}))
    elif rules is not None and (sentence := _nobody(timeline)):
        typer.echo(sentence)
    else:
        show(timeline, is_simulated=times is not None, has_rules=rules is not None)
    for warning in warnings:
        typer.echo(f"warning: {warning}", err=True)
    if not all(decision.allowed for _, decision in timeline):
        raise typer.Exit(EXIT_DENIED)


def _is_shared(store: str | None) -> bool:
    return store is not None and store != "memory://"


def _options(
    store: str | None, on_store_error: Literal["local", "allow", "deny"] | None, budget: str | None, clock: ManualClock | None
) -> StoreOptions:
    options: StoreOptions = {"clock": clock, "store": store or "memory://"}
    for name, value in (("--on-store-error", on_store_error), ("--budget", budget)):
        if value is not None and not _is_shared(store):
            raise UsageError(f"{name} needs --store\nhint: add --store redis://localhost:6379")
    if on_store_error is not None:
        options["on_store_error"] = on_store_error
    if budget is not None:
        options["budget"] = duration_ns("--budget", budget) / 1e9
    return options


def _of_key(words: Sequence[str], quotas: Sequence[str], cost: int | None, options: StoreOptions) -> Asked:
    if len(words) != 1:
        wrong = f"one 'key' is expected, and these are {len(words)}" if words else "the argument 'key' is missing"
        raise UsageError(f"{wrong}\n{SEE_HELP}")
    if not quotas:
        raise UsageError(f"--quota or --rules is missing\n{SEE_HELP}")
    limiter, key, units = Limiter(list(quotas), **options), words[0], 1 if cost is None else cost
    return Asked(limiter, {"key": key}, lambda: limiter.check(key, units))


def _of_request(words: Sequence[str], rules: str, cost: int | None, options: StoreOptions) -> Asked:
    limiter = Limiter.from_rules(rules, **options)
    attributes = attributes_of(words, limiter.rule_set)
    return Asked(limiter, {"attributes": attributes}, lambda: limiter.check(attributes, cost))


def _nobody(timeline: Sequence[tuple[int, Decision]]) -> str | None:
    # A table of dashes says less than a sentence.
    if any(decision.rule is not None or decision.shadowed for _, decision in timeline):
        return None
    applied = timeline[0][1].rules
    return f"no enforced rule decides, only {', '.join(applied)}: allowed" if applied else "no rule applies: allowed"


def _timeline(ask: Callable[[], Decision], clock: ManualClock | None, times: int, every_ns: int) -> Iterator[tuple[int, Decision]]:
    began_ns = now_ns(clock)
    for index in range(times):
        if index and every_ns:
            # A shared store goes by a clock of its own, so this one waits in earnest.
            sleep(max(0, began_ns + index * every_ns - now_ns(clock)), clock)
        yield now_ns(clock) - began_ns, ask()


def _as_dict(decision: Decision, *, has_rules: bool) -> dict[str, Any]:
    by_rules = {"rule": decision.rule, "rules": decision.rules, "shadowed": decision.shadowed} if has_rules else {}
    return {
        "allowed": decision.allowed,
        "cost": decision.cost,
        **by_rules,
        "quota": None if decision.quota is None else decision.quota.quota,
        "limit": decision.limit,
        "remaining": decision.remaining,
        "retry_after": decision.retry_after,
        "reset_after": decision.reset_after,
        "delay": decision.delay,
        "degraded": decision.degraded,
        "reason": decision.reason,
    }

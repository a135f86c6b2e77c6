"""
`tidegate store health`: whether a shared store can be used, and what is wrong with it.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidegate import Limiter
from tidegate._sleep import now_ns, sleep
from tidegate.cli._table import NOTHING, plain, show_table
from tidegate.errors import UsageError
from tidegate.quota import duration_ns

if TYPE_CHECKING:
    from tidegate.health import Health, ShardHealth

EXIT_UNWELL = 1
HEADINGS = ("server", "state", "breaker", "version", "role", "maxmemory policy", "slots")
_WORDS = frozenset(HEADINGS) - {"slots"}
_PAUSE_NS = 10_000_000
_TIMEOUT_MAX_NS = 60_000_000_000


@dataclass(frozen=True, slots=True)
class Answer:
    """
    What the store answered to a question that changes nothing.

    Args:
        reason: Why there was no answer, if there was none.
        took_ns: How long it took.
    """

    reason: str | None
    took_ns: int


def health(
    url: Annotated[str, typer.Argument(metavar="URL", envvar="TIDEGATE_STORE", help="The store, such as redis://localhost:6379.")],
    *,
    timeout: Annotated[str, typer.Option(help="How long to wait for servers and answers, such as 500ms.")] = "2s",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """
    Connect to a shared store, ask it a question that changes nothing, and tell how it is doing.

    tidegate store health redis://localhost:6379

    Exit code 0: every server can be used. 1: degraded or down. 2: wrong usage.
    """
    if url.startswith("memory:"):
        raise UsageError(
            "memory:// is in each process, there is nothing to connect to\nhint: name a shared store, such as redis://localhost"
        )
    timeout_ns = duration_ns("--timeout", timeout)
    if not 0 < timeout_ns <= _TIMEOUT_MAX_NS:
        raise UsageError("--timeout is above 0 and at most 60s\nhint: 2s is usual")
    with Limiter("1/second", store=url, budget=timeout_ns / 1e9) as limiter:
        found, answer = _settled(limiter, now_ns() + timeout_ns), _ask(limiter)
    if answer.reason and found.status == "ok":
        found = replace(found, status="degraded")
    if as_json:
        typer.echo(json.dumps(_as_dict(found, answer)))
    else:
        _show(found, answer)
    if found.status != "ok":
        raise typer.Exit(EXIT_UNWELL)


def _settled(limiter: Limiter, deadline_ns: int) -> Health:
    # The limiter has waited for the first connection; the other servers of a cluster may still be on their way.
    while True:
        found = limiter.health()
        is_settled = found.shards and all(shard.is_up or shard.why for shard in found.shards)
        if is_settled or now_ns() >= deadline_ns:
            return found
        sleep(_PAUSE_NS, None)


def _ask(limiter: Limiter) -> Answer:
    # The first question may carry the whole script; the second is what a limiter asks all day.
    limiter.peek("health")
    begun_ns = now_ns()
    decision = limiter.peek("health")
    return Answer(decision.reason, now_ns() - begun_ns)


def _as_dict(found: Health, answer: Answer) -> dict[str, Any]:
    return {**asdict(found), "answer": {"reason": answer.reason, "took": answer.took_ns / 1e9}}


def _show(found: Health, answer: Answer) -> None:
    facts = [
        ("status", found.status),
        ("store", found.store),
        ("answer", answer.reason or f"within {answer.took_ns / 1e6:.1f} ms"),
        ("instances", f"{found.instances}, this command included"),
        ("clock", _clock(found.clock_skew) if answer.reason is None else NOTHING),
    ]
    typer.echo(plain(facts))
    if found.shards:
        typer.echo()
        styles = ["green" if shard.is_up and shard.breaker == "closed" else "red" for shard in found.shards]
        show_table(HEADINGS, [_row(shard) for shard in found.shards], styles=styles, words=_WORDS)
    troubles = (f"{shard.name}: {shard.why}" for shard in found.shards if shard.why and shard.why not in found.warnings)
    for warning in (*found.warnings, *troubles):
        typer.echo(f"warning: {warning}", err=True)


def _clock(skew: float) -> str:
    return f"{abs(skew):.3f} s {'ahead of' if skew >= 0 else 'behind'} this machine's"


def _row(shard: ShardHealth) -> tuple[str, ...]:
    state = "up" if shard.is_up else "down"
    said = (shard.name, state, shard.breaker, shard.version, shard.role, shard.maxmemory_policy, str(shard.slots))
    return tuple(word or NOTHING for word in said)

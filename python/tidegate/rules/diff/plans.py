"""
Quotas: what becomes looser or tighter, and which counters start afresh.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidegate._text import seconds
from tidegate.quota import Quota, duration_ns, parameters
from tidegate.rules import words
from tidegate.rules.diff.change import Change, Effect, by_size, together

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidegate.rules.model import QuotaText

_MORE_IS_LOOSER = ("limit", "burst", "queue_ns", "nodelay", "max_cost", "max_debt")
_WINDOWS = frozenset({"sliding_window", "sliding_window_log"})
FRESH = "its counters start afresh"


def plan_changes(about: str, what: str, old: tuple[QuotaText, ...], new: tuple[QuotaText, ...]) -> Iterator[Change]:
    """
    Compares the quotas of one plan.

    Args:
        about: The rule.
        what: The plan: `quotas`, `tier pro`, `override ...`.
        old: As they were.
        new: As they will be.

    Yields:
        The changes.
    """
    prefix = "" if what == "quotas" else f"{what}: "
    gone = [quota for quota in old if quota not in new]
    come = [quota for quota in new if quota not in old]
    for before, after in _pairs(gone, come):
        effect, note = quota_effect(before.text, after.text), _note(before, after)
        yield Change(about, what, f"{prefix}{words.quota(before)} becomes {words.quota(after)}", effect, note)
        gone.remove(before)
        come.remove(after)
    for quota in gone:
        yield Change(about, what, f"{prefix}{words.quota(quota)} is removed", "looser")
    for quota in come:
        yield Change(about, what, f"{prefix}{words.quota(quota)} is added", None if Quota.parse(quota.text).unlimited else "tighter")


def _pairs(gone: list[QuotaText], come: list[QuotaText]) -> list[tuple[QuotaText, QuotaText]]:
    # First those that share their counters, then those that the engine takes for replacements: the next one of the same name.
    pairs: list[tuple[QuotaText, QuotaText]] = []
    for is_like in (lambda one, other: counted_as(one) == counted_as(other), lambda one, other: one.name == other.name):
        for before in gone:
            after = next((one for one in come if is_like(before, one) and all(one is not taken for _, taken in pairs)), None)
            if after is not None and all(before is not taken for taken, _ in pairs):
                pairs.append((before, after))
    return pairs


def counted_as(quota: QuotaText) -> tuple[object, ...]:
    """
    What counters of a rule are tied to: not to the limit, and for buckets not to the period either, because their state is a time.

    Args:
        quota: The quota.

    Returns:
        Equal for quotas that share their counters.
    """
    given = parameters(Quota.parse(quota.text))
    algorithm = _algorithm(given)
    tied: tuple[object, ...] = ()
    if algorithm in {"sliding_window", "sliding_window_log", "sliding_window_counter", "fixed_window"}:
        zone = given.get("zone", "UTC") if "calendar" in given else None
        tied = (given.get("period_ns"), given.get("buckets"), given.get("calendar"), zone)
    return (quota.name, algorithm, *tied)


def quota_effect(old: str, new: str) -> Effect | None:
    """
    Whether a quota lets more or less pass than the one before.

    Args:
        old: The text of the one before.
        new: The text of the new one.

    Returns:
        The effect, where the numbers alone tell it.
    """
    before, after = parameters(Quota.parse(old)), parameters(Quota.parse(new))
    if before.get("unlimited") or after.get("unlimited"):
        return by_size(bool(before.get("unlimited")), bool(after.get("unlimited")))
    algorithms = {_algorithm(before), _algorithm(after)}
    # Two kinds of exact windows promise the same.
    if len(algorithms) > 1 and not algorithms <= _WINDOWS:
        return None
    if before.get("calendar") != after.get("calendar"):
        return None
    effects = [by_size(_size(before, name), _size(after, name)) for name in _MORE_IS_LOOSER]
    effects += [by_size(-before.get(name, 0), -after.get(name, 0)) for name in ("period_ns", "min_interval_ns", "advance_ns")]
    return together([effect for effect in effects if effect is not None])


def _size(given: dict[str, Any], name: str) -> int:
    # A bucket without a burst holds its limit.
    default = given.get("limit", 0) if name == "burst" else 0
    return int(given.get(name, default))


def _algorithm(given: dict[str, Any]) -> str:
    stated = given.get("algorithm")
    if stated is not None:
        return "gcra" if stated == "token_bucket" else str(stated)
    if given.get("unlimited"):
        return "unlimited"
    implied = (
        ("burst", "gcra"),
        ("queue_ns", "leaky_bucket"),
        ("calendar", "fixed_window"),
        ("buckets", "sliding_window_counter"),
        ("ttl_ns", "concurrency"),
    )
    return next((algorithm for name, algorithm in implied if name in given), "sliding_window")


def _note(before: QuotaText, after: QuotaText) -> str | None:
    if counted_as(before) == counted_as(after):
        return None
    old, new = Quota.parse(before.text), Quota.parse(after.text)
    if old.unlimited:
        return None
    if before.name != after.name:
        return f"{FRESH}, because they belong to the quota's name"
    reason = "the algorithm" if _algorithm(parameters(old)) != _algorithm(parameters(new)) else "the window"
    note = f"{FRESH}, because {reason} changes"
    if _algorithm(parameters(old)) == "concurrency" or new.unlimited:
        return note
    return f"{note}; with `transition: safe` the old quota is asked too, {_until(old)}, so that nobody gets both"


def _until(old: Quota) -> str:
    algorithm = _algorithm(parameters(old))
    if old.calendar is not None:
        return f"until the {old.calendar} is over"
    if algorithm in {"gcra", "leaky_bucket"} or old.period is None:
        return "until it has drained"
    # The counter that interpolates looks back over two windows.
    windows = 2 if algorithm == "sliding_window_counter" and old.buckets is None else 1
    return f"for {seconds(windows * duration_ns('period', old.period))}"

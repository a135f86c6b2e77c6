"""
Two versions of one rule.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.rules import words
from tidegate.rules.diff.change import Change, Effect, by_size, opposite
from tidegate.rules.diff.plans import FRESH, plan_changes
from tidegate.rules.diff.secrets import shown_key, without_secrets

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidegate.rules import Rule
    from tidegate.rules.model import Override, Source

_MODES = {"enforce": "enforced", "shadow": "shadow", "off": "off"}
_STRICTNESS = ("off", "shadow", "enforce")


def rule_changes(old: Rule, new: Rule, identity: tuple[Source, ...]) -> Iterator[Change]:
    """
    Compares two versions of a rule.

    Args:
        old: As it was.
        new: As it will be.
        identity: How clients are named: what of a key may be shown depends on it.

    Yields:
        The changes, in the order of a rule's keys.
    """
    yield from _match_changes(old, new, identity)
    yield from plan_changes(new.name, "quotas", old.quotas, new.quotas)
    yield from _tier_changes(old, new)
    yield from _override_changes(old, new, identity)
    yield from _cost_changes(old, new)
    yield from _mode_changes(old, new)
    yield from _other_changes(old, new)


def _match_changes(old: Rule, new: Rule, identity: tuple[Source, ...]) -> Iterator[Change]:
    if set(old.match) != set(new.match):
        before, after = (words.match(without_secrets(rule.match, identity)) for rule in (old, new))
        # Fewer requests are counted if the new rule asks for more.
        effect: Effect | None = "looser" if set(old.match) < set(new.match) else "tighter" if set(new.match) < set(old.match) else None
        text = f"applies to {after}, was {before}" if before != after else "another value is asked for, which is not shown"
        yield Change(new.name, "match", text, opposite(effect) if new.stop and not new.quotas else effect)
    if old.per != new.per:
        text = f"counted per {words.per(new.per)}, was per {words.per(old.per)}"
        yield Change(new.name, "per", text, None, f"{FRESH}, because the keys are others")


def _tier_changes(old: Rule, new: Rule) -> Iterator[Change]:
    for tier in dict.fromkeys((*old.tiers, *new.tiers)):
        if tier not in new.tiers:
            yield Change(
                new.name,
                f"tier {tier}",
                f"tier {tier} is removed, its keys have {words.quotas(new.quotas)}, had {words.quotas(old.tiers[tier])}",
            )
        elif tier not in old.tiers:
            yield Change(new.name, f"tier {tier}", f"tier {tier} is added with {words.quotas(new.tiers[tier])}")
        else:
            yield from plan_changes(new.name, f"tier {tier}", old.tiers[tier], new.tiers[tier])


def _override_changes(old: Rule, new: Rule, identity: tuple[Source, ...]) -> Iterator[Change]:
    if old.per != new.per:
        if old.overrides or new.overrides:
            yield Change(new.name, "overrides", f"{len(new.overrides)} overrides of other keys, were {len(old.overrides)}")
        return
    before = {override.key: override for override in old.overrides}
    after = {override.key: override for override in new.overrides}
    for key in dict.fromkeys((*before, *after)):
        what = f"override {shown_key(new.per, key, identity)}"
        if key not in after:
            yield Change(new.name, "overrides", f"{what} is removed, had {_plan(before[key])}")
        elif key not in before:
            yield Change(new.name, "overrides", f"{what} is added with {_plan(after[key])}")
        elif before[key].tier is None and after[key].tier is None:
            yield from plan_changes(new.name, what, before[key].quotas, after[key].quotas)
        elif before[key] != after[key]:
            yield Change(new.name, "overrides", f"{what} has {_plan(after[key])}, had {_plan(before[key])}")


def _plan(override: Override) -> str:
    return words.quotas(override.quotas) if override.tier is None else f"tier {override.tier}"


def _cost_changes(old: Rule, new: Rule) -> Iterator[Change]:
    if old.cost != new.cost:
        units = (old.cost.units, new.cost.units)
        effect = None if units[0] is None or units[1] is None else by_size(-units[0], -units[1])
        yield Change(new.name, "cost", f"a request costs {words.cost(new.cost)}, was {words.cost(old.cost)}", effect)


def _mode_changes(old: Rule, new: Rule) -> Iterator[Change]:
    if old.mode != new.mode:
        effect = opposite(by_size(_STRICTNESS.index(old.mode), _STRICTNESS.index(new.mode)))
        # Shadow lets everything pass, and off too.
        is_felt = "enforce" in {old.mode, new.mode}
        yield Change(new.name, "mode", f"now {_MODES[new.mode]}, was {_MODES[old.mode]}", effect if is_felt else None)
    if old.rollout != new.rollout:
        effect = by_size(-old.rollout, -new.rollout) if new.mode == "enforce" else None
        text = f"enforced for {words.rollout(new.rollout)} of keys, was {words.rollout(old.rollout)}"
        yield Change(new.name, "rollout", text, effect)
    if old.stop != new.stop:
        text = "now stops: no later rule is looked at once it applies" if new.stop else "no longer stops: later rules are looked at too"
        yield Change(new.name, "stop", text, "looser" if new.stop else "tighter")


def _other_changes(old: Rule, new: Rule) -> Iterator[Change]:
    if old.priority != new.priority:
        yield Change(new.name, "priority", f"priority {new.priority}, was {old.priority}")
    if old.on_store_error != new.on_store_error:
        now, was = (str(rule.on_store_error or "the engine's default") for rule in (new, old))
        yield Change(new.name, "on_store_error", f"when the store cannot answer: {now}, was {was}")
    if old.budget_ms != new.budget_ms:
        now, was = (f"{rule.budget_ms} ms" if rule.budget_ms else "the engine's default" for rule in (new, old))
        yield Change(new.name, "budget_ms", f"the store may take {now}, was {was}")
    if old.headers != new.headers:
        yield Change(new.name, "headers", f"clients are {'now' if new.headers else 'no longer'} told about its quotas")
    for name in ("description", "owner"):
        now, was = getattr(new, name), getattr(old, name)
        if now != was:
            text = f"{name} {now!r}, was {was!r}" if now and was else f"{name} {now!r} is added" if now else f"{name} {was!r} is removed"
            yield Change(new.name, name, text)

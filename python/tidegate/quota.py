"""
What a rule allows: an amount per period, as text or as an object with every parameter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from datetime import timedelta
from typing import Any, Literal, SupportsIndex, TypeAlias

from tidegate._native import format_quota, parse_quotas
from tidegate.errors import QuotaError, UsageError

Algorithm: TypeAlias = Literal[
    "sliding_window",
    "sliding_window_log",
    "sliding_window_counter",
    "fixed_window",
    "gcra",
    "token_bucket",
    "leaky_bucket",
    "concurrency",
]
CalendarUnit: TypeAlias = Literal["minute", "hour", "day", "week", "month", "year"]
Duration: TypeAlias = int | float | str | timedelta
"""Seconds as a number, a text such as `10s` or `200ms`, or a `timedelta`."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Quota:
    """
    What a rule allows, with every parameter. `None` means: not given, use the default.

    A quota is checked when it is made, and equal to every quota that says the same: `Quota(100, 60) == Quota.parse("100/minute")`.

    Args:
        limit: Units per period, or in flight. 0 denies everything.
        period: The window, or the time in which `limit` units are earned.
        algorithm: How it is enforced; by default it follows from the other parameters.
        burst: `gcra`: the most units at once. Default: `limit`.
        queue: `leaky_bucket`: the longest delay that a request may be given.
        nodelay: `leaky_bucket`: units that start at once although the queue is not empty.
        max_cost: `leaky_bucket`: the largest cost of one request.
        entries: `sliding_window`: the most pairs of time and count that are kept. Default: 16.
        buckets: `sliding_window_counter`: number of sub-windows. Default: two interpolated counters.
        calendar: `fixed_window`: one window per calendar unit, instead of a period.
        zone: The time zone of `calendar`, such as `Europe/Berlin`. Default: `UTC`.
        ttl: `concurrency`: how long a slot is held without being renewed. Default: 60 s.
        min_interval: The smallest gap between two admitted requests of one key.
        advance: On a shared store: how long before they are spent units may be taken, for keys that are asked for often. Default: each
            request asks for its own.
        max_debt: How far `debit` may overdraw, in units.
        name: A name for headers, metrics and status lists.
        unlimited: No limit at all; goes with `name` only.

    Raises:
        QuotaError: A parameter is missing, wrong, or does not belong to the algorithm.
    """

    limit: int | None = None
    period: Duration | None = None
    _: KW_ONLY
    algorithm: Algorithm | None = None
    burst: int | None = None
    queue: Duration | None = None
    nodelay: int | None = None
    max_cost: int | None = None
    entries: int | None = None
    buckets: int | None = None
    calendar: CalendarUnit | None = None
    zone: str | None = None
    ttl: Duration | None = None
    min_interval: Duration | None = None
    advance: Duration | None = None
    max_debt: int | None = None
    name: str | None = None
    unlimited: bool = False

    def __post_init__(self) -> None:
        format_quota(parameters(self))

    @classmethod
    def parse(cls, text: str) -> Quota:
        """
        Reads one quota.

        Args:
            text: Such as `100/minute burst 20`.

        Returns:
            The quota.

        Raises:
            QuotaError: The text is no quota, or several.
        """
        quotas = quotas_of(_text(text))
        if len(quotas) != 1:
            raise _wrong(f"{len(quotas)} quotas where one is expected", "several-quotas", "give one quota, without a separator")
        return quotas[0]

    def __str__(self) -> str:
        return format_quota(parameters(self))

    def __repr__(self) -> str:
        given = ((field.name, getattr(self, field.name)) for field in fields(self))
        return f"Quota({', '.join(f'{name}={value!r}' for name, value in given if value not in (None, False) or name == 'limit')})"

    def __eq__(self, other: object) -> bool:
        return parameters(self) == parameters(other) if isinstance(other, Quota) else NotImplemented

    def __hash__(self) -> int:
        return hash(frozenset(parameters(self).items()))


Quotas: TypeAlias = str | Quota | Mapping[str, Any] | Sequence[str | Quota | Mapping[str, Any]]
"""Everything that says which quotas hold: a text, an object, a mapping with the parameters of `Quota`, or a sequence of them."""

# Far above every duration that a quota may have, and far below what 64 bits of nanoseconds hold.
_SECONDS_MAX = 10**10
_DURATIONS = ("period", "queue", "ttl", "min_interval", "advance")
_UNITS = ("limit", "burst", "nodelay", "max_cost", "entries", "buckets", "max_debt")
_TEXTS = ("algorithm", "calendar", "zone", "name")
_FRACTIONS = (("ms", 1_000_000), ("us", 1_000), ("ns", 1))
_NAMES = frozenset(field.name for field in fields(Quota))


def quotas_of(given: Quotas) -> tuple[Quota, ...]:
    """
    Turns every accepted form into quotas.

    Args:
        given: A text, a quota, a mapping of parameters, or a sequence of them.

    Returns:
        At least one quota, in the order in which they were given.

    Raises:
        QuotaError: One of them is wrong, or there is none.
        UsageError: The type is none of the accepted ones.
    """
    if isinstance(given, str):
        return tuple(_from_parameters(found) for found in parse_quotas(given))
    if isinstance(given, Quota):
        return (given,)
    if isinstance(given, Mapping):
        return (_from_mapping(given),)
    if not _is_sequence(given):
        raise UsageError(f"quotas are a text, a Quota, a mapping or a sequence of these, not {type(given).__name__}")
    if not given:
        raise _wrong("no quota is given", "empty-text", 'write a quota such as "100/minute", or "unlimited"')
    return tuple(quota for one in given for quota in quotas_of(_no_sequence(one)))


def parameters(quota: Quota) -> dict[str, Any]:
    """
    The form in which a quota crosses into the compiled module.

    Args:
        quota: The quota; it may be one that is just being made.

    Returns:
        Only what was given, durations as whole nanoseconds under a name that ends in `_ns`.

    Raises:
        QuotaError: A value has the wrong type or is out of range.
    """
    found: dict[str, Any] = {"unlimited": True} if _flag(quota.unlimited) else {}
    for name in _UNITS:
        if (value := getattr(quota, name)) is not None:
            found[name] = _units(name, value)
    for name in _DURATIONS:
        if (value := getattr(quota, name)) is not None:
            found[f"{name}_ns"] = duration_ns(name, value)
    for name in _TEXTS:
        if (value := getattr(quota, name)) is not None:
            found[name] = _text(value, name)
    return found


def duration_ns(name: str, value: Duration) -> int:
    """
    Reads a duration.

    Args:
        name: What it is, for the message.
        value: Seconds, a text or a `timedelta`.

    Returns:
        Nanoseconds: exact for whole seconds, texts and `timedelta`, the nearest for `float`.

    Raises:
        QuotaError: It is negative, not finite, no duration, or above what 64 bits hold.
    """
    if isinstance(value, str):
        return _duration_from_text(name, value)
    if isinstance(value, timedelta):
        nanoseconds = value // timedelta(microseconds=1) * 1000
    elif isinstance(value, float) and abs(value) < _SECONDS_MAX:
        nanoseconds = round(value * 1e9)
    elif isinstance(value, int) and not isinstance(value, bool):
        nanoseconds = value * 1_000_000_000
    else:
        raise _bad_duration(name, repr(value))
    if nanoseconds < 0:
        raise _wrong(f"{name} is negative", "number-negative", "a duration is 0 or longer")
    if nanoseconds == 0 and value:
        raise _bad_duration(name, repr(value))
    if nanoseconds > _SECONDS_MAX * 1_000_000_000:
        raise _wrong(f"{name} is too long", "number-too-large", "the longest duration is 36500 days")
    return nanoseconds


def _duration_from_text(name: str, text: str) -> int:
    # The parser of quotas reads durations; a second parser would sooner or later disagree with it.
    try:
        found = parse_quotas(f"1/s min_interval {text}")
    except QuotaError as error:
        raise _bad_duration(name, repr(text)) from error
    if len(found) != 1 or found[0].keys() != {"limit", "period_ns", "min_interval_ns"}:
        raise _bad_duration(name, repr(text))
    nanoseconds: int = found[0]["min_interval_ns"]
    return nanoseconds


def _wrong(message: str, code: str, hint: str) -> QuotaError:
    # The hint is in the message too, as in those of the compiled module: a traceback shows only the message.
    return QuotaError(f"invalid quota: {message}\nhint: {hint}", code=code, hint=hint)


def _bad_duration(name: str, shown: str) -> QuotaError:
    hint = 'write a text such as "10s" or "200ms", seconds as a number from one nanosecond up, or a timedelta'
    return _wrong(f"{name} is no duration: {shown:.80}", "duration-invalid", hint)


def _units(name: str, value: object) -> int:
    # bool is an int to Python and a mistake to everybody else. Other libraries' whole numbers are welcome.
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        raise _wrong(f"{name} is no whole number: {value!r:.80}", "number-not-whole", "write an int, such as 100")
    units = value.__index__()
    if units < 0:
        raise _wrong(f"{name} is negative", "number-negative", "0 denies everything, and unlimited=True limits nothing")
    # Up to here the compiled module has a more exact message for each parameter; beyond, the number would not reach it.
    if units >= 2**64:
        raise _wrong(f"{name} is above 2**53", "number-too-large", "unlimited=True limits nothing")
    return units


def _text(value: object, name: str = "the quota") -> str:
    if not isinstance(value, str):
        raise _wrong(f"{name} is no text: {value!r:.80}", "parameter-type", "write a str")
    return value


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise _wrong(f"unlimited is neither True nor False: {value!r:.80}", "parameter-type", "write unlimited=True")
    return value


def _is_sequence(given: object) -> bool:
    return isinstance(given, Sequence) and not isinstance(given, bytes | bytearray)


def _no_sequence(given: str | Quota | Mapping[str, Any]) -> str | Quota | Mapping[str, Any]:
    if isinstance(given, str | Quota | Mapping):
        return given
    raise UsageError(f"quotas in a sequence are texts, Quota or mappings, not {type(given).__name__}")


def _from_mapping(given: Mapping[str, Any]) -> Quota:
    if unknown := [name for name in given if name not in _NAMES]:
        raise _wrong(f"unknown parameter {unknown[0]!r:.80}", "unknown-parameter", f"known are {', '.join(sorted(_NAMES))}")
    return Quota(**given)


def _from_parameters(found: Mapping[str, Any]) -> Quota:
    given: dict[str, Any] = {}
    for name, value in found.items():
        given[name.removesuffix("_ns")] = _seconds(value) if name.endswith("_ns") else value
    return Quota(**given)


def _seconds(nanoseconds: int) -> int | str:
    if nanoseconds % 1_000_000_000 == 0:
        return nanoseconds // 1_000_000_000
    # A float would not be exact for every duration, a text is.
    unit, length = next((unit, length) for unit, length in _FRACTIONS if nanoseconds % length == 0)
    return f"{nanoseconds // length}{unit}"

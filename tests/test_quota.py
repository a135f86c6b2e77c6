"""
Quotas in their object form: what is accepted, what is refused, and how it is written.
"""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, replace
from datetime import timedelta
from typing import Any

import pytest

from tidegate import Limiter, Quota
from tidegate.errors import QuotaError, UsageError
from tidegate.quota import parameters, quotas_of

TEXTS = [
    ("100/minute", Quota(100, 60)),
    ("10/s", Quota(10, "1s")),
    ("1/10s", Quota(1, timedelta(seconds=10))),
    ("5000 per hour", Quota(limit=5000, period=3600.0)),
    ("100/minute burst 20", Quota(100, 60, burst=20)),
    ("50/s queue 200ms", Quota(50, 1, queue=0.2)),
    ("50/s queue 1500us nodelay 3 max_cost 4", Quota(50, 1, queue="1500us", nodelay=3, max_cost=4)),
    ("20 concurrent", Quota(20, algorithm="concurrency")),
    ("20 concurrent ttl 30s", Quota(20, algorithm="concurrency", ttl=30)),
    ("10000/day calendar Europe/Berlin", Quota(10_000, calendar="day", zone="Europe/Berlin")),
    ("7/h sliding_window entries 32", Quota(7, "1h", algorithm="sliding_window", entries=32)),
    ("7/h sliding_window_counter buckets 60", Quota(7, "1h", algorithm="sliding_window_counter", buckets=60)),
    ("7/h min_interval 100ms max_debt 3", Quota(7, 3600, min_interval="100ms", max_debt=3)),
    ("unlimited", Quota(unlimited=True)),
]


@pytest.mark.parametrize(("text", "quota"), TEXTS, ids=[text for text, _ in TEXTS])
def test_text_and_object_say_the_same(text: str, quota: Quota) -> None:
    """Every parameter of the text form has the same meaning in the object form."""
    assert quota == Quota.parse(text)
    assert hash(quota) == hash(Quota.parse(text))


@pytest.mark.parametrize("quota", [quota for _, quota in TEXTS], ids=str)
def test_canonical_text_can_be_read_again(quota: Quota) -> None:
    """`str` loses nothing."""
    again = Quota.parse(str(quota))

    assert str(quota) == str(again)


@pytest.mark.parametrize("quota", [quota for _, quota in TEXTS], ids=str)
def test_repr_can_be_evaluated(quota: Quota) -> None:
    """`repr` shows what was given, as code."""
    names = {"Quota": Quota, "datetime": __import__("datetime")}

    assert quota == eval(repr(quota), names)


def test_canonical_text() -> None:
    """One spelling for all."""
    assert "100/minute burst 20" == str(Quota(100, timedelta(minutes=1), burst=20))


def test_parameters_cross_in_nanoseconds_and_only_when_given() -> None:
    """What the compiled module gets is exact."""
    quota = Quota(50, 0.001, queue="200ms", name="api")

    assert {"limit": 50, "period_ns": 1_000_000, "queue_ns": 200_000_000, "name": "api"} == parameters(quota)


def test_quota_is_a_value() -> None:
    """It cannot be changed, only replaced, and travels between processes."""
    quota = Quota(100, "1m", burst=20)

    with pytest.raises(FrozenInstanceError):
        quota.limit = 5  # type: ignore[misc]
    assert Quota.parse("100/minute burst 5") == replace(quota, burst=5)
    assert quota == pickle.loads(pickle.dumps(quota)) == copy.deepcopy(quota)
    assert quota != "100/minute burst 20"


@pytest.mark.parametrize(
    ("given", "code"),
    [
        pytest.param({"limit": True, "period": 60}, "number-not-whole", id="bool"),
        pytest.param({"limit": 1.5, "period": 60}, "number-not-whole", id="float"),
        pytest.param({"limit": "5", "period": 60}, "number-not-whole", id="text-limit"),
        pytest.param({"limit": -1, "period": 60}, "number-negative", id="negative"),
        pytest.param({"limit": -(10**5000), "period": 60}, "number-negative", id="very-negative"),
        pytest.param({"limit": 2**53 + 1, "period": 60}, "limit-too-large", id="above-2**53"),
        pytest.param({"limit": 2**64, "period": 60}, "number-too-large", id="2**64"),
        pytest.param({"limit": 10**5000, "period": 60}, "number-too-large", id="huge"),
        pytest.param({"limit": 5, "period": 0}, "period-zero", id="period-0"),
        pytest.param({"limit": 5, "period": -1}, "number-negative", id="period-negative"),
        pytest.param({"limit": 5, "period": -0.5}, "number-negative", id="period-negative-float"),
        pytest.param({"limit": 5, "period": timedelta(days=-1)}, "number-negative", id="period-negative-timedelta"),
        pytest.param({"limit": 5, "period": 1e-12}, "duration-invalid", id="period-below-a-nanosecond"),
        pytest.param({"limit": 5, "period": float("nan")}, "duration-invalid", id="period-nan"),
        pytest.param({"limit": 5, "period": float("inf")}, "duration-invalid", id="period-inf"),
        pytest.param({"limit": 5, "period": 1e300}, "duration-invalid", id="period-huge-float"),
        pytest.param({"limit": 5, "period": 10**5000}, "number-too-large", id="period-huge-int"),
        pytest.param({"limit": 5, "period": 36_501 * 86_400}, "period-too-long", id="period-above-36500-days"),
        pytest.param({"limit": 5, "period": True}, "duration-invalid", id="period-bool"),
        pytest.param({"limit": 5, "period": "soon"}, "duration-invalid", id="period-text"),
        pytest.param({"limit": 5, "period": ""}, "duration-invalid", id="period-empty"),
        pytest.param({"limit": 5, "period": "10s burst 5"}, "duration-invalid", id="period-with-more"),
        pytest.param({"limit": 5, "period": "10s, 5/m"}, "duration-invalid", id="period-with-another-quota"),
        pytest.param({"limit": 5, "period": b"10s"}, "duration-invalid", id="period-bytes"),
        pytest.param({"limit": 5}, "period-missing", id="no-period"),
        pytest.param({"period": 60}, "limit-missing", id="no-limit"),
        pytest.param({}, "limit-missing", id="nothing"),
        pytest.param({"limit": 5, "period": 60, "algorithm": "magic"}, "unknown-algorithm", id="algorithm"),
        pytest.param({"limit": 5, "period": 60, "algorithm": 7}, "parameter-type", id="algorithm-number"),
        pytest.param({"limit": 5, "period": 60, "name": b"x"}, "parameter-type", id="name-bytes"),
        pytest.param({"limit": 5, "period": 60, "name": "a b"}, "name-invalid", id="name"),
        pytest.param({"limit": 5, "period": 60, "entries": 0}, "entries-out-of-range", id="entries"),
        pytest.param({"limit": 5, "period": 60, "zone": "UTC"}, "parameter-not-for-algorithm", id="zone"),
        pytest.param({"unlimited": 1}, "parameter-type", id="unlimited-number"),
        pytest.param({"limit": 5, "period": 60, "brust": 9}, "unknown-parameter", id="unknown"),
    ],
)
def test_wrong_parameters_are_refused(given: dict[str, Any], code: str) -> None:
    """Each mistake has its own code, a sentence and a hint, when the quota is made."""
    with pytest.raises(QuotaError) as caught:
        quotas_of(given)

    assert code == caught.value.code
    assert str(caught.value)
    assert caught.value.hint


@pytest.mark.parametrize("limit", [0, 1, 2**53])
def test_limits_at_the_edges_are_legal(limit: int) -> None:
    """Zero denies everything, and 2**53 is the largest number that is exact everywhere."""
    assert limit == Quota(limit, 60).limit


def test_other_whole_numbers_are_welcome() -> None:
    """Numbers of other libraries that can be an index are whole."""

    class Whole:
        def __index__(self) -> int:
            return 100

    assert Quota(100, 60) == Quota(Whole(), 60)  # type: ignore[arg-type]


def test_zone_must_exist() -> None:
    """A limiter on a calendar that nobody knows is refused."""
    with pytest.raises(QuotaError):
        Limiter("5/day calendar Europe/Nowhere")


def test_parse_wants_one_quota() -> None:
    """A `Quota` is one; a limiter takes several."""
    with pytest.raises(QuotaError) as caught:
        Quota.parse("1/s, 5/m")

    assert "several-quotas" == caught.value.code


def test_parse_shows_the_place() -> None:
    """A bad text says which character is wrong and shows correct ones."""
    with pytest.raises(QuotaError) as caught:
        Quota.parse("100/minuet")

    assert ("unknown-unit", "100/minuet", (4, 10)) == (caught.value.code, caught.value.text, caught.value.span)
    assert "minute" in str(caught.value.hint)


def test_every_form_is_accepted_and_mixed() -> None:
    """Texts may hold several quotas, and sequences mix all forms."""
    quotas = quotas_of(["1/s, 5/m", Quota(50, "1h"), {"limit": 500, "period": "1d"}])

    assert ["1/second", "5/minute", "50/hour", "500/day"] == [str(quota) for quota in quotas]


@pytest.mark.parametrize(
    ("given", "error"),
    [
        pytest.param(5, UsageError, id="number"),
        pytest.param(None, UsageError, id="none"),
        pytest.param(b"5/s", UsageError, id="bytes"),
        pytest.param([["5/s"]], UsageError, id="nested"),
        pytest.param([5], UsageError, id="number-inside"),
        pytest.param({"5/s"}, UsageError, id="set"),
        pytest.param([], QuotaError, id="empty"),
        pytest.param("", QuotaError, id="empty-text"),
    ],
)
def test_other_forms_are_refused(given: Any, error: type[Exception]) -> None:  # noqa: ANN401  # wrong on purpose
    """What is no quota gets a sentence."""
    with pytest.raises(error):
        quotas_of(given)

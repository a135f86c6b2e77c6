"""
Units that are taken in advance: a busy key costs the store next to nothing, and nobody is admitted that the quota does not know of.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import pytest

from tidegate import Limiter, errors

if TYPE_CHECKING:
    from tests.conftest import Eventually
    from tests.redis.conftest import Make, MakeRules
    from tests.redis.crowd import Job, press
    from tests.redis.traffic import calls
    from tests.servers import Single
else:
    from crowd import Job, press
    from servers import Single
    from traffic import calls

LIMIT = 20_000
BUSY = 2_000

# An advance that outlasts every test: what is held is given back because somebody asks for it, and not because a machine is busy.
QUOTAS = {
    "sliding_window": "20000/day advance 1m",
    "fixed_window": "20000/day fixed_window advance 1m",
    "calendar": "20000/year calendar advance 1m",
    "gcra": "1/day burst 20001 advance 1m",
    "several": "20000/day advance 1m, 20000/day fixed_window advance 30s",
}
for_every_algorithm = pytest.mark.parametrize("quotas", QUOTAS.values(), ids=QUOTAS)

WORKER = """
import json, sys, threading, time
from concurrent.futures import ThreadPoolExecutor
from tidegate import Limiter

url, quotas, seconds, threads = sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4])
limiter = Limiter(quotas, store=url, budget=5)
print("ready", flush=True)
sys.stdin.readline()
ends = time.monotonic() + seconds


def ask(_):
    seen = []
    while (before := time.monotonic()) < ends:
        decision = limiter.check("key")
        assert not decision.degraded
        if decision.allowed:
            seen.append((before, time.monotonic()))
        else:
            time.sleep(0.002)
    return seen


with ThreadPoolExecutor(threads) as pool:
    print(json.dumps([span for spans in pool.map(ask, range(threads)) for span in spans]), flush=True)
limiter.close()
"""


def keep_busy(limiter: Limiter, key: str = "key", requests: int = BUSY) -> None:
    """
    So many requests that it becomes worth while to take more in advance.
    """
    assert all(limiter.allow(key) for _ in range(requests))


def hold(limiter: Limiter, units: int) -> None:
    """
    Asks until so many units of each quota are here.
    """
    for _ in range(LIMIT // 2):
        if limiter.health().advance_units >= units * len(limiter.quotas) * 2:
            return
        assert limiter.allow("key")
    pytest.fail("nothing comes in")


def spend_all(limiter: Limiter, key: str = "key") -> int:
    """
    Asks until nothing is left.
    """
    count = 0
    while limiter.allow(key):
        count += 1
    return count


@for_every_algorithm
def test_a_busy_key_is_decided_in_the_process(quotas: str, make: Make, server: Single) -> None:
    """
    The store hears of none of the requests, and what is told is what is left.
    """
    limiter = make(quotas)
    keep_busy(limiter)
    hold(limiter, 500)
    (asked, before), advanced = (limiter.stats().allowed, calls(server)["evalsha"]), limiter.health().advanced
    said = [limiter.check("key") for _ in range(400)]

    assert all(decision.allowed and not decision.degraded for decision in said)
    # More is asked for once or twice meanwhile, by each of the quotas.
    assert calls(server)["evalsha"] - before < 20
    assert limiter.health().advanced == advanced + 400
    assert said[-1].remaining == LIMIT - asked - 400
    assert limiter.stats().allowed == asked + 400


async def test_a_busy_key_does_not_even_take_a_turn_of_the_loop(make: Make) -> None:
    """
    Tasks that ask are answered at once.
    """
    limiter = make(QUOTAS["sliding_window"])
    keep_busy(limiter)
    hold(limiter, 200)
    turned: list[bool] = []
    asyncio.get_running_loop().call_soon(turned.append, True)  # noqa: FBT003  # what to append
    said = [await limiter.check_async("key") for _ in range(100)]

    assert all(decision.allowed for decision in said)
    assert not turned


@for_every_algorithm
def test_who_asks_rarely_asks_the_store(quotas: str, make: Make) -> None:
    """
    Nothing is taken in advance for a key that is asked for once.
    """
    limiter = make(quotas)
    for number in range(50):
        limiter.check(f"key {number}")

    assert (0, 0) == (limiter.health().advanced, limiter.health().advance_units)


@for_every_algorithm
def test_processes_and_threads_admit_no_more_than_the_limit_and_lose_nothing(quotas: str, make: Make, url: str) -> None:
    """
    4 processes x 8 threads hold what they took until they end; then exactly the rest is there.
    """
    outcome = press(Job(store=url, quotas=quotas, subjects=["key"], calls=1_000, deny_cache=65_536))
    rest = spend_all(make(quotas.replace("advance 1m", "").replace("advance 30s", "")))

    assert outcome.degraded == 0
    assert outcome.admitted > LIMIT // 2
    assert outcome.admitted <= LIMIT
    # A bucket of which units are taken in advance is smaller by what comes in meanwhile, and a plain one is not.
    assert LIMIT <= outcome.admitted + rest <= LIMIT + ("gcra" in quotas or "burst" in quotas)


@pytest.mark.parametrize("quotas", ["100/second advance 100ms", "100/second burst 50 advance 50ms"])
def test_no_second_sees_more_than_its_limit(quotas: str, url: str) -> None:
    """
    3 processes take, spend, let expire and give back for some seconds.

    Counted is what was certainly admitted within a time: asked after its beginning, and answered before its end.
    """
    command = [sys.executable, "-c", WORKER, url, quotas, "2.5", "2"]
    started = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    for process in started:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
    for process in started:
        assert process.stdin
        process.stdin.write("\n")
        process.stdin.flush()
    spans = sorted(span for process in started for span in json.loads(process.communicate()[0]))

    assert len(spans) > 100
    for index, (begin, _) in enumerate(spans):
        ends = sorted(end for _, end in spans[index:])
        for count, end in enumerate(ends, 1):
            most = 50 + 100 * (end - begin) if "burst" in quotas else 100 if end - begin <= 1 else count
            assert count <= most + 1e-6, f"{count} in {end - begin:.3f} s"


def test_what_is_not_spent_in_time_is_given_back(make: Make, eventually: Eventually) -> None:
    """
    By a process that has nothing else to do.
    """
    limiter, other = make("1000/day advance 50ms"), make("1000/day")
    keep_busy(limiter, requests=300)

    eventually(lambda: other.peek("key").remaining == 700)
    eventually(lambda: limiter.health().advance_units == 0)


@for_every_algorithm
def test_a_limiter_that_is_closed_gives_everything_back(quotas: str, make: Make) -> None:
    """
    At once, and not when the time is over.
    """
    limiter, other = make(quotas), make(quotas)
    keep_busy(limiter)
    held = limiter.health().advance_units
    limiter.close()

    assert held > 0
    assert other.peek("key").remaining == LIMIT - BUSY


def test_all_quotas_are_charged_or_none_is(make_rules: MakeRules) -> None:
    """
    What everybody shares is paid from what is held, the client's own quota by the store; who is denied by the store has used up nothing.
    """
    rules = "{name: clients, per: client, quotas: 150/hour}, {name: everybody, per: global, quotas: 20000/day advance 1m}"
    limiter = make_rules(rules, deny_cache=0)
    said = [limiter.check({"client": f"client {number % 2}"}) for number in range(1_000)]
    held = limiter.health().advance_units
    limiter.close()
    left = make_rules(rules).peek({"client": "nobody"})

    assert sum(decision.allowed for decision in said) == 300
    assert {"clients"} == {decision.rule for decision in said if not decision.allowed}
    assert held > 0
    assert {"clients": 150, "everybody": LIMIT - 300} == {status.rule: status.remaining for status in left.quotas}


def test_a_rule_in_shadow_sees_every_request(make_rules: MakeRules) -> None:
    """
    Its counters are those of an enforced rule, whoever pays the others.
    """
    rules = "{name: real, per: client, quotas: 20000/day advance 1m}, {name: planned, per: client, quotas: 500/day, mode: shadow}"
    limiter = make_rules(rules)
    said = [limiter.check({"client": "ada"}) for _ in range(1_000)]

    assert all(decision.allowed for decision in said)
    assert sum("planned" in decision.shadowed for decision in said) == 500
    assert limiter.health().advance_units > 0


@for_every_algorithm
def test_a_key_that_is_reset_has_its_limit_and_nothing_beyond(quotas: str, make: Make) -> None:
    """
    What was taken before is not charged any more, and is not spent.
    """
    limiter = make(quotas)
    keep_busy(limiter)
    limiter.reset("key")

    assert limiter.health().advance_units == 0
    # What was on its way meanwhile may have been charged before or after: it is not spent either.
    assert LIMIT - BUSY <= spend_all(limiter) <= LIMIT


@for_every_algorithm
def test_a_refund_gives_back_what_was_paid_in_advance(quotas: str, make: Make) -> None:
    """
    The receipt is that of the charge, and good once.
    """
    limiter = make(quotas)
    keep_busy(limiter)
    decision = limiter.check("key", 2)
    limiter.refund("key", decision)
    limiter.close()

    assert make(quotas).peek("key").remaining == LIMIT - BUSY
    with pytest.raises(errors.UsageError):
        limiter.refund("key", decision)


def test_who_looks_sees_what_is_held_too(make: Make) -> None:
    """
    A peek answers what a check would.
    """
    limiter = make(QUOTAS["sliding_window"])
    keep_busy(limiter)

    assert limiter.peek("key").remaining == LIMIT - BUSY
    assert limiter.check("key").remaining == LIMIT - BUSY - 1
    assert limiter.check("key", 0).allowed


def test_a_store_that_is_away_is_not_missed_while_units_last(make: Make) -> None:
    """
    Then the policy decides, as it does without an advance.
    """
    with Single() as own:
        limiter = make(QUOTAS["sliding_window"], store=own.url(), on_store_error="deny")
        keep_busy(limiter)
        limiter.peek("key")
        held = limiter.health().advance_units
        own.stop()
        said = [limiter.check("key")]
        while not said[-1].degraded:
            said.append(limiter.check("key"))

    assert held > 10
    # More may have been on its way when it was counted.
    assert len(said) > held
    assert all(decision.allowed for decision in said[:-1])
    assert not said[-1].allowed


@for_every_algorithm
def test_units_and_the_share_of_a_process_together_are_no_more_than_the_limit(quotas: str, make: Make) -> None:
    """
    What is held was charged before the store was last heard of, so the share that is counted here begins without it.
    """
    with Single() as own:
        limiter = make(quotas, store=own.url(), on_store_error="local")
        keep_busy(limiter)
        own.stop()
        said = [limiter.check("key")]
        while said[-1].allowed:
            said.append(limiter.check("key"))

    by_share = sum(decision.degraded and decision.allowed for decision in said)
    by_units = sum(decision.allowed for decision in said) - by_share
    assert by_units > 0
    assert by_share > 0
    # An answer that was on its way is lost with its units: charged, and spent by nobody.
    assert LIMIT - 2 * BUSY < BUSY + by_units + by_share <= LIMIT


def test_a_lower_limit_ends_what_was_taken_by_the_old_one(make: Make) -> None:
    """
    Units belong to the quota by which they were charged.
    """
    limiter = make("20000/day advance 1m")
    keep_busy(limiter)
    limiter.load("2100/day advance 1m")

    assert spend_all(limiter) <= 100


def test_a_forked_child_has_nothing_of_what_its_parent_took(url: str) -> None:
    """
    The same unit is not spent twice.
    """
    script = """
import json, os, sys, warnings
from tidegate import Limiter

warnings.simplefilter("ignore", DeprecationWarning)  # forking with threads is what is tested
limiter = Limiter("20000/day advance 1m", store=sys.argv[1], budget=5)
assert all(limiter.allow("key") for _ in range(2_000))
held = limiter.health().advance_units
if os.fork() == 0:
    print(json.dumps([held, limiter.health().advance_units, limiter.check("key").remaining]), flush=True)
    os._exit(0)
os.wait()
print(json.dumps(limiter.check("key").allowed))
"""
    done = subprocess.run([sys.executable, "-c", script, url], capture_output=True, text=True, check=True)
    held, of_child, remaining = json.loads(done.stdout.splitlines()[0])

    assert held > 0
    assert of_child == 0
    # More may have been on its way when the parent looked.
    assert remaining <= LIMIT - 2_000 - held - 1


def test_a_cluster_gives_units_in_advance_as_well(cluster_url: str, make: Make) -> None:
    """
    Each counter by the server that has it.
    """
    limiter = make(QUOTAS["sliding_window"], store=cluster_url)
    for key in ("ada", "bob", "cyd", "dot"):
        keep_busy(limiter, key, 500)
    limiter.close()
    other = make(QUOTAS["sliding_window"], store=cluster_url)

    assert {LIMIT - 500} == {other.peek(key).remaining for key in ("ada", "bob", "cyd", "dot")}


@pytest.mark.parametrize("quotas", ["5/minute advance 1s", "5/minute fixed_window advance 1s", "1/hour burst 8 advance 1s"])
def test_in_memory_an_advance_changes_nothing(quotas: str) -> None:
    """
    There is nothing to ask.
    """
    limiter, plain = Limiter(quotas), Limiter(quotas.replace(" advance 1s", ""))
    facts: list[Any] = [[(one.check("key").allowed, one.peek("key").remaining) for _ in range(10)] for one in (limiter, plain)]

    assert facts[0] == facts[1]
    assert list(accumulate(allowed for allowed, _ in facts[0]))[-1] in {5, 8}

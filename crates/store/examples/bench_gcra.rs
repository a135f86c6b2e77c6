//! How many `gcra` checks the memory store decides per second, without Python.
//!
//! ```console
//! $ cargo run --release --example bench_gcra -p tidegate-store [-- --quick]
//! ```
//!
//! One hot key (two threads: the same one, or one each) and 100,000 random keys, in interleaved rounds; the median counts. A check is what the engine does for a
//! request with one quota: digest the key, ask the store, get the full verdict. `arithmetic` is work without any memory in common: what two
//! threads gain there is what the machine has to give at that moment. Prints JSON lines, which `benchmarks/rust_speed.py` reads:
//! `{"share": ..., "text": ...}` on the way, one row per scenario and number of threads at the end.

#![allow(clippy::print_stdout, reason = "the lines are the result")]
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the time")]

use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use tidegate_core::meter::{Ask, Meter};
use tidegate_core::quota::Quota;
use tidegate_core::time::Tick;
use tidegate_store::clock::{Clock, SystemClock};
use tidegate_store::digest::{Digest, Digester};
use tidegate_store::memory::MemoryStore;
use tidegate_store::store::{Charge, Part, Place, Store};

const KEYS: usize = 100_000;

/// Which keys are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keys {
    /// Any of so many, by all threads.
    Shared(usize),
    /// One by each thread.
    Own,
    /// None: work without a store.
    Nothing,
}

/// Who asks: with which keys, in which order, from how many threads.
struct Scenario {
    name: &'static str,
    threads: usize,
    bench: Bench,
    seconds: Vec<f64>,
}

/// A key as text, such as `user:00000042`.
type Name = [u8; 13];

/// A store and what it is asked for.
struct Bench {
    store: MemoryStore,
    digester: Digester,
    namespace: Digest,
    meter: Meter,
    keys: Keys,
    /// The keys in the order in which they are asked for: a request brings its key along, so it does not cost a walk through memory.
    asked: Vec<Name>,
}

impl Bench {
    fn new(keys: Keys, threads: usize, checks: usize) -> Self {
        // So large that nobody is denied, and so slow that no key fills up again: such a key would be a new key each time.
        let quota: Quota = "1/30s burst 100000000".parse().expect("a valid quota");
        let digester = Digester::new([7; 16]);
        let mut random = 20_u64;
        let mut asked = |index: usize| match keys {
            Keys::Shared(count) => next(&mut random) % count,
            Keys::Own => index * threads / checks,
            Keys::Nothing => 0,
        };
        let bench = Self {
            store: MemoryStore::new(Clock::System(SystemClock::new()), 1 << 30),
            namespace: digester.digest(b"quota"),
            digester,
            meter: Meter::new(&quota, Tick::NANOSECOND, None).expect("no calendar"),
            keys,
            asked: (0..checks).map(|index| name(asked(index))).collect(),
        };
        bench.asked.iter().for_each(|name| bench.check(name));
        bench
    }

    fn check(&self, name: &Name) {
        if self.keys == Keys::Nothing {
            return spin();
        }
        let key = self.digester.digest(name);
        let charge = Charge {
            meter: &self.meter,
            key,
            place: Place::of(key),
            namespace: self.namespace,
            ask: Ask::cost(1),
            until: None,
            part: Part::Enforced,
        };
        black_box(self.store.check(&[charge]).expect("a store with room"));
    }

    /// All checks in each of so many threads; the time from the moment when all are ready until the last has finished.
    fn run(&self, threads: usize) -> Duration {
        let barrier = Barrier::new(threads);
        let work = |number: usize| {
            // Each thread starts elsewhere, so that they do not walk over the keys in step.
            let (head, tail) = self.asked.split_at(number * self.asked.len() / threads);
            let own = &tail[..tail.len().min(self.asked.len() / threads)];
            barrier.wait();
            let started = Instant::now();
            match self.keys {
                Keys::Own => (0..threads).for_each(|_| own.iter().for_each(|name| self.check(name))),
                _ => tail.iter().chain(head).for_each(|name| self.check(name)),
            }
            (started, Instant::now())
        };
        let work = &work;
        let spans: Vec<_> = thread::scope(|scope| {
            let handles: Vec<_> = (0..threads).map(|number| scope.spawn(move || work(number))).collect();
            handles.into_iter().map(|handle| handle.join().expect("no check panics")).collect()
        });
        let first = spans.iter().map(|span| span.0).min().expect("at least one thread");
        let last = spans.iter().map(|span| span.1).max().expect("at least one thread");
        last - first
    }
}

fn main() {
    let is_quick = std::env::args().any(|argument| argument == "--quick");
    let (rounds, checks) = if is_quick { (3, 200_000) } else { (11, 2_000_000) };
    let mut scenarios: Vec<_> = [
        ("hot key", Keys::Shared(1)),
        ("hot key each", Keys::Own),
        ("random keys", Keys::Shared(KEYS)),
        ("arithmetic", Keys::Nothing),
    ]
    .into_iter()
    .flat_map(|(name, keys)| [(name, keys, 1), (name, keys, 2)])
    .map(|(name, keys, threads)| Scenario { name, threads, bench: Bench::new(keys, threads, checks), seconds: Vec::new() })
    .collect();
    let mut done = 0;
    let total = rounds * scenarios.len();
    for round in 1..=rounds {
        for scenario in &mut scenarios {
            scenario.seconds.push(scenario.bench.run(scenario.threads).as_secs_f64());
            done += 1;
            println!(
                r#"{{"text": "{}, round {round} of {rounds}", "share": {}.{:03}}}"#,
                scenario.name,
                done / total,
                done * 1000 / total % 1000
            );
        }
    }
    for scenario in &mut scenarios {
        report(scenario, checks);
    }
}

#[allow(clippy::cast_precision_loss, reason = "numbers of checks are far below 2^53")]
fn report(scenario: &mut Scenario, checks: usize) {
    let Scenario { name, threads, bench, seconds } = scenario;
    let keys = match bench.keys {
        Keys::Shared(count) => count,
        Keys::Own => *threads,
        Keys::Nothing => 0,
    };
    seconds.sort_by(f64::total_cmp);
    let rate = |seconds: f64| (checks * *threads) as f64 / seconds;
    let (median, low, high) = (seconds[seconds.len() / 2], seconds[seconds.len() * 3 / 4], seconds[seconds.len() / 4]);
    println!(
        r#"{{"scenario": "{name}", "threads": {threads}, "keys": {keys}, "per_second": {:.0}, "low": {:.0}, "high": {:.0}}}"#,
        rate(median),
        rate(low),
        rate(high),
    );
}

fn name(number: usize) -> Name {
    let text = format!("user:{number:08}");
    text.as_bytes().try_into().expect("thirteen bytes up to a hundred million keys")
}

/// About as long as a check, in registers only.
fn spin() {
    let mut state = black_box(20);
    (0..20).for_each(|_| {
        black_box(next(&mut state));
    });
}

/// Xorshift: the same order in every run.
#[allow(clippy::cast_possible_truncation, reason = "any of its bits will do")]
fn next(state: &mut u64) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state >> 16) as usize
}

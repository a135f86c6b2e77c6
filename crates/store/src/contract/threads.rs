//! Exact counts with many callers at once. The clock stands still, so every number is known.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::counter::Counter;
use crate::clock::ManualClock;
use crate::store::Store;

const THREADS: u64 = 32;

/// Runs `act` in many threads at once, with the number of the thread; returns the sum of what they return.
fn in_threads(act: impl Fn(u64) -> u64 + Sync) -> u64 {
    let (start, sum) = (Barrier::new(usize::try_from(THREADS).expect("a small number")), AtomicU64::new(0));
    thread::scope(|scope| {
        for number in 0..THREADS {
            let (start, sum, act) = (&start, &sum, &act);
            scope.spawn(move || {
                start.wait();
                sum.fetch_add(act(number), Ordering::Relaxed);
            });
        }
    });
    sum.into_inner()
}

/// 32 threads ask for more than there is, in many rounds because only the last units of each can be fought over.
pub fn many_threads_admit_exactly_the_limit<S: Store>(factory: impl FnOnce(ManualClock) -> S) {
    const LIMIT: u64 = 100;
    let counter = Counter::new(factory);
    let texts = [
        "100/hour",
        "100/hour sliding_window_log",
        "100/hour sliding_window_counter",
        "100/hour sliding_window_counter buckets 6",
        "100/hour fixed_window",
        "100/hour gcra",
        "100/100s queue 99s",
        "100 concurrent ttl 1h",
    ];
    for text in texts {
        let quota = counter.quota(text, text);
        for round in 0..25 {
            let key = format!("round {round}");
            let admitted = in_threads(|_| (0..8).filter(|_| counter.allows(quota.charge(&key, 1))).count() as u64);
            assert_eq!(admitted, LIMIT, "{text}, {key}");
            assert_eq!(counter.remaining(&quota, &key), 0, "{text}, {key}");
        }
    }
}

/// Every thread has a key of its own, and all share one quota with another key.
pub fn a_shared_quota_admits_exactly_its_limit<S: Store>(factory: impl FnOnce(ManualClock) -> S) {
    let counter = Counter::new(factory);
    let (own, shared) = (counter.quota("own", "10/hour"), counter.quota("shared", "200/hour gcra"));
    for round in 0..20 {
        let everybody = format!("everybody {round}");
        let key = |number| format!("thread {number} in round {round}");
        let admitted = in_threads(|number| {
            let charges = || [own.charge(&key(number), 1), shared.charge(&everybody, 1)];
            (0..12).filter(|_| counter.check(&charges()).is_allowed()).count() as u64
        });
        assert_eq!(admitted, 200);
        let taken: u64 = (0..THREADS).map(|number| 10 - counter.remaining(&own, &key(number))).sum();
        assert_eq!(taken, admitted, "what was charged to the threads and what to all is the same");
    }
}

/// Two quotas with different limits: in the end both have been charged the same.
pub fn threads_charge_all_quotas_or_none<S: Store>(factory: impl FnOnce(ManualClock) -> S) {
    let counter = Counter::new(factory);
    let (narrow, wide) = (counter.quota("narrow", "100/hour"), counter.quota("wide", "1000/day fixed_window"));
    for round in 0..20 {
        let (one, other) = (format!("one {round}"), format!("other {round}"));
        let admitted = in_threads(|number| {
            let cost = 1 + number % 3;
            (0..6).filter(|_| counter.check(&[narrow.charge(&one, cost), wide.charge(&other, cost)]).is_allowed()).count() as u64
                * cost
        });
        let (narrow_used, wide_used) = (100 - counter.remaining(&narrow, &one), 1_000 - counter.remaining(&wide, &other));
        assert_eq!((narrow_used, wide_used), (admitted, admitted));
        assert!(narrow_used > 97, "there was enough demand to use all but a unit or two");
    }
}

/// Requests that name the same keys in opposite order, and others between them: everybody gets an answer.
pub fn keys_in_any_order_never_block_each_other<S: Store + 'static>(factory: impl FnOnce(ManualClock) -> S) {
    let counter = Counter::new(factory);
    let (done, is_done) = mpsc::channel();
    // A thread of its own, so that a test that is stuck can say so.
    let run = thread::spawn(move || {
        let quota = counter.quota("quota", "1000000/hour");
        let names: Vec<String> = (0..6).map(|number| format!("key {number}")).collect();
        let admitted = in_threads(|number| {
            let mut order: Vec<&String> = names.iter().collect();
            order.rotate_left(usize::try_from(number % 6).expect("a small number"));
            if number % 2 == 0 {
                order.reverse();
            }
            (0..500)
                .filter(|_| counter.check(&order.iter().map(|key| quota.charge(key, 1)).collect::<Vec<_>>()).is_allowed())
                .count() as u64
        });
        assert_eq!(admitted, THREADS * 500);
        for name in &names {
            assert_eq!(1_000_000 - counter.remaining(&quota, name), admitted);
        }
        done.send(()).expect("somebody waits");
    });
    let waited = is_done.recv_timeout(Duration::from_mins(2));
    assert_ne!(waited, Err(mpsc::RecvTimeoutError::Timeout), "requests block each other");
    run.join().expect("exact counts");
}

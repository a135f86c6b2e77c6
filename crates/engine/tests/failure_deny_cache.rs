//! The deny cache before a store behind a network: it denies nothing that the store would admit.

use std::thread;

use proptest::prelude::*;
use tidegate_core::meter::{Ask, Meter};
use tidegate_core::quota::Quota;
use tidegate_core::time::Tick;
use tidegate_engine::failure::deny_cache::{DenialKey, DenyCache};
use tidegate_store::digest::Digest;

const QUOTAS: [&str; 8] = [
    "5/us",
    "40/us entries 4",
    "5/us sliding_window_log",
    "5/us sliding_window_counter",
    "5/us fixed_window",
    "7/3us burst 4",
    "3/us queue 500ns",
    "5/us min_interval 150ns",
];

fn index(cost: u64) -> usize {
    usize::try_from(cost).expect("a small cost")
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 2_000, ..ProptestConfig::default() })]

    /// The way to the store takes `there`, the way back `back`; all that happens in between is this request.
    #[test]
    fn a_cached_denial_is_one_that_the_store_would_give(
        quota in prop::sample::select(&QUOTAS[..]),
        requests in prop::collection::vec((0u64..200, 0u64..30, 0u64..30, 1u64..8), 1..120),
    ) {
        let quota: Quota = quota.parse().expect("a quota");
        let meter = Meter::new(&quota, Tick::NANOSECOND, None).expect("compiles");
        let (cache, mut state, mut now, mut hits) = (DenyCache::new(0), meter.empty(), 1_000_000, 0);
        // For each cost whether something was admitted since it was denied.
        let mut is_changed = [true; 8];
        for (wait, there, back, cost) in requests {
            now += wait;
            let ask = Ask::cost(cost);
            let key = DenialKey::new(1, Digest([1, 2]), ask);
            if let Some(denial) = cache.get(now, &key) {
                hits += 1;
                let mut later = state.clone();
                let store = meter.decide(&mut later, now, ask);
                prop_assert!(!store.is_allowed(), "{denial:?}, but the store would admit it");
                let status = denial.status(now, 0);
                prop_assert_eq!((status.limit, status.retry_after.is_none()), (store.limit, store.retry_after.is_none()));
                if !is_changed[index(cost)] {
                    prop_assert!(status.remaining <= store.remaining);
                    let told = status.retry_after.map(|wait| meter.decide(&mut later, now + wait, ask));
                    prop_assert!(told.is_none_or(|status| status.is_allowed()), "told to wait {:?}, in vain", status.retry_after);
                }
            } else {
                let (sent_at, received_at) = (now, now + there + back);
                let status = meter.decide(&mut state, now + there, ask);
                cache.put(key, &status, sent_at, received_at);
                if status.is_allowed() {
                    is_changed = [true; 8];
                } else {
                    is_changed[index(cost)] = false;
                }
                now = received_at;
            }
        }
        prop_assert_eq!(cache.hits(), hits);
    }
}

/// What is found was put for this key by somebody, and what was forgotten is not found.
#[test]
fn many_threads_share_it() {
    let cache = DenyCache::new(0);
    let quota: Quota = "1/hour".parse().expect("a quota");
    let meter = Meter::new(&quota, Tick::NANOSECOND, None).expect("compiles");
    let mut state = meter.empty();
    meter.decide(&mut state, 1, Ask::cost(1));
    let mut denied = meter.decide(&mut state, 1, Ask::cost(1));
    denied.limit = None;
    thread::scope(|scope| {
        for thread in 0..4u64 {
            let (cache, denied) = (&cache, &denied);
            scope.spawn(move || {
                for round in 0..20_000u64 {
                    // Two threads have each counter, and all counters are in few sets.
                    let counter = (round * 7 + thread % 2) % 64;
                    let key = DenialKey::new(1, Digest([counter % 4, counter << 1]), Ask::cost(1));
                    let mut status = *denied;
                    status.remaining = Some(counter);
                    match round % 5 {
                        0 => cache.forget(key.counter),
                        1 | 2 => cache.put(key, &status, round, round + 1),
                        _ => assert!(cache.get(round, &key).is_none_or(|denial| denial.remaining == Some(counter))),
                    }
                }
            });
        }
    });
    for counter in 0..64 {
        let key = DenialKey::new(1, Digest([counter % 4, counter << 1]), Ask::cost(1));
        cache.forget(key.counter);
        assert_eq!(cache.get(20_000, &key), None);
    }
    assert!(cache.hits() > 0);
}

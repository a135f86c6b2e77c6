//! What the memory store promises about its memory: everything that is back at full credit goes, the cap on keys holds, and no key that is limiting
//! is forgotten.
//!
//! Plain functions, because `memory_limits.rs` runs them as tests and `mutants.rs` with mistakes switched on.

/// Hands the list of all functions to a macro.
macro_rules! limits {
    ($visit:ident) => {
        $visit! {
            expired_states_are_swept_by_traffic,
            a_million_distinct_keys_leave_few_behind,
            a_small_state_takes_at_most_64_bytes,
            the_cap_on_keys_is_never_exceeded,
            keys_closest_to_full_credit_are_evicted_first,
            a_limiting_key_is_never_evicted,
            a_store_full_of_limiting_keys_refuses_new_ones,
            a_full_store_charges_nothing_by_halves,
            an_expired_state_of_the_request_itself_is_no_room_gained,
            a_store_for_no_keys_fails_every_check,
        }
    };
}
pub(crate) use limits;

use tidegate_store::clock::{Clock, ManualClock};
use tidegate_store::contract::counter::{Counter, Metered, SECOND};
use tidegate_store::memory::MemoryStore;
use tidegate_store::store::{Store, StoreError};

const MILLISECOND: u64 = SECOND / 1_000;

/// A store for at most so many keys.
fn counter(keys_max: usize) -> Counter<MemoryStore> {
    Counter::new(|clock: ManualClock| MemoryStore::new(Clock::Manual(clock), keys_max))
}

/// Fills a store that is never swept otherwise.
fn fill(counter: &Counter<MemoryStore>, quota: &Metered, keys: std::ops::Range<usize>, cost: u64) {
    for key in keys {
        assert!(counter.allows(quota.charge(&key.to_string(), cost)), "key {key}");
    }
}

/// There is no timer: the checks of a few busy keys pay for dropping the states of all others.
pub(crate) fn expired_states_are_swept_by_traffic() {
    for (keys_max, keys) in [(8_000, 7_000), (1_000_000, 100_000)] {
        let counter = counter(keys_max);
        for text in ["10/second", "10/second gcra", "10/second sliding_window_log", "10 concurrent ttl 1s"] {
            let (short, busy) = (counter.quota(text, text), counter.quota("busy", "1000000/day"));
            fill(&counter, &short, 0..keys, 1);
            counter.advance(2 * SECOND);
            // Each check pays for a look at one slot. A slot whose state goes is looked at again, and up to half as many as keys are vacant.
            for _ in 0..60 {
                fill(&counter, &busy, 0..keys / 20, 1);
            }
            assert_eq!(counter.store.stats().keys, keys as u64 / 20, "{text}: only the busy keys are left");
        }
        assert_eq!(counter.store.stats().expired, 4 * keys as u64);
    }
}

/// A flood of keys that live for a second costs the memory of those that live at the same time, and gives it back.
pub(crate) fn a_million_distinct_keys_leave_few_behind() {
    let counter = counter(10_000_000);
    let quota = counter.quota("flood", "5/second gcra");
    let idle = counter.store.stats().bytes;
    let (mut keys_most, mut bytes_most) = (0, 0);
    for key in 0..1_000_000_u64 {
        counter.advance(SECOND / 100_000);
        assert!(counter.allows(quota.charge(&key.to_string(), 1)));
        if key % 10_000 == 0 {
            let stats = counter.store.stats();
            (keys_most, bytes_most) = (keys_most.max(stats.keys), bytes_most.max(stats.bytes));
        }
    }
    // A fifth of a second, in which 20,000 come, passes until a key is back at full credit.
    assert!(keys_most < 80_000, "{keys_most} keys at a time");
    assert!(bytes_most - idle < keys_most * 128, "{bytes_most} bytes for {keys_most} keys");

    counter.advance(SECOND);
    let busy = counter.quota("busy", "1000000/day");
    (0..100_000).for_each(|_| assert!(counter.allows(busy.charge("busy", 1))));
    let stats = counter.store.stats();
    assert_eq!(stats.keys, 1);
    assert!(stats.bytes < idle + bytes_most / 10, "{} bytes, {idle} when idle and {bytes_most} at most", stats.bytes);
    assert_eq!((stats.expired, stats.evicted), (1_000_000, 0));
}

/// What `make bench` shows for ten million keys, for a few.
pub(crate) fn a_small_state_takes_at_most_64_bytes() {
    for text in ["100/minute gcra", "100/minute fixed_window", "100/minute sliding_window_counter"] {
        let counter = counter(10_000_000);
        let quota = counter.quota(text, text);
        let idle = counter.store.stats().bytes;
        fill(&counter, &quota, 0..400_000, 1);
        let bytes = counter.store.stats().bytes - idle;
        assert!(bytes <= 64 * 400_000, "{text}: {bytes} bytes for 400,000 keys");
    }
}

/// However many keys come, no more are held than may be.
pub(crate) fn the_cap_on_keys_is_never_exceeded() {
    for keys_max in [1, 2, 63, 64, 65, 1_000, 8_000] {
        let counter = counter(keys_max);
        let quota = counter.quota("quota", "10/minute");
        for key in 0..3 * keys_max {
            assert!(counter.allows(quota.charge(&key.to_string(), 1)));
            assert!(counter.store.stats().keys <= keys_max as u64, "{:?} of {keys_max}", counter.store.stats());
        }
        let stats = counter.store.stats();
        assert_eq!((stats.keys, stats.evicted), (keys_max as u64, 2 * keys_max as u64));
    }
}

/// Whoever has used least loses least.
pub(crate) fn keys_closest_to_full_credit_are_evicted_first() {
    let counter = counter(40);
    let quota = counter.quota("quota", "100/minute gcra");
    for cost in 1..=40 {
        assert!(counter.allows(quota.charge(&format!("used {cost}"), cost)));
    }
    for number in 1..=10 {
        assert!(counter.allows(quota.charge(&format!("new {number}"), 50)));
        let forgotten = (1..=40).filter(|cost| counter.remaining(&quota, &format!("used {cost}")) == 100).collect::<Vec<_>>();
        assert_eq!(forgotten, (1..=number).collect::<Vec<_>>());
    }
}

/// Random names cannot wash out the counter of a key that has nothing left.
pub(crate) fn a_limiting_key_is_never_evicted() {
    let counter = counter(50);
    let quota = counter.quota("quota", "10/minute");
    let limited: Vec<String> = (0..20).map(|number| format!("limited {number}")).collect();
    for key in &limited {
        assert!(counter.allows(quota.charge(key, 10)));
    }
    counter.advance(SECOND);
    for flood in 0..10_000 {
        assert!(counter.allows(quota.charge(&format!("flood {flood}"), 1)));
    }
    for key in &limited {
        assert!(!counter.allows(quota.charge(key, 1)), "{key} starts again");
    }
}

/// A store full of limiting keys says so, when that will change, and keeps its counters; then it works again.
pub(crate) fn a_store_full_of_limiting_keys_refuses_new_ones() {
    let counter = counter(30);
    let quota = counter.quota("quota", "10/minute");
    fill(&counter, &quota, 0..30, 10);
    counter.advance(15 * SECOND);
    let refused = counter.store.check(&[quota.charge("new", 1)]);
    assert_eq!(refused, Err(StoreError::Full { free_after: 45 * SECOND }));
    assert_eq!(counter.store.debit(&[quota.charge("new", 1)]), Err(StoreError::Full { free_after: 45 * SECOND }));
    assert_eq!(counter.ask(quota.charge("new", 1)).remaining, Some(10), "whoever only asks is answered");
    assert!((0..30).all(|key| !counter.allows(quota.charge(&key.to_string(), 1))));
    let stats = counter.store.stats();
    assert_eq!((stats.keys, stats.evicted), (30, 0));

    counter.advance(45 * SECOND);
    assert!(counter.allows(quota.charge("new", 1)));
}

/// Where one of several states finds no room, none is charged and nobody is evicted for it.
pub(crate) fn a_full_store_charges_nothing_by_halves() {
    let counter = counter(10);
    let (one, other) = (counter.quota("one", "10/minute"), counter.quota("other", "10/minute"));
    fill(&counter, &one, 0..8, 10);
    assert!(counter.allows(one.charge("known", 1)) && counter.allows(one.charge("spare", 1)));
    // Two states are missing, and only one may go: that of "spare". That of "known" belongs to the request.
    let both = |cost| [one.charge("known", cost), other.charge("known", cost), other.charge("stranger", cost)];
    assert!(counter.store.check(&both(1)).is_err());
    assert!(counter.store.debit(&both(1)).is_err());
    assert_eq!((counter.remaining(&one, "known"), counter.remaining(&one, "spare")), (9, 9));
    assert_eq!(counter.store.stats().evicted, 0);
}

/// Making room may sweep an expired state of the request itself; it is made again, and nothing of the request is evicted for another part of it.
pub(crate) fn an_expired_state_of_the_request_itself_is_no_room_gained() {
    let counter = counter(2);
    let (short, long) = (counter.quota("short", "5/second"), counter.quota("long", "5/hour"));
    assert!(counter.allows(short.charge("a", 1)));
    counter.advance(2 * SECOND);
    assert!(counter.allows(long.charge("b", 5)), "a second key, which is limiting");
    let refused = counter.store.check(&[short.charge("a", 1), long.charge("a", 1)]);
    assert!(refused.is_err(), "two states are needed and one can be had: {refused:?}");
    assert_eq!((counter.remaining(&short, "a"), counter.remaining(&long, "a")), (5, 5));
    assert_eq!(counter.remaining(&long, "b"), 0);

    counter.advance(5 * MILLISECOND);
    assert!(counter.allows(short.charge("a", 5)));
    assert!(!counter.allows(short.charge("a", 1)));
}

/// With no memory at all every check fails, and nothing breaks.
pub(crate) fn a_store_for_no_keys_fails_every_check() {
    let counter = counter(0);
    let quota = counter.quota("quota", "10/minute");
    assert!(counter.store.check(&[quota.charge("a", 1)]).is_err());
    assert!(counter.store.peek(&[quota.charge("a", 1)]).is_ok());
    assert!(counter.store.check(&[quota.charge("a", 0)]).is_ok());
    assert!(counter.store.check(&[counter.quota("zero", "0/minute").charge("a", 1)]).is_ok());
    assert_eq!(counter.store.stats().keys, 0);
}

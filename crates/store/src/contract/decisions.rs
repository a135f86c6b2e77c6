//! All or nothing, true answers, and what changes nothing.

use super::counter::{Counter, QUOTAS_OF_FIVE, SECOND};
use crate::clock::ManualClock;
use crate::store::{Charge, Store};

/// A request that one quota denies is charged to none, and the verdict names the quota that binds.
pub fn all_quotas_are_charged_or_none<S: Store>(factory: impl FnOnce(ManualClock) -> S) {
    let counter = Counter::new(factory);
    let (minute, hour) = (counter.quota("minute", "3/minute"), counter.quota("hour", "5/hour"));
    let both = |cost| [minute.charge("a", cost), hour.charge("a", cost)];

    let allowed = counter.check(&both(2));
    assert!(allowed.is_allowed());
    assert_eq!((allowed.remaining(), allowed.binding_index()), (Some(1), 0));
    assert_eq!(allowed.reset_after(), counter.store.tick().ceil(3_600 * SECOND));

    let denied = counter.check(&both(2));
    assert_eq!(denied.retry_after(), Some(counter.store.tick().ceil(60 * SECOND)));
    assert!(!denied.statuses()[0].is_allowed() && denied.statuses()[1].is_allowed());
    assert_eq!((counter.remaining(&minute, "a"), counter.remaining(&hour, "a")), (1, 3));

    counter.advance(60 * SECOND);
    assert!(counter.check(&both(2)).is_allowed());
    counter.advance(60 * SECOND);
    let denied = counter.check(&both(3));
    assert_eq!((denied.is_allowed(), denied.binding_index()), (false, 1), "an hour is longer than a minute");
    assert_eq!((counter.remaining(&minute, "a"), counter.remaining(&hour, "a")), (3, 1));
}

/// The first request of a key is charged like any other, also where nothing was kept of the key before.
pub fn the_first_request_of_a_key_is_charged_to_all_quotas<S: Store>(factory: impl FnOnce(ManualClock) -> S) {
    let counter = Counter::new(factory);
    let other = counter.quota("other", "10/minute");
    counter.advance(SECOND);
    for (count, text) in (1..).zip(QUOTAS_OF_FIVE) {
        let quota = counter.quota(text, text);
        let first = counter.check(&[quota.charge("a", 1), other.charge("a", 1)]);
        assert!(first.is_allowed());
        let alone = counter.check(&[quota.charge("b", 1)]);
        assert_eq!(first.statuses()[0].reset_after, alone.statuses()[0].reset_after, "{text}");
        assert_eq!((counter.remaining(&quota, "a"), counter.remaining(&other, "a")), (4, 10 - count), "{text}");
    }
}

/// The same for several keys in one request, wherever they are kept.
pub fn all_keys_are_charged_or_none<S: Store>(factory: impl FnOnce(ManualClock) -> S) {
    let counter = Counter::new(factory);
    let (user, global) = (counter.quota("user", "2/minute"), counter.quota("global", "50/minute"));
    for number in 0..20 {
        let name = format!("user {number}");
        let charges = |cost| [user.charge(&name, cost), global.charge("all", cost)];
        assert!(counter.check(&charges(2)).is_allowed());
        assert!(!counter.check(&charges(1)).is_allowed(), "the user has nothing left");
    }
    assert_eq!(counter.remaining(&global, "all"), 10, "what users were denied is not charged to all");
    let denied = counter.check(&[global.charge("all", 11), user.charge("somebody else", 1)]);
    assert!(!denied.is_allowed());
    assert_eq!(counter.remaining(&user, "somebody else"), 2, "what all are denied is not charged to a user");
}

/// A client that keeps asking is admitted when it was told, whatever the algorithm.
pub fn a_denied_check_charges_nothing<S: Store>(factory: impl FnOnce(ManualClock) -> S) {
    let counter = Counter::new(factory);
    for text in QUOTAS_OF_FIVE {
        let quota = counter.quota(text, text);
        (0..5).for_each(|_| assert!(counter.allows(quota.charge("a", 1)), "{text}"));
        let first = counter.check(&[quota.charge("a", 1)]);
        for _ in 0..100 {
            assert_eq!(counter.check(&[quota.charge("a", 1)]), first, "{text}");
            assert!(!counter.allows(quota.charge("a", 6)), "{text}: never");
        }
        counter.advance_ticks(first.retry_after().expect("a wait"));
        assert!(counter.allows(quota.charge("a", 1)), "{text}");
    }
}

/// Neither a peek nor a check of cost 0 leaves anything behind, and both say what a check would.
pub fn asking_changes_nothing<S: Store>(factory: impl FnOnce(ManualClock) -> S) {
    let counter = Counter::new(factory);
    for text in QUOTAS_OF_FIVE {
        let quota = counter.quota(text, text);
        let keys = counter.store.stats().keys;
        for cost in 0..=6 {
            assert_eq!(counter.ask(quota.charge("a", cost)).is_allowed(), cost <= 5, "{text}, cost {cost}");
        }
        assert!(counter.allows(quota.charge("a", 0)), "{text}");
        assert_eq!((counter.remaining(&quota, "a"), counter.store.stats().keys), (5, keys), "{text}");

        assert!(counter.allows(quota.charge("a", 2)), "{text}");
        let before = counter.ask(quota.charge("a", 2));
        assert!((0..10).all(|cost| counter.ask(quota.charge("a", cost)).limit == Some(5)), "{text}");
        assert!(counter.check(&[quota.charge("a", 0)]).is_allowed(), "{text}");
        assert_eq!(counter.ask(quota.charge("a", 2)), before, "{text}");
    }
}

/// `retry_after` and `reset_after` are exact: not a tick too early, not a tick too late.
pub fn waits_are_true_to_the_tick<S: Store>(factory: impl FnOnce(ManualClock) -> S) {
    let counter = Counter::new(factory);
    for text in QUOTAS_OF_FIVE {
        let quota = counter.quota(text, text);
        counter.advance(7 * SECOND);
        (0..5).for_each(|_| assert!(counter.allows(quota.charge("a", 1)), "{text}"));
        let wait = counter.check(&[quota.charge("a", 1)]).retry_after().expect("a wait");
        counter.advance_ticks(wait - 1);
        assert!(!counter.allows(quota.charge("a", 1)), "{text}: one tick before {wait}");
        counter.advance_ticks(1);
        assert!(counter.allows(quota.charge("a", 1)), "{text}: after {wait}");

        let reset = counter.ask(quota.charge("a", 0)).reset_after;
        counter.advance_ticks(reset - 1);
        assert!(counter.remaining(&quota, "a") < 5, "{text}: one tick before {reset}");
        counter.advance_ticks(1);
        assert_eq!(counter.remaining(&quota, "a"), 5, "{text}: after {reset}");
    }
}

/// Nobody uses what another key, or the same key under another quota, has left.
pub fn keys_and_namespaces_are_counted_apart<S: Store>(factory: impl FnOnce(ManualClock) -> S) {
    let counter = Counter::new(factory);
    let (one, other) = (counter.quota("one", "5/minute"), counter.quota("other", "5/minute"));
    assert!(counter.allows(one.charge("a", 5)));
    assert_eq!((counter.remaining(&one, "b"), counter.remaining(&other, "a")), (5, 5));
    for number in 0..1_000 {
        assert!(counter.allows(other.charge(&format!("key {number}"), 5)), "key {number}");
    }
    assert_eq!(counter.remaining(&one, "b"), 5);
    assert!((0..1_000).all(|number| !counter.allows(other.charge(&format!("key {number}"), 1))));
}

/// A quota that is being phased out is asked and charged before its end, and not from it on.
pub fn an_ended_quota_is_not_asked<S: Store>(factory: impl FnOnce(ManualClock) -> S) {
    let counter = Counter::new(factory);
    let (old, new) = (counter.quota("old", "2/hour"), counter.quota("new", "10/minute"));
    let until = Some(counter.store.now() + counter.store.tick().ceil(30 * SECOND));
    let charges = |cost| [new.charge("a", cost), Charge { until, ..old.charge("a", cost) }];
    assert!(counter.check(&charges(2)).is_allowed());
    assert!(!counter.check(&charges(1)).is_allowed());
    counter.advance(30 * SECOND);
    let after = counter.check(&charges(3));
    assert!(after.is_allowed());
    assert_eq!(after.statuses().len(), 1, "the old quota says nothing any more");
    assert_eq!((counter.remaining(&new, "a"), counter.remaining(&old, "a")), (5, 0));
}

/// While it is phased out, its waits and even its "never" end with it.
pub fn a_wait_ends_with_the_quota_that_caused_it<S: Store>(factory: impl FnOnce(ManualClock) -> S) {
    let counter = Counter::new(factory);
    let (old, new) = (counter.quota("old", "2/hour"), counter.quota("new", "10/minute"));
    let until = Some(counter.store.now() + counter.store.tick().ceil(30 * SECOND));
    let charges = |cost| [new.charge("a", cost), Charge { until, ..old.charge("a", cost) }];
    let never = counter.check(&charges(3));
    assert_eq!(never.retry_after(), Some(counter.store.tick().ceil(30 * SECOND)), "never, but only for 30 seconds");
    assert_eq!(counter.check(&charges(11)).retry_after(), None, "never, also by the new quota");
    assert!(counter.check(&charges(2)).is_allowed());
    counter.advance(10 * SECOND);
    let wait = counter.check(&charges(1)).retry_after().expect("a wait");
    counter.advance_ticks(wait - 1);
    assert!(!counter.check(&charges(1)).is_allowed());
    counter.advance_ticks(1);
    assert!(counter.check(&charges(1)).is_allowed());
}

/// The short answer takes what the long one takes.
pub fn allow_says_what_check_says<S: Store>(factory: impl FnOnce(ManualClock) -> S) {
    let counter = Counter::new(factory);
    for text in QUOTAS_OF_FIVE {
        let quota = counter.quota(text, text);
        let allow = |cost| counter.store.allow(&[quota.charge("a", cost)]).expect("a store that works");
        assert!(allow(2) && allow(1) && allow(0), "{text}");
        assert_eq!(counter.remaining(&quota, "a"), 2, "{text}");
        assert!(!allow(6), "{text}: never");
        assert!(allow(1) && allow(1) && !allow(1), "{text}");
    }
    let (one, other) = (counter.quota("one", "5/minute"), counter.quota("other", "3/minute"));
    let both = |cost| counter.store.allow(&[one.charge("a", cost), other.charge("a", cost)]).expect("a store that works");
    assert!(both(2) && !both(2));
    assert_eq!((counter.remaining(&one, "a"), counter.remaining(&other, "a")), (3, 1));
}

/// A limit of 0 denies without looking at the counters, which count again when the limit is back.
pub fn a_limit_of_zero_keeps_what_was_counted<S: Store>(factory: impl FnOnce(ManualClock) -> S) {
    let counter = Counter::new(factory);
    let closed = [
        ("5/minute", "0/minute"),
        ("5/minute sliding_window_log", "0/minute sliding_window_log"),
        ("5/minute sliding_window_counter", "0/minute sliding_window_counter"),
        ("5/minute sliding_window_counter buckets 6", "0/minute sliding_window_counter buckets 6"),
        ("5/minute fixed_window", "0/minute fixed_window"),
        ("5/minute gcra", "0/minute gcra"),
        ("1/second queue 4s", "0/second queue 4s"),
        ("5 concurrent ttl 60s", "0 concurrent ttl 60s"),
    ];
    for (open, closed) in closed {
        let (quota, zero) = (counter.quota(open, open), counter.quota(open, closed));
        // Two charges at different times, so that no state is too small to be interesting.
        assert!(counter.allows(quota.charge("a", 1)));
        counter.advance(SECOND / 10);
        assert!(counter.allows(quota.charge("a", 2)));
        let before = counter.ask(quota.charge("a", 1));
        assert_eq!(counter.check(&[zero.charge("a", 1)]).retry_after(), None, "{closed}");
        assert_eq!(counter.check(&[zero.charge("a", 1), zero.charge("b", 1)]).retry_after(), None, "{closed}");
        counter.store.debit(&[zero.charge("a", 1)]).expect("a store that works");
        assert_eq!(counter.remaining(&zero, "a"), 0, "{closed}");
        assert_eq!(counter.ask(quota.charge("a", 1)), before, "{open} again");
    }
}

/// Nobody says no.
pub fn a_request_without_quotas_is_allowed<S: Store>(factory: impl FnOnce(ManualClock) -> S) {
    let counter = Counter::new(factory);
    let unlimited = counter.quota("unlimited", "unlimited");
    assert!(counter.check(&[]).is_allowed());
    assert!(counter.allows(unlimited.charge("a", 1 << 53)));
    assert_eq!(counter.ask(unlimited.charge("a", 1)).remaining, None);
    assert_eq!(counter.store.stats().keys, 0, "there is nothing to remember");
}

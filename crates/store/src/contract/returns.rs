//! What is given back, owed and forgotten.

use super::counter::{Counter, QUOTAS_OF_FIVE, SECOND};
use crate::clock::ManualClock;
use crate::store::Store;

/// At once everything, in parts as much, and later only what has not drained by itself.
pub fn a_refund_gives_back_what_still_counts<S: Store>(factory: impl FnOnce(ManualClock) -> S) {
    let counter = Counter::new(factory);
    for text in QUOTAS_OF_FIVE.into_iter().filter(|text| !text.contains("concurrent") && !text.contains("queue")) {
        let quota = counter.quota(text, text);
        let receipt = counter.check(&[quota.charge("a", 4)]).statuses()[0].receipt;
        counter.refund(&quota, "a", receipt, 1);
        assert_eq!(counter.remaining(&quota, "a"), 2, "{text}");
        counter.refund(&quota, "a", receipt, 3);
        assert_eq!(counter.remaining(&quota, "a"), 5, "{text}");

        let receipt = counter.check(&[quota.charge("a", 4)]).statuses()[0].receipt;
        counter.advance(130 * SECOND);
        assert!(counter.allows(quota.charge("a", 5)), "{text}");
        counter.refund(&quota, "a", receipt, 4);
        assert_eq!(counter.remaining(&quota, "a"), 0, "{text}: the charge had left long ago");
    }
}

/// A refund for a key that is not there any more makes no entry for it.
pub fn a_refund_to_nobody_leaves_nothing_behind<S: Store>(factory: impl FnOnce(ManualClock) -> S) {
    let counter = Counter::new(factory);
    for text in QUOTAS_OF_FIVE {
        let quota = counter.quota(text, text);
        let receipt = counter.check(&[quota.charge("a", 2)]).statuses()[0].receipt;
        assert!(counter.store.reset(&quota.charge("a", 0)).expect("a store that works"));
        let keys = counter.store.stats().keys;
        counter.refund(&quota, "a", receipt, 2);
        assert_eq!((counter.remaining(&quota, "a"), counter.store.stats().keys), (5, keys), "{text}");
    }
}

/// A debit is not asked for: it goes below nothing, but not below `max_debt`, and is worked off.
pub fn a_debit_overdraws_as_far_as_the_quota_allows<S: Store>(factory: impl FnOnce(ManualClock) -> S) {
    let counter = Counter::new(factory);
    let texts =
        ["5/5s max_debt 10", "5/5s sliding_window_log max_debt 10", "5/5s fixed_window max_debt 10", "5/5s gcra max_debt 10"];
    for text in texts {
        let quota = counter.quota(text, text);
        let debit = |cost| counter.store.debit(&[quota.charge("a", cost)]).expect("a store that works");
        assert_eq!((debit(3).is_allowed(), counter.remaining(&quota, "a")), (true, 2), "{text}");
        assert_eq!((debit(9).is_allowed(), counter.remaining(&quota, "a")), (true, 0), "{text}");
        let wait = counter.ask(quota.charge("a", 1)).retry_after;
        assert!(debit(1 << 53).is_allowed(), "{text}");
        let longest = counter.ask(quota.charge("a", 1)).retry_after.expect("a wait");
        assert!(Some(longest) >= wait, "{text}");
        assert_eq!(counter.ask(quota.charge("a", 1)).retry_after, Some(longest), "{text}");
        counter.advance_ticks(longest);
        assert!(counter.allows(quota.charge("a", 1)), "{text}: nothing beyond max_debt is owed");
    }
    let gcra = counter.quota("gcra", "1/second burst 5 max_debt 10");
    counter.store.debit(&[gcra.charge("a", 1_000)]).expect("a store that works");
    let wait = counter.ask(gcra.charge("a", 1)).retry_after;
    assert_eq!(wait, Some(counter.store.tick().ceil(11 * SECOND)), "ten units of debt and one to spend");
}

/// All quotas owe, whether they had room or not.
pub fn a_debit_is_charged_to_all_quotas<S: Store>(factory: impl FnOnce(ManualClock) -> S) {
    let counter = Counter::new(factory);
    let (small, large) = (counter.quota("small", "2/minute"), counter.quota("large", "100/minute"));
    let verdict = counter.store.debit(&[small.charge("a", 30), large.charge("b", 30)]).expect("a store that works");
    assert!(verdict.is_allowed());
    assert_eq!((counter.remaining(&small, "a"), counter.remaining(&large, "b")), (0, 70));
    let keys = counter.store.stats().keys;
    counter.store.debit(&[small.charge("c", 0), large.charge("c", 0)]).expect("a store that works");
    assert_eq!(counter.store.stats().keys, keys, "nothing was owed, so there is nothing to remember");
}

/// The rest stays as it is, and the second reset finds nothing.
pub fn a_reset_forgets_one_key_under_one_quota<S: Store>(factory: impl FnOnce(ManualClock) -> S) {
    let counter = Counter::new(factory);
    let (one, other) = (counter.quota("one", "5/minute"), counter.quota("other", "5/minute"));
    for (quota, key) in [(&one, "a"), (&one, "b"), (&other, "a")] {
        assert!(counter.allows(quota.charge(key, 3)));
    }
    assert_eq!(counter.store.reset(&one.charge("a", 0)), Ok(true));
    assert_eq!(counter.store.reset(&one.charge("a", 0)), Ok(false));
    let remaining = [(&one, "a"), (&one, "b"), (&other, "a")].map(|(quota, key)| counter.remaining(quota, key));
    assert_eq!(remaining, [5, 2, 2]);
}

/// Every key starts again; what was decided stays counted in the statistics.
pub fn clearing_forgets_everything<S: Store>(factory: impl FnOnce(ManualClock) -> S) {
    let counter = Counter::new(factory);
    for text in QUOTAS_OF_FIVE {
        let quota = counter.quota(text, text);
        (0..50).for_each(|key| assert!(counter.allows(quota.charge(&key.to_string(), 5))));
    }
    let before = counter.store.stats();
    counter.store.clear();
    let after = counter.store.stats();
    // A store that does not hold the keys itself cannot count them.
    assert!(before.keys == 450 || before.keys == 0, "{before:?}");
    assert_eq!((after.keys, after.allowed), (0, before.allowed));
    assert!(after.bytes < before.bytes || before.bytes == 0);
    for text in QUOTAS_OF_FIVE {
        assert_eq!(counter.remaining(&counter.quota(text, text), "7"), 5, "{text}");
    }
}

//! What is decided when the store cannot.

mod limiter;

use tidegate_engine::engine::{OnStoreError, UsageError};
use tidegate_store::store::StoreError;

use limiter::{Limiter, SECOND, quotas};

/// An engine whose store holds one key, which is limiting.
fn full(on_store_error: OnStoreError) -> Limiter {
    let limiter = Limiter::with_room_for(quotas("5/minute"), 1, on_store_error);
    assert!(limiter.allows("known", 5));
    limiter.advance(20 * SECOND);
    limiter
}

#[test]
fn a_full_store_denies_by_default_and_says_when_it_may_have_room() {
    let limiter = full(OnStoreError::default());
    let decision = limiter.check("new", 1);
    assert!(!decision.is_allowed());
    assert_eq!(decision.degraded(), Some(&StoreError::Full { free_after: 40 * SECOND }));
    assert_eq!(decision.verdict().retry_after(), Some(40 * SECOND));
    assert!(decision.verdict().retry_is_hint());
    assert_eq!(decision.verdict().remaining(), Some(0));
    assert_eq!(limiter.engine.allow(b"new", 1), Ok(false));
    limiter.advance(40 * SECOND);
    assert!(limiter.check("new", 1).degraded().is_none());
}

#[test]
fn a_full_store_allows_if_that_is_the_policy() {
    let limiter = full(OnStoreError::Allow);
    let decision = limiter.check("new", 5);
    assert!(decision.is_allowed());
    assert!(decision.degraded().is_some_and(StoreError::is_transient));
    assert_eq!((decision.verdict().retry_after(), decision.verdict().remaining()), (Some(0), Some(0)));
    assert_eq!(limiter.engine.allow(b"new", 1), Ok(true));
    assert!(!limiter.allows("known", 1), "who is known is still limited");
}

#[test]
fn a_degraded_decision_took_nothing_and_holds_no_slot() {
    let limiter = Limiter::with_room_for(quotas("5 concurrent"), 0, OnStoreError::Allow);
    let decision = limiter.check("a", 1);
    assert_eq!((decision.is_allowed(), decision.lease()), (true, None));
    let refused = limiter.engine.refund(b"a", &decision, None);
    assert_eq!(refused, Err(UsageError::NothingTaken { why: "taken without the store" }));
    assert!(limiter.engine.settle(b"a", &decision, 1).is_err());
}

#[test]
fn degraded_decisions_are_counted_by_what_they_said() {
    for (policy, allowed, denied) in [(OnStoreError::Allow, 4, 0), (OnStoreError::Deny, 1, 3)] {
        let limiter = full(policy);
        limiter.check("new", 1);
        limiter.engine.allow(b"new", 1).expect("a call that makes sense");
        limiter.engine.debit(b"new", 1).expect("a call that makes sense");
        let stats = limiter.engine.stats();
        assert_eq!((stats.store.allowed, stats.store.denied, stats.degraded), (allowed, denied, 3), "{policy:?}");
    }
}

#[test]
fn whoever_only_asks_a_full_store_is_answered() {
    let limiter = full(OnStoreError::Deny);
    let decision = limiter.peek("new", 1);
    assert!(decision.is_allowed() && decision.degraded().is_none());
    assert_eq!(limiter.engine.stats().degraded, 0);
}

#[test]
fn quotas_that_need_no_memory_work_without_any() {
    let limiter = Limiter::with_room_for(quotas("unlimited"), 0, OnStoreError::Deny);
    assert!(limiter.allows("a", 1_000));
    let limiter = Limiter::with_room_for(quotas("0/minute"), 0, OnStoreError::Allow);
    assert!(!limiter.allows("a", 1));
}

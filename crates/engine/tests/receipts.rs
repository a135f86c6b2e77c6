//! Decisions as receipts: what they give back, and who may not use them.

mod limiter;

use std::thread;

use tidegate_engine::engine::UsageError;
use tidegate_engine::plan::Transition;

use limiter::{Limiter, SECOND};

/// Gives everything back that is left of a decision.
fn refund(limiter: &Limiter, key: &str, decision: &tidegate_engine::decision::Decision) -> Result<u64, UsageError> {
    limiter.engine.refund(key.as_bytes(), decision, None)
}

#[test]
fn a_refund_returns_to_every_quota_that_was_charged() {
    let limiter = Limiter::new("10/minute, 100/day fixed_window, 20/hour gcra");
    let decision = limiter.check("a", 5);
    assert_eq!(limiter.remaining("a"), 5);
    assert_eq!(limiter.engine.refund(b"a", &decision, Some(2)), Ok(2));
    let left: Vec<_> = limiter.peek("a", 0).verdict().statuses().iter().map(|status| status.remaining).collect();
    assert_eq!(left, [Some(7), Some(97), Some(17)]);
    assert_eq!(refund(&limiter, "a", &decision), Ok(3));
    assert_eq!(limiter.remaining("a"), 10);
}

#[test]
fn what_was_given_back_cannot_be_given_back_again() {
    let limiter = Limiter::new("10/minute");
    let decision = limiter.check("a", 5);
    assert_eq!(limiter.engine.refund(b"a", &decision, Some(3)), Ok(3));
    let too_much = limiter.engine.refund(b"a", &decision, Some(3));
    assert_eq!(too_much, Err(UsageError::AlreadyGivenBack { left: 2, cost: 5 }));
    assert_eq!(limiter.remaining("a"), 8, "a refund that is refused gives nothing back");
    assert_eq!(refund(&limiter, "a", &decision), Ok(2));
    assert_eq!(refund(&limiter, "a", &decision), Err(UsageError::AlreadyGivenBack { left: 0, cost: 5 }));
    assert_eq!(limiter.remaining("a"), 10);
}

#[test]
fn of_many_threads_that_give_the_same_units_back_one_succeeds() {
    let limiter = Limiter::new("1000/minute");
    for round in 1..=50 {
        let decision = limiter.check("a", 10);
        let successes = thread::scope(|scope| {
            let refunds: Vec<_> = (0..8).map(|_| scope.spawn(|| refund(&limiter, "a", &decision).is_ok())).collect();
            refunds.into_iter().map(|thread| thread.join().expect("a thread that returns")).filter(|&ok| ok).count()
        });
        assert_eq!((successes, limiter.remaining("a")), (1, 1_000), "round {round}");
        assert!(limiter.allows("b", 10));
    }
}

#[test]
fn a_receipt_is_for_its_own_key_and_engine() {
    let (limiter, other) = (Limiter::new("10/minute"), Limiter::new("10/minute"));
    let decision = limiter.check("a", 5);
    assert_eq!(refund(&limiter, "b", &decision), Err(UsageError::WrongKey));
    assert_eq!(refund(&other, "a", &decision), Err(UsageError::ForeignDecision));
    assert_eq!(limiter.engine.settle(b"b", &decision, 1).map(drop), Err(UsageError::WrongKey));
    assert_eq!(limiter.engine.settle(b"a", &other.check("a", 1), 1).map(drop), Err(UsageError::ForeignDecision));
    assert_eq!(limiter.remaining("a"), 5, "the right call still works");
    assert_eq!(refund(&limiter, "a", &decision), Ok(5));
}

#[test]
fn a_decision_that_took_nothing_gives_nothing_back() {
    let limiter = Limiter::new("10/minute");
    let peeked = limiter.peek("a", 5);
    let debited = limiter.engine.debit(b"a", 5).expect("a call that makes sense");
    let denied = limiter.check("a", 6);
    let free = limiter.check("a", 0);
    for decision in [&peeked, &debited, &denied, &free] {
        let refused = refund(&limiter, "a", decision);
        assert!(matches!(refused, Err(UsageError::NothingTaken { .. })), "{refused:?}");
        let refused = limiter.engine.settle(b"a", decision, 1).map(drop);
        assert!(matches!(refused, Err(UsageError::NothingTaken { .. })), "{refused:?}");
    }
    assert_eq!(limiter.remaining("a"), 5);
}

#[test]
fn keys_and_costs_that_make_no_sense_are_refused() {
    let limiter = Limiter::new("10/minute");
    let too_large = (1 << 53) + 1;
    assert_eq!(limiter.engine.peek(b"", 1).map(drop), Err(UsageError::EmptyKey));
    assert_eq!(limiter.engine.allow(b"", 1), Err(UsageError::EmptyKey));
    assert_eq!(limiter.engine.debit(b"a", too_large).map(drop), Err(UsageError::CostTooLarge { cost: too_large }));
    assert!(limiter.engine.peek(b"a", 1 << 53).is_ok());
    assert!(limiter.engine.peek(&vec![0; 1 << 20], 1).is_ok(), "a key of a megabyte, all zeros");
}

#[test]
fn settling_for_less_gives_back_and_for_more_debits() {
    for text in ["10/minute", "10/minute gcra", "10/minute fixed_window"] {
        let limiter = Limiter::new(text);
        let settle = |reserved, cost| {
            let decision = limiter.check("a", reserved);
            assert!(decision.is_allowed(), "{text}");
            limiter.engine.settle(b"a", &decision, cost).expect("a call that makes sense");
            assert!(limiter.engine.settle(b"a", &decision, cost).is_err(), "{text}: once");
            assert!(refund(&limiter, "a", &decision).is_err(), "{text}: it is settled");
            limiter.remaining("a")
        };
        assert_eq!(settle(4, 1), 9, "{text}");
        assert_eq!(settle(4, 4), 5, "{text}");
        assert_eq!(settle(2, 0), 5, "{text}");
        assert_eq!(settle(2, 9), 0, "{text}: four are owed");
        limiter.advance(60 * SECOND);
        assert!(limiter.remaining("a") >= 6, "{text}");
    }
}

#[test]
fn settling_after_a_refund_in_part_is_about_the_rest() {
    let limiter = Limiter::new("10/minute");
    let decision = limiter.check("a", 6);
    assert_eq!(limiter.engine.refund(b"a", &decision, Some(2)), Ok(2));
    limiter.engine.settle(b"a", &decision, 3).expect("a call that makes sense");
    assert_eq!(limiter.remaining("a"), 7);
}

#[test]
fn parts_of_a_refund_return_no_more_than_is_still_in_flight() {
    let limiter = Limiter::new("10/minute gcra");
    let decision = limiter.check("a", 4);
    limiter.advance(12 * SECOND);
    assert!(limiter.allows("a", 8), "two of the four have drained");
    for _ in 0..4 {
        assert_eq!(limiter.engine.refund(b"a", &decision, Some(1)), Ok(1));
    }
    assert_eq!(limiter.remaining("a"), 2);
}

#[test]
fn a_refund_finds_its_charge_in_later_generations() {
    let limiter = Limiter::new("10/minute");
    let decision = limiter.check("a", 5);
    limiter.load("20/minute", Transition::Safe);
    limiter.load("20/hour", Transition::Safe);
    assert_eq!(refund(&limiter, "a", &decision), Ok(5));
    let left: Vec<_> = limiter.peek("a", 0).verdict().statuses().iter().map(|status| status.remaining).collect();
    assert_eq!(left, [Some(20), Some(20)], "the old quota got its units back, the new one never saw them");
}

#[test]
fn a_refund_to_a_quota_that_is_gone_is_lost() {
    let limiter = Limiter::new("10/minute");
    let decision = limiter.check("a", 5);
    limiter.load("10/hour", Transition::Immediate);
    assert!(limiter.allows("a", 3));
    assert_eq!(refund(&limiter, "a", &decision), Ok(5));
    assert_eq!(limiter.remaining("a"), 7);
}

#[test]
fn a_receipt_of_another_rate_or_of_a_larger_burst_gives_nothing_back() {
    let changes: [&[&str]; 4] = [
        &["60/minute burst 10 max_debt 0", "60/minute burst 3 max_debt 0"],
        &["60/minute burst 10 max_debt 0", "60/minute burst 3 max_debt 0", "60/minute burst 10 max_debt 0"],
        &["60/minute burst 10", "30/minute burst 10"],
        &["60/minute burst 10", "30/minute burst 10", "60/minute burst 10"],
    ];
    for texts in changes {
        let limiter = Limiter::new(texts[0]);
        let decision = limiter.check("a", 5);
        assert!(limiter.allows("a", 5));
        for text in &texts[1..] {
            limiter.load(text, Transition::Safe);
            // Somebody asks, and what does not fit any more is forgotten.
            limiter.allows("a", 1);
        }
        let before = limiter.remaining("a");
        assert_eq!(refund(&limiter, "a", &decision), Ok(5));
        assert_eq!(limiter.remaining("a"), before, "{texts:?}");
    }
}

#[test]
fn a_receipt_survives_a_burst_that_only_grows() {
    let limiter = Limiter::new("60/minute burst 10");
    let decision = limiter.check("a", 5);
    limiter.load("60/minute burst 20", Transition::Safe);
    assert_eq!(limiter.remaining("a"), 15);
    assert_eq!(refund(&limiter, "a", &decision), Ok(5));
    assert_eq!(limiter.remaining("a"), 20);
}

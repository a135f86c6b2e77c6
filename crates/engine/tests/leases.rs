//! Slots through the engine.

mod limiter;

use tidegate_engine::engine::CheckOptions;
use tidegate_engine::plan::Transition;

use limiter::{Limiter, SECOND};

#[test]
fn a_decision_carries_the_lease_that_it_took() {
    let limiter = Limiter::new("2 concurrent ttl 30s, 100/minute");
    let (first, second) = (limiter.check("a", 1), limiter.check("a", 1));
    let (one, other) = (first.lease().expect("a lease"), second.lease().expect("a lease"));
    assert_ne!(one, other);
    let denied = limiter.check("a", 1);
    assert_eq!((denied.is_allowed(), denied.lease()), (false, None));
    assert!(denied.verdict().retry_is_hint());
    assert_eq!(limiter.peek("a", 0).lease(), None);
    assert_eq!(Limiter::new("100/minute").check("a", 1).lease(), None);

    assert_eq!(limiter.engine.release(b"a", one), Ok(true));
    assert_eq!(limiter.engine.release(b"a", one), Ok(false));
    assert_eq!(limiter.engine.release(b"b", other), Ok(false), "the slot of another key");
    assert!(limiter.allows("a", 1));
}

#[test]
fn a_lease_is_renewed_until_it_is_lost() {
    let limiter = Limiter::new("1 concurrent ttl 30s");
    let lease = limiter.check("a", 1).lease().expect("a lease");
    for _ in 0..3 {
        limiter.advance(29 * SECOND);
        assert_eq!(limiter.engine.renew(b"a", lease), Ok(true));
    }
    limiter.advance(30 * SECOND);
    assert_eq!(limiter.engine.renew(b"a", lease), Ok(false));
    assert_eq!(limiter.engine.renew(b"a", 42), Ok(false), "never held");
    assert_eq!(Limiter::new("1/minute").engine.renew(b"a", lease), Ok(false), "there are no slots");
}

#[test]
fn a_caller_that_did_not_hear_the_answer_asks_again_with_its_own_id() {
    let limiter = Limiter::new("1 concurrent");
    let options = CheckOptions { lease: Some(7), ..CheckOptions::default() };
    for _ in 0..3 {
        let decision = limiter.engine.check(b"a", 1, options).expect("a call that makes sense");
        assert_eq!(decision.lease(), Some(7));
    }
    assert!(!limiter.allows("a", 1));
}

#[test]
fn a_refund_of_everything_releases_the_slot_and_one_in_part_does_not() {
    let limiter = Limiter::new("1 concurrent, 10/minute");
    let decision = limiter.check("a", 1);
    assert!(!limiter.allows("a", 1));
    assert_eq!(limiter.engine.refund(b"a", &decision, None), Ok(1));
    assert_eq!(limiter.peek("a", 0).verdict().statuses()[1].remaining, Some(10));

    let limiter = Limiter::new("3 concurrent, 10/minute");
    let decision = limiter.check("a", 3);
    assert_eq!(limiter.engine.refund(b"a", &decision, Some(1)), Ok(1));
    assert_eq!(limiter.remaining("a"), 0, "part of a slot cannot be given back");
    assert_eq!(limiter.engine.refund(b"a", &decision, Some(2)), Ok(2));
    assert_eq!(limiter.remaining("a"), 3);
}

#[test]
fn leases_are_kept_when_their_number_changes() {
    let limiter = Limiter::new("2 concurrent ttl 30s");
    let lease = limiter.check("a", 2).lease().expect("a lease");
    limiter.load("1 concurrent ttl 60s", Transition::Safe);
    assert!(!limiter.allows("a", 1));
    assert_eq!(limiter.engine.renew(b"a", lease), Ok(true));
    limiter.advance(59 * SECOND);
    assert!(!limiter.allows("a", 1), "renewed for as long as the new quota says");
    assert_eq!(limiter.engine.release(b"a", lease), Ok(true));
    assert!(limiter.allows("a", 1));
}

#[test]
fn slots_that_are_held_can_be_renewed_and_released_when_nobody_is_let_in_any_more() {
    let limiter = Limiter::new("2 concurrent ttl 30s");
    let leases = [(); 2].map(|()| limiter.check("a", 1).lease().expect("a lease"));
    limiter.load("0 concurrent ttl 30s", Transition::Safe);
    let denied = limiter.check("a", 1);
    assert_eq!((denied.verdict().retry_after(), denied.verdict().remaining()), (None, Some(0)));
    limiter.advance(20 * SECOND);
    assert_eq!(limiter.engine.renew(b"a", leases[0]), Ok(true));
    assert_eq!(limiter.engine.release(b"a", leases[1]), Ok(true));
    limiter.advance(20 * SECOND);
    limiter.load("2 concurrent ttl 30s", Transition::Safe);
    assert_eq!(limiter.remaining("a"), 1);
}

#[test]
fn an_allowed_question_without_an_answer_holds_its_slot_until_it_expires() {
    let limiter = Limiter::new("1 concurrent ttl 30s");
    assert_eq!(limiter.engine.allow(b"a", 1), Ok(true));
    assert_eq!(limiter.engine.allow(b"a", 1), Ok(false));
    limiter.advance(30 * SECOND);
    assert_eq!(limiter.engine.allow(b"a", 1), Ok(true));
}

#[test]
fn a_start_that_comes_too_late_is_denied_and_not_charged() {
    let limiter = Limiter::new("1/second queue 10s");
    (0..4).for_each(|_| assert!(limiter.allows("a", 1)));
    let within = |max_delay| {
        let options = CheckOptions { max_delay: Some(max_delay), ..CheckOptions::default() };
        limiter.engine.check(b"a", 1, options).expect("a call that makes sense")
    };
    let late = within(3 * SECOND);
    assert_eq!((late.is_allowed(), late.verdict().retry_after(), late.verdict().delay()), (false, Some(SECOND), 0));
    let in_time = within(4 * SECOND);
    assert_eq!((in_time.is_allowed(), in_time.verdict().delay()), (true, 4 * SECOND));
}

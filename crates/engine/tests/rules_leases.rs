//! Slots that several rules lend together.

mod rules;

use serde_json::{Value, json};
use tidegate_engine::engine::CheckOptions;
use tidegate_engine::plan::Transition;

use rules::{Ruled, SECOND, Text, exact};

fn two_levels() -> [Value; 3] {
    [
        json!({"name": "all", "quotas": "3 concurrent"}),
        json!({"name": "each", "per": ["client"], "quotas": "2 concurrent, 100/hour"}),
        json!({"name": "rate", "quotas": "1000/hour", "match": [exact("path", "/plain")]}),
    ]
}

#[test]
fn slots_of_all_rules_are_taken_together_or_not_at_all() {
    let limiter = Ruled::new(&two_levels());
    let first = limiter.check("client=a");
    assert!(first.lease().is_some() && limiter.allows("client=a"));
    assert!(!limiter.allows("client=a"), "the client has no third slot");
    assert_eq!(limiter.left("client=a"), [1, 0, 98]);
    assert!(limiter.allows("client=b") && !limiter.allows("client=b"), "and all together no fourth");
    assert_eq!(limiter.left("client=b"), [0, 1, 99], "what was denied holds no slot anywhere");
    assert_eq!(limiter.engine.release_decision(&first), Ok(true));
    assert_eq!(limiter.left("client=a"), [1, 1, 98], "released everywhere; the rate stays charged");
    assert_eq!(limiter.engine.release_decision(&first), Ok(false));
}

#[test]
fn a_denied_request_holds_no_lease() {
    let limiter = Ruled::new(&[json!({"quotas": "1 concurrent"})]);
    assert!(limiter.allows(""));
    let denied = limiter.check("");
    assert_eq!((denied.is_allowed(), denied.lease()), (false, None));
    assert_eq!(limiter.engine.release_decision(&denied), Ok(false));
    assert_eq!(limiter.left(""), [0]);
}

#[test]
fn a_request_that_no_concurrency_rule_matches_holds_no_lease() {
    let limiter = Ruled::new(&[
        json!({"name": "slots", "quotas": "1 concurrent", "match": [exact("path", "/slow")]}),
        json!({"name": "rate"}),
    ]);
    assert!(limiter.check("path=/slow").lease().is_some());
    assert_eq!(limiter.check("path=/fast").lease(), None);
}

#[test]
fn slots_are_renewed_together_and_expire_together() {
    let rules = [
        json!({"name": "all", "quotas": "3 concurrent ttl 10s"}),
        json!({"name": "each", "per": ["client"], "quotas": "2 concurrent ttl 10s"}),
    ];
    let limiter = Ruled::new(&rules);
    let decision = limiter.check("client=a");
    for _ in 0..5 {
        limiter.advance(8 * SECOND);
        assert_eq!(limiter.engine.renew_decision(&decision), Ok(true));
    }
    assert_eq!(limiter.left("client=a"), [2, 1]);
    limiter.advance(10 * SECOND);
    assert_eq!((limiter.engine.renew_decision(&decision), limiter.left("client=a")), (Ok(false), vec![3, 2]));
}

#[test]
fn a_refund_of_all_releases_the_slots() {
    let limiter = Ruled::new(&two_levels());
    let decision = limiter.check("client=a");
    limiter.engine.refund_decision(&decision, None).expect("a call that makes sense");
    assert_eq!(limiter.left("client=a"), [3, 2, 100]);
}

#[test]
fn a_lease_with_an_id_of_the_callers_is_taken_once() {
    let limiter = Ruled::new(&two_levels());
    let options = CheckOptions { lease: Some(7), ..CheckOptions::default() };
    for _ in 0..3 {
        let decision = limiter.engine.check_request(&Text("client=a"), None, options).expect("a call that makes sense");
        assert_eq!(decision.lease(), Some(7));
    }
    assert_eq!(limiter.left("client=a")[..2], [2, 1]);
}

#[test]
fn slots_are_released_in_a_later_generation() {
    let limiter = Ruled::new(&two_levels());
    let decision = limiter.check("client=a");
    let mut rules = two_levels();
    rules[0]["quotas"] = json!("30 concurrent");
    rules.reverse();
    limiter.load(&rules, Transition::Safe);
    assert_eq!(limiter.left("client=a"), [1, 99, 29]);
    assert_eq!(limiter.engine.renew_decision(&decision), Ok(true));
    assert_eq!(limiter.engine.release_decision(&decision), Ok(true));
    assert_eq!(limiter.left("client=a"), [2, 99, 30]);
}

#[test]
fn slots_that_a_shadow_rule_would_have_refused_are_not_missed() {
    let limiter = Ruled::new(&[
        json!({"name": "all", "quotas": "5 concurrent"}),
        json!({"name": "trial", "mode": "shadow", "quotas": "1 concurrent"}),
    ]);
    let (first, second) = (limiter.check(""), limiter.check(""));
    assert_eq!((second.shadowed().len(), limiter.left("")), (1, vec![3, 0]));
    assert_eq!(limiter.engine.renew_decision(&second), Ok(true), "the slot that it holds is renewed");
    assert_eq!(limiter.engine.release_decision(&second), Ok(true));
    assert_eq!(limiter.left(""), [4, 0], "the shadow slot is the first one's");
    assert_eq!(limiter.engine.renew_decision(&first), Ok(true));
    assert_eq!((limiter.engine.release_decision(&first), limiter.left("")), (Ok(true), vec![5, 1]));
}

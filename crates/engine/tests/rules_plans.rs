//! Tiers and overrides: another plan, the same counters.

mod rules;

use serde_json::json;
use tidegate_engine::plan::Transition;

use rules::{Ruled, SECOND};

#[test]
fn a_change_of_tier_keeps_what_was_counted_in_the_same_window() {
    for algorithm in ["", " fixed_window", " sliding_window_counter", " sliding_window_log"] {
        let quotas = |limit: u32| format!("{limit}/minute{algorithm}");
        let limiter = Ruled::new(&[json!({"per": ["client"], "quotas": quotas(5), "tiers": {"pro": quotas(20)}})]);
        assert_eq!(limiter.count("client=a", 9), 5, "{algorithm}");
        assert_eq!(limiter.left("client=a tier=pro"), [15], "{algorithm}: after an upgrade");
        assert_eq!(limiter.count("client=a tier=pro", 90), 15, "{algorithm}");
        assert_eq!((limiter.left("client=a"), limiter.allows("client=a")), (vec![0], false), "{algorithm}: after a downgrade");
        assert_eq!(limiter.left("client=b"), [5], "{algorithm}: others have their own");
    }
}

#[test]
fn a_rate_keeps_the_share_that_was_used() {
    let limiter =
        Ruled::new(&[json!({"per": ["client"], "quotas": "60/minute burst 10", "tiers": {"pro": "600/minute burst 100"}})]);
    assert_eq!(limiter.count("client=a", 99), 10);
    assert_eq!(limiter.left("client=a tier=pro"), [0], "the bucket was empty, and is");
    limiter.advance(SECOND);
    assert_eq!(limiter.left("client=a tier=pro"), [10]);
}

#[test]
fn windows_that_only_one_tier_has_are_counted_by_that_tier_alone() {
    let limiter = Ruled::new(&[json!({"per": ["client"], "quotas": "5/minute", "tiers": {"pro": "20/minute, 50/hour"}})]);
    assert_eq!(limiter.count("client=a", 5), 5);
    assert_eq!(limiter.left("client=a tier=pro"), [15, 50]);
    assert!(limiter.allows("client=a tier=pro"));
    assert_eq!(limiter.left("client=a tier=pro"), [14, 49]);
}

#[test]
fn an_override_keeps_what_was_counted() {
    let plain = [json!({"per": ["client"], "quotas": "5/minute"})];
    let overridden = [json!({"per": ["client"], "quotas": "5/minute", "overrides": [{"key": ["a"], "quotas": "8/minute"}]})];
    let limiter = Ruled::new(&plain);
    assert_eq!(limiter.count("client=a", 9), 5);
    limiter.load(&overridden, Transition::Safe);
    assert_eq!((limiter.count("client=a", 9), limiter.left("client=b")), (3, vec![5]));
    limiter.load(&plain, Transition::Safe);
    assert_eq!(limiter.left("client=a"), [0]);
    limiter.advance(60 * SECOND);
    assert_eq!(limiter.left("client=a"), [5]);
}

#[test]
fn an_override_by_address_holds_for_it_alone() {
    let limiter =
        Ruled::new(&[json!({"per": ["ip"], "quotas": "5/minute", "overrides": [{"key": ["192.0.2.1"], "quotas": "8/minute"}]})]);
    assert_eq!(limiter.left("ip=::ffff:192.0.2.1"), [8]);
    assert_eq!(limiter.count("ip=192.0.2.1", 4), 4);
    assert_eq!((limiter.left("ip=::ffff:192.0.2.1"), limiter.left("ip=192.0.2.2")), (vec![4], vec![5]));
}

#[test]
fn a_tier_may_be_without_limits() {
    let limiter = Ruled::new(&[json!({"per": ["client"], "quotas": "2/minute", "tiers": {"staff": "unlimited"}})]);
    assert_eq!(limiter.count("client=a tier=staff", 100), 100);
    assert_eq!(limiter.count("client=a", 100), 2);
}

#[test]
fn a_refund_finds_the_plan_that_was_charged() {
    let limiter = Ruled::new(&[json!({"per": ["client"], "quotas": "5/minute", "tiers": {"pro": "20/minute"}})]);
    let decision = limiter.check("client=a tier=pro");
    assert_eq!(limiter.left("client=a"), [4]);
    limiter.engine.refund_decision(&decision, None).expect("a call that makes sense");
    assert_eq!((limiter.left("client=a"), limiter.left("client=a tier=pro")), (vec![5], vec![20]));
}

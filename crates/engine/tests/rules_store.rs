//! What is decided, rule by rule, when the store cannot.

mod rules;

use serde_json::{Value, json};
use tidegate_engine::engine::{OnStoreError, UsageError};
use tidegate_store::store::StoreError;

use rules::{Ruled, SECOND, Text, exact};

/// A rule that counts clients, and says what to do when it cannot.
fn rule(name: &str, on_store_error: &Value) -> Value {
    json!({"name": name, "per": ["client"], "quotas": "5/minute", "on_store_error": on_store_error})
}

/// An engine whose store has room for the states of one client, which is limiting.
fn full(rules: &[Value], on_store_error: OnStoreError) -> Ruled {
    let limiter = Ruled::with_room_for(rules, rules.len(), on_store_error);
    assert_eq!(limiter.count("client=known", 5), 5);
    limiter.advance(20 * SECOND);
    limiter
}

#[test]
fn each_rule_says_what_a_full_store_means_for_it() {
    use OnStoreError::{Allow, Deny, Local};
    // A full memory has no other place to count in: there `local` denies.
    let table = [
        (json!(null), Deny, false),
        (json!(null), Allow, true),
        (json!("allow"), Deny, true),
        (json!("deny"), Allow, false),
        (json!("local"), Deny, false),
        (json!("local"), Allow, false),
        (json!(null), Local, false),
    ];
    for (policy, default, expected) in table {
        let limiter = full(&[rule("rule", &policy)], default);
        let decision = limiter.check("client=new");
        assert_eq!(decision.is_allowed(), expected, "{policy} where the engine says {default:?}");
        assert_eq!(decision.degraded(), Some(&StoreError::Full { free_after: 40 * SECOND }));
        assert_eq!(limiter.engine.allow_request(&Text("client=new"), None), Ok(expected), "{policy}");
        assert!(!limiter.allows("client=known"), "{policy}: who is known is still limited");
        limiter.advance(40 * SECOND);
        assert!(limiter.check("client=new").degraded().is_none(), "{policy}");
    }
}

#[test]
fn of_several_rules_one_that_denies_is_enough() {
    let table = [("allow", "allow", true), ("allow", "deny", false), ("deny", "allow", false)];
    for (one, other, expected) in table {
        let limiter = full(&[rule("one", &json!(one)), rule("other", &json!(other))], OnStoreError::Allow);
        let decision = limiter.check("client=new");
        assert_eq!((decision.is_allowed(), decision.degraded().is_some()), (expected, true), "{one} and {other}");
        assert_eq!(decision.binding().is_some_and(|(planned, _)| planned.rule.as_deref() == Some("other")), other == "deny");
    }
}

#[test]
fn a_degraded_decision_took_nothing() {
    let limiter = full(&[rule("rule", &json!("allow"))], OnStoreError::Deny);
    let decision = limiter.check("client=new");
    assert_eq!(limiter.engine.refund_decision(&decision, None), Err(UsageError::NothingTaken { why: "taken without the store" }));
    assert!(limiter.engine.settle_decision(&decision, 1).is_err());
    let stats = limiter.engine.stats();
    assert_eq!((stats.degraded, stats.store.allowed), (1, 6));
}

#[test]
fn half_of_the_room_is_not_enough() {
    // One of the two states is there already: the other has no room, and then nothing is charged.
    let limiter = Ruled::with_room_for(
        &[json!({"name": "all", "quotas": "100/minute"}), rule("each", &json!("allow"))],
        2,
        OnStoreError::Deny,
    );
    assert_eq!(limiter.count("client=known", 5), 5);
    assert!(limiter.check("client=new").degraded().is_some());
    assert_eq!(limiter.left("client=new"), [95, 5]);
}

#[test]
fn a_rule_in_shadow_does_not_decide_for_want_of_memory_either() {
    let limiter = full(
        &[json!({"name": "shadow", "mode": "shadow", "per": ["client"], "quotas": "5/minute", "on_store_error": "deny"})],
        OnStoreError::Deny,
    );
    assert!(limiter.allows("client=new"));
}

#[test]
fn a_shadow_rule_without_room_does_not_keep_the_others_from_being_enforced() {
    let rules = [
        json!({"name": "all", "quotas": "10/minute"}),
        json!({"name": "trial", "mode": "shadow", "per": ["client"], "quotas": "5/minute"}),
    ];
    let limiter = Ruled::with_room_for(&rules, 2, OnStoreError::Deny);
    assert_eq!(limiter.count("client=known", 5), 5);
    let decision = limiter.check("client=new");
    assert_eq!((decision.is_allowed(), decision.degraded()), (true, None), "there is room for all that is enforced");
    assert_eq!(limiter.count("client=other", 10), 4, "and it is enforced");
}

#[test]
fn rules_that_match_nothing_need_no_store() {
    let limiter = Ruled::with_room_for(
        &[json!({"quotas": "", "stop": true}), json!({"name": "x", "match": [exact("path", "/x")]})],
        0,
        OnStoreError::Deny,
    );
    assert!(limiter.check("path=/").degraded().is_none());
}

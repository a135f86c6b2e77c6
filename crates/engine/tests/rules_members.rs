//! Members: quotas that customers have of their own, on the same counters, and customers who are blocked.

mod rules;

use serde_json::{Value, json};
use tidegate_core::rules::explain::Outcome;
use tidegate_engine::decision::Origin;
use tidegate_engine::engine::{CheckOptions, member_digester};
use tidegate_engine::plan::Transition;

use rules::{Ruled, SECOND, START, Text};

/// The digest of a key, as a document has it.
fn digest(key: &str) -> String {
    format!("{:?}", member_digester(*b"a secret of keys").digest(key.as_bytes()))
}

fn load(limiter: &Ruled, document: &Value) -> u64 {
    let mut document = document.clone();
    document["version"] = json!(1);
    limiter.engine.load_members(serde_json::from_value(document).expect("a document")).expect("members")
}

fn own(key: &str, quotas: &str) -> Value {
    json!({"keys": {digest(key): {"quotas": {"rule": [{"text": quotas}]}}}})
}

fn plans(limiter: &Ruled, facts: &str) -> Vec<(String, String)> {
    let (_, explained) = limiter.engine.explain(&Text(facts)).expect("a call that makes sense");
    explained.into_iter().map(|rule| (rule.rule.to_string(), rule.plan)).collect()
}

fn per_key(quotas: &str) -> [Value; 1] {
    [json!({"per": ["api_key"], "quotas": quotas})]
}

#[test]
fn a_member_keeps_what_was_counted_when_its_quota_changes() {
    for algorithm in ["", " fixed_window", " sliding_window_counter", " sliding_window_log"] {
        let limiter = Ruled::new(&per_key(&format!("5/minute{algorithm}")));
        assert_eq!(limiter.count("api_key=a", 9), 5, "{algorithm}");
        assert_eq!(load(&limiter, &own("a", &format!("20/minute{algorithm}"))), 2);
        assert_eq!((limiter.left("api_key=a"), limiter.left("api_key=b")), (vec![15], vec![5]), "{algorithm}");
        load(&limiter, &json!({}));
        assert_eq!(limiter.left("api_key=a"), [0], "{algorithm}: as before");
    }
}

#[test]
fn explaining_says_whose_plan_it_is() {
    let limiter = Ruled::new(&per_key("5/minute"));
    load(&limiter, &own("a", "20/minute"));
    assert_eq!(plans(&limiter, "api_key=a"), [("rule".into(), "member".into())]);
    assert_eq!(plans(&limiter, "api_key=b"), [("rule".into(), "default".into())]);
}

#[test]
fn members_and_rules_are_loaded_apart_from_each_other() {
    let limiter = Ruled::new(&per_key("5/minute"));
    load(&limiter, &own("a", "20/minute"));
    limiter.load(&[json!({"name": "other"}), json!({"per": ["api_key"], "quotas": "6/minute"})], Transition::Safe);
    assert_eq!((limiter.left("api_key=a"), limiter.left("api_key=b")), (vec![10, 20], vec![10, 6]));
    load(&limiter, &own("b", "30/minute"));
    assert_eq!((limiter.left("api_key=a"), limiter.left("api_key=b")), (vec![10, 6], vec![10, 30]));
    limiter.load(&[json!({"name": "other"})], Transition::Safe);
    limiter.load(&per_key("7/minute"), Transition::Safe);
    assert_eq!(limiter.left("api_key=b"), [30], "it waited for its rule");
    assert_eq!(limiter.engine.plan().generation(), 6);
}

#[test]
fn a_document_that_is_refused_leaves_the_old_one() {
    let limiter = Ruled::new(&per_key("5/minute"));
    load(&limiter, &own("a", "20/minute"));
    let wrong = json!({"version": 1, "keys": {digest("a"): {"quotas": {"rule": [{"text": "1/day in Nowhere/City"}]}}}});
    assert!(limiter.engine.load_members(serde_json::from_value(wrong).expect("a document")).is_err());
    assert_eq!((limiter.left("api_key=a"), limiter.engine.plan().generation()), (vec![20], 2));
}

#[test]
fn another_window_of_a_stored_tier_admits_nothing_extra() {
    let limiter = Ruled::new(&per_key("5/minute"));
    let tier = |quotas: &str| json!({"tiers": {"pro": {"quotas": {"rule": [{"text": quotas}]}}}});
    load(&limiter, &tier("20/minute"));
    assert_eq!(limiter.count("api_key=a tier=pro", 90), 20);
    load(&limiter, &tier("10/hour"));
    assert!(!limiter.allows("api_key=a tier=pro"), "the old window is asked as long as it lasts");
    limiter.advance(60 * SECOND);
    assert_eq!(limiter.count("api_key=a tier=pro", 90), 10);
    assert_eq!(limiter.left("api_key=a tier=pro"), [0], "and then forgotten");
}

#[test]
fn a_refund_finds_the_member_that_was_charged() {
    let limiter = Ruled::new(&per_key("5/minute"));
    load(&limiter, &own("a", "20/minute"));
    let decision = limiter.check("api_key=a");
    load(&limiter, &json!({"keys": {digest("a"): {"quotas": {"rule": [{"text": "20/minute"}]}}, digest("b"): {"tier": "x"}}}));
    limiter.engine.refund_decision(&decision, None).expect("a call that makes sense");
    assert_eq!(limiter.left("api_key=a"), [20]);
}

#[test]
fn a_member_may_hold_slots_by_a_quota_of_its_own() {
    let limiter = Ruled::new(&per_key("5/minute"));
    load(&limiter, &own("a", "1 concurrent"));
    let decision = limiter.check("api_key=a");
    assert!(decision.lease().is_some() && !limiter.allows("api_key=a"));
    assert!(limiter.engine.release_decision(&decision).expect("a call that makes sense"));
    assert!(limiter.allows("api_key=a") && limiter.check("api_key=b").lease().is_none());
}

#[test]
fn who_is_blocked_is_denied_until_then_and_charged_nothing() {
    let limiter = Ruled::new(&per_key("5/minute"));
    assert_eq!(limiter.count("api_key=a", 2), 2);
    let until = START + 90 * SECOND;
    load(&limiter, &json!({"keys": {digest("a"): {"blocked": {"until_ns": until}}}}));
    let decision = limiter.check("api_key=a");
    let (planned, status) = decision.binding().expect("a rule that decides");
    assert_eq!((planned.rule.as_deref(), status.limit, status.remaining), (Some("blocked"), Some(0), Some(0)));
    assert_eq!((decision.is_allowed(), decision.verdict().retry_after()), (false, Some(90 * SECOND)));
    assert_eq!(decision.rules().map(|rule| &**rule).collect::<Vec<_>>(), ["blocked"]);
    assert!(!limiter.engine.allow_request(&Text("api_key=a"), None).expect("a call that makes sense"));
    assert!(!limiter.peek("api_key=a").is_allowed() && limiter.allows("api_key=b"));
    assert_eq!(limiter.engine.stats().store.denied, 2, "a peek is no decision");
    limiter.advance(90 * SECOND - 1);
    assert_eq!(limiter.check("api_key=a").verdict().retry_after(), Some(1), "one tick earlier it is not");
    limiter.advance(1);
    assert_eq!(limiter.left("api_key=a"), [5]);
    assert!(limiter.allows("api_key=a"));
}

#[test]
fn a_block_for_good_says_never() {
    let limiter = Ruled::new(&[json!({"name": "friends", "stop": true, "quotas": "", "priority": 9})]);
    load(&limiter, &json!({"keys": {digest("a"): {"blocked": {}}}}));
    let decision = limiter.check("api_key=a");
    assert_eq!((decision.is_allowed(), decision.verdict().retry_after()), (false, None), "no rule lets it through");
}

#[test]
fn a_block_leaves_alone_what_was_admitted_before() {
    let limiter = Ruled::new(&per_key("1 concurrent, 10/minute"));
    let held = limiter.check("api_key=a");
    load(&limiter, &json!({"keys": {digest("a"): {"blocked": {}}}}));
    assert!(limiter.engine.release_decision(&held).expect("a call that makes sense"));
    assert!(limiter.engine.debit_request(&Text("api_key=a"), 3).expect("a call that makes sense").is_allowed());
    assert_eq!(usage(&limiter, "api_key=a"), [("rule".to_owned(), 1), ("rule".to_owned(), 6)]);
    assert!(limiter.engine.reset_request(&Text("api_key=a")).expect("a call that makes sense"));
}

#[test]
fn explaining_a_block_names_it_first() {
    let limiter = Ruled::new(&per_key("5/minute"));
    load(&limiter, &json!({"keys": {digest("a"): {"blocked": {}}}}));
    let (_, explained) = limiter.engine.explain(&Text("api_key=a")).expect("a call that makes sense");
    assert_eq!((&*explained[0].rule, explained.len()), ("blocked", 2));
    assert!(matches!(&explained[0].outcome, Outcome::Applies { key, .. } if key == &["api_key=a"]));
    assert_eq!(explained[1].outcome, Outcome::Stopped { by: "blocked".into() });
}

/// What is left for somebody, rule by rule and quota by quota.
fn usage(limiter: &Ruled, facts: &str) -> Vec<(String, u64)> {
    let decision = limiter.usage(facts);
    let left = decision.statuses().map(|(planned, status)| (planned.label.clone(), status.remaining.unwrap_or(u64::MAX)));
    left.map(|(label, left)| (label.split(':').next().unwrap_or_default().to_owned(), left)).collect()
}

#[test]
fn usage_is_told_for_every_rule_that_counts_somebody_whatever_else_it_asks() {
    let limiter = Ruled::new(&[
        json!({"name": "writes", "per": ["api_key"], "match": [rules::exact("method", "POST")]}),
        json!({"name": "all", "per": []}),
        json!({"name": "tenants", "per": ["tenant"], "mode": "shadow"}),
        json!({"name": "addresses", "per": ["ip"]}),
        json!({"name": "never", "per": ["api_key"], "mode": "off"}),
    ]);
    load(&limiter, &json!({"keys": {digest("a"): {"tenant": "acme", "quotas": {"writes": [{"text": "3/minute"}]}}}}));
    assert_eq!(limiter.count("api_key=a method=POST", 9), 3);
    let left = [("writes", 0), ("all", 7), ("tenants", 7)].map(|(rule, left)| (rule.to_owned(), left));
    assert_eq!(usage(&limiter, "api_key=a"), left);
    assert_eq!(usage(&limiter, "api_key=a"), left, "it changes nothing");
}

#[test]
fn what_is_forgotten_of_somebody_is_theirs_alone() {
    let limiter = Ruled::new(&[
        json!({"name": "writes", "per": ["api_key"], "match": [rules::exact("method", "POST")]}),
        json!({"name": "clients", "per": ["client", "tier"]}),
        json!({"name": "all", "per": []}),
        json!({"name": "tenants", "per": ["tenant"]}),
    ]);
    let facts = "api_key=a client=a tier=x tenant=acme method=POST";
    assert_eq!(limiter.count(facts, 4), 4);
    let counters =
        limiter.engine.counters_of_sender(&Text("api_key=a client=a tier=x tenant=acme")).expect("a call that makes sense");
    assert!(limiter.engine.reset_all(&counters));
    assert_eq!(limiter.left(facts), [10, 10, 6, 6]);
    assert!(!limiter.engine.reset_all(&counters), "there is nothing left to forget");
}

#[test]
fn the_digest_of_a_request_is_that_of_its_key() {
    let limiter = Ruled::new(&per_key("5/minute"));
    let digest_of = |facts: &str| limiter.engine.member_digest(&Text(facts)).map(|digest| format!("{digest:?}"));
    assert_eq!(digest_of("api_key=a client=b"), Some(digest("a")));
    assert_eq!((digest_of("client=b"), digest_of("ip=192.0.2.1")), (Some(digest("b")), None));
}

#[test]
fn a_check_begun_elsewhere_is_refused_like_any_other() {
    let limiter = Ruled::new(&per_key("5/minute"));
    load(&limiter, &json!({"keys": {digest("a"): {"blocked": {}}}}));
    let options = CheckOptions::default();
    let begun = limiter.engine.begin_request(Origin::Check, &Text("api_key=a"), None, options);
    let decision = begun.expect("a call that makes sense").wait();
    assert!(!decision.is_allowed() && decision.is_blocked());
    assert_eq!(limiter.engine.stats().store.denied, 1);
}

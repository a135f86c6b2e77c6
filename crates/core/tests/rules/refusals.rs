//! Documents that nobody checked.

use serde_json::{Value, json};
use tidegate_core::rules::request::NAMES_MAX;
use tidegate_core::rules::rule_set::RULES_MAX;
use tidegate_core::rules::{RuleSet, RuleSetError, RuleSetSpec};

use super::kit::{condition, rule, try_set};

fn refusal(rules: &[Value]) -> String {
    try_set(&json!([]), rules).map(drop).expect_err("a set that is refused").to_string()
}

#[test]
fn a_rule_that_cannot_be_compiled_is_refused_with_its_name() {
    let table = [
        (json!({"quotas": []}), "rule: a rule without quotas must stop"),
        (json!({"name": ""}), ": the name of a rule has 1 to 96 letters, digits, _, ., - and ~"),
        (json!({"name": "a:b"}), "a:b: the name of a rule has 1 to 96 letters, digits, _, ., - and ~"),
        (json!({"match": [condition("ip", &json!({"cidr": ["10.0.0.1/8"]}))]}), "rule: \"10.0.0.1/8\" is no network"),
        (json!({"match": [condition("path", &json!({"pattern": ["a"]}))]}), "rule: \"a\": a path begins with /"),
        (
            json!({"per": ["a"], "overrides": [{"key": [], "tier": "x"}]}),
            "rule: an override needs one value for each attribute of `per`",
        ),
        (json!({"per": ["a"], "overrides": [{"key": ["x"], "tier": "x"}]}), "rule: an override names an unknown tier"),
        (
            json!({"per": ["a"], "overrides": [{"key": ["x"], "quotas": [{"text": "1/s"}]}, {"key": ["x"], "quotas": []}]}),
            "rule: two overrides have the same key",
        ),
        (
            json!({"per": ["ip"], "overrides": [{"key": ["::ffff:1.2.3.4"], "quotas": []}, {"key": ["1.2.3.4"], "quotas": []}]}),
            "rule: two overrides have the same key",
        ),
    ];
    for (given, expected) in table {
        assert_eq!(refusal(&[given]), expected);
    }
    assert_eq!(refusal(&[json!({}), json!({"priority": 1})]), "rule: two rules have this name");
    assert!(refusal(&[json!({"quotas": [{"text": "ten a minute"}]})]).starts_with("rule: "));
}

#[test]
fn a_regular_expression_that_is_none_or_too_large_is_refused() {
    for pattern in ["(", "a)|(b", "(?<=a)b", "(a)\\1", "[", "\\", "(?x)a # b", "a{1000}{1000}{1000}", "\\pL{5000}"] {
        let message = refusal(&[json!({"match": [condition("a", &json!({"regex": ["fine", pattern]}))]})]);
        assert!(message.starts_with("rule: "), "{pattern}: {message}");
    }
}

#[test]
fn a_network_of_identity_that_is_none_is_refused() {
    let identity = json!([{"ip": {"trusted_proxies": ["10.0.0.0/8", "everybody"], "ipv6_prefix": 64}}]);
    let error = try_set(&identity, &[]).map(drop).expect_err("no network");
    assert_eq!(error.to_string(), "identity: \"everybody\" is no network");
}

#[test]
fn a_document_of_another_version_is_refused() {
    let document: RuleSetSpec = serde_json::from_value(json!({"version": 2, "domain": "x"})).expect("a document");
    assert_eq!(RuleSet::new(document).map(drop), Err(RuleSetError::Version(2)));
}

#[test]
fn more_rules_or_names_than_can_be_numbered_are_refused() {
    let mut document: RuleSetSpec =
        serde_json::from_value(json!({"version": 1, "domain": "x", "rules": [rule(&json!({}))]})).expect("a document");
    let mut one = document.rules[0].clone();
    one.per = (0..NAMES_MAX).map(|number| format!("name-{number}")).collect();
    document.rules = vec![one];
    let error = RuleSet::new(document.clone()).map(drop).expect_err("too many names");
    assert!(error.to_string().contains("different names"), "{error}");

    document.rules[0].per.clear();
    document.rules = vec![document.rules[0].clone(); RULES_MAX + 1];
    assert_eq!(RuleSet::new(document).map(drop), Err(RuleSetError::TooMany(RULES_MAX + 1)));
}

#[test]
fn what_is_not_known_is_refused() {
    let table = [
        json!({"version": 1, "domain": "x", "rulez": []}),
        json!({"version": 1, "domain": "x", "rules": [{"name": "a"}]}),
        json!({"version": 1, "domain": "x", "rules": [rule(&json!({"limit": 5}))]}),
        json!({"version": 1, "domain": "x", "rules": [rule(&json!({"mode": "on"}))]}),
        json!({"version": 1, "domain": "x", "rules": [rule(&json!({"cost": {"units": -1}}))]}),
        json!({"version": 1, "domain": "x", "rules": [rule(&json!({"cost": {"units": 1, "max": 5}}))]}),
        json!({"version": 1, "domain": "x", "rules": [rule(&json!({"match": [condition("a", &json!({"exactly": ["x"]}))]}))]}),
        json!({"version": 1, "domain": "x", "identity": [{"header": "a"}]}),
        json!({"version": 1, "domain": "x", "identity": [{"attribute": "a", "header": "b", "claim": "c"}]}),
        json!({"version": 1, "domain": "x", "jwt": {"header": "a", "key": "b"}}),
    ];
    for document in table {
        assert!(serde_json::from_value::<RuleSetSpec>(document.clone()).is_err(), "{document}");
    }
}

//! Tiers and overrides: whose plan it is.

use serde_json::{Value, json};
use tidegate_core::rules::RuleSet;

use super::kit::{found, set};

fn plan(set: &RuleSet, facts: &[(&str, &str)]) -> String {
    found(set, facts).pop().expect("a rule that applies").plan
}

fn quotas(text: &str) -> Value {
    json!([{"text": text}])
}

fn with_tiers(overrides: &Value) -> RuleSet {
    let tiers = json!({"pro": quotas("100/minute"), "free": quotas("5/minute")});
    set(&json!([]), &[json!({"per": ["client"], "tiers": tiers, "overrides": overrides})])
}

#[test]
fn the_tier_chooses_the_plan() {
    let set = with_tiers(&json!([]));
    let table = [
        ("pro", "tier pro"),
        ("free", "tier free"),
        ("Pro", "default"),
        ("gold", "default"),
        ("", "default"),
        ("default", "default"),
    ];
    for (tier, expected) in table {
        assert_eq!(plan(&set, &[("client", "a"), ("tier", tier)]), expected, "{tier:?}");
    }
    assert_eq!(plan(&set, &[("client", "a")]), "default");
}

#[test]
fn an_override_wins_over_the_tier() {
    let set = with_tiers(&json!([{"key": ["abc"], "quotas": quotas("1/day")}, {"key": ["def"], "tier": "pro"}]));
    let table =
        [("abc", "pro", "override abc"), ("abc", "", "override abc"), ("def", "free", "tier pro"), ("ABC", "pro", "tier pro")];
    for (client, tier, expected) in table {
        assert_eq!(plan(&set, &[("client", client), ("tier", tier)]), expected, "{client} {tier}");
    }
}

#[test]
fn an_override_of_several_values_needs_them_all() {
    let overrides = json!([{"key": ["a b", "c"], "quotas": quotas("1/day")}, {"key": ["a", "b c"], "quotas": quotas("2/day")}]);
    let set = set(&json!([]), &[json!({"per": ["client", "region"], "overrides": overrides})]);
    let table = [
        ("a b", "c", "override [\"a b\", \"c\"]"),
        ("a", "b c", "override [\"a\", \"b c\"]"),
        ("a b", "x", "default"),
        ("c", "a b", "default"),
    ];
    for (client, region, expected) in table {
        assert_eq!(plan(&set, &[("client", client), ("region", region)]), expected, "{client} in {region}");
    }
}

#[test]
fn an_override_by_address_holds_however_the_address_is_written() {
    let overrides =
        json!([{"key": ["::ffff:192.0.2.1"], "quotas": quotas("1/day")}, {"key": ["2001:db8::7"], "quotas": quotas("2/day")}]);
    let identity = json!([{"ip": {"trusted_proxies": ["10.0.0.0/8"], "ipv6_prefix": 48}}]);
    let set = set(&identity, &[json!({"per": ["ip"], "overrides": overrides})]);
    let table = [
        (&[("ip", "192.0.2.1")][..], "override ::ffff:192.0.2.1"),
        (&[("ip", "::ffff:c000:0201")], "override ::ffff:192.0.2.1"),
        (&[("ip", "10.1.1.1"), ("header:x-forwarded-for", "192.0.2.1:443")], "override ::ffff:192.0.2.1"),
        (&[("ip", "203.0.113.9"), ("header:x-forwarded-for", "192.0.2.1")], "default"),
        (&[("ip", "2001:db8:0:ffff::1")], "override 2001:db8::7"),
        (&[("ip", "2001:db8:1::1")], "default"),
    ];
    for (facts, expected) in table {
        assert_eq!(plan(&set, facts), expected, "{facts:?}");
    }
}

#[test]
fn an_override_by_capture_holds_for_that_segment() {
    let pattern = super::kit::condition("path", &json!({"pattern": ["/users/{user}"]}));
    let overrides = json!([{"key": ["ada"], "quotas": quotas("1/day")}]);
    let set = set(&json!([]), &[json!({"per": ["user"], "match": [pattern], "overrides": overrides})]);
    assert_eq!(plan(&set, &[("path", "/users/ada")]), "override ada");
    assert_eq!(plan(&set, &[("path", "/users/eve"), ("user", "ada")]), "default");
}

#[test]
fn a_plan_without_quotas_allows_everything() {
    let set = set(&json!([]), &[json!({"stop": true, "quotas": [], "tiers": {"pro": quotas("5/minute")}})]);
    assert_eq!(plan(&set, &[]), "default");
    assert!(set.rules()[0].plans[0].quotas.is_empty());
    assert_eq!(plan(&set, &[("tier", "pro")]), "tier pro");
}

#[test]
fn names_and_several_quotas_are_kept() {
    let quotas = json!([{"text": "10/second", "name": "burst"}, {"text": "200/minute, 1000/hour"}]);
    let set = set(&json!([]), &[json!({"quotas": quotas})]);
    let quotas: Vec<_> = set.rules()[0].plans[0].quotas.iter().map(|quota| (quota.name(), quota.to_string())).collect();
    assert_eq!(quotas.len(), 3);
    assert_eq!((quotas[0].0, quotas[1].0), (Some("burst"), None));
}

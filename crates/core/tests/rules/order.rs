//! Which rules are looked at, and when no more are.

use serde_json::json;
use tidegate_core::rules::Standing;
use tidegate_core::rules::explain::Outcome;

use super::kit::{condition, names, request, set};

#[test]
fn all_rules_that_match_apply_in_the_order_of_priority_and_then_of_the_file() {
    let rule = |name: &str, priority: i32| json!({"name": name, "priority": priority});
    let set = set(&json!([]), &[rule("a", 0), rule("b", 5), rule("c", -5), rule("d", 5), rule("e", 0)]);
    assert_eq!(names(&set, &[]), ["b", "d", "a", "e", "c"]);
}

#[test]
fn after_a_rule_that_stops_no_other_is_looked_at() {
    let office = condition("ip", &json!({"cidr": ["10.0.0.0/8"]}));
    let rules = [
        json!({"name": "wide"}),
        json!({"name": "office", "priority": 10, "stop": true, "quotas": [], "match": [office]}),
        json!({"name": "first", "priority": 20}),
    ];
    let set = set(&json!([]), &rules);
    assert_eq!(names(&set, &[("ip", "10.0.0.1")]), ["first", "office"]);
    assert_eq!(names(&set, &[("ip", "192.0.2.1")]), ["first", "wide"]);
}

#[test]
fn a_rule_that_does_not_apply_stops_nothing() {
    let rules = [
        json!({"name": "off", "stop": true, "mode": "off"}),
        json!({"name": "keyless", "stop": true, "per": ["nobody"]}),
        json!({"name": "other", "stop": true, "match": [condition("a", &json!("present"))]}),
        json!({"name": "last"}),
    ];
    assert_eq!(names(&set(&json!([]), &rules), &[]), ["last"]);
}

#[test]
fn a_rule_in_shadow_stops_as_it_would_if_it_were_enforced() {
    let rules = [json!({"name": "shadow", "stop": true, "mode": "shadow"}), json!({"name": "last"})];
    assert_eq!(names(&set(&json!([]), &rules), &[]), ["shadow"]);
}

#[test]
fn a_rule_that_is_off_is_not_looked_at() {
    let rules =
        [json!({"name": "off", "mode": "off", "match": [condition("path", &json!({"pattern": ["/a"]}))]}), json!({"name": "on"})];
    assert_eq!(names(&set(&json!([]), &rules), &[("path", "/a")]), ["on"]);
}

#[test]
fn an_explanation_says_why_each_rule_applies_or_does_not() {
    let rules = [
        json!({"name": "off", "mode": "off"}),
        json!({"name": "no_match", "match": [condition("method", &json!({"exact": ["POST"]}))]}),
        json!({"name": "absent", "match": [condition("header:x-plan", &json!("present"))]}),
        json!({"name": "no_key", "per": ["client", "query:page"]}),
        json!({"name": "applies", "per": ["client"], "stop": true}),
        json!({"name": "stopped"}),
        json!({"name": "off_too", "mode": "off"}),
    ];
    let set = set(&json!([]), &rules);
    let outcomes = set.explain(&request(&set, &[("method", "get"), ("client", "a")]), Standing::default(), false);
    assert_eq!(outcomes[0], Outcome::Off);
    assert_eq!(outcomes[1], Outcome::NoMatch { attribute: "method".into(), found: Some("GET".into()) });
    assert_eq!(outcomes[2], Outcome::NoMatch { attribute: "header:x-plan".into(), found: None });
    assert_eq!(outcomes[3], Outcome::NoKey { attribute: "query:page".into() });
    assert!(matches!(&outcomes[4], Outcome::Applies { key, .. } if key == &["client=a"]), "{:?}", outcomes[4]);
    assert_eq!(outcomes[5], Outcome::Stopped { by: "applies".into() });
    assert_eq!(outcomes[6], Outcome::Off);
}

#[test]
fn an_explanation_shows_facts_as_rules_see_them() {
    let set = set(&json!([{"ip": {"trusted_proxies": ["10.0.0.0/8"], "ipv6_prefix": 64}}]), &[json!({"per": ["ip"]})]);
    let facts = [
        ("method", "post"),
        ("path", "//a/"),
        ("host", "A:80"),
        ("ip", "10.0.0.1"),
        ("header:x-forwarded-for", "::ffff:192.0.2.1"),
    ];
    let request = request(&set, &facts);
    let seen: Vec<_> = request.facts().map(|(name, value)| format!("{name}={value}")).collect();
    for expected in ["method=POST", "path=/a", "host=a", "ip=192.0.2.1", "client=192.0.2.1"] {
        assert!(seen.iter().any(|fact| fact == expected), "{expected} in {seen:?}");
    }
}

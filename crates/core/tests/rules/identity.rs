//! Who the client is.

use serde_json::{Value, json};

use super::kit::{condition, key, names, set};

fn sources() -> Value {
    json!([
        {"header": "x-api-key", "attribute": "api_key"},
        {"claim": "sub", "attribute": "user"},
        {"attribute": "user_id"},
        {"ip": {"trusted_proxies": [], "ipv6_prefix": 64}},
    ])
}

const ALL: [(&str, &str); 4] =
    [("header:X-Api-Key", "abc"), ("header:authorization", "sub=ada"), ("user_id", "7"), ("ip", "192.0.2.1")];

#[test]
fn the_first_source_that_is_present_names_the_client() {
    let set = set(&sources(), &[json!({"per": ["client"]})]);
    let expected = ["api_key:abc", "user:ada", "user_id:7", "ip:192.0.2.1"];
    for (first, expected) in expected.into_iter().enumerate() {
        assert_eq!(key(&set, &ALL[first..]), Some(format!("client={expected}")));
    }
    assert_eq!(key(&set, &[]), None, "nobody");
}

#[test]
fn an_empty_value_names_nobody() {
    let set = set(&sources(), &[json!({"per": ["client"]})]);
    let facts = [("header:x-api-key", ""), ("header:authorization", "sub="), ("user_id", ""), ("ip", "192.0.2.1")];
    assert_eq!(key(&set, &facts).as_deref(), Some("client=ip:192.0.2.1"));
}

#[test]
fn a_claim_that_is_not_verified_names_nobody() {
    let set = set(&sources(), &[json!({"per": ["client"]})]);
    for token in ["name=ada", "garbage", "subada"] {
        let facts = [("header:authorization", token), ("ip", "192.0.2.1")];
        assert_eq!(key(&set, &facts).as_deref(), Some("client=ip:192.0.2.1"), "{token}");
    }
}

#[test]
fn with_several_sources_nobody_can_pose_as_another() {
    let set = set(&sources(), &[json!({"per": ["client"]})]);
    let posing = [
        ([("header:x-api-key", "192.0.2.1")], "client=api_key:192.0.2.1"),
        ([("header:x-api-key", "ip:192.0.2.1")], "client=api_key:ip:192.0.2.1"),
        ([("user_id", "ada")], "client=user_id:ada"),
    ];
    for (facts, expected) in posing {
        assert_eq!(key(&set, &facts).as_deref(), Some(expected));
    }
}

#[test]
fn a_single_source_needs_no_tag() {
    let set = set(&json!([{"header": "x-api-key", "attribute": "api_key"}]), &[json!({"per": ["client"]})]);
    assert_eq!(key(&set, &[("header:x-api-key", "abc")]).as_deref(), Some("client=abc"));
}

#[test]
fn every_source_also_sets_its_attribute() {
    let set = set(&sources(), &[json!({"per": ["api_key", "user", "user_id", "ip"]})]);
    assert_eq!(key(&set, &ALL).as_deref(), Some("api_key=abc user=ada user_id=7 ip=192.0.2.1"));
    assert_eq!(key(&set, &ALL[1..]), None, "one is absent");
}

#[test]
fn attributes_of_sources_can_be_matched() {
    let set = set(&sources(), &[json!({"match": [condition("user", &json!({"exact": ["ada"]}))]})]);
    assert_eq!(names(&set, &ALL), ["rule"]);
    assert!(names(&set, &[("header:authorization", "sub=eve")]).is_empty());
}

#[test]
fn the_client_can_be_matched() {
    let set = set(&sources(), &[json!({"match": [condition("client", &json!({"prefix": ["api_key:"]}))]})]);
    assert_eq!(names(&set, &ALL), ["rule"]);
    assert!(names(&set, &ALL[1..]).is_empty());
}

#[test]
fn a_client_that_came_with_the_request_counts_only_without_sources() {
    let rules = [json!({"per": ["client"]})];
    assert_eq!(key(&set(&json!([]), &rules), &[("client", "eve")]).as_deref(), Some("client=eve"));
    let identified = set(&sources(), &rules);
    assert_eq!(key(&identified, &[("client", "api_key:abc")]), None, "no source names anybody");
    assert_eq!(key(&identified, &[("client", "api_key:abc"), ("user_id", "7")]).as_deref(), Some("client=user_id:7"));
}

#[test]
fn a_source_can_choose_the_tier() {
    let set = set(&json!([{"header": "x-tier", "attribute": "tier"}]), &[json!({"tiers": {"pro": [{"text": "99/minute"}]}})]);
    assert_eq!(super::kit::found(&set, &[("header:x-tier", "pro")])[0].plan, "tier pro");
}

#[test]
fn a_key_that_is_not_valid_names_nobody() {
    let sources = json!([
        {"header": "x-api-key", "attribute": "api_key", "valid": ["sk_????", "partner"]},
        {"ip": {"trusted_proxies": [], "ipv6_prefix": 64}},
    ]);
    let set = set(&sources, &[json!({"per": ["client"]})]);
    for (said, expected) in [
        ("sk_1234", "api_key:sk_1234"),
        ("partner", "api_key:partner"),
        ("sk_12345", "ip:192.0.2.1"),
        ("sk_????x", "ip:192.0.2.1"),
        ("Partner", "ip:192.0.2.1"),
        ("192.0.2.1", "ip:192.0.2.1"),
        ("", "ip:192.0.2.1"),
    ] {
        let facts = [("header:x-api-key", said), ("ip", "192.0.2.1")];
        assert_eq!(key(&set, &facts), Some(format!("client={expected}")), "{said}");
    }
}

#[test]
fn a_key_that_is_not_valid_sets_no_attribute() {
    let sources = json!([{"header": "x-api-key", "attribute": "api_key", "valid": ["sk_*"]}]);
    let set = set(&sources, &[json!({"per": ["api_key"]})]);
    assert_eq!(key(&set, &[("header:x-api-key", "sk_1")]).as_deref(), Some("api_key=sk_1"));
    assert_eq!(key(&set, &[("header:x-api-key", "other")]), None);
}

//! Who is counted together.

use serde_json::json;
use tidegate_core::rules::{RuleSet, Standing};

use super::kit::{condition, found, key, request, set};

fn bytes(set: &RuleSet, facts: &[(&str, &str)]) -> Vec<u8> {
    let matches = set.matches(&request(set, facts), Standing::default(), None);
    matches.keys[matches.rules[0].key].1.to_vec()
}

#[test]
fn global_counts_everybody_together() {
    let set = set(&json!([]), &[json!({"per": []})]);
    assert_eq!(key(&set, &[("client", "a")]).as_deref(), Some(""));
    assert_eq!(bytes(&set, &[("client", "a")]), bytes(&set, &[("client", "b"), ("ip", "::1")]));
}

#[test]
fn a_rule_whose_key_is_absent_does_not_apply() {
    let set = set(&json!([]), &[json!({"per": ["client", "header:x-region"]})]);
    assert_eq!(key(&set, &[("client", "a"), ("header:x-region", "eu")]).as_deref(), Some("client=a header:x-region=eu"));
    for facts in [&[("client", "a")][..], &[("header:x-region", "eu")], &[("client", "a"), ("header:x-region", "")], &[]] {
        assert_eq!(key(&set, facts), None, "{facts:?}");
    }
}

#[test]
fn values_cannot_run_into_each_other() {
    let set = set(&json!([]), &[json!({"per": ["a", "b"]})]);
    let all = [("x", "yz"), ("xy", "z"), ("x\0", "yz"), ("xyz", "z"), ("x", "y"), ("y", "x"), ("x,y", "z"), ("x", "y,z")];
    let keys: std::collections::HashSet<_> = all.iter().map(|(a, b)| bytes(&set, &[("a", *a), ("b", *b)])).collect();
    assert_eq!(keys.len(), all.len());
}

#[test]
fn no_text_reads_like_an_address() {
    let set = set(&json!([]), &[json!({"per": ["ip", "a"]})]);
    // Whatever the text is, it cannot make an IPv4 address read like the beginning of an IPv6 one.
    let four = bytes(&set, &[("ip", "32.1.13.184"), ("a", "\0\0\0\0\u{1}\0\0\0\0\0\0\0x")]);
    let six = bytes(&set, &[("ip", "2001:db8:d00::"), ("a", "x")]);
    assert_ne!(four, six);
    assert_ne!(bytes(&set, &[("ip", "abcd"), ("a", "x")]), bytes(&set, &[("ip", "97.98.99.100"), ("a", "x")]));
}

#[test]
fn rules_with_the_same_key_share_it() {
    let set = set(
        &json!([]),
        &[json!({"name": "a", "per": ["client"]}), json!({"name": "b", "per": ["client"]}), json!({"name": "c"})],
    );
    let request = request(&set, &[("client", "x")]);
    let matches = set.matches(&request, Standing::default(), None);
    let keys: Vec<_> = matches.rules.iter().map(|found| found.key).collect();
    assert_eq!((keys, matches.keys.len()), (vec![0, 0, 1], 2));
}

#[test]
fn the_cost_is_a_number_or_a_fact() {
    let table = [
        (json!({"units": 7}), "", 7),
        (json!({"units": 0}), "", 0),
        (json!({"attribute": "size", "default": 2, "max": 100}), "9", 9),
        (json!({"attribute": "size", "default": 2, "max": 100}), "0", 0),
        (json!({"attribute": "size", "default": 2, "max": 100}), "007", 7),
        (json!({"attribute": "size", "default": 2, "max": 100}), "101", 100),
        (json!({"attribute": "size", "default": 2, "max": 100}), "18446744073709551616", 100),
        (json!({"attribute": "size", "default": 2, "max": null}), "18446744073709551616", 1 << 53),
        (json!({"attribute": "size", "default": 2, "max": null}), "99999999999999999999", 1 << 53),
        (json!({"attribute": "size", "default": 2, "max": 100}), "100000000000000000000000", 100),
        // What is no number costs the default.
        (json!({"attribute": "size", "default": 2, "max": 100}), "", 2),
        (json!({"attribute": "size", "default": 2, "max": 100}), "-1", 2),
        (json!({"attribute": "size", "default": 2, "max": 100}), "+9", 2),
        (json!({"attribute": "size", "default": 2, "max": 100}), " 9", 2),
        (json!({"attribute": "size", "default": 2, "max": 100}), "9.5", 2),
        (json!({"attribute": "size", "default": 2, "max": 100}), "1e3", 2),
        (json!({"attribute": "size", "default": 2, "max": 100}), "0x10", 2),
        (json!({"attribute": "size", "default": 2, "max": 100}), "٣", 2),
        // The most also holds for the default.
        (json!({"attribute": "size", "default": 500, "max": 100}), "", 100),
    ];
    for (cost, size, expected) in table {
        let set = set(&json!([]), &[json!({"cost": cost})]);
        assert_eq!(found(&set, &[("size", size)])[0].cost, expected, "{cost} of {size:?}");
    }
}

#[test]
fn the_cost_can_come_from_the_path() {
    let path = json!([{"attribute": "path", "test": {"pattern": ["/take/{count}"]}, "not": false, "ignore_case": false}]);
    let set = set(&json!([]), &[json!({"match": path, "cost": {"attribute": "count", "default": 1, "max": null}})]);
    assert_eq!(found(&set, &[("path", "/take/40")])[0].cost, 40);
    assert_eq!(found(&set, &[("path", "/take/some"), ("count", "9")])[0].cost, 1, "the capture hides an attribute of its name");
}

#[test]
fn the_cost_can_come_from_a_header_or_a_parameter() {
    for attribute in ["header:x-cost", "query:cost"] {
        let set = set(&json!([]), &[json!({"cost": {"attribute": attribute, "default": 1, "max": null}})]);
        assert_eq!(found(&set, &[(attribute, "5")])[0].cost, 5, "{attribute}");
    }
}

#[test]
fn a_cost_that_is_given_counts_everywhere() {
    let set = set(
        &json!([]),
        &[json!({"name": "a", "cost": {"units": 3}}), json!({"name": "b", "cost": {"attribute": "x", "default": 1, "max": 2}})],
    );
    let matches = set.matches(&request(&set, &[("x", "9")]), Standing::default(), Some(7));
    assert_eq!(matches.rules.iter().map(|found| found.cost).collect::<Vec<_>>(), [7, 7]);
}

#[test]
fn a_key_may_be_any_text() {
    let set = set(&json!([]), &[json!({"per": ["client"], "match": [condition("client", &json!("present"))]})]);
    for client in ["a=b", "\0", "🌊", " ", "client=a client=b"] {
        assert_eq!(key(&set, &[("client", client)]), Some(format!("client={client}")));
    }
}

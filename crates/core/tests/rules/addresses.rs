//! Whose address counts: the peer's, unless a trusted proxy tells another; and how much of it.

use serde_json::{Value, json};
use tidegate_core::rules::RuleSet;

use super::kit::{condition, key, names, set};

fn by_ip(trusted: &[&str], ipv6_prefix: u8) -> RuleSet {
    set(&json!([{"ip": {"trusted_proxies": trusted, "ipv6_prefix": ipv6_prefix}}]), &[json!({"per": ["ip"]})])
}

fn ip(set: &RuleSet, peer: &str, forwarded: &str) -> String {
    key(set, &[("ip", peer), ("header:x-forwarded-for", forwarded)]).expect("an address")
}

#[test]
fn only_a_trusted_proxy_is_believed() {
    let set = by_ip(&["10.0.0.0/8", "2001:db8:1::/48"], 64);
    let table = [
        // Nobody in between: what the client says about itself is nothing.
        ("203.0.113.9", "", "203.0.113.9"),
        ("203.0.113.9", "10.0.0.1", "203.0.113.9"),
        ("203.0.113.9", "198.51.100.7, 10.0.0.1", "203.0.113.9"),
        // One proxy, which appended whom it saw; all to the left is the client's invention.
        ("10.0.0.1", "198.51.100.7", "198.51.100.7"),
        ("10.0.0.1", "1.2.3.4, 198.51.100.7", "198.51.100.7"),
        ("10.0.0.1", "10.0.0.9, 198.51.100.7", "198.51.100.7"),
        // Two proxies.
        ("10.0.0.1", "1.2.3.4, 198.51.100.7, 10.0.0.2", "198.51.100.7"),
        ("10.0.0.1", " 198.51.100.7 ,10.0.0.2", "198.51.100.7"),
        // All of them are proxies: the first.
        ("10.0.0.1", "10.0.0.3, 10.0.0.2", "10.0.0.3"),
        // What is no address ends the walk at the proxy that wrote it.
        ("10.0.0.1", "198.51.100.7, unknown", "10.0.0.1"),
        ("10.0.0.1", "unknown, 10.0.0.2", "10.0.0.2"),
        ("10.0.0.1", "198.51.100.7,", "10.0.0.1"),
        ("10.0.0.1", ",,,", "10.0.0.1"),
        // With ports, in brackets, IPv4 in IPv6.
        ("10.0.0.1:5000", "198.51.100.7:4711", "198.51.100.7"),
        ("::ffff:10.0.0.1", "::ffff:198.51.100.7", "198.51.100.7"),
        ("[2001:db8:1::5]:443", "[2001:db8:9::7]:80", "2001:db8:9::"),
    ];
    for (peer, forwarded, expected) in table {
        assert_eq!(ip(&set, peer, forwarded), format!("ip={expected}"), "{peer} for {forwarded:?}");
    }
}

#[test]
fn without_trusted_proxies_nobody_is_believed() {
    assert_eq!(ip(&by_ip(&[], 64), "10.0.0.1", "198.51.100.7"), "ip=10.0.0.1");
}

#[test]
fn a_chain_without_end_is_walked_for_a_while() {
    let chain = vec!["10.0.0.2"; 100_000].join(",");
    assert_eq!(ip(&by_ip(&["10.0.0.0/8"], 64), "10.0.0.1", &format!("1.2.3.4,{chain}")), "ip=10.0.0.2");
}

#[test]
fn an_ipv6_client_is_a_network() {
    for (prefix, expected) in
        [(64, "2001:db8:1:2::"), (48, "2001:db8:1::"), (128, "2001:db8:1:2:3:4:5:6"), (0, "::"), (200, "2001:db8:1:2:3:4:5:6")]
    {
        assert_eq!(ip(&by_ip(&[], prefix), "2001:DB8:1:2:3:4:5:6", ""), format!("ip={expected}"), "/{prefix}");
    }
    assert_eq!(ip(&by_ip(&[], 64), "::ffff:192.0.2.1", ""), "ip=192.0.2.1", "IPv4 inside IPv6 is IPv4, and counts alone");
}

#[test]
fn the_network_is_one_client_too() {
    let set = set(&json!([{"ip": {"trusted_proxies": [], "ipv6_prefix": 56}}]), &[json!({"per": ["client"]})]);
    assert_eq!(key(&set, &[("ip", "2001:db8:0:ff01::1")]).as_deref(), Some("client=2001:db8:0:ff00::"));
}

#[test]
fn without_identity_the_peer_counts_by_the_usual_network() {
    let set = set(&json!([]), &[json!({"per": ["ip"]})]);
    assert_eq!(key(&set, &[("ip", "2001:db8::1"), ("header:x-forwarded-for", "1.2.3.4")]).as_deref(), Some("ip=2001:db8::"));
}

#[test]
fn what_is_no_address_counts_as_what_it_is() {
    assert_eq!(ip(&by_ip(&["10.0.0.0/8"], 64), "unix:/run/socket", "1.2.3.4"), "ip=unix:/run/socket");
}

#[test]
fn an_address_is_matched_however_it_is_written_and_whoever_told_it() {
    let trusted = json!([{"ip": {"trusted_proxies": ["10.0.0.0/8"], "ipv6_prefix": 64}}]);
    let rules = |test: Value| set(&trusted, &[json!({"match": [condition("ip", &test)]})]);
    let tests = [
        json!({"exact": ["192.0.2.1"]}),
        json!({"prefix": ["192.0.2."]}),
        json!({"glob": ["192.*"]}),
        json!({"regex": ["192\\..*"]}),
        json!({"cidr": ["192.0.2.0/24"]}),
    ];
    for test in tests {
        let set = rules(test.clone());
        for peer in ["192.0.2.1", "::ffff:192.0.2.1", "::FFFF:c000:201", "192.0.2.1:443", "[::ffff:192.0.2.1]:443", " 192.0.2.1"]
        {
            assert_eq!(names(&set, &[("ip", peer)]), ["rule"], "{test} on {peer}");
        }
        assert_eq!(names(&set, &[("ip", "10.0.0.1"), ("header:x-forwarded-for", "::ffff:192.0.2.1")]), ["rule"], "{test}");
        let spoofed = [("ip", "203.0.113.9"), ("header:x-forwarded-for", "192.0.2.1")];
        assert!(names(&set, &spoofed).is_empty(), "{test}");
    }
}

#[test]
fn the_whole_address_is_matched_even_if_a_network_counts() {
    let set = set(&json!([]), &[json!({"per": ["ip"], "match": [condition("ip", &json!({"cidr": ["2001:db8::5/128"]}))]})]);
    assert_eq!(key(&set, &[("ip", "2001:db8::5")]).as_deref(), Some("ip=2001:db8::"));
    assert_eq!(key(&set, &[("ip", "2001:db8::6")]), None);
}

#[test]
fn an_address_is_found_though_another_source_names_the_client() {
    let identity = json!([
        {"header": "x-api-key", "attribute": "api_key"},
        {"ip": {"trusted_proxies": ["10.0.0.0/8"], "ipv6_prefix": 64}},
    ]);
    let set = set(&identity, &[json!({"per": ["client", "ip"]})]);
    let facts = [("ip", "10.0.0.1"), ("header:x-forwarded-for", "198.51.100.7"), ("header:x-api-key", "abc")];
    assert_eq!(key(&set, &facts).as_deref(), Some("client=api_key:abc ip=198.51.100.7"));
}

//! Trees of descriptors: the lookup of the reference rate limit service, by examples and against a naive one.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};
use tidegate_core::descriptors::lookup::{Counted, counter_of_entries};
use tidegate_core::descriptors::{Domains, DomainsError, Entry, Lookup, answer};

/// A node with a limit, whose name says which it is.
fn limited(key: &str, value: Option<&str>, name: &str, children: &[Value]) -> Value {
    let limit = json!({"unlimited": false, "quotas": [{"text": "5/minute fixed_window"}], "requests_per_unit": 5, "unit": "MINUTE", "name": name});
    json!({"key": key, "value": value, "limit": limit, "descriptors": children})
}

fn node(key: &str, value: Option<&str>, children: &[Value]) -> Value {
    json!({"key": key, "value": value, "descriptors": children})
}

fn with(mut node: Value, field: &str, value: Value) -> Value {
    node[field] = value;
    node
}

fn compile(descriptors: &[Value]) -> Result<Domains, DomainsError> {
    let spec: Vec<_> =
        serde_json::from_value(json!([{"domain": "d", "descriptors": descriptors}])).expect("a document of the right shape");
    Domains::new(&spec)
}

fn entries<'a>(pairs: &[(&'a str, &'a str)]) -> Vec<Entry<'a>> {
    pairs.iter().map(|&(key, value)| Entry { key, value }).collect()
}

/// The name of the limit that is found.
fn found(domains: &Domains, pairs: &[(&str, &str)]) -> Option<String> {
    match domains.lookup("d", &entries(pairs)) {
        Lookup::Found(found) => Some(found.limit().name.as_deref().unwrap_or_default().to_owned()),
        _ => None,
    }
}

fn counted(domains: &Domains, pairs: &[(&str, &str)]) -> Vec<String> {
    let entries = entries(pairs);
    let Lookup::Found(found) = domains.lookup("d", &entries) else { panic!("{pairs:?} has a limit") };
    let text = |counted| match counted {
        Counted::Value(value) => format!("={value}"),
        Counted::Pattern(pattern) => format!("*{pattern}"),
    };
    found.counted(&entries).map(|(key, counted)| key.to_owned() + &text(counted)).collect()
}

#[test]
fn the_value_comes_first_then_patterns_in_order_then_the_default() {
    let domains = compile(&[
        limited("k", None, "default", &[]),
        limited("k", Some("ab*"), "second", &[]),
        limited("k", Some("a*"), "third", &[]),
        limited("k", Some("abc"), "exact", &[]),
    ])
    .unwrap();

    assert_eq!(found(&domains, &[("k", "abc")]).as_deref(), Some("exact"));
    assert_eq!(found(&domains, &[("k", "abd")]).as_deref(), Some("second"));
    assert_eq!(found(&domains, &[("k", "ax")]).as_deref(), Some("third"));
    assert_eq!(found(&domains, &[("k", "x")]).as_deref(), Some("default"));
    assert_eq!(found(&domains, &[("k", "")]).as_deref(), Some("default"));
    assert_eq!(found(&domains, &[("K", "abc")]), None);
    assert!(matches!(domains.lookup("other", &entries(&[("k", "abc")])), Lookup::UnknownDomain));
}

#[test]
fn the_walk_does_not_turn_back_and_depth_must_match() {
    let domains = compile(&[
        limited("k", Some("x"), "short", &[]),
        node("k", None, &[limited("l", None, "long", &[])]),
        limited("p", None, "inner", &[limited("q", None, "outer", &[])]),
    ])
    .unwrap();

    assert_eq!(found(&domains, &[("k", "x")]).as_deref(), Some("short"));
    assert_eq!(found(&domains, &[("k", "x"), ("l", "1")]), None);
    assert_eq!(found(&domains, &[("k", "y"), ("l", "1")]).as_deref(), Some("long"));
    assert_eq!(found(&domains, &[("k", "y")]), None);
    assert_eq!(found(&domains, &[("p", "1")]).as_deref(), Some("inner"));
    assert_eq!(found(&domains, &[("p", "1"), ("q", "2")]).as_deref(), Some("outer"));
    assert_eq!(found(&domains, &[("p", "1"), ("q", "2"), ("r", "3")]), None);
    assert_eq!(found(&domains, &[]), None);
}

#[test]
fn a_node_without_a_limit_allows_and_hides_the_default() {
    let domains = compile(&[node("k", Some("free"), &[]), limited("k", None, "default", &[])]).unwrap();

    assert_eq!(found(&domains, &[("k", "free")]), None);
    assert_eq!(found(&domains, &[("k", "other")]).as_deref(), Some("default"));
}

#[test]
fn a_star_matches_on_the_joined_text_also_in_the_key() {
    let domains = compile(&[limited("a*", None, "key", &[]), limited("path", Some("/api/*/x"), "path", &[])]).unwrap();

    assert_eq!(found(&domains, &[("abc", "anything")]).as_deref(), Some("key"));
    assert_eq!(found(&domains, &[("a*", "")]).as_deref(), Some("key"));
    assert_eq!(found(&domains, &[("path", "/api/v1/v2/x")]).as_deref(), Some("path"));
    assert_eq!(found(&domains, &[("path", "/api/x")]), None);
}

#[test]
fn a_key_with_an_underscore_is_not_a_key_with_a_value() {
    let domains = compile(&[limited("a_b", None, "one", &[]), limited("a", Some("c"), "two", &[])]).unwrap();

    assert_eq!(found(&domains, &[("a", "b")]), None);
    assert_eq!(found(&domains, &[("a_c", "x")]), None);
    assert_eq!(found(&domains, &[("a_b", "x")]).as_deref(), Some("one"));
}

#[test]
fn values_have_their_own_counters_unless_the_pattern_shares_one() {
    let sharing =
        |value, name, children: &[Value]| with(limited("k", Some(value), name, children), "share_threshold", json!(true));
    let domains = compile(&[
        limited("k", Some("a*"), "apart", &[]),
        sharing("b*", "shared", &[sharing("c*", "deep", &[]), limited("l", None, "mixed", &[])]),
        limited("k", Some("b1"), "exact", &[]),
        limited("k", None, "default", &[]),
    ])
    .unwrap();

    assert_eq!(counted(&domains, &[("k", "a1")]), ["k=a1"]);
    assert_eq!(counted(&domains, &[("k", "b2")]), ["k*k_b*"]);
    assert_eq!(counted(&domains, &[("k", "b*")]), ["k*k_b*"]);
    assert_eq!(counted(&domains, &[("k", "b1")]), ["k=b1"]);
    assert_eq!(counted(&domains, &[("k", "z")]), ["k=z"]);
    assert_eq!(counted(&domains, &[("k", "b2"), ("k", "c9")]), ["k*k_b*", "k*k_c*"]);
    assert_eq!(counted(&domains, &[("k", "b2"), ("l", "9")]), ["k*k_b*", "l=9"]);
}

#[test]
fn counters_are_apart_whatever_the_texts_contain() {
    let names = [
        counter_of_entries("d", &entries(&[("a", "b_c")])),
        counter_of_entries("d", &entries(&[("a_b", "c")])),
        counter_of_entries("d", &entries(&[("a", "b"), ("c", "")])),
        counter_of_entries("d_a", &entries(&[("b", "c")])),
        counter_of_entries("d", &[]),
    ];
    for (index, name) in names.iter().enumerate() {
        assert!(!names[..index].contains(name), "{index}");
    }
}

#[test]
fn a_limit_that_the_descriptor_brings_counts_where_the_node_does() {
    let domains = compile(&[limited("k", None, "node", &[])]).unwrap();
    let entries = entries(&[("k", "v")]);
    let Lookup::Found(found) = domains.lookup("d", &entries) else { panic!("k has a limit") };

    assert_eq!(found.counter(&entries), counter_of_entries("d", &entries));
}

#[test]
fn metrics_show_values_only_where_the_tree_says_so() {
    let detailed = |mut node: Value| {
        node["limit"]["detailed_metric"] = json!(true);
        node
    };
    let shown = |node| with(node, "value_to_metric", json!(true));
    let domains = compile(&[
        limited("plain", None, "", &[limited("k", Some("v*"), "", &[])]),
        shown(limited("shown", None, "", &[limited("k", None, "", &[])])),
        node("all", None, &[detailed(limited("k", Some("v*"), "", &[]))]),
        with(shown(limited("shared", Some("v*"), "", &[])), "share_threshold", json!(true)),
    ])
    .unwrap();
    let metric = |pairs: &[(&str, &str)]| {
        let entries = entries(pairs);
        let Lookup::Found(found) = domains.lookup("d", &entries) else { panic!("{pairs:?} has a limit") };
        found.metric(&entries)
    };

    assert_eq!(metric(&[("plain", "1"), ("k", "v2")]), "d.plain.k_v*");
    assert_eq!(metric(&[("shown", "1"), ("k", "2")]), "d.shown_1.k");
    assert_eq!(metric(&[("all", "1"), ("k", "v2")]), "d.all_1.k_v2");
    assert_eq!(metric(&[("shared", "v2")]), "d.shared_v*");
}

#[test]
fn one_limit_replaces_others_of_the_same_request_by_name() {
    let mut replacing = limited("k", Some("b"), "b", &[]);
    replacing["limit"]["replaces"] = json!(["a", "nobody"]);
    let domains = compile(&[limited("k", Some("a"), "a", &[]), replacing, limited("k", Some("c"), "", &[])]).unwrap();
    let limits: Vec<_> = domains.limits().into_iter().map(|(_, limit)| Some(limit)).collect();

    assert_eq!(answer::replaced(&limits), [true, false, false]);
    assert_eq!(answer::replaced(&[limits[0], None, limits[2]]), [false, false, false]);
}

#[test]
fn limits_are_numbered_in_the_order_of_the_document() {
    let domains = compile(&[limited("a", None, "0", &[limited("b", None, "1", &[])]), limited("c", None, "2", &[])]).unwrap();

    let numbers: Vec<_> = domains.limits().iter().map(|(_, limit)| (limit.number, limit.name.clone().unwrap())).collect();

    assert_eq!(numbers, [(0, "0".into()), (1, "1".into()), (2, "2".into())]);
}

#[test]
fn a_document_that_nobody_checked_is_refused() {
    let of = |descriptors: &[Value]| compile(descriptors).unwrap_err().to_string();
    let limit = |field: &str, value: Value| {
        let mut node = limited("k", None, "", &[]);
        node["limit"][field] = value;
        of(&[node])
    };
    let deep = (0..41).fold(node("k", None, &[]), |child, _| node("k", None, &[child]));

    assert_eq!(of(&[node("", None, &[])]), "d: a descriptor has an empty key");
    assert_eq!(of(&[node("a", None, &[node("a_b", None, &[]), node("a", Some("b"), &[])])]), "duplicate descriptor d.a.a_b");
    assert_eq!(of(&[node("a", None, &[]), node("a", Some(""), &[])]), "duplicate descriptor d.a");
    assert_eq!(
        of(&[with(node("k", Some("v"), &[]), "share_threshold", json!(true))]),
        "d.k_v: share_threshold needs a key or a value with *"
    );
    assert_eq!(limit("unit", json!("minute")), "d.k: invalid rate limit unit \"minute\"");
    assert_eq!(limit("unlimited", json!(true)), "d.k: a limit has quotas, or it is unlimited");
    assert!(limit("quotas", json!([{"text": "5/minuet"}])).starts_with("d.k: "));
    assert!(limit("quotas", json!([{"text": "5/minute, 6/hour"}])).contains("2 quotas where one is expected"));
    assert!(of(&[deep]).ends_with("more than 40 levels"));

    let twice = serde_json::from_value::<Vec<_>>(json!([{"domain": "d", "descriptors": []}, {"domain": "d", "descriptors": []}]))
        .unwrap();
    assert_eq!(Domains::new(&twice).unwrap_err(), DomainsError::DuplicateDomain("d".into()));
    let unnamed = serde_json::from_value::<Vec<_>>(json!([{"domain": "", "descriptors": []}])).unwrap();
    assert_eq!(Domains::new(&unnamed).unwrap_err(), DomainsError::EmptyDomain);
}

/// A node of the naive tree: identity, limit, whether it shares, children.
#[derive(Debug, Clone)]
struct Naive {
    key: String,
    value: Option<String>,
    has_limit: bool,
    is_shared: bool,
    children: Vec<Naive>,
}

impl Naive {
    fn identity(&self) -> String {
        self.value.as_ref().map_or_else(|| self.key.clone(), |value| format!("{}_{value}", self.key))
    }

    fn spec(&self, path: &str) -> Value {
        let path = format!("{path}/{}", self.identity());
        let children: Vec<Value> = self.children.iter().map(|child| child.spec(&path)).collect();
        let node = if self.has_limit {
            limited(&self.key, self.value.as_deref(), &path, &children)
        } else {
            node(&self.key, self.value.as_deref(), &children)
        };
        with(node, "share_threshold", json!(self.is_shared))
    }
}

/// The lookup as the specification words it, on joined texts: the path of the limit, and what names the counter.
fn naive(level: &[Naive], request: &[(String, String)], path: &str) -> Option<(String, Vec<String>)> {
    let ((key, value), rest) = request.split_first()?;
    let joined = format!("{key}_{value}");
    let by_identity: BTreeMap<String, &Naive> = level.iter().map(|node| (node.identity(), node)).collect();
    let is_match = |node: &&Naive| node.identity().contains('*') && fits(node.identity().as_bytes(), joined.as_bytes());
    let node =
        by_identity.get(&joined).copied().or_else(|| level.iter().find(is_match)).or_else(|| by_identity.get(key).copied())?;
    let path = format!("{path}/{}", node.identity());
    let counter = if node.is_shared { format!("{key}*{}", node.identity()) } else { format!("{key}={value}") };
    if rest.is_empty() {
        return node.has_limit.then(|| (path, vec![counter]));
    }
    let (path, deeper) = naive(&node.children, rest, &path)?;
    Some((path, std::iter::once(counter).chain(deeper).collect()))
}

/// `*` tries every length.
fn fits(pattern: &[u8], text: &[u8]) -> bool {
    match pattern.split_first() {
        None => text.is_empty(),
        Some((b'*', rest)) => (0..=text.len()).any(|taken| fits(rest, &text[taken..])),
        Some((byte, rest)) => text.split_first().is_some_and(|(first, after)| first == byte && fits(rest, after)),
    }
}

/// Keys have no underscore: there the joined texts of the specification are ambiguous, and we differ on purpose.
fn tree() -> impl Strategy<Value = Vec<Naive>> {
    let key = || prop_oneof![4 => "[ab]{1,2}", 1 => "[ab]?\\*"];
    let value = || proptest::option::of(prop_oneof!["[ab_]{1,2}", "[ab*]{1,3}"]);
    let leaf = (key(), value(), any::<bool>(), any::<bool>())
        .prop_map(|(key, value, has_limit, shares)| naive_node(key, value, has_limit, shares, vec![]));
    let deeper = leaf.prop_recursive(3, 40, 5, move |inner| {
        let children = proptest::collection::vec(inner, 0..5);
        (key(), value(), any::<bool>(), any::<bool>(), children)
            .prop_map(|(key, value, has_limit, shares, children)| naive_node(key, value, has_limit, shares, children))
    });
    proptest::collection::vec(deeper, 1..7).prop_map(unique)
}

fn naive_node(key: String, value: Option<String>, has_limit: bool, shares: bool, children: Vec<Naive>) -> Naive {
    let mut node = Naive { key, value, has_limit, is_shared: false, children: unique(children) };
    node.is_shared = shares && node.identity().contains('*');
    node
}

fn unique(nodes: Vec<Naive>) -> Vec<Naive> {
    let mut seen = Vec::new();
    nodes
        .into_iter()
        .filter(|node| {
            let is_new = !seen.contains(&node.identity());
            seen.push(node.identity());
            is_new
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn the_lookup_agrees_with_a_naive_one(tree in tree(), requests in proptest::collection::vec(proptest::collection::vec(("[ab]{1,2}|\\*", "[ab_*]{0,3}"), 1..4), 1..8)) {
        let specs: Vec<Value> = tree.iter().map(|node| node.spec("")).collect();
        let domains = compile(&specs).unwrap();
        for request in &requests {
            let pairs: Vec<(&str, &str)> = request.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();

            let expected = naive(&tree, request, "");

            prop_assert_eq!(found(&domains, &pairs), expected.as_ref().map(|(path, _)| path.clone()), "{:?}", pairs);
            if let Some((_, counter)) = expected {
                prop_assert_eq!(counted(&domains, &pairs), counter);
            }
        }
    }
}

//! Any rules on any request: the index, the explanation and the naive reading agree.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, FileFailurePersistence};
use serde_json::{Value, json};
use tidegate_core::rules::members::spec::MembersSpec;
use tidegate_core::rules::{Members, RuleSet, RuleSetSpec, Standing};

use super::kit::{condition, digest_text, found, found_by, ignoring_case, not, request, rule};
use super::naive::{self, Facts};

/// Facts as they come, and as they are: the right half is what the contract says about the left one.
const SPELLINGS: [(&str, &[(&str, &str)]); 12] = [
    ("method", &[("GET", "GET"), ("post", "POST")]),
    (
        "path",
        &[
            ("/", "/"),
            ("/api", "/api"),
            ("//api/v1/", "/api/v1"),
            ("/api/x/../v1/%6frders", "/api/v1/orders"),
            ("/API/v1", "/API/v1"),
            ("/users/Ada", "/users/Ada"),
            ("/users/ada/orders?x", "/users/ada/orders"),
            ("/a%2fb", "/a%2Fb"),
        ],
    ),
    (
        "host",
        &[("Api.example.com:80", "api.example.com"), ("a.b.example.org", "a.b.example.org"), ("example.org.", "example.org")],
    ),
    (
        "ip",
        &[
            ("192.0.2.1", "192.0.2.1"),
            ("::ffff:192.0.2.1", "192.0.2.1"),
            ("10.0.0.1:443", "10.0.0.1"),
            ("2001:DB8::1", "2001:db8::1"),
            ("2001:db8:0:0:1::", "2001:db8:0:0:1::"),
            ("unix", "unix"),
        ],
    ),
    (
        "header:x-forwarded-for",
        &[("192.0.2.1", "192.0.2.1"), ("1.1.1.1, 2001:db8::9 ,10.0.0.2", "1.1.1.1, 2001:db8::9 ,10.0.0.2"), ("x", "x")],
    ),
    ("header:x-key", &[("abc", "abc"), ("ABC", "ABC"), ("5", "5")]),
    ("header:authorization", &[("sub=ada", "sub=ada"), ("sub=", "sub="), ("junk", "junk")]),
    ("tier", &[("pro", "pro"), ("free", "free")]),
    ("api_key", &[("abc", "abc"), ("k1", "k1"), ("nobody", "nobody")]),
    ("tenant", &[("acme", "acme"), ("other", "other")]),
    ("account", &[("a1", "a1"), ("192.0.2.1", "192.0.2.1")]),
    ("user", &[("ada", "ada"), ("Ada", "Ada"), ("7", "7"), ("99999", "99999")]),
];

fn attributes() -> impl Strategy<Value = &'static str> {
    select(vec!["tenant", "method", "path", "host", "ip", "header:x-key", "tier", "user", "client", "query:page", "key"])
}

/// Texts that some request has, and some that none has.
fn texts() -> impl Strategy<Value = Vec<&'static str>> {
    let facts = SPELLINGS.iter().flat_map(|(_, spellings)| spellings.iter().map(|&(_, spelled)| spelled));
    let known: Vec<&str> = facts.chain(["get", "Pro", "x", "", "key:abc", "ada", "/api/v1"]).collect();
    vec(select(known), 0..3)
}

fn a_condition() -> impl Strategy<Value = Value> {
    let patterns = [
        "/api/**",
        "/api/*",
        "/*/v1",
        "/users/{user}",
        "/{id}/**",
        "/users/{id}/orders",
        "/",
        "/**",
        "/API/v1",
        "/u*/A?a",
        "/a%2Fb",
    ];
    let globs = ["*", "a*", "*.example.org", "?pi*", "*a*a*", "192.*", "P*", ""];
    let expressions = ["a.*", "[a-z]+", "(get|GET)", "192\\.0\\.2\\..", "", ".*", "/api.*", "P.*"];
    let networks = ["10.0.0.0/8", "192.0.2.1", "2001:db8::/64", "0.0.0.0/0", "::/0"];
    let of = |texts: &[&'static str]| vec(select(texts.to_vec()), 0..3);
    let test = prop_oneof![
        1 => Just(json!("present")),
        4 => texts().prop_map(|texts| json!({"exact": texts})),
        1 => texts().prop_map(|texts| json!({"prefix": texts})),
        1 => texts().prop_map(|texts| json!({"suffix": texts})),
        2 => of(&globs).prop_map(|texts| json!({"glob": texts})),
        2 => of(&expressions).prop_map(|texts| json!({"regex": texts})),
        2 => of(&networks).prop_map(|texts| json!({"cidr": texts})),
    ];
    let of_any = (attributes(), test).prop_map(|(attribute, test)| condition(attribute, &test));
    let of_path = vec(select(patterns.to_vec()), 0..3).prop_map(|patterns| condition("path", &json!({"pattern": patterns})));
    (prop_oneof![3 => of_any, 2 => of_path], prop::bool::weighted(0.2), prop::bool::weighted(0.2)).prop_map(
        |(condition, is_negated, ignores_case)| {
            let condition = if is_negated { not(condition) } else { condition };
            if ignores_case { ignoring_case(condition) } else { condition }
        },
    )
}

fn a_rule() -> impl Strategy<Value = Value> {
    let per = select(vec![
        vec![],
        vec![],
        vec!["client"],
        vec!["ip"],
        vec!["user"],
        vec!["id"],
        vec!["user", "ip"],
        vec!["header:x-key", "tier"],
        vec!["tenant", "api_key"],
    ]);
    let cost = prop_oneof![
        Just(json!({"units": 3})),
        Just(json!({"attribute": "user", "default": 2, "max": 50})),
        Just(json!({"attribute": "header:x-key", "default": 1, "max": null})),
    ];
    let how = (select(vec!["enforce", "enforce", "shadow", "off"]), -1..=1_i32, prop::bool::weighted(0.1));
    (vec(a_condition(), 0..3), per, cost, how, any::<bool>(), any::<bool>()).prop_map(
        |(conditions, per, cost, (mode, priority, stop), has_tiers, has_overrides)| {
            let tiers = if has_tiers { json!({"pro": [{"text": "9/minute"}]}) } else { json!({}) };
            let overrides = match (&per[..], has_overrides) {
                (["ip"], true) => json!([{"key": ["::ffff:192.0.2.1"], "quotas": []}, {"key": ["2001:db8::77"], "quotas": []}]),
                (["user"], true) => json!([{"key": ["ada"], "quotas": []}]),
                (["user", "ip"], true) => json!([{"key": ["ada", "10.0.0.1"], "quotas": []}]),
                (["client"], true) if has_tiers => json!([{"key": ["key:abc"], "tier": "pro"}, {"key": ["ip:192.0.2.1"], "tier": "pro"}]),
                _ => json!([]),
            };
            rule(&json!({"match": conditions, "per": per, "cost": cost, "mode": mode, "priority": priority, "stop": stop, "tiers": tiers, "overrides": overrides}))
        },
    )
}

fn identity() -> impl Strategy<Value = Value> {
    let sources = [
        json!({"header": "x-key", "attribute": "key"}),
        json!({"claim": "sub", "attribute": "user"}),
        json!({"attribute": "account"}),
        json!({"ip": {"trusted_proxies": ["10.0.0.0/8"], "ipv6_prefix": 48}}),
    ];
    prop::sample::subsequence(sources.to_vec(), 0..=4).prop_shuffle().prop_map(Value::from)
}

fn document() -> impl Strategy<Value = RuleSetSpec> {
    (identity(), vec(a_rule(), 0..12)).prop_map(|(identity, mut rules)| {
        for (number, rule) in rules.iter_mut().enumerate() {
            rule["name"] = json!(format!("rule-{number}"));
        }
        let jwt = json!({"header": "authorization", "verified_by": "upstream"});
        let document = json!({"version": 1, "domain": "test", "identity": identity, "jwt": jwt, "rules": rules});
        serde_json::from_value(document).expect("a document")
    })
}

/// What some customers have of their own: of the first rules, and of one that is in no set.
fn some_members() -> impl Strategy<Value = MembersSpec> {
    let quotas = || {
        let rules = ["rule-0", "rule-1", "rule-2", "rule-nobody"].map(|rule| (rule, json!([{"text": "7/minute"}])));
        prop::sample::subsequence(rules.to_vec(), 0..=3).prop_map(|rules| {
            rules.into_iter().map(|(rule, quotas)| (rule.to_owned(), quotas)).collect::<serde_json::Map<_, _>>()
        })
    };
    let name = |names: &[&'static str]| option::of(select(names.to_vec()));
    let (tiers, tenants) = (["pro", "gold"], ["acme", "unknown"]);
    let group = || (name(&tiers), quotas()).prop_map(|(tier, quotas)| json!({"tier": tier, "quotas": quotas}));
    let key = (name(&tiers), name(&tenants), quotas())
        .prop_map(|(tier, tenant, quotas)| json!({"tier": tier, "tenant": tenant, "quotas": quotas}));
    let keys = ["abc", "k1", "key:abc", "ip:192.0.2.1", "192.0.2.1"].map(digest_text);
    let tier = || quotas().prop_map(|quotas| json!({"quotas": quotas}));
    (
        prop::collection::btree_map(select(keys.to_vec()), key, 0..5),
        prop::collection::btree_map(select(vec!["acme", "other"]), group(), 0..3),
        prop::collection::btree_map(select(vec!["pro", "free"]), tier(), 0..3),
    )
        .prop_map(|(keys, tenants, tiers)| {
            let document = json!({"version": 1, "keys": keys, "tenants": tenants, "tiers": tiers});
            serde_json::from_value(document).expect("members")
        })
}

/// Facts as they come, with what they are.
fn facts() -> impl Strategy<Value = (Vec<(&'static str, &'static str)>, Facts)> {
    let one = |&(name, spellings): &(&'static str, &'static [(&'static str, &'static str)])| {
        option::weighted(0.7, select(spellings.to_vec()))
            .prop_map(move |spelling| spelling.map(|(given, spelled)| (name, given, spelled)))
    };
    let client = option::weighted(0.2, Just(("client", "key:abc", "key:abc")));
    let all: Vec<_> = SPELLINGS.iter().map(one).collect();
    (all, client).prop_map(|(facts, client)| {
        let facts = facts.into_iter().chain([client]).flatten();
        facts.map(|(name, given, spelled)| ((name, given), (name.to_owned(), spelled.to_owned()))).unzip()
    })
}

fn cases(cases: u32) -> Config {
    let failure_persistence = FileFailurePersistence::WithSource("regressions");
    Config { cases, failure_persistence: Some(Box::new(failure_persistence)), ..Config::default() }
}

proptest! {
    #![proptest_config(cases(4_000))]

    #[test]
    fn any_rules_mean_what_they_say(document in document(), spec in some_members(), requests in vec(facts(), 1..4)) {
        let set = RuleSet::new(document.clone()).expect("a rule set");
        let members = Members::new(&spec, &set).expect("members");
        for (given, spelled) in requests {
            prop_assert_eq!(found_by(&set, &members, &given), naive::applies(&document, &spec, &spelled), "{:?}", given);
        }
    }

    /// Two requests are counted together if and only if their keys say the same.
    #[test]
    fn keys_are_equal_if_their_values_are(document in document(), (one, _) in facts(), (other, _) in facts()) {
        let set = RuleSet::new(document).expect("a rule set");
        let keys = |facts: &[(&'static str, &'static str)]| {
            let matches = set.matches(&request(&set, facts), Standing::default(), None);
            let bytes: Vec<_> = matches.rules.iter().map(|found| matches.keys[found.key].1.clone()).collect();
            found(&set, facts).into_iter().zip(bytes).map(|(found, bytes)| ((found.rule, found.key), bytes)).collect::<Vec<_>>()
        };
        let others = keys(&other);
        for ((rule, key), bytes) in keys(&one) {
            for ((_, other_key), other_bytes) in others.iter().filter(|((other, _), _)| *other == rule) {
                prop_assert_eq!(key == *other_key, bytes == *other_bytes, "{} {:?} {:?}", rule, &key, other_key);
            }
        }
    }
}

//! Members: what a key has of its own, whose it is, and on which plan.

use serde_json::{Value, json};
use tidegate_core::rules::members::MembersError;
use tidegate_core::rules::{Members, RuleSet};

use super::kit::{digest, digest_text, found_by, request, set};

fn quotas(text: &str) -> Value {
    json!([{"text": text}])
}

fn rules() -> RuleSet {
    let tiers = json!({"pro": quotas("100/minute"), "free": quotas("5/minute")});
    let overrides = json!([{"key": ["fixed"], "quotas": quotas("1/day")}]);
    set(&json!([]), &[json!({"name": "calls", "per": ["api_key"], "tiers": tiers, "overrides": overrides})])
}

fn try_members(set: &RuleSet, document: &Value) -> Result<Members, MembersError> {
    let mut document = document.clone();
    if document["version"].is_null() {
        document["version"] = json!(1);
    }
    Members::new(&serde_json::from_value(document).expect("a document"), set)
}

fn plan(document: &Value, facts: &[(&str, &str)]) -> String {
    let set = rules();
    let members = try_members(&set, document).expect("members");
    found_by(&set, &members, facts).pop().expect("a rule that applies").plan
}

#[test]
fn members_have_the_same_of_every_version_of_a_rule() {
    let per_key = |name: &str| json!({"name": name, "per": ["api_key"]});
    let set = set(&json!([]), &[per_key("calls"), per_key("calls~12"), per_key("other")]);
    let document = json!({"keys": {digest_text("own"): {"quotas": {"calls": quotas("9/minute")}}}});
    let members = try_members(&set, &document).expect("members");
    let plans: Vec<_> = found_by(&set, &members, &[("api_key", "own")]).into_iter().map(|found| found.plan).collect();
    assert_eq!(plans, ["member", "member", "default"]);
}

#[test]
fn the_nearest_plan_wins() {
    let own = json!({"calls": quotas("9/minute")});
    let tenants = json!({"acme": {"tier": "pro", "quotas": own}, "plain": {"tier": "free"}});
    let keys = json!({
        digest_text("own"): {"tenant": "acme", "tier": "pro", "quotas": own},
        digest_text("fixed"): {"tenant": "acme"},
        digest_text("of-acme"): {"tenant": "acme"},
        digest_text("of-plain"): {"tenant": "plain"},
        digest_text("gold"): {"tenant": "plain", "tier": "gold"},
        digest_text("pro"): {"tier": "pro"},
    });
    let document = json!({"keys": keys, "tenants": tenants, "tiers": {"gold": {"quotas": own}, "free": {"quotas": {}}}});
    let table = [
        ("own", "member"),
        ("fixed", "override fixed"),
        ("of-acme", "tenant acme"),
        ("of-plain", "tier free"),
        ("gold", "tier gold"),
        ("pro", "tier pro"),
        ("nobody", "default"),
    ];
    for (key, expected) in table {
        assert_eq!(plan(&document, &[("api_key", key)]), expected, "{key}");
    }
}

#[test]
fn the_store_of_quotas_wins_over_what_a_request_says() {
    let document = json!({"keys": {digest_text("k"): {"tenant": "acme", "tier": "free"}}, "tenants": {"acme": {"tier": "pro"}}});
    assert_eq!(plan(&document, &[("api_key", "k"), ("tier", "pro"), ("tenant", "other")]), "tier free");
    assert_eq!(plan(&document, &[("api_key", "x"), ("tier", "pro")]), "tier pro", "who is no member is believed");
    assert_eq!(plan(&document, &[("api_key", "x"), ("tenant", "acme"), ("tier", "free")]), "tier pro", "by its tenant");
}

#[test]
fn tenant_and_tier_are_facts_that_rules_can_count_by() {
    let set = set(&json!([]), &[json!({"name": "calls", "per": ["tenant", "tier"]})]);
    let document = json!({"keys": {digest_text("k"): {"tenant": "acme", "tier": "pro"}}});
    let members = try_members(&set, &document).expect("members");
    let found = found_by(&set, &members, &[("api_key", "k")]);
    assert_eq!(found[0].key, ["tenant=acme", "tier=pro"]);
    assert!(found_by(&set, &members, &[("api_key", "other")]).is_empty());
}

#[test]
fn who_has_no_key_is_known_as_the_client() {
    let set = set(&json!([{"header": "x-key", "attribute": "key"}, {"attribute": "account"}]), &[json!({"name": "calls"})]);
    let document = json!({"keys": {digest_text("account:a1"): {"quotas": {"calls": quotas("9/minute")}}}});
    let members = try_members(&set, &document).expect("members");
    let plan = |facts: &[(&str, &str)]| found_by(&set, &members, facts).pop().expect("a rule").plan;
    assert_eq!(plan(&[("account", "a1")]), "member");
    assert_eq!(plan(&[("header:x-key", "account:a1")]), "default", "a key cannot pose as an account");
    assert_eq!(plan(&[("account", "a1"), ("api_key", "k")]), "default", "the key says who it is");
}

#[test]
fn members_with_equal_quotas_share_a_plan() {
    let set = rules();
    let member = |text: &str| json!({"quotas": {"calls": quotas(text)}});
    let keys =
        json!({digest_text("a"): member("9/minute"), digest_text("b"): member("9/minute"), digest_text("c"): member("8/minute")});
    let members = try_members(&set, &json!({"keys": keys})).expect("members");
    assert_eq!((members.plans().len(), members.len()), (2, 3));
}

#[test]
fn quotas_of_a_rule_that_is_not_there_wait_for_it() {
    let set = rules();
    let keys = json!({digest_text("a"): {"quotas": {"later": quotas("9/minute")}}});
    let members = try_members(&set, &json!({"keys": keys})).expect("members");
    assert!(members.plans().is_empty());
    let wrong = json!({digest_text("a"): {"quotas": {"later": quotas("nine")}}});
    assert!(try_members(&set, &json!({"keys": wrong})).is_err(), "but they are checked");
}

#[test]
fn quotas_that_name_no_algorithm_use_that_of_the_rule() {
    let set = set(&json!([]), &[json!({"name": "calls", "algorithm": "fixed_window"})]);
    let texts = |text: &str| {
        let document = json!({"keys": {digest_text("a"): {"quotas": {"calls": quotas(text)}}}});
        try_members(&set, &document).expect("members").plans()[0].quotas[0].to_string()
    };
    assert_eq!(texts("9/minute"), "9/minute fixed_window");
    for own in ["9/minute sliding_window_log", "9/minute burst 3", "unlimited", "3 concurrent"] {
        assert_eq!(texts(own), own);
    }
}

#[test]
fn a_block_is_known_with_the_digest() {
    let set = rules();
    let members = try_members(&set, &json!({"keys": {digest_text("a"): {"blocked": {"until_ns": 7}}}})).expect("members");
    let facts = [("api_key", "a")];
    let standing = members.join(&mut request(&set, &facts), digest);
    let (known, blocked) = standing.blocked.expect("a block");
    assert_eq!((known, blocked.until_ns, members.has_blocks()), (digest(b"a"), Some(7), true));
}

#[test]
fn a_document_that_nobody_checked_is_refused_with_its_reason() {
    let own = |quotas: Value| json!({"keys": {digest_text("a"): {"quotas": {"calls": quotas}}}});
    let table = [
        (json!({"version": 2}), "the members have version 2, this build reads version 1"),
        (json!({"keys": {"abc": {}}}), "\"abc\" is no digest of a key: 32 hexadecimal digits in lower case"),
        (json!({"keys": {digest_text("k").to_uppercase(): {}}}), "is no digest of a key"),
        (own(json!([])), "rule calls: no quota given; `unlimited` grants everything"),
        (own(quotas("many")), "rule calls: "),
        (json!({"tenants": {"acme": {"quotas": {"calls": quotas("1/fortnight")}}}}), "tenant acme, rule calls: "),
        (json!({"tiers": {"pro": {"quotas": {"calls": quotas("-1/day")}}}}), "tier pro, rule calls: "),
    ];
    for (document, expected) in table {
        let message = try_members(&rules(), &document).expect_err("a problem").to_string();
        assert!(message.contains(expected), "{document}: {message}");
    }
}

//! Check, peek, usage: what is asked, and what is answered.

use serde_json::{Value, json};

use crate::app::{START_S, Service, Setup, exact};

#[tokio::test]
async fn a_check_is_answered_with_everything_that_is_known() {
    let service = Service::new(&[json!({})]);
    let answer = service.check(&json!({"client_id": "a"})).await;
    let quota = json!({
        "name": "rule", "rule": "rule", "quota": "2/minute", "algorithm": "sliding_window", "mode": "enforce", "limit": 2,
        "remaining": 1, "allowed": true, "retry_after": 0, "reset_after": 60, "reset_at": START_S + 60,
    });
    let expected = json!({
        "allowed": true, "rule": "rule", "limit": 2, "remaining": 1, "reset_at": START_S + 60, "reset_after": 60,
        "retry_after": 0, "retry_is_hint": false, "delay": 0, "cost": 1, "lease": null, "degraded": false, "reason": null, "generation": 1,
        "rules": ["rule"], "shadowed": [], "quotas": [quota],
    });
    assert_eq!(answer, expected);
}

#[tokio::test]
async fn a_denial_is_an_answer_and_says_when_to_come_back() {
    let service = Service::new(&[json!({})]);
    for _ in 0..2 {
        assert_eq!(service.check(&json!({"client_id": "a"})).await["allowed"], true);
    }
    service.clock.advance(500_000_000);
    let answer = service.check(&json!({"client_id": "a"})).await;
    assert_eq!((&answer["allowed"], &answer["retry_after"]), (&json!(false), &json!(59.5)));
    assert_eq!(answer["reset_at"], START_S + 60, "a time is rounded up");
    assert_eq!(service.check(&json!({"client_id": "b"})).await["allowed"], true);
}

#[tokio::test]
async fn what_no_rule_limits_is_allowed_and_says_so() {
    let service = Service::new(&[json!({})]);
    let answer = service.check(&json!({})).await;
    let known = ["allowed", "rule", "limit", "remaining", "reset_at", "retry_after", "rules"].map(|name| answer[name].clone());
    assert_eq!(known, [json!(true), Value::Null, Value::Null, Value::Null, Value::Null, json!(0), json!([])]);
}

#[tokio::test]
async fn a_cost_that_never_fits_has_no_wait() {
    let service = Service::new(&[json!({})]);
    let answer = service.check(&json!({"client_id": "a", "cost": 3})).await;
    assert_eq!((&answer["allowed"], &answer["retry_after"]), (&json!(false), &Value::Null));
}

#[tokio::test]
async fn every_member_becomes_the_fact_that_rules_ask_for() {
    let table = [
        ("client", "a", json!({"client_id": "a"})),
        ("path", "/a/b", json!({"endpoint": "/a//b/?page=2#top"})),
        ("query:page", "2 3", json!({"endpoint": "/a?x=1&page=2+3#page=4"})),
        ("method", "POST", json!({"method": "post"})),
        ("host", "example.com", json!({"host": "Example.com:80"})),
        ("ip", "192.0.2.1", json!({"ip_address": "::ffff:192.0.2.1"})),
        ("tenant", "7", json!({"attributes": {"tenant": 7}})),
        ("is_bot", "true", json!({"attributes": {"is_bot": true, "other": null}})),
        ("header:x-plan", "pro", json!({"headers": {"X-Plan": "pro", "other": null}})),
    ];
    for (name, value, body) in table {
        let service = Service::new(&[json!({"match": exact(name, value), "per": []})]);
        assert_eq!(service.check(&body).await["rules"], json!(["rule"]), "{body}");
        assert_eq!(service.check(&json!({"client_id": "b"})).await["rules"], json!([]), "{name}");
    }
}

#[tokio::test]
async fn a_client_id_is_the_client_whatever_the_identity_looks_at() {
    let ip = json!({"ip": {"trusted_proxies": [], "ipv6_prefix": 64}});
    let header = json!({"header": "x-api-key", "attribute": "api_key"});
    let identities = [json!([]), json!([header]), json!([header, ip]), json!([ip, header]), json!([ip])];
    for identity in identities {
        let service = Setup { identity: identity.clone(), ..Setup::default() }.start();
        let body = json!({"client_id": "a", "ip_address": "192.0.2.1"});
        let allowed = [service.check(&body).await, service.check(&body).await, service.check(&body).await];
        assert_eq!(allowed.map(|answer| answer["allowed"].clone()), [true, true, false], "{identity}");
        let other = json!({"client_id": "b", "ip_address": "192.0.2.1"});
        assert_eq!(service.check(&other).await["allowed"], true, "{identity}");
    }
}

#[tokio::test]
async fn a_client_id_counts_with_the_header_that_names_the_same_client() {
    let header = json!({"header": "x-api-key", "attribute": "api_key"});
    let identity = json!([header, {"ip": {"trusted_proxies": [], "ipv6_prefix": 64}}]);
    let service = Setup { identity, rules: vec![json!({"per": ["api_key"]})], ..Setup::default() }.start();
    assert_eq!(service.check(&json!({"client_id": "a"})).await["remaining"], 1);
    assert_eq!(service.check(&json!({"headers": {"x-api-key": "a"}})).await["remaining"], 0);
}

#[tokio::test]
async fn a_peek_takes_nothing_and_usage_tells_what_was_taken() {
    let service = Service::new(&[json!({"quotas": "10/minute"})]);
    service.check(&json!({"client_id": "a", "cost": 3})).await;
    for _ in 0..2 {
        let peek = service.post("/api/v1/rate-limit/peek", &json!({"client_id": "a", "cost": 8})).await.json();
        assert_eq!((&peek["allowed"], &peek["remaining"]), (&json!(false), &json!(7)));
    }
    let usage = service.post("/api/v1/rate-limit/usage", &json!({"client_id": "a"})).await.json();
    let quota = json!({
        "name": "rule", "rule": "rule", "quota": "10/minute", "algorithm": "sliding_window", "mode": "enforce", "limit": 10,
        "remaining": 7, "used": 3, "reset_after": 60, "reset_at": START_S + 60,
    });
    assert_eq!(usage, json!({"degraded": false, "reason": null, "generation": 1, "rules": ["rule"], "quotas": [quota]}));
}

#[tokio::test]
async fn a_rule_in_shadow_is_told_and_decides_nothing() {
    let service = Service::new(&[json!({"mode": "shadow", "quotas": "0/minute"})]);
    let answer = service.check(&json!({"client_id": "a"})).await;
    assert_eq!((&answer["allowed"], &answer["shadowed"]), (&json!(true), &json!(["rule"])));
    assert_eq!(answer["quotas"][0]["mode"], "shadow");
}

#[tokio::test]
async fn a_store_that_is_full_is_told() {
    let service = Setup { keys_max: 1, ..Setup::default() }.start();
    service.check(&json!({"client_id": "a", "cost": 2})).await;
    let answer = service.check(&json!({"client_id": "b"})).await;
    assert_eq!((&answer["allowed"], &answer["degraded"], &answer["reason"]), (&json!(false), &json!(true), &json!("store_full")));
}

#[tokio::test]
async fn slots_are_lent_under_an_id() {
    let service = Service::new(&[json!({"quotas": "1 concurrent"})]);
    let answer = service.check(&json!({"client_id": "a"})).await;
    assert_eq!(answer["lease"].as_str().map(str::len), Some(32));
    let denied = service.check(&json!({"client_id": "a"})).await;
    assert_eq!((&denied["lease"], &denied["retry_is_hint"]), (&Value::Null, &json!(true)));
}

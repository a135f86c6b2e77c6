//! Slots that are renewed and given back, debts and resets: calls that name the request again.

use http::{Request, StatusCode};
use serde_json::{Value, json};
use tidegate_server::body::Body;

use crate::app::{Answer, Service, Setup, exact};

const LEASE: &str = "00000000000000000000000000000abc";

async fn call(service: &Service, name: &str, body: &Value) -> Answer {
    service.post(&format!("/api/v1/rate-limit/{name}"), body).await
}

/// The answer to a call that makes sense.
async fn answered(service: &Service, name: &str, body: &Value) -> Value {
    let answer = call(service, name, body).await;
    assert_eq!(answer.status, StatusCode::OK, "{:?}", answer.body);
    answer.json()
}

fn done(name: &str, is_done: bool) -> Value {
    json!({name: is_done, "degraded": false, "reason": null})
}

fn held(lease: &Value) -> Value {
    json!({"client_id": "a", "lease": lease})
}

#[tokio::test]
async fn a_slot_is_given_back_once_under_its_lease() {
    let service = Service::new(&[json!({"quotas": "1 concurrent"})]);
    let lease = service.check(&json!({"client_id": "a"})).await["lease"].clone();
    assert_eq!(service.check(&json!({"client_id": "a"})).await["allowed"], false);
    for (other, why) in [(held(&json!(LEASE)), "another lease"), (json!({"client_id": "b", "lease": lease}), "another client")] {
        assert_eq!(answered(&service, "release", &other).await, done("released", false), "{why}");
    }
    assert_eq!(answered(&service, "release", &held(&lease)).await, done("released", true));
    assert_eq!(answered(&service, "release", &held(&lease)).await, done("released", false));
    assert_eq!(service.check(&json!({"client_id": "a"})).await["allowed"], true);
}

#[tokio::test]
async fn a_check_that_is_sent_again_with_its_lease_takes_no_second_slot() {
    let service = Service::new(&[json!({"quotas": "1 concurrent"})]);
    for lease in ["abc", "ABC", LEASE] {
        let answer = service.check(&held(&json!(lease))).await;
        assert_eq!((&answer["allowed"], &answer["lease"]), (&json!(true), &json!(LEASE)), "{lease}");
    }
    let batch = answered(&service, "check/batch", &json!([held(&json!(LEASE)), {"client_id": "a"}])).await;
    assert_eq!((&batch[0]["allowed"], &batch[1]["allowed"]), (&json!(true), &json!(false)));
}

#[tokio::test]
async fn slots_are_kept_as_long_as_they_are_renewed() {
    let rules = [
        json!({"name": "all", "per": [], "quotas": "5 concurrent ttl 10s"}),
        json!({"name": "each", "quotas": "1 concurrent ttl 10s, 100/minute"}),
    ];
    let service = Service::new(&rules);
    let lease = service.check(&json!({"client_id": "a"})).await["lease"].clone();
    for _ in 0..5 {
        service.advance(8);
        assert_eq!(answered(&service, "renew", &held(&lease)).await, done("renewed", true));
    }
    assert_eq!(service.check(&json!({"client_id": "a"})).await["allowed"], false);
    service.advance(10);
    assert_eq!(answered(&service, "renew", &held(&lease)).await, done("renewed", false));
    assert_eq!(service.check(&json!({"client_id": "a"})).await["allowed"], true);
}

#[tokio::test]
async fn rules_that_lent_nothing_lose_nothing() {
    let rules = [
        json!({"name": "slots", "quotas": "5 concurrent"}),
        json!({"name": "tried", "mode": "shadow", "quotas": "0 concurrent"}),
        json!({"name": "free", "cost": {"units": 0}, "quotas": "5 concurrent"}),
        json!({"name": "other", "quotas": "5 concurrent", "match": exact("path", "/other")}),
    ];
    let service = Service::new(&rules);
    let lease = service.check(&json!({"client_id": "a"})).await["lease"].clone();
    assert_eq!(answered(&service, "renew", &held(&lease)).await, done("renewed", true));
    let elsewhere = json!({"client_id": "a", "endpoint": "/other", "lease": lease});
    assert_eq!(answered(&service, "renew", &elsewhere).await, done("renewed", false), "one rule more applies");
    assert_eq!(answered(&service, "release", &elsewhere).await, done("released", true));
}

#[tokio::test]
async fn a_debit_takes_without_asking() {
    let service = Service::new(&[json!({"quotas": "10/minute"})]);
    let answer = answered(&service, "debit", &json!({"client_id": "a", "cost": 8})).await;
    assert_eq!((&answer["remaining"], &answer["cost"], &answer["lease"]), (&json!(2), &json!(8), &Value::Null));
    answered(&service, "debit", &json!({"client_id": "a", "cost": 8})).await;
    let peek = answered(&service, "peek", &json!({"client_id": "a"})).await;
    assert_eq!((&peek["allowed"], &peek["remaining"]), (&json!(false), &json!(0)));
}

#[tokio::test]
async fn a_start_that_is_too_late_is_denied() {
    let service = Service::new(&[json!({"quotas": "1/second queue 5s"})]);
    for delay in [0, 1, 2] {
        assert_eq!(service.check(&json!({"client_id": "a", "max_delay": 2.5})).await["delay"], delay);
    }
    assert_eq!(service.check(&json!({"client_id": "a", "max_delay": 2.5})).await["allowed"], false);
    assert_eq!(service.check(&json!({"client_id": "a"})).await["delay"], 3);
}

#[tokio::test]
async fn header_fields_are_told_to_who_asks_for_them() {
    let service = Service::new(&[json!({"quotas": "1/minute"})]);
    let answer = answered(&service, "peek", &json!({"client_id": "a", "fields": true})).await;
    assert_eq!(answer["fields"].as_object().map(serde_json::Map::len), Some(2), "{answer}");
    for fields in [json!(false), Value::Null] {
        assert_eq!(service.check(&json!({"client_id": "b", "fields": fields})).await.get("fields"), None);
    }
    answered(&service, "check", &json!({"client_id": "a", "fields": true})).await;
    let denial = answered(&service, "check", &json!({"client_id": "a", "fields": true})).await;
    assert_eq!((&denial["allowed"], &denial["fields"]["Retry-After"]), (&json!(false), &json!("60")));
}

#[tokio::test]
async fn a_reset_forgets_what_the_rules_that_apply_know() {
    let service = Service::new(&[json!({})]);
    assert_eq!(answered(&service, "reset", &json!({"client_id": "a"})).await, done("reset", false));
    for client in ["a", "b"] {
        service.check(&json!({"client_id": client, "cost": 2})).await;
    }
    assert_eq!(answered(&service, "reset", &json!({"client_id": "a"})).await, done("reset", true));
    assert_eq!(service.check(&json!({"client_id": "a"})).await["remaining"], 1);
    assert_eq!(service.check(&json!({"client_id": "b"})).await["allowed"], false);
}

#[tokio::test]
async fn only_operators_reset() {
    let listener = json!({"listen": {"tcp": {"host": "0.0.0.0", "port": 0}}, "tls": null, "token": null});
    let mut with_token = listener.clone();
    with_token["token"] = json!("secret");
    let mut with_certificates = listener.clone();
    with_certificates["tls"] = json!({"cert": "cert", "key": "key", "client_ca": "ca"});
    let table = [
        (&listener, "127.0.0.1", 200),
        (&listener, "::1", 200),
        (&listener, "::ffff:127.0.0.1", 200),
        (&listener, "unix", 200),
        (&listener, "192.0.2.1", 403),
        (&with_certificates, "192.0.2.1", 200),
        (&with_token, "192.0.2.1", 200),
    ];
    for (listener, peer, status) in table {
        let service = Setup { settings: json!({"http": listener}), ..Setup::default() }.start();
        let request = Request::post("/api/v1/rate-limit/reset").header("authorization", "Bearer secret").body(Body::full("{}"));
        let answer = service.send(peer, request.expect("a request")).await;
        assert_eq!(answer.status, status, "{peer} {listener}");
    }
}

#[tokio::test]
async fn each_call_says_what_it_has_to_and_nothing_else() {
    let service = Service::new(&[json!({})]);
    let table = [
        ("check", json!({"lease": ""}), "hexadecimal"),
        ("check", json!({"lease": "0".repeat(33)}), "hexadecimal"),
        ("check", json!({"lease": "+1"}), "hexadecimal"),
        ("check", json!({"lease": 7}), "invalid type"),
        ("check", json!({"max_delay": -1}), "from 0 up"),
        ("check", json!({"max_delay": "1s"}), "invalid type"),
        ("peek", json!({"lease": LEASE}), "`lease` is not a part of this call"),
        ("peek", json!({"max_delay": 1}), "`max_delay` is not a part of this call"),
        ("usage", json!({"cost": 1}), "`cost` is not a part of this call"),
        ("debit", json!({}), "`cost` is missing"),
        ("debit", json!({"cost": 1, "lease": LEASE}), "`lease` is not a part of this call"),
        ("release", json!({}), "`lease` is missing"),
        ("release", json!({"lease": null}), "`lease` is missing"),
        ("release", json!({"lease": LEASE, "cost": 1}), "`cost` is not a part of this call"),
        ("renew", json!({"client_id": "a"}), "`lease` is missing"),
        ("reset", json!({"lease": LEASE}), "`lease` is not a part of this call"),
        ("reset", json!({"fields": true}), "`fields` is not a part of this call"),
        ("check", json!({"fields": "yes"}), "invalid type"),
    ];
    for (name, body, detail) in table {
        let answer = call(&service, name, &body).await;
        let said = answer.json()["detail"].to_string();
        assert!(answer.status == StatusCode::BAD_REQUEST && said.contains(detail), "{name} {body}: {said}");
    }
    for body in ["1e400", "-0.0", "0", "null", "1e300"] {
        let answer = service.post_text("/api/v1/rate-limit/check", &format!("{{\"max_delay\": {body}}}")).await;
        let expected = if body == "1e400" { StatusCode::BAD_REQUEST } else { StatusCode::OK };
        assert_eq!(answer.status, expected, "{body}");
    }
}

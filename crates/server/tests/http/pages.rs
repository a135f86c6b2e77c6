//! What operators read.

use http::StatusCode;
use serde_json::json;

use crate::app::{Service, Setup};

#[tokio::test]
async fn a_service_that_drains_lives_and_is_not_ready() {
    let service = Service::new(&[json!({})]);
    assert_eq!(service.ask("GET", "/readyz", &[]).await.json(), json!({"status": "ready", "generation": 1, "reasons": []}));
    service.app.begin_drain();
    let ready = service.ask("GET", "/readyz", &[]).await;
    assert_eq!((ready.status, &ready.json()["status"]), (StatusCode::SERVICE_UNAVAILABLE, &json!("draining")));
    assert_eq!(service.ask("GET", "/healthz", &[]).await.status, StatusCode::OK);
    assert_eq!(service.check(&json!({"client_id": "a"})).await["allowed"], true, "it still decides");
}

#[tokio::test]
async fn rules_that_are_not_in_force_are_a_reason_and_details_are_for_those_who_may_ask() {
    let http = json!({"listen": {"tcp": {"host": "127.0.0.1", "port": 0}}, "tls": null, "token": "let-me-in"});
    let service = Setup { settings: json!({"http": http}), ..Setup::default() }.start();
    service.app.note_reload(Some("rules.yaml:3: no such key"));
    let stranger = service.ask("GET", "/readyz", &[]).await;
    assert_eq!((stranger.status, &stranger.json()["reasons"]), (StatusCode::OK, &json!([{"code": "rules_not_reloaded"}])));
    let friend = service.ask("GET", "/readyz", &[("authorization", "Bearer let-me-in")]).await.json();
    let reasons = json!([{"code": "rules_not_reloaded", "detail": "rules.yaml:3: no such key"}]);
    assert_eq!((&friend["status"], &friend["reasons"]), (&json!("degraded"), &reasons));
    service.app.note_reload(None);
    assert_eq!(service.ask("GET", "/readyz", &[]).await.json()["status"], "ready");
}

#[tokio::test]
async fn head_is_answered_like_get_without_the_body() {
    let service = Service::new(&[json!({})]);
    for path in ["/healthz", "/openapi.json", "/metrics", "/nothing", "/api/v1/rate-limit/check"] {
        let (get, head) = (service.ask("GET", path, &[]).await, service.ask("HEAD", path, &[]).await);
        assert_eq!((head.status, head.header("content-type")), (get.status, get.header("content-type")), "{path}");
        assert!(head.body.is_empty() && head.header("content-length").is_some());
    }
}

#[tokio::test]
async fn the_pages_say_what_they_are() {
    let service = Service::new(&[json!({})]);
    for (path, kind) in
        [("/metrics", "text/plain"), ("/openapi.json", "application/json"), ("/api/v1/rate-limit/top", "application/json")]
    {
        let answer = service.ask("GET", path, &[]).await;
        assert_eq!(answer.status, StatusCode::OK);
        assert!(answer.header("content-type").is_some_and(|value| value.starts_with(kind)), "{path}");
    }
    assert_eq!(service.ask("GET", "/api/v1/rate-limit/top?n=3", &[]).await.status, StatusCode::OK);
    assert_eq!(service.ask("GET", "/api/v1/rate-limit/top?n=many", &[]).await.status, StatusCode::BAD_REQUEST);
}

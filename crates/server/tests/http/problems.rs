//! What is wrong with a request is told in one form.

use http::{Request, StatusCode};
use serde_json::json;
use tidegate_server::body::Body;

use crate::app::{Answer, Service, Setup};

const CHECK: &str = "/api/v1/rate-limit/check";

fn assert_problem(answer: &Answer, status: u16) {
    assert_eq!(answer.status.as_u16(), status, "{:?}", answer.body);
    assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    let problem = answer.json();
    assert_eq!((&problem["type"], &problem["status"]), (&json!("about:blank"), &json!(status)));
    assert!(problem["title"].is_string() && problem["detail"].is_string());
    assert!(answer.body.len() < 2_000);
}

#[tokio::test]
async fn a_body_that_is_no_check_says_where() {
    let service = Service::new(&[json!({})]);
    let answer = service.post_text(CHECK, "{\n  \"client\": 1}").await;
    assert_problem(&answer, 400);
    let problem = answer.json();
    assert_eq!((&problem["line"], &problem["column"]), (&json!(2), &json!(10)));
    assert!(
        problem["detail"].as_str().is_some_and(|detail| detail.contains("unknown field `client`, expected one of `client_id`"))
    );
}

#[tokio::test]
async fn whatever_makes_no_sense_is_a_bad_request() {
    let service = Service::new(&[json!({})]);
    let long = format!("{{\"{}\": 1}}", "x".repeat(9_000));
    let many =
        format!("{{\"attributes\": {{{}}}}}", (0..1_001).map(|name| format!("\"{name}\":1")).collect::<Vec<_>>().join(","));
    let bodies = [
        "",
        "[]",
        "null",
        "{\"cost\": -1}",
        "{\"cost\": 1.5}",
        "{\"cost\": 9007199254740993}",
        "{\"cost\": 99999999999999999999}",
        "{\"client_id\": 7}",
        "{\"client_id\": \"a\", \"client_id\": \"b\"}",
        "{\"attributes\": []}",
        "{\"attributes\": {\"a\": {}}}",
        "{\"attributes\": {\"a\": 1.5}}",
        "{\"headers\": {\"a\": 1}}",
        "{\"client_id\": \"\\ud800\"}",
        "{} {}",
        &"[".repeat(5_000),
        &long,
        &many,
    ];
    for body in bodies {
        assert_problem(&service.post_text(CHECK, body).await, 400);
    }
    let usage = service.post("/api/v1/rate-limit/usage", &json!({"cost": 1})).await;
    assert_problem(&usage, 400);
    let request = Request::post(CHECK).body(Body::full(&b"{\"client_id\": \"\xff\"}"[..])).expect("a request");
    assert_problem(&service.send("127.0.0.1", request).await, 400);
}

#[tokio::test]
async fn what_is_not_there_is_not_found_and_methods_are_named() {
    let service = Service::new(&[json!({})]);
    assert_problem(&service.ask("GET", "/", &[]).await, 404);
    assert_problem(&service.ask("GET", "/api/v1/rate-limit/check/batch/", &[]).await, 404);
    for (method, path, allowed) in [("GET", CHECK, "POST"), ("PUT", "/healthz", "GET, HEAD"), ("POST", "/metrics", "GET, HEAD")] {
        let answer = service.ask(method, path, &[]).await;
        assert_problem(&answer, 405);
        assert_eq!(answer.header("allow"), Some(allowed));
    }
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused() {
    let service = Service::new(&[json!({})]);
    assert_problem(&service.post_text(CHECK, &" ".repeat(10_001)).await, 413);
    // One that does not say how long it is, and goes on and on.
    let (sender, receiver) = tokio::sync::mpsc::channel(100);
    for _ in 0..50 {
        sender.try_send(vec![b' '; 1_000].into()).expect("room");
    }
    let request = Request::post(CHECK).body(Body::stream(receiver)).expect("a request");
    assert_problem(&service.send("127.0.0.1", request).await, 413);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_come_is_not_waited_for() {
    let service = Service::new(&[json!({})]);
    let (sender, receiver) = tokio::sync::mpsc::channel(1);
    let request = Request::post(CHECK).body(Body::stream(receiver)).expect("a request");
    assert_problem(&service.send("127.0.0.1", request).await, 408);
    drop(sender);
}

#[tokio::test]
async fn a_body_in_pieces_is_read_as_one() {
    let service = Service::new(&[json!({})]);
    let (sender, receiver) = tokio::sync::mpsc::channel(10);
    for piece in ["{\"client", "_id\":", " \"a\"}"] {
        sender.try_send(piece.into()).expect("room");
    }
    drop(sender);
    let answer = service.send("127.0.0.1", Request::post(CHECK).body(Body::stream(receiver)).expect("a request")).await;
    assert_eq!((answer.status, &answer.json()["remaining"]), (StatusCode::OK, &json!(1)));
}

#[tokio::test]
async fn what_says_it_is_no_json_is_refused() {
    let service = Service::new(&[json!({})]);
    let send = |kind: &'static str| {
        let request = Request::post(CHECK).header("content-type", kind).body(Body::full("{}")).expect("a request");
        service.send("127.0.0.1", request)
    };
    assert_problem(&send("application/x-www-form-urlencoded").await, 415);
    assert_problem(&send("text/plain").await, 415);
    for kind in ["application/json; charset=utf-8", "Application/JSON", "application/vnd.api+json"] {
        assert_eq!(send(kind).await.status, StatusCode::OK, "{kind}");
    }
    let request = Request::post(CHECK).body(Body::full("{}")).expect("a request");
    assert_eq!(service.send("127.0.0.1", request).await.status, StatusCode::OK, "it says nothing");
}

#[tokio::test]
async fn a_token_is_asked_for_everywhere_but_for_health() {
    let http = json!({"listen": {"tcp": {"host": "127.0.0.1", "port": 0}}, "tls": null, "token": "let-me-in"});
    let service = Setup { settings: json!({"http": http}), ..Setup::default() }.start();
    for path in [CHECK, "/json", "/metrics", "/openapi.json", "/api/v1/rate-limit/top", "/nothing"] {
        for headers in [&[][..], &[("authorization", "Bearer let-me-inn")], &[("authorization", "Basic let-me-in")]] {
            let answer = service.ask("GET", path, headers).await;
            assert_problem(&answer, 401);
            assert!(answer.header("www-authenticate").is_some_and(|value| value.starts_with("Bearer")));
            assert!(!answer.body.windows(9).any(|bytes| bytes == b"let-me-in"));
        }
    }
    for path in ["/healthz", "/readyz"] {
        assert_eq!(service.ask("GET", path, &[]).await.status, StatusCode::OK);
    }
    let forward_auth = "/api/v1/rate-limit/forward-auth";
    assert_problem(&service.ask("GET", forward_auth, &[]).await, 403);
    for header in [("authorization", "bearer let-me-in"), ("x-tidegate-token", "let-me-in")] {
        assert_eq!(service.ask("GET", "/openapi.json", &[header]).await.status, StatusCode::OK);
        assert_eq!(service.ask("GET", forward_auth, &[header]).await.status, StatusCode::OK);
    }
}

//! Any request to the port of HTTP: it gets a defined answer that can be read, and nothing that a client sends is our failure.
//!
//! The first byte of the input chooses the call. The rest is its body or, for a gateway, header values, one a line.

#![no_main]

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request};
use http_body::Body as _;
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use tidegate_engine::engine::{Engine, OnStoreError};
use tidegate_server::app::{App, Peer};
use tidegate_server::body::Body;
use tidegate_store::clock::{Clock, ManualClock};
use tidegate_store::memory::MemoryStore;
use tokio::runtime::{Builder, Runtime};

const FORWARD_AUTH: &str = "/api/v1/rate-limit/forward-auth";
const CALLS: [&str; 6] = [
    "/api/v1/rate-limit/check",
    "/api/v1/rate-limit/peek",
    "/api/v1/rate-limit/usage",
    "/api/v1/rate-limit/check/batch",
    "/json",
    FORWARD_AUTH,
];
const HEADERS: [&str; 8] = [
    "x-forwarded-for",
    "x-forwarded-uri",
    "x-forwarded-method",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-api-key",
    "authorization",
    "traceparent",
];

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Builder::new_current_thread().enable_time().build().expect("a runtime"));

/// Rules of every kind, and few keys, so that the store is full at times.
static APP: LazyLock<Arc<App>> = LazyLock::new(|| {
    let rules: tidegate_core::rules::RuleSetSpec = serde_json::from_str(include_str!("../rules.json")).expect("a document");
    let store = Arc::new(MemoryStore::new(Clock::Manual(ManualClock::new(1_200_000_000_000)), 100));
    let engine = Engine::new(rules, store, [7; 16], OnStoreError::Deny).expect("rules that can be loaded");
    let settings = json!({
        "http": null, "grpc": null, "workers": 1, "reuse_port": false,
        "limits": {
            "connections": 1, "head_bytes": 1000, "body_bytes": 4000, "streams": 1, "batch": 10,
            "read_timeout": 1, "idle_timeout": 1, "connection_age": 0,
        },
        "headers": {"standard": true, "retry_after": true, "x_ratelimit": "draft03"},
        "rls": {"headers": "all", "metadata": "all", "shadow_mode": false, "quota_mode": false},
        "trusted_gateways": [], "deny_status": 429, "top_size": 10, "top_keys": "masked", "otlp": null,
    });
    Arc::new(App::new(Arc::new(engine), serde_json::from_value(settings).expect("settings")))
});

fuzz_target!(|input: &[u8]| {
    let Some((choice, rest)) = input.split_first() else { return };
    let path = CALLS[usize::from(*choice) % CALLS.len()];
    let Some(request) = (if path == FORWARD_AUTH { forwarded(rest) } else { Some(posted(path, rest)) }) else { return };
    let (status, headers, body) = RUNTIME.block_on(ask(request));
    let read: Option<Value> = (!body.is_empty()).then(|| serde_json::from_slice(&body).expect("JSON"));
    match (path, status, read) {
        (FORWARD_AUTH, 200, None) => assert!(headers.contains_key("x-ratelimit-decision")),
        (FORWARD_AUTH, 429, Some(problem)) => assert!(problem["status"] == 429 && body.len() < 1_024),
        ("/json", 200 | 429 | 503, Some(answer)) => assert!(answer["statuses"].is_array()),
        (_, 200, Some(answer)) => assert_answered(path, &answer),
        (_, 400 | 413, Some(problem)) => assert!(problem["status"] == status && problem["detail"].is_string()),
        (path, status, read) => panic!("{path} is answered with {status} {read:?}"),
    }
});

fn assert_answered(path: &str, answer: &Value) {
    let decisions = answer.as_array().map_or(std::slice::from_ref(answer), Vec::as_slice);
    for decision in decisions {
        let is_problem = path.ends_with("batch") && decision["status"] == 400;
        assert!(is_problem || decision["quotas"].is_array());
        assert!(decision["allowed"] != false || decision["retry_after"] != 0, "what is denied has to wait");
    }
}

fn posted(path: &str, body: &[u8]) -> Request<Body> {
    Request::post(path).body(Body::full(body.to_vec())).expect("a request")
}

/// A sub-request with such headers; `None` if they are none.
fn forwarded(values: &[u8]) -> Option<Request<Body>> {
    let mut request = Request::get(FORWARD_AUTH);
    for (name, value) in HEADERS.into_iter().zip(values.split(|byte| *byte == b'\n')) {
        request = request.header(name, HeaderValue::from_bytes(value).ok()?);
    }
    request.body(Body::empty()).ok()
}

async fn ask(request: Request<Body>) -> (u16, HeaderMap, Bytes) {
    let response = tidegate_server::http::serve(Arc::clone(&APP), Peer { address: None }, request).await;
    let (head, mut body) = response.into_parts();
    let mut bytes = Vec::new();
    while let Some(Ok(frame)) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        bytes.extend_from_slice(&frame.into_data().expect("data"));
    }
    (head.status.as_u16(), head.headers, bytes.into())
}

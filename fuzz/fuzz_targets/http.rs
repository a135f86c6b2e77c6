//! Any request to the port of HTTP: it gets a defined answer that can be read, and nothing that a client sends is our failure.
//!
//! The first byte of the input chooses the call. The rest is its body or, for a gateway, header values, one a line; or all the bytes of a connection, for
//! the short way of checks.

#![no_main]

mod service;

use std::sync::{Arc, LazyLock};

use http::{HeaderValue, Request};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use tidegate_server::app::{App, Peer};
use tidegate_server::body::Body;
use tidegate_server::server::{Handler, Http, Shortcut};

use service::{Answer, wait};

const FORWARD_AUTH: &str = "/api/v1/rate-limit/forward-auth";
const BYTES: &str = "bytes";
const CALLS: [&str; 11] = [
    "/api/v1/rate-limit/check",
    "/api/v1/rate-limit/peek",
    "/api/v1/rate-limit/usage",
    "/api/v1/rate-limit/check/batch",
    "/json",
    FORWARD_AUTH,
    "/api/v1/rate-limit/debit",
    "/api/v1/rate-limit/release",
    "/api/v1/rate-limit/renew",
    "/api/v1/rate-limit/reset",
    BYTES,
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

/// Rules of every kind.
static APP: LazyLock<Arc<App>> =
    LazyLock::new(|| service::app(serde_json::from_str(include_str!("../rules.json")).expect("a document")));

fuzz_target!(|input: &[u8]| {
    let Some((choice, rest)) = input.split_first() else { return };
    let path = CALLS[usize::from(*choice) % CALLS.len()];
    let request = match path {
        BYTES => return assert_shortcut(rest),
        FORWARD_AUTH => forwarded(rest),
        path => Request::post(path).body(Body::full(rest.to_vec())).ok(),
    };
    let Some(request) = request else { return };
    let Answer { status, headers, body, .. } = wait(tidegate_server::http::serve(Arc::clone(&APP), Peer { address: None }, request));
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
    let name = path.rsplit('/').next().unwrap_or_default();
    if let Some((_, done)) = [("release", "released"), ("renew", "renewed"), ("reset", "reset")].iter().find(|(call, _)| *call == name) {
        return assert!(answer[done].is_boolean() && answer["degraded"] == false);
    }
    let decisions = answer.as_array().map_or(std::slice::from_ref(answer), Vec::as_slice);
    for decision in decisions {
        let is_problem = path.ends_with("batch") && decision["status"] == 400;
        assert!(is_problem || decision["quotas"].is_array());
        assert!(decision["allowed"] != false || decision["retry_after"] != 0, "what is denied has to wait");
    }
}

/// What is answered on the short way is a whole answer to a whole request.
fn assert_shortcut(bytes: &[u8]) {
    let Shortcut::Answered { taken, answer } = Http::shortcut(&APP, Peer { address: None }, bytes) else { return };
    assert!(taken <= bytes.len());
    let text = std::str::from_utf8(&answer).expect("text");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.ends_with(&format!("\r\ncontent-length: {}", body.len())));
    assert_answered("check", &serde_json::from_str(body).expect("JSON"));
}

/// A sub-request with such headers; `None` if they are none.
fn forwarded(values: &[u8]) -> Option<Request<Body>> {
    let mut request = Request::get(FORWARD_AUTH);
    for (name, value) in HEADERS.into_iter().zip(values.split(|byte| *byte == b'\n')) {
        request = request.header(name, HeaderValue::from_bytes(value).ok()?);
    }
    request.body(Body::empty()).ok()
}

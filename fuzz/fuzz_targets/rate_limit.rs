//! Any message to `ShouldRateLimit`: it is read as the generated types read it, and gets a defined answer, never the code UNKNOWN.

#![no_main]

mod service;

use std::sync::{Arc, LazyLock};

use bytes::{BufMut, Bytes, BytesMut};
use http::{Request, Version};
use libfuzzer_sys::fuzz_target;
use prost::Message;
use serde_json::json;
use tidegate_server::app::{App, Peer};
use tidegate_server::body::Body;
use tidegate_server::grpc::proto::{RateLimitRequest, RateLimitResponse};
use tidegate_server::grpc::question::{Question, Refusal};

use service::{Answer, wait};

const PATH: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// Rules in the domain `r`, a tree in the domain `f`.
static APP: LazyLock<Arc<App>> = LazyLock::new(|| {
    let rule = json!({
        "name": "rule", "per": ["u"], "quotas": [{"text": "9/minute"}], "cost": {"attribute": "size", "default": 1, "max": 100},
        "mode": "enforce", "rollout": 10_000, "priority": 0, "stop": false, "headers": true,
    });
    let limit = json!({
        "unlimited": false, "quotas": [{"text": "5/minute fixed_window max_debt 4503599627370496"}], "requests_per_unit": 5,
        "unit": "MINUTE",
    });
    let nodes = json!([{"key": "k", "limit": limit}, {"key": "w", "value": "a*", "limit": limit, "descriptors": [{"key": "k", "limit": limit}]}]);
    let rules = json!({"version": 1, "domain": "r", "rules": [rule], "domains": [{"domain": "f", "descriptors": nodes}]});
    let rules: tidegate_core::rules::RuleSetSpec = serde_json::from_value(rules).expect("a document");
    service::app(rules)
});

fuzz_target!(|message: &[u8]| {
    let descriptors = assert_read_alike(message);
    let (code, body) = ask(framed(message));
    match descriptors {
        Some(descriptors) if code == "0" => {
            let response = RateLimitResponse::decode(&body[5..]).expect("an answer");
            assert_eq!(response.statuses.len(), descriptors);
            assert!(matches!(response.overall_code, 1 | 2) && response.statuses.iter().all(|status| matches!(status.code, 1 | 2)));
        }
        _ => assert_eq!(code, "3", "only the caller can be wrong"),
    }
});

/// How many descriptors there are; `None` if the message is refused.
fn assert_read_alike(message: &[u8]) -> Option<usize> {
    let generated = RateLimitRequest::decode(message);
    let read = Question::read(message);
    match (&read, &generated) {
        (Ok(question), Ok(generated)) => assert_eq!(Ok(question), Question::of(generated).as_ref()),
        (Err(Refusal::Malformed), generated) => assert!(generated.is_err()),
        (Err(_), _) => {}
        (Ok(question), Err(error)) => panic!("{question:?} was read where {error} is the answer"),
    }
    read.ok().map(|question| question.asks().len())
}

fn framed(message: &[u8]) -> Bytes {
    let mut bytes = BytesMut::with_capacity(5 + message.len());
    bytes.put_u8(0);
    bytes.put_u32(u32::try_from(message.len()).expect("a short message"));
    bytes.extend_from_slice(message);
    bytes.freeze()
}

fn ask(body: Bytes) -> (String, Vec<u8>) {
    let request = Request::post(PATH).version(Version::HTTP_2).header("content-type", "application/grpc");
    let request = request.body(Body::full(body)).expect("a request");
    let Answer { headers, trailers, body, .. } = wait(tidegate_server::grpc::serve(Arc::clone(&APP), Peer { address: None }, request));
    let code = trailers.get("grpc-status").or(headers.get("grpc-status")).expect("a code");
    (code.to_str().expect("a text").to_owned(), body)
}

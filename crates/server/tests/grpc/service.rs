//! An app on a memory store with a clock that is moved by hand, and short ways to ask it.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderMap, Request, StatusCode, Version};
use http_body::Body as _;
use prost::Message;
use serde_json::{Value, json};
use tidegate_core::rules::RuleSetSpec;
use tidegate_engine::engine::{Engine, OnStoreError};
use tidegate_server::app::{App, Peer};
use tidegate_server::body::Body;
use tidegate_server::grpc::proto::rate_limit_descriptor::Entry;
use tidegate_server::grpc::proto::rate_limit_response::DescriptorStatus;
use tidegate_server::grpc::proto::{RateLimitDescriptor, RateLimitRequest, RateLimitResponse};
use tidegate_store::clock::{Clock, ManualClock};
use tidegate_store::memory::MemoryStore;

use crate::setup::settings;

/// The beginning of a minute.
pub(crate) const START_S: u64 = 1_200;

pub(crate) const SHOULD_RATE_LIMIT: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// The answers.
pub(crate) const OK: i32 = 1;
pub(crate) const OVER_LIMIT: i32 = 2;

pub(crate) struct Service {
    pub(crate) app: Arc<App>,
    pub(crate) clock: ManualClock,
}

/// What a service is made of; the rest is as usual.
pub(crate) struct Setup {
    pub(crate) rules: Vec<Value>,
    pub(crate) domains: Value,
    pub(crate) settings: Value,
    pub(crate) keys_max: usize,
    pub(crate) on_store_error: OnStoreError,
}

impl Default for Setup {
    fn default() -> Self {
        let on_store_error = OnStoreError::Deny;
        Self { rules: vec![], domains: json!([]), settings: json!({}), keys_max: 1_000, on_store_error }
    }
}

impl Setup {
    pub(crate) fn start(self) -> Service {
        let clock = ManualClock::new(START_S * 1_000_000_000);
        let store = MemoryStore::new(Clock::Manual(clock.clone()), self.keys_max);
        let rules: Vec<Value> = self.rules.iter().map(rule).collect();
        let document = json!({"version": 1, "domain": "rules", "rules": rules, "domains": self.domains});
        let document: RuleSetSpec = serde_json::from_value(document).expect("a document");
        let engine =
            Engine::new(document, Arc::new(store), *b"a secret of keys", self.on_store_error).expect("rules that can be loaded");
        let settings = settings(&[&self.settings]);
        Service { app: Arc::new(App::new(Arc::new(engine), settings)), clock }
    }
}

/// A response, taken in as a whole.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) trailers: HeaderMap,
}

impl Answer {
    /// The code of gRPC, wherever it stands.
    pub(crate) fn code(&self) -> &str {
        let status = self.headers.get("grpc-status").or_else(|| self.trailers.get("grpc-status"));
        status.expect("a code").to_str().expect("a text")
    }

    pub(crate) fn message(&self) -> &str {
        self.headers.get("grpc-message").map_or("", |message| message.to_str().expect("a text"))
    }

    /// The one message of an answer.
    pub(crate) fn decoded<M: Message + Default>(&self) -> M {
        assert_eq!((self.status, self.code()), (StatusCode::OK, "0"), "{}", self.message());
        assert_eq!(self.body[0], 0, "it is not compressed");
        assert_eq!(u32::from_be_bytes(self.body[1..5].try_into().expect("four bytes")) as usize, self.body.len() - 5);
        M::decode(&self.body[5..]).expect("the message that was asked for")
    }
}

impl Service {
    /// Sends a request and waits for the end of the response.
    pub(crate) async fn send(&self, request: Request<Body>) -> Answer {
        let (head, mut body) = self.begin(request).await;
        let (mut bytes, mut trailers) = (Vec::new(), HeaderMap::new());
        while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
            let frame = frame.expect("a body of ours");
            match frame.into_data() {
                Ok(data) => bytes.extend_from_slice(&data),
                Err(frame) => trailers = frame.into_trailers().expect("what is no data"),
            }
        }
        Answer { status: head.status, headers: head.headers, body: bytes.into(), trailers }
    }

    /// Sends a request; the body of the response comes one by one.
    pub(crate) async fn begin(&self, request: Request<Body>) -> (http::response::Parts, Body) {
        let response = tidegate_server::grpc::serve(Arc::clone(&self.app), Peer { address: None }, request).await;
        response.into_parts()
    }

    /// Makes a call.
    pub(crate) async fn call(&self, path: &str, message: &impl Message) -> Answer {
        self.send(request(path, Body::full(framed(message)))).await
    }

    pub(crate) async fn ask(&self, question: &RateLimitRequest) -> RateLimitResponse {
        self.call(SHOULD_RATE_LIMIT, question).await.decoded()
    }

    /// Asks for descriptors that are short texts: `key=value, key=value`.
    pub(crate) async fn check(&self, domain: &str, descriptors: &[&str]) -> RateLimitResponse {
        self.ask(&question(domain, descriptors)).await
    }

    /// How a question is refused.
    pub(crate) async fn refusal(&self, question: &RateLimitRequest) -> (String, String) {
        let answer = self.call(SHOULD_RATE_LIMIT, question).await;
        (answer.code().to_owned(), answer.message().to_owned())
    }
}

pub(crate) fn request(path: &str, body: Body) -> Request<Body> {
    let request = Request::post(path).version(Version::HTTP_2).header("content-type", "application/grpc");
    request.body(body).expect("a request")
}

pub(crate) fn framed(message: &impl Message) -> Bytes {
    let mut bytes = BytesMut::new();
    bytes.put_u8(0);
    bytes.put_u32(u32::try_from(message.encoded_len()).expect("a short message"));
    message.encode(&mut bytes).expect("room");
    bytes.freeze()
}

pub(crate) fn question(domain: &str, descriptors: &[&str]) -> RateLimitRequest {
    let descriptors = descriptors.iter().map(|text| descriptor(text)).collect();
    RateLimitRequest { domain: domain.to_owned(), descriptors, hits_addend: 0 }
}

pub(crate) fn descriptor(text: &str) -> RateLimitDescriptor {
    let entry = |(key, value): (&str, &str)| Entry { key: key.to_owned(), value: value.to_owned() };
    let entries = text.split(", ").filter_map(|entry| entry.split_once('=')).map(entry).collect();
    RateLimitDescriptor { entries, ..Default::default() }
}

/// A status as a short text: `OK 4 of 5/2 in 60 name`.
pub(crate) fn written(status: &DescriptorStatus) -> String {
    let code = ["UNKNOWN", "OK", "OVER"][usize::try_from(status.code).expect("a code")];
    let limit = match &status.current_limit {
        Some(limit) => format!("of {}/{} {}", limit.requests_per_unit, limit.unit, limit.name),
        None => "without a limit".to_owned(),
    };
    let reset = status.duration_until_reset.map_or_else(String::new, |duration| format!(" in {}", duration.seconds));
    format!("{code} {} {}{reset}", status.limit_remaining, limit.trim_end())
}

pub(crate) fn all_written(response: &RateLimitResponse) -> Vec<String> {
    response.statuses.iter().map(written).collect()
}

/// One domain, `files`, with limits as the reference service counts them.
pub(crate) fn domain(nodes: &[Value]) -> Value {
    json!([{"domain": "files", "descriptors": nodes}])
}

/// A node whose limit has what is given.
pub(crate) fn node(key: &str, requests_per_minute: u32, given: &Value) -> Value {
    let text = format!("{requests_per_minute}/minute fixed_window max_debt 4503599627370496");
    let mut limit =
        json!({"unlimited": false, "quotas": [{"text": text}], "requests_per_unit": requests_per_minute, "unit": "MINUTE"});
    for (name, value) in given.as_object().expect("a mapping") {
        limit[name] = value.clone();
    }
    json!({"key": key, "limit": limit})
}

fn rule(given: &Value) -> Value {
    let mut rule = json!({
        "name": "rule", "per": [], "quotas": "10/minute fixed_window", "cost": {"units": 1}, "mode": "enforce",
        "rollout": 10_000, "priority": 0, "stop": false, "headers": true,
    });
    for (name, value) in given.as_object().expect("a mapping") {
        rule[name] = value.clone();
    }
    if let Some(text) = rule["quotas"].as_str() {
        rule["quotas"] = text.split(", ").map(|text| json!({"text": text})).collect();
    }
    rule
}

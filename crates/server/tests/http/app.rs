//! An app on a memory store with a clock that is moved by hand, and short ways to ask it.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use serde_json::{Value, json};
use tidegate_engine::engine::{Engine, OnStoreError};
use tidegate_server::app::{App, Peer};
use tidegate_server::body::Body;
use tidegate_store::clock::{Clock, ManualClock};
use tidegate_store::memory::MemoryStore;

use crate::setup::settings;

/// 2026-01-01T00:00:00Z.
pub(crate) const START_S: u64 = 1_767_225_600;
const SECOND: u64 = 1_000_000_000;

pub(crate) struct Service {
    pub(crate) app: Arc<App>,
    pub(crate) clock: ManualClock,
}

/// What a service is made of; the rest is as usual.
pub(crate) struct Setup {
    pub(crate) identity: Value,
    pub(crate) rules: Vec<Value>,
    /// Trees of descriptors.
    pub(crate) domains: Value,
    pub(crate) settings: Value,
    pub(crate) keys_max: usize,
    pub(crate) on_store_error: OnStoreError,
}

impl Default for Setup {
    fn default() -> Self {
        let on_store_error = OnStoreError::Deny;
        let (identity, domains, settings) = (json!([]), json!([]), json!({}));
        Self { identity, rules: vec![json!({})], domains, settings, keys_max: 1_000, on_store_error }
    }
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{:?}: {error}", self.body))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().expect("a text"))
    }
}

impl Setup {
    pub(crate) fn start(self) -> Service {
        let clock = ManualClock::new(START_S * SECOND);
        let store = MemoryStore::new(Clock::Manual(clock.clone()), self.keys_max);
        let rules: Vec<Value> = self.rules.iter().map(rule).collect();
        let document =
            json!({"version": 1, "domain": "test", "identity": self.identity, "rules": rules, "domains": self.domains});
        let document: tidegate_core::rules::RuleSetSpec = serde_json::from_value(document).expect("a document");
        let engine =
            Engine::new(document, Arc::new(store), *b"a secret of keys", self.on_store_error).expect("rules that can be loaded");
        let usual = json!({"limits.body_bytes": 10_000, "trusted_gateways": ["127.0.0.0/8", "10.0.0.0/8"]});
        let settings = settings(&[&usual, &self.settings]);
        Service { app: Arc::new(App::new(Arc::new(engine), settings)), clock }
    }
}

impl Service {
    /// A service with these rules.
    pub(crate) fn new(rules: &[Value]) -> Self {
        Setup { rules: rules.to_vec(), ..Setup::default() }.start()
    }

    pub(crate) fn advance(&self, seconds: i64) {
        self.clock.advance(seconds * 1_000_000_000);
    }

    pub(crate) async fn send(&self, peer: &str, request: Request<Body>) -> Answer {
        let peer =
            Peer { address: Some(peer).filter(|peer| *peer != "unix").map(|peer| peer.parse::<IpAddr>().expect("an address")) };
        let response = tidegate_server::http::serve(Arc::clone(&self.app), peer, request).await;
        let (head, body) = response.into_parts();
        Answer { status: head.status, headers: head.headers, body: whole(body).await }
    }

    /// Asks with a JSON document.
    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.post_text(path, &body.to_string()).await
    }

    /// Asks with any text.
    pub(crate) async fn post_text(&self, path: &str, body: &str) -> Answer {
        let request = Request::post(path).header("content-type", "application/json").body(Body::full(body.to_owned()));
        self.send("127.0.0.1", request.expect("a request")).await
    }

    pub(crate) async fn check(&self, body: &Value) -> Value {
        let answer = self.post("/api/v1/rate-limit/check", body).await;
        assert_eq!(answer.status, StatusCode::OK, "{:?}", answer.body);
        answer.json()
    }

    /// Asks without a body.
    pub(crate) async fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
        self.ask_from("127.0.0.1", method, path, headers).await
    }

    pub(crate) async fn ask_from(&self, peer: &str, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.send(peer, request.body(Body::empty()).expect("a request")).await
    }
}

async fn whole(mut body: Body) -> Bytes {
    let mut bytes = Vec::new();
    while let Some(frame) =
        std::future::poll_fn(|context| http_body::Body::poll_frame(std::pin::Pin::new(&mut body), context)).await
    {
        let frame = frame.expect("a body of ours");
        bytes.extend_from_slice(&frame.into_data().unwrap_or_default());
    }
    bytes.into()
}

/// A rule with what is given and else the least that it needs. Quotas are one text.
fn rule(given: &Value) -> Value {
    let mut rule = json!({
        "name": "rule", "per": ["client"], "quotas": "2/minute", "cost": {"units": 1}, "mode": "enforce", "rollout": 10_000,
        "priority": 0, "stop": false, "headers": true,
    });
    for (key, value) in given.as_object().expect("a mapping") {
        rule[key] = value.clone();
    }
    rule["quotas"] = json!([{"text": rule["quotas"]}]);
    rule
}

/// A condition on one exact text.
pub(crate) fn exact(attribute: &str, text: &str) -> Value {
    json!([{"attribute": attribute, "test": {"exact": [text]}, "not": false, "ignore_case": false}])
}

//! A service that is asked without sockets: what goes in are requests, what comes out are whole answers.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, LazyLock};

use http::{HeaderMap, Response};
use http_body::Body as _;
use serde_json::{Value, json};
use tidegate_core::rules::RuleSetSpec;
use tidegate_engine::engine::{Engine, OnStoreError};
use tidegate_server::app::App;
use tidegate_server::body::Body;
use tidegate_store::clock::{Clock, ManualClock};
use tidegate_store::memory::MemoryStore;
use tokio::runtime::{Builder, Runtime};

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Builder::new_current_thread().enable_time().build().expect("a runtime"));

/// A service that decides by these rules and tells all that can be told. It has room for few keys, so that its store is full at times.
pub fn app(rules: RuleSetSpec) -> Arc<App> {
    let store = Arc::new(MemoryStore::new(Clock::Manual(ManualClock::new(1_200_000_000_000)), 100));
    let engine = Engine::new(rules, store, [7; 16], OnStoreError::Deny).expect("rules that can be loaded");
    let mut settings: Value = serde_json::from_str(include_str!("../../../testdata/service/settings.json")).expect("JSON");
    settings["limits"]["body_bytes"] = json!(4_000);
    settings["headers"]["x_ratelimit"] = json!("draft03");
    settings["rls"] = json!({"headers": "all", "metadata": "all", "shadow_mode": false, "quota_mode": false});
    Arc::new(App::new(Arc::new(engine), serde_json::from_value(settings).expect("settings")))
}

/// A whole answer.
#[allow(dead_code, reason = "each fuzzer looks at what it needs")]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub trailers: HeaderMap,
    pub body: Vec<u8>,
}

/// Waits for an answer.
pub fn wait(answer: impl Future<Output = Response<Body>>) -> Answer {
    RUNTIME.block_on(async {
        let (head, mut body) = answer.await.into_parts();
        let mut answer = Answer { status: head.status.as_u16(), headers: head.headers, trailers: HeaderMap::new(), body: Vec::new() };
        while let Some(Ok(frame)) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
            match frame.into_data() {
                Ok(bytes) => answer.body.extend_from_slice(&bytes),
                Err(frame) => answer.trailers = frame.into_trailers().unwrap_or_default(),
            }
        }
        answer
    })
}

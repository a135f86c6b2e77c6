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

#[allow(dead_code, reason = "each fuzzer takes what it needs")]
pub static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Builder::new_current_thread().enable_time().build().expect("a runtime"));

/// A service that decides by these rules and tells all that can be told. It has room for few keys, so that its store is full at times.
#[allow(dead_code, reason = "each fuzzer takes what it needs")]
pub fn app(rules: RuleSetSpec) -> Arc<App> {
    made(rules, Value::Null)
}

/// A proxy without rules, with routes of every kind to servers that are never asked.
#[allow(dead_code, reason = "each fuzzer takes what it needs")]
pub fn proxy() -> Arc<App> {
    let group = |name: &str, host: &str| {
        json!({
            "name": name, "servers": [{"url": "http://127.0.0.1:1", "weight": 1}], "protocol": "http1", "host": host,
            "tls_ca": null, "tls_cert": null, "tls_key": null, "connect_timeout": 5, "first_byte_timeout": 20, "idle_timeout": 20,
            "total_timeout": 0, "keep_alive": 5, "idle_connections": 8, "retries": 2, "balance": "round_robin", "resolve_interval": 0,
            "check": null, "ejection": {"after": 0, "time": 1, "time_max": 1, "counts_5xx": false}, "panic_below": 0.0, "slow_start": 0,
        })
    };
    let route = |hosts: &[&str], path: &str, upstream: &str, rewrite: Option<&str>| json!({"hosts": hosts, "path": path, "upstream": upstream, "rewrite": rewrite});
    let settings = json!({
        "listener": {"listen": {"tcp": {"host": "127.0.0.1", "port": 0}}, "tls": null, "token": null},
        "upstreams": [group("kept", "preserve"), group("replaced", "rewrite")],
        "routes": [
            route(&[], "/", "kept", None),
            route(&["a", "*.b"], "/", "replaced", None),
            route(&[], "/c/d", "kept", Some("/")),
            route(&[], "/e", "replaced", Some("/f/g")),
        ],
        "trusted_proxies": [], "proxy_protocol": [], "cost_header": null, "request_id": null, "access_log": null,
    });
    made(serde_json::from_value(json!({"version": 1, "domain": "fuzz", "rules": []})).expect("rules"), settings)
}

fn made(rules: RuleSetSpec, proxy: Value) -> Arc<App> {
    let store = Arc::new(MemoryStore::new(Clock::Manual(ManualClock::new(1_200_000_000_000)), 100));
    let engine = Engine::new(rules, store, [7; 16], OnStoreError::Deny).expect("rules that can be loaded");
    let mut settings: Value = serde_json::from_str(include_str!("../../../testdata/service/settings.json")).expect("JSON");
    settings["limits"]["body_bytes"] = json!(4_000);
    settings["headers"]["x_ratelimit"] = json!("draft03");
    settings["rls"] = json!({"headers": "all", "metadata": "all", "shadow_mode": false, "quota_mode": false});
    settings["proxy"] = proxy;
    Arc::new(App::new(Arc::new(engine), serde_json::from_value(settings).expect("settings")))
}

/// A whole answer.
#[allow(dead_code, reason = "each fuzzer takes what it needs")]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub trailers: HeaderMap,
    pub body: Vec<u8>,
}

/// Waits for an answer.
#[allow(dead_code, reason = "each fuzzer takes what it needs")]
pub fn wait(answer: impl Future<Output = Response<Body>>) -> Answer {
    RUNTIME.block_on(async {
        let (head, mut body) = answer.await.into_parts();
        let mut answer =
            Answer { status: head.status.as_u16(), headers: head.headers, trailers: HeaderMap::new(), body: Vec::new() };
        while let Some(Ok(frame)) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
            match frame.into_data() {
                Ok(bytes) => answer.body.extend_from_slice(&bytes),
                Err(frame) => answer.trailers = frame.into_trailers().unwrap_or_default(),
            }
        }
        answer
    })
}

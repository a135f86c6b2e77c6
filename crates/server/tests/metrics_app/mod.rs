//! An app without ports, on a memory store with a clock that is moved by hand, and short ways to ask it.

#[path = "../setup/mod.rs"]
mod setup;

use std::sync::Arc;

use http::HeaderMap;
use serde_json::{Value, json};
use tidegate_core::descriptors::Entry;
use tidegate_core::descriptors::answer::Modes;
use tidegate_core::rules::{Request, RuleSetSpec};
use tidegate_engine::decision::Origin;
use tidegate_engine::engine::{CheckOptions, DescriptorAsk, DescriptorsRequest, Engine, Facts, OnStoreError, OwnLimit};
use tidegate_server::app::App;
use tidegate_server::metrics::{AnswerCode, Protocol};
use tidegate_store::clock::{Clock, ManualClock};
use tidegate_store::memory::MemoryStore;

/// Facts by name.
pub(crate) struct Named<'t>(pub(crate) &'t [(&'t str, &'t str)]);

impl Facts for Named<'_> {
    fn state<'a>(&'a self, request: &mut Request<'a>) {
        for (name, value) in self.0 {
            request.set(name, *value);
        }
    }
}

/// An app with these rules, as a document that `rule` and `domain` make.
pub(crate) fn app(document: &Value, changes: &Value) -> App {
    let store = MemoryStore::new(Clock::Manual(ManualClock::new(1_200_000_000_000)), 100_000);
    let engine = Engine::new(spec(document), Arc::new(store), *b"a secret of keys", OnStoreError::Deny).expect("rules");
    let usual = json!({"workers": 2, "top_size": 100, "top_keys": "masked"});
    App::new(Arc::new(engine), setup::settings(&[&usual, changes]))
}

/// A document of rules and domains.
#[allow(dead_code, reason = "each test program uses what it needs")]
pub(crate) fn spec(document: &Value) -> RuleSetSpec {
    let mut all = json!({"version": 1, "domain": "test"});
    for (key, value) in document.as_object().expect("a mapping") {
        all[key] = value.clone();
    }
    serde_json::from_value(all).expect("a document")
}

/// A rule for each client.
pub(crate) fn rule(name: &str, quota: &str, mode: &str) -> Value {
    json!({
        "name": name, "per": ["client"], "quotas": [{"text": quota}], "cost": {"units": 1}, "mode": mode,
        "rollout": 10_000, "priority": 0, "stop": false, "headers": true,
    })
}

/// Domain `d` with a limit for key `k`.
#[allow(dead_code, reason = "each test program uses what it needs")]
pub(crate) fn domain(requests_per_unit: u32) -> Value {
    let text = format!("{requests_per_unit}/minute fixed_window max_debt 4503599627370496");
    let limit = json!({"unlimited": false, "quotas": [{"text": text}], "requests_per_unit": requests_per_unit, "unit": "MINUTE"});
    json!({"domain": "d", "atomic": false, "descriptors": [{"key": "k", "limit": limit}]})
}

/// Asks as a handler does; whether it was allowed.
#[allow(dead_code, reason = "each test program uses what it needs")]
pub(crate) fn ask(app: &App, origin: Origin, facts: &[(&str, &str)]) -> bool {
    let facts = Named(facts);
    let mut watch = app.watch(Protocol::Http, &HeaderMap::new());
    let decision = app.engine.begin_request(origin, &facts, None, CheckOptions::default()).expect("facts").wait();
    watch.decided(app, &facts, &decision);
    watch.answered(app, AnswerCode::Http(200));
    decision.is_allowed()
}

/// Asks with one descriptor, as a handler does.
#[allow(dead_code, reason = "each test program uses what it needs")]
pub(crate) fn describe(app: &App, domain: &str, key: &str, value: &str, limit: Option<OwnLimit>) {
    describe_hits(app, domain, key, value, limit, None);
}

/// The same with so many hits.
#[allow(dead_code, reason = "each test program uses what it needs")]
pub(crate) fn describe_hits(app: &App, domain: &str, key: &str, value: &str, limit: Option<OwnLimit>, hits: Option<u64>) {
    let entries = [Entry { key, value }];
    let ask = DescriptorAsk { entries: &entries, limit, hits, is_negative: false };
    let request = DescriptorsRequest { domain, descriptors: &[ask], hits_addend: 0, modes: Modes::default() };
    let mut watch = app.watch(Protocol::Grpc, &HeaderMap::new());
    let decision = app.engine.check_descriptors(&request).expect("descriptors");
    watch.described(app, &request, &decision);
    watch.answered(app, AnswerCode::Grpc(0));
}

/// The value of one sample of the page.
#[allow(dead_code, reason = "each test program uses what it needs")]
pub(crate) fn sample(app: &App, name: &str) -> Option<String> {
    let page = app.metrics.render(app);
    page.lines().find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(' ')?.to_owned()))
}

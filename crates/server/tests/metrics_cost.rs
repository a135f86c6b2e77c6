//! What watching a request costs. Prints, and asserts nothing: `cargo test --release -p tidegate-server --test metrics_cost -- --ignored --nocapture`.

mod metrics_app;

use std::hint::black_box;

use http::HeaderMap;
use metrics_app::{Named, app, rule};
use serde_json::json;
use tidegate_engine::engine::CheckOptions;
use tidegate_server::metrics::{AnswerCode, Protocol};
use tidegate_store::clock::monotonic_ns;

const TIMES: u64 = 1_000_000;

/// Prints how long one of many takes, in nanoseconds.
#[allow(clippy::print_stdout, reason = "that is what it is for")]
fn measure(what: &str, mut act: impl FnMut(u64)) {
    let begun = monotonic_ns();
    (0..TIMES).for_each(&mut act);
    println!("{what}: {} ns", (monotonic_ns() - begun) / TIMES);
}

#[test]
#[ignore = "it measures"]
fn how_long_watching_takes() {
    let app =
        app(&json!({"rules": [rule("wide", "1000000/second", "enforce"), rule("narrow", "0/hour", "enforce")]}), &json!({}));
    let headers = HeaderMap::new();
    let facts = Named(&[("client", "a")]);
    let decide = || app.engine.check_request(&facts, None, CheckOptions::default()).expect("facts");
    let denied = decide();
    measure("a decision", |_| drop(black_box(decide())));
    measure("watching and answering", |_| {
        app.watch(Protocol::Http, black_box(&headers)).answered(&app, AnswerCode::Http(200));
    });
    measure("counting a decision of two rules", |_| app.metrics.count(&app.engine, Protocol::Http, black_box(&denied)));
    measure("ranking the same key", |_| app.top.note(&app.engine, &facts, black_box(&denied)));
    measure("deciding on another key each time", |number| {
        let name = number.to_string();
        let facts = [("client", name.as_str())];
        drop(black_box(app.engine.check_request(&Named(&facts), None, CheckOptions::default()).expect("facts")));
    });
    measure("the same, ranked", |number| {
        let name = number.to_string();
        let facts = [("client", name.as_str())];
        let decision = app.engine.check_request(&Named(&facts), None, CheckOptions::default()).expect("facts");
        app.top.note(&app.engine, &Named(&facts), &decision);
    });
}

#[test]
#[ignore = "it measures"]
fn how_long_events_take() {
    let told = |buffer: u64, per_second: u64| {
        json!({"events": {
            "buffer": buffer, "share": 1.0, "per_second": per_second, "recordings_per_second": 20, "attributes": ["method", "path"],
        }})
    };
    let facts = Named(&[("client", "a-client-with-a-name"), ("method", "GET"), ("path", "/api/v1/orders")]);
    for (what, quota, settings) in [
        ("allowed, no events", "1000000000/second", json!({})),
        ("allowed, of which 1,000 a second are told", "1000000000/second", told(2_000_000, 1_000)),
        ("denied, no events", "0/hour", json!({})),
        ("denied, all told", "0/hour", told(2_000_000, 1_000)),
        ("denied, the ring is full", "0/hour", told(1, 1_000)),
    ] {
        let app = app(&json!({"rules": [rule("only", quota, "enforce")]}), &settings);
        measure(what, |_| {
            let mut watch = app.watch(Protocol::Http, &HeaderMap::new());
            let decision = app.engine.check_request(&facts, None, CheckOptions::default()).expect("facts");
            watch.decided(&app, &facts, &decision);
            watch.answered(&app, AnswerCode::Http(200));
        });
    }
}

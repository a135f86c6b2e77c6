//! What is counted, for the control plane: everything that it adds up, draws and stores, as one JSON document.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use tidegate_store::clock::SystemClock;
use tidegate_store::store::StoreError;

use super::histogram::{BOUNDS_US, Total};
use super::rules::Outcome;
use super::{Metrics, Protocol};
use crate::app::App;
use crate::vitals::{Store, store};

/// How many of the keys denied most are told.
const TOP: usize = 10;

/// Everything, since the start.
#[derive(Debug, Serialize)]
struct Snapshot {
    at: f64,
    started_at: f64,
    generation: u64,
    is_draining: bool,
    /// Why the rules on disk are not in force.
    problem: Option<String>,
    /// Requests that were decided on.
    allowed: u64,
    denied: u64,
    unmatched: u64,
    /// By rule, also by those that are not in force any more: numbers never go back.
    rules: BTreeMap<String, [u64; Outcome::ALL.len()]>,
    latency: Latency,
    degraded: BTreeMap<&'static str, u64>,
    store: Store,
    top: Value,
    events: Option<Events>,
}

/// How long decisions took.
#[derive(Debug, Serialize)]
struct Latency {
    bounds_us: &'static [u64],
    /// How many were at most as long as each bound.
    up_to: Vec<u64>,
    count: u64,
    sum_ns: u64,
}

#[derive(Debug, Serialize)]
struct Events {
    taken: u64,
    dropped: u64,
    waiting: usize,
}

impl Metrics {
    /// What is counted, as JSON.
    pub fn snapshot(&self, app: &App) -> String {
        let sum = |count: &dyn Fn(Protocol) -> u64| Protocol::ALL.into_iter().map(count).sum();
        let durations = Protocol::ALL.into_iter().flat_map(|protocol| self.shards.durations(protocol));
        let Total { bounds_us, up_to, count, sum_ns } = Total::of(&BOUNDS_US, durations);
        let kinds = StoreError::KINDS.into_iter().enumerate();
        let snapshot = Snapshot {
            at: seconds(SystemClock::new().now()),
            started_at: seconds(self.started_ns),
            generation: app.engine.plan().generation(),
            is_draining: app.is_draining(),
            problem: app.reload_problem().or_else(|| app.control_problem()).map(|problem| problem.to_string()),
            allowed: sum(&|protocol| self.shards.checks(protocol, Outcome::Allowed)),
            denied: sum(&|protocol| self.shards.checks(protocol, Outcome::Denied)),
            unmatched: sum(&|protocol| self.shards.unmatched(protocol)),
            rules: self.rules.all_totals(&app.engine),
            latency: Latency { bounds_us, up_to, count, sum_ns },
            degraded: kinds
                .map(|(kind, reason)| (reason, self.shards.degraded(kind).0))
                .filter(|&(_, count)| count > 0)
                .collect(),
            store: store(app),
            top: serde_json::from_str(&app.top.to_json(TOP)).unwrap_or_default(),
            events: app.events.as_ref().map(|events| Events {
                taken: events.taken(),
                dropped: events.dropped(),
                waiting: events.waiting(),
            }),
        };
        serde_json::to_string(&snapshot).unwrap_or_default()
    }
}

#[allow(clippy::cast_precision_loss, reason = "milliseconds since the epoch are exact for a long time")]
fn seconds(ns: u64) -> f64 {
    (ns / 1_000_000) as f64 / 1_000.0
}

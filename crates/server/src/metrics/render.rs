//! Everything that is on the page.

use tidegate_engine::remote::{Health, ShardHealth};
use tidegate_store::store::StoreError;

use super::histogram::{BOUNDS_US, Total};
use super::page::{Kind, Page, seconds};
use super::rules::Outcome;
use super::{AnswerCode, ConnectionFailure, Metrics, Port, Protocol, process, upstreams};
use crate::app::App;

use std::sync::atomic::Ordering;

/// States of a breaker, as numbers that grow with what is wrong.
const CIRCUIT: [&str; 4] = ["closed", "ramp", "half_open", "open"];

impl Metrics {
    /// The page that Prometheus reads.
    pub fn render(&self, app: &App) -> String {
        let mut page = Page::default();
        self.write_decisions(&mut page, app);
        self.write_requests(&mut page);
        self.write_degraded(&mut page);
        write_store(&mut page, app);
        self.write_rules(&mut page, app);
        self.write_connections(&mut page);
        if let Some(proxy) = &app.proxy {
            upstreams::write(&mut page, proxy);
        }
        if let Some(tracer) = &app.tracer {
            let help = "Spans that were not sent, because the collector was slow or away.";
            page.single("ratelimit_spans_dropped_total", Kind::Counter, help, tracer.dropped());
        }
        if let Some(log) = &app.access_log {
            let (written, dropped) = log.counts();
            let help = "Lines of the access log that were written.";
            page.single("ratelimit_access_log_lines_total", Kind::Counter, help, written);
            let help = "Lines of the access log that were dropped, because the disk was slow or full.";
            page.single("ratelimit_access_log_dropped_total", Kind::Counter, help, dropped);
        }
        if let Some(events) = &app.events {
            let help = "Decisions that the control plane took to tell of them.";
            page.single("ratelimit_events_total", Kind::Counter, help, events.taken());
            let help = "Decisions that it was not told of, because it did not take them in time.";
            page.single("ratelimit_events_dropped_total", Kind::Counter, help, events.dropped());
        }
        page.begin("ratelimit_build_info", Kind::Gauge, "Always 1; the version is in the label.");
        page.sample("ratelimit_build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1);
        process::write(&mut page, self.started_ns);
        page.finish()
    }

    fn write_decisions(&self, page: &mut Page, app: &App) {
        let name = "ratelimit_decisions_total";
        page.begin(name, Kind::Counter, "What each rule said to the requests that it applies to.");
        for (rule, totals) in self.rules.totals(&app.engine) {
            for outcome in Outcome::ALL {
                page.sample(name, &[("rule", &rule), ("outcome", outcome.as_str())], totals[outcome as usize]);
            }
        }
        let name = "ratelimit_checks_total";
        page.begin(name, Kind::Counter, "Requests that were decided on.");
        for protocol in Protocol::ALL {
            for outcome in [Outcome::Allowed, Outcome::Denied] {
                let labels = [("protocol", protocol.as_str()), ("outcome", outcome.as_str())];
                page.sample(name, &labels, self.shards.checks(protocol, outcome));
            }
        }
        let name = "ratelimit_unmatched_total";
        page.begin(name, Kind::Counter, "Requests that no rule applies to; they are allowed.");
        for protocol in Protocol::ALL {
            page.sample(name, &[("protocol", protocol.as_str())], self.shards.unmatched(protocol));
        }
    }

    fn write_requests(&self, page: &mut Page) {
        let name = "ratelimit_check_duration_seconds";
        page.begin(name, Kind::Histogram, "From a request that was read to its answer, for requests that were decided on.");
        for protocol in Protocol::ALL {
            let total = Total::of(&BOUNDS_US, self.shards.durations(protocol));
            write_histogram(page, name, ("protocol", protocol.as_str()), &total);
        }
        let name = "ratelimit_requests_total";
        page.begin(name, Kind::Counter, "Answered requests of every kind, by the status of HTTP or gRPC.");
        for protocol in Protocol::ALL {
            for (code, count) in self.shards.answers(protocol) {
                let code = match code {
                    AnswerCode::Http(status) => status.to_string(),
                    AnswerCode::Grpc(status) => status.to_string(),
                };
                page.sample(name, &[("protocol", protocol.as_str()), ("code", &code)], count);
            }
        }
    }

    fn write_degraded(&self, page: &mut Page) {
        let kinds = || StoreError::KINDS.into_iter().enumerate();
        let name = "ratelimit_degraded_total";
        page.begin(name, Kind::Counter, "Decisions that were taken without the store.");
        for (kind, reason) in kinds() {
            page.sample(name, &[("reason", reason)], self.shards.degraded(kind).0);
        }
        let name = "ratelimit_failopen_total";
        page.begin(name, Kind::Counter, "Requests that were allowed without the store, a part of the degraded decisions.");
        for (kind, reason) in kinds() {
            page.sample(name, &[("reason", reason)], self.shards.degraded(kind).1);
        }
    }

    fn write_rules(&self, page: &mut Page, app: &App) {
        let generation = app.engine.plan().generation();
        let help = "The generation of rules in force: 1 at first, one more with each load.";
        page.single("ratelimit_rule_generation", Kind::Gauge, help, generation);
        let name = "ratelimit_rule_reloads_total";
        page.begin(name, Kind::Counter, "Attempts to load other rules.");
        for (result, reloads) in ["failed", "loaded"].into_iter().zip(&self.reloads) {
            page.sample(name, &[("result", result)], reloads.load(Ordering::Relaxed));
        }
        let is_stale = u8::from(app.reload_problem().is_some());
        let help = "1 while the rules on disk are wrong, and older ones are in force.";
        page.single("ratelimit_rules_stale", Kind::Gauge, help, is_stale);
        let is_stale = u8::from(app.tls_problem().is_some());
        let help = "1 while the certificates on disk are wrong, and older ones are in force.";
        page.single("ratelimit_certificates_stale", Kind::Gauge, help, is_stale);
        let help = "1 while the service is about to stop.";
        page.single("ratelimit_draining", Kind::Gauge, help, u8::from(app.is_draining()));
    }

    fn write_connections(&self, page: &mut Page) {
        let counts = || Port::ALL.into_iter().map(|port| (("port", port.as_str()), &self.ports[port as usize]));
        let name = "ratelimit_connections";
        page.begin(name, Kind::Gauge, "Open connections.");
        for (port, counters) in counts() {
            // What was closed is read first: it never exceeds what was opened.
            let closed = counters.closed.load(Ordering::Acquire);
            page.sample(name, &[port], counters.opened.load(Ordering::Acquire).saturating_sub(closed));
        }
        let name = "ratelimit_connections_total";
        page.begin(name, Kind::Counter, "Connections that were accepted.");
        for (port, counters) in counts() {
            page.sample(name, &[port], counters.opened.load(Ordering::Relaxed));
        }
        let name = "ratelimit_connection_failures_total";
        page.begin(name, Kind::Counter, "Connections that did not end in peace.");
        for (port, counters) in counts() {
            for failure in ConnectionFailure::ALL {
                let failed = counters.failed[failure as usize].load(Ordering::Relaxed);
                page.sample(name, &[port, ("reason", failure.as_str())], failed);
            }
        }
    }
}

fn write_store(page: &mut Page, app: &App) {
    let stats = app.engine.stats().store;
    match app.engine.remote() {
        None => {
            page.single("ratelimit_keys", Kind::Gauge, "Counters that are held in this process.", stats.keys);
            page.single("ratelimit_keys_bytes", Kind::Gauge, "Memory that is held for them.", stats.bytes);
            let help = "Counters that were dropped because everything was there again.";
            page.single("ratelimit_keys_expired_total", Kind::Counter, help, stats.expired);
            let help = "Counters that were dropped early to make room.";
            page.single("ratelimit_keys_evicted_total", Kind::Counter, help, stats.evicted);
        }
        Some(remote) => write_remote(page, &remote.health()),
    }
}

fn write_remote(page: &mut Page, health: &Health) {
    let shards = || health.shards.iter();
    let name = "ratelimit_circuit_state";
    page.begin(name, Kind::Gauge, "The breaker of a server: 0 closed, 1 ramp, 2 half open, 3 open.");
    for shard in shards() {
        page.sample(name, &[("shard", &shard.name)], circuit(shard));
    }
    let name = "ratelimit_shard_up";
    page.begin(name, Kind::Gauge, "1 while a server is connected.");
    for shard in shards() {
        page.sample(name, &[("shard", &shard.name)], u8::from(shard.is_up));
    }
    let name = "ratelimit_redis_errors_total";
    page.begin(name, Kind::Counter, "Calls to the shared store that failed.");
    for (kind, failed) in StoreError::KINDS.into_iter().zip(health.failed_by) {
        page.sample(name, &[("kind", kind)], failed);
    }
    let help = "Calls to the shared store that were answered.";
    page.single("ratelimit_store_round_trips_total", Kind::Counter, help, health.answered);
    let help = "How long those took together.";
    page.single("ratelimit_store_round_trips_seconds_total", Kind::Counter, help, seconds(health.answered_ns));
    let help = "Answers of the shared store that came after the budget was over.";
    page.single("ratelimit_store_late_total", Kind::Counter, help, health.late);
    let help = "Requests that were denied without asking, because the same was denied a moment ago.";
    page.single("ratelimit_deny_cache_hits_total", Kind::Counter, help, health.denials);
    let help = "Requests that were admitted without asking, by units that had been taken in advance.";
    page.single("ratelimit_advance_admissions_total", Kind::Counter, help, health.advanced);
    let help = "Units that were taken in advance and not spent yet.";
    page.single("ratelimit_advance_units", Kind::Gauge, help, health.advance_units);
    page.single("ratelimit_instances", Kind::Gauge, "Instances that share the store.", health.instances);
    let help = "Counters whose admissions the shared store was not told yet.";
    page.single("ratelimit_owed_keys", Kind::Gauge, help, health.owed);
    let help = "How far the clock of the shared store is ahead.";
    let sign = if health.skew_ns < 0 { "-" } else { "" };
    let skew = format!("{sign}{}", seconds(health.skew_ns.unsigned_abs()));
    page.single("ratelimit_store_clock_skew_seconds", Kind::Gauge, help, skew);
}

fn circuit(shard: &ShardHealth) -> usize {
    CIRCUIT.iter().position(|&state| state == shard.breaker).unwrap_or_default()
}

/// The samples of a histogram.
pub(super) fn write_histogram(page: &mut Page, name: &str, label: (&str, &str), total: &Total) {
    let bucket = format!("{name}_bucket");
    for (&bound_us, up_to) in total.bounds_us.iter().zip(&total.up_to) {
        page.sample(&bucket, &[label, ("le", &decimal(bound_us))], up_to);
    }
    page.sample(&bucket, &[label, ("le", "+Inf")], total.count);
    page.sample(&format!("{name}_sum"), &[label], seconds(total.sum_ns));
    page.sample(&format!("{name}_count"), &[label], total.count);
}

/// Microseconds as seconds, without zeros at the end, as Prometheus itself writes bounds.
fn decimal(us: u64) -> String {
    let text = format!("{}.{:06}", us / 1_000_000, us % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

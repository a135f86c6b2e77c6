//! Counters and histograms, and the page that Prometheus reads.
//!
//! | module | holds |
//! | --- | --- |
//! | [`shard`] | what one worker counts, so that workers do not wait for each other's cache lines |
//! | [`histogram`] | durations in buckets |
//! | [`rules`] | what each rule said, found by its number |
//! | [`page`] | the text format |
//! | [`render`] | everything that is on the page |
//! | [`snapshot`] | the same for the control plane, as JSON |
//! | [`upstreams`] | what is known of servers behind the proxy |
//! | [`process`] | what the operating system says about the process |
//!
//! Labels are rules in force, protocols, outcomes, reasons and servers: what clients send never becomes one, so the page cannot grow by what they do.

mod histogram;
mod page;
mod process;
mod render;
mod rules;
mod shard;
mod snapshot;
mod upstreams;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidegate_core::descriptors::answer::Code;
use tidegate_engine::decision::{Decision, Origin};
use tidegate_engine::engine::{DescriptorAsk, DescriptorsDecision, DescriptorsRequest, Engine};
use tidegate_store::clock::SystemClock;
use tidegate_store::store::StoreError;

pub(crate) use self::histogram::{Histogram, Total};
use self::rules::{Outcome, RuleCounters};
use self::shard::Shards;
pub(crate) use self::shard::{shards_of, thread_number};
use crate::settings::Settings;

/// The type of the page.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Everything that is counted.
#[derive(Debug)]
pub struct Metrics {
    shards: Shards,
    rules: RuleCounters,
    reloads: [AtomicU64; 2],
    ports: [PortCounters; Port::ALL.len()],
    /// When the service began, in nanoseconds since the epoch.
    started_ns: u64,
}

/// How a request came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// Over gRPC.
    Grpc,
    /// As a check over HTTP.
    Http,
    /// As a sub-request of a gateway.
    ForwardAuth,
    /// As descriptors in JSON.
    Json,
    /// To be forwarded.
    Proxy,
}

impl Protocol {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Grpc, Self::Http, Self::ForwardAuth, Self::Json, Self::Proxy];

    /// The word for metrics and traces.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Grpc => "grpc",
            Self::Http => "http",
            Self::ForwardAuth => "forward_auth",
            Self::Json => "json",
            Self::Proxy => "proxy",
        }
    }
}

/// What a request was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerCode {
    /// A status of HTTP.
    Http(u16),
    /// A status of gRPC.
    Grpc(u8),
}

/// Where connections come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Port {
    /// The port of HTTP.
    Http,
    /// The port of gRPC.
    Grpc,
    /// The port of the proxy.
    Proxy,
}

impl Port {
    pub(crate) const ALL: [Self; 3] = [Self::Http, Self::Grpc, Self::Proxy];

    /// The word for metrics and messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Grpc => "grpc",
            Self::Proxy => "proxy",
        }
    }
}

/// Why a connection ended that was not ended in peace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionFailure {
    /// The handshake of TLS failed.
    Tls,
    /// The client was too slow.
    Timeout,
    /// The client did not speak the protocol, or went beyond a limit.
    Protocol,
    /// The connection broke.
    Io,
    /// A handler panicked; the request was told so.
    Panic,
    /// It could not be accepted, for want of file descriptors or the like.
    Accept,
}

impl ConnectionFailure {
    const ALL: [Self; 6] = [Self::Tls, Self::Timeout, Self::Protocol, Self::Io, Self::Panic, Self::Accept];

    /// The word for metrics and messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tls => "tls",
            Self::Timeout => "timeout",
            Self::Protocol => "protocol",
            Self::Io => "io",
            Self::Panic => "panic",
            Self::Accept => "accept",
        }
    }
}

/// The connections of one port. They come and go rarely, so workers share the counters.
#[derive(Debug, Default)]
struct PortCounters {
    opened: AtomicU64,
    closed: AtomicU64,
    failed: [AtomicU64; ConnectionFailure::ALL.len()],
}

impl Metrics {
    /// Nothing was counted yet.
    pub fn new(settings: &Settings) -> Self {
        Self {
            shards: Shards::new(settings.workers),
            rules: RuleCounters::new(settings.workers),
            reloads: Default::default(),
            ports: Default::default(),
            started_ns: SystemClock::new().now(),
        }
    }

    /// Counts a decision by rules. One that took nothing, a peek, is no decision on a request.
    pub fn count(&self, engine: &Engine, protocol: Protocol, decision: &Decision) {
        if decision.origin() != Origin::Check {
            return;
        }
        let is_matched = self.rules.count(engine, decision);
        self.count_check(protocol, decision.is_allowed(), is_matched, decision.degraded());
    }

    /// Counts a decision by descriptors. Those that only ask or give back are none.
    pub fn count_descriptors(
        &self,
        engine: &Engine,
        protocol: Protocol,
        request: &DescriptorsRequest<'_>,
        decision: &DescriptorsDecision,
    ) {
        if !request.descriptors.iter().any(is_charge) {
            return;
        }
        let is_matched = self.rules.count_descriptors(engine, request, decision);
        self.count_check(protocol, decision.answer.overall == Code::Ok, is_matched, decision.degraded.as_ref());
    }

    /// Counts an answer to a request, whether it needed a decision or not.
    pub fn count_answer(&self, protocol: Protocol, code: AnswerCode) {
        self.shards.here().count_answer(protocol, code);
    }

    /// Notes how long a request with a decision took, from the moment at which it was read.
    pub fn observe(&self, protocol: Protocol, took: Duration) {
        self.shards.here().observe(protocol, took);
    }

    /// Counts an attempt to load other rules.
    pub fn count_reload(&self, is_in_force: bool) {
        self.reloads[usize::from(is_in_force)].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a connection that came.
    pub fn opened(&self, port: Port) {
        self.ports[port as usize].opened.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a connection that ended, however it did.
    pub fn closed(&self, port: Port) {
        self.ports[port as usize].closed.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts what went wrong with a connection.
    pub fn failed(&self, port: Port, failure: ConnectionFailure) {
        self.ports[port as usize].failed[failure as usize].fetch_add(1, Ordering::Relaxed);
    }

    fn count_check(&self, protocol: Protocol, is_allowed: bool, is_matched: bool, degraded: Option<&StoreError>) {
        let outcome = if is_allowed { Outcome::Allowed } else { Outcome::Denied };
        let shard = self.shards.here();
        shard.count_check(protocol, outcome);
        if !is_matched {
            shard.count_unmatched(protocol);
        }
        if let Some(error) = degraded {
            shard.count_degraded(error.kind_index(), is_allowed);
        }
    }
}

/// Whether a descriptor counts hits, and does not only ask or give back.
pub(crate) fn is_charge(ask: &DescriptorAsk<'_>) -> bool {
    !ask.is_negative && ask.hits != Some(0)
}

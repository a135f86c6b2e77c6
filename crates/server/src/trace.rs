//! Traces by OTLP: one span for each request that is sampled.
//!
//! | module | holds |
//! | --- | --- |
//! | [`context`] | the caller's trace |
//! | [`message`] | what a collector is sent |
//! | [`export`] | the thread that sends it |
//!
//! Written by hand on prost and hyper, which are here anyway: OpenTelemetry's crates would bring a second HTTP client, and do what a service with one
//! kind of span has no use for. A span waits in a queue that never grows beyond [`QUEUE_MAX`]; what does not fit is dropped and counted, so that a
//! collector that is slow or away costs requests nothing.

mod context;
mod export;
mod message;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::HeaderMap;
use tidegate_core::descriptors::answer::Code;
use tidegate_engine::decision::Decision;
use tidegate_engine::engine::{DescriptorsDecision, random_id};
use tidegate_store::clock::SystemClock;
use tokio::sync::mpsc::{Sender, channel};

use crate::chance::{random, threshold};
use crate::metrics::{AnswerCode, Protocol};
use crate::settings::Otlp;

/// The most spans that wait to be sent.
const QUEUE_MAX: usize = 4_096;

/// Makes spans, and has them sent.
#[derive(Debug)]
pub struct Tracer {
    /// Requests whose random number is below this are traced.
    threshold: u64,
    clock: SystemClock,
    queue: Sender<Box<Span>>,
    dropped: Arc<AtomicU64>,
}

/// One request.
#[derive(Debug)]
pub struct Span {
    trace_id: [u8; 16],
    id: [u8; 8],
    parent: Option<[u8; 8]>,
    protocol: Protocol,
    begun_ns: u64,
    ended_ns: u64,
    code: AnswerCode,
    decided: Decided,
}

/// What was decided. If there are several decisions, as for a batch, the first that denies, or the last.
#[derive(Debug, Default)]
struct Decided {
    decisions: u32,
    is_denied: bool,
    rule: Option<Arc<str>>,
    domain: Option<Box<str>>,
    is_shadowed: bool,
    degraded: Option<&'static str>,
}

impl Tracer {
    /// Begins to send spans to a collector, on a thread of its own that ends with the tracer.
    pub fn start(otlp: &Otlp) -> Self {
        let (queue, spans) = channel(QUEUE_MAX);
        let dropped = Arc::new(AtomicU64::new(0));
        export::start(otlp.endpoint.clone(), spans, &dropped);
        Self { threshold: threshold(otlp.share), clock: SystemClock::new(), queue, dropped }
    }

    /// Spans that were not sent.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Begins a span; `None` if the request is not traced. Who has a trace decides whether it is sampled.
    pub fn begin(&self, protocol: Protocol, headers: &HeaderMap) -> Option<Box<Span>> {
        let parent = context::parent(headers);
        let is_sampled = match parent {
            Some(parent) => parent.is_sampled,
            None => self.threshold > 0 && random() <= self.threshold,
        };
        if !is_sampled {
            return None;
        }
        Some(Box::new(Span {
            trace_id: parent.map_or_else(|| random_id().max(1).to_be_bytes(), |parent| parent.trace_id),
            id: nonzero(random()).to_be_bytes(),
            parent: parent.map(|parent| parent.span_id),
            protocol,
            begun_ns: self.clock.now(),
            ended_ns: 0,
            code: AnswerCode::Http(0),
            decided: Decided::default(),
        }))
    }

    /// Ends a span.
    pub fn end(&self, mut span: Box<Span>, code: AnswerCode) {
        (span.ended_ns, span.code) = (self.clock.now(), code);
        if self.queue.try_send(span).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Span {
    /// Takes in a decision by rules.
    pub fn decided(&mut self, decision: &Decision) {
        let rule = || decision.binding().and_then(|(planned, _)| planned.rule.clone());
        let is_shadowed = !decision.shadowed().is_empty();
        let degraded = decision.degraded().map(tidegate_store::store::StoreError::kind);
        self.decided.take_in(!decision.is_allowed(), rule, is_shadowed, degraded);
    }

    /// Takes in a decision by descriptors.
    pub fn described(&mut self, domain: &str, decision: &DescriptorsDecision) {
        let answer = &decision.answer;
        let rule = || answer.statuses[answer.tightest()?].path.clone();
        let is_shadowed = answer.statuses.iter().any(|status| status.is_shadowed);
        let degraded = decision.degraded.as_ref().map(tidegate_store::store::StoreError::kind);
        self.decided.take_in(answer.overall == Code::OverLimit, rule, is_shadowed, degraded);
        // A domain that nobody configured may be anything.
        self.decided.domain = decision.is_domain_known.then(|| domain.into());
    }
}

impl Decided {
    fn take_in(
        &mut self,
        is_denied: bool,
        rule: impl FnOnce() -> Option<Arc<str>>,
        is_shadowed: bool,
        degraded: Option<&'static str>,
    ) {
        self.decisions = self.decisions.saturating_add(1);
        self.is_shadowed |= is_shadowed;
        self.degraded = self.degraded.or(degraded);
        if !self.is_denied {
            self.is_denied = is_denied;
            self.rule = rule();
        }
    }
}

fn nonzero(number: u64) -> u64 {
    number.max(1)
}

//! One request, watched from the moment at which it was read to its answer: what is counted, remembered and traced of it.

use std::time::Duration;

use http::HeaderMap;
use tidegate_core::descriptors::answer::Code;
use tidegate_engine::decision::{Decision, Origin};
use tidegate_engine::engine::{DescriptorsDecision, DescriptorsRequest, Facts};
use tidegate_store::clock::monotonic_ns;

use crate::app::App;
use crate::metrics::{AnswerCode, Protocol};
use crate::trace::Span;

/// One request that is being answered. If it is dropped before, nobody waited for the answer, and it is not counted.
#[derive(Debug)]
#[must_use = "a request that is not said to be answered is not counted"]
pub struct Watch {
    protocol: Protocol,
    begun_ns: u64,
    has_decided: bool,
    /// `None` if it is not traced.
    span: Option<Box<Span>>,
}

impl App {
    /// Begins to watch a request that was read.
    pub fn watch(&self, protocol: Protocol, headers: &HeaderMap) -> Watch {
        let span = self.tracer.as_ref().and_then(|tracer| tracer.begin(protocol, headers));
        Watch { span, ..Watch::untraced(protocol) }
    }
}

impl Watch {
    /// Begins to watch a request that was read and is not traced.
    pub(crate) fn untraced(protocol: Protocol) -> Self {
        Self { protocol, begun_ns: monotonic_ns(), has_decided: false, span: None }
    }

    /// When it was read, by the monotonic clock.
    pub(crate) fn begun_ns(&self) -> u64 {
        self.begun_ns
    }

    /// Takes in a decision by rules. `facts` are those that were asked about.
    pub fn decided(&mut self, app: &App, facts: &impl Facts, decision: &Decision) {
        // How long a server takes to answer what was allowed is another matter.
        if self.protocol == Protocol::Proxy {
            self.observe(app);
        } else {
            self.has_decided = true;
        }
        app.metrics.count(&app.engine, self.protocol, decision);
        // Who is denied because nobody can count has done nothing.
        if !decision.is_allowed() && decision.origin() == Origin::Check && !app.engine.is_by_policy(decision) {
            app.top.note(&app.engine, facts, decision);
        }
        if let Some(events) = &app.events {
            events.note(&app.engine, self.protocol, facts, decision);
        }
        if let Some(span) = &mut self.span {
            span.decided(decision);
        }
    }

    /// Takes in a decision by descriptors.
    pub fn described(&mut self, app: &App, request: &DescriptorsRequest<'_>, decision: &DescriptorsDecision) {
        self.has_decided = true;
        app.metrics.count_descriptors(&app.engine, self.protocol, request, decision);
        let is_counted = decision.degraded.is_none() || app.engine.counts_without_store();
        if decision.answer.overall == Code::OverLimit && is_counted {
            app.top.note_descriptors(request, decision);
        }
        if let Some(events) = &app.events {
            events.note_descriptors(&app.engine, self.protocol, request, decision);
        }
        if let Some(span) = &mut self.span {
            span.described(request.domain, decision);
        }
    }

    /// The request was answered.
    pub fn answered(self, app: &App, code: AnswerCode) {
        app.metrics.count_answer(self.protocol, code);
        if self.has_decided {
            self.observe(app);
        }
        if let (Some(tracer), Some(span)) = (&app.tracer, self.span) {
            tracer.end(span, code);
        }
    }

    fn observe(&self, app: &App) {
        app.metrics.observe(self.protocol, Duration::from_nanos(monotonic_ns().saturating_sub(self.begun_ns)));
    }
}

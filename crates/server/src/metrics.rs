//! Counters and histograms, and the page that Prometheus reads.

use std::time::Duration;

use tidegate_engine::decision::Decision;

use crate::settings::Settings;

/// Everything that is counted.
#[derive(Debug)]
pub struct Metrics {}

/// How a request came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// Over gRPC.
    Grpc,
    /// As a check over HTTP.
    Http,
    /// As a sub-request of a gateway.
    ForwardAuth,
}

impl Metrics {
    /// Nothing was counted yet.
    pub fn new(_settings: &Settings) -> Self {
        Self {}
    }

    /// Counts a decision by rules.
    pub fn count(&self, _protocol: Protocol, _decision: &Decision, _took: Duration) {}

    /// Counts an attempt to load other rules.
    pub fn count_reload(&self, _is_in_force: bool) {}
}

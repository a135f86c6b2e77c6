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

/// Where connections come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Port {
    /// The port of HTTP.
    Http,
    /// The port of gRPC.
    Grpc,
}

impl Port {
    /// The name in metrics and settings.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Grpc => "grpc",
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
    /// The network failed.
    Io,
    /// A handler panicked.
    Panic,
    /// The system had no room for one more.
    Accept,
}

impl Metrics {
    /// Counts a connection that came.
    pub fn opened(&self, _port: Port) {}

    /// Counts a connection that went.
    pub fn closed(&self, _port: Port) {}

    /// Counts a connection that did not end in peace.
    pub fn failed(&self, _port: Port, _failure: ConnectionFailure) {}

    /// Nothing was counted yet.
    pub fn new(_settings: &Settings) -> Self {
        Self {}
    }

    /// Counts a decision by rules.
    pub fn count(&self, _protocol: Protocol, _decision: &Decision, _took: Duration) {}

    /// Counts an attempt to load other rules.
    pub fn count_reload(&self, _is_in_force: bool) {}
}

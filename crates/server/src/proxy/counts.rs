//! What is counted of servers and their groups.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::StatusCode;

use super::dial::DialError;
use super::health::State;
use crate::metrics::{Histogram, Total};

/// Upper bounds of the buckets for how long servers take, in microseconds.
pub(crate) const BOUNDS_US: [u64; 14] = [
    1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000, 10_000_000,
    60_000_000,
];

/// What became of a request at a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It switched protocols.
    Informational,
    Success,
    Redirection,
    ClientError,
    ServerError,
    /// There was no connection. Nothing was sent.
    Unreachable,
    /// It broke off before it answered.
    Broken,
    /// It took too long to answer.
    Late,
    /// The client broke off, or took too long.
    Client,
}

impl Outcome {
    pub(crate) const ALL: [Self; 9] = [
        Self::Informational,
        Self::Success,
        Self::Redirection,
        Self::ClientError,
        Self::ServerError,
        Self::Unreachable,
        Self::Broken,
        Self::Late,
        Self::Client,
    ];

    /// The word for metrics.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Informational => "1xx",
            Self::Success => "2xx",
            Self::Redirection => "3xx",
            Self::ClientError => "4xx",
            Self::ServerError => "5xx",
            Self::Unreachable => "unreachable",
            Self::Broken => "broken",
            Self::Late => "late",
            Self::Client => "client",
        }
    }

    /// What a server did that failed, unless who tried to connect has said it.
    pub(super) const fn blame(self) -> Option<&'static str> {
        match self {
            Self::ServerError => Some("it answered with a status of 500 or more"),
            Self::Broken => Some("it broke off before it answered"),
            Self::Late => Some("it took too long to answer"),
            Self::Unreachable | Self::Informational | Self::Success | Self::Redirection | Self::ClientError | Self::Client => {
                None
            }
        }
    }

    pub(super) fn of(status: StatusCode) -> Self {
        match status.as_u16() {
            100..=199 => Self::Informational,
            200..=299 => Self::Success,
            300..=399 => Self::Redirection,
            400..=499 => Self::ClientError,
            _ => Self::ServerError,
        }
    }
}

/// What is counted of a server.
#[derive(Debug, Default)]
pub(super) struct ServerCounts {
    requests: [AtomicU64; Outcome::ALL.len()],
    connections: AtomicU64,
    /// Attempts to connect that failed, by [`DialError`].
    unconnected: [AtomicU64; DialError::ALL.len()],
    ejections: AtomicU64,
    checks: [AtomicU64; 2],
}

/// The same, read.
#[derive(Debug, Clone)]
pub(crate) struct ServerSummary {
    /// What it is called: its address, behind its name if it has one.
    pub(crate) name: String,
    pub(crate) state: State,
    /// Why it failed last, if it ever did.
    pub(crate) why: Option<Arc<str>>,
    pub(crate) in_flight: u32,
    /// By outcome.
    pub(crate) requests: [u64; Outcome::ALL.len()],
    pub(crate) connections: u64,
    /// Attempts to connect that failed, by [`DialError`].
    pub(crate) unconnected: [u64; DialError::ALL.len()],
    pub(crate) ejections: u64,
    /// Checks that failed, and those that passed.
    pub(crate) checks: [u64; 2],
}

impl ServerCounts {
    pub(super) fn request(&self, outcome: Outcome) {
        add(&self.requests[outcome as usize]);
    }

    pub(super) fn connected(&self) {
        add(&self.connections);
    }

    pub(super) fn unconnected(&self, error: DialError) {
        add(&self.unconnected[error as usize]);
    }

    pub(super) fn ejected(&self) {
        add(&self.ejections);
    }

    pub(super) fn checked(&self, is_right: bool) {
        add(&self.checks[usize::from(is_right)]);
    }

    pub(super) fn summary(&self, name: String, state: State, why: Option<Arc<str>>, in_flight: u32) -> ServerSummary {
        ServerSummary {
            name,
            state,
            why,
            in_flight,
            requests: self.requests.each_ref().map(read),
            connections: read(&self.connections),
            unconnected: self.unconnected.each_ref().map(read),
            ejections: read(&self.ejections),
            checks: self.checks.each_ref().map(read),
        }
    }
}

/// What is counted of a group.
#[derive(Debug)]
pub(super) struct GroupCounts {
    durations: Histogram,
    retries: AtomicU64,
    unresolved: AtomicU64,
}

/// The same, read.
#[derive(Debug)]
pub(crate) struct GroupSummary {
    pub(crate) name: String,
    pub(crate) durations: Total,
    pub(crate) retries: u64,
    pub(crate) unresolved: u64,
    pub(crate) servers: Vec<ServerSummary>,
}

impl GroupCounts {
    pub(super) fn new() -> Self {
        Self { durations: Histogram::new(&BOUNDS_US), retries: AtomicU64::new(0), unresolved: AtomicU64::new(0) }
    }

    pub(super) fn answered(&self, took: Duration) {
        self.durations.observe(took);
    }

    pub(super) fn retried(&self) {
        add(&self.retries);
    }

    pub(super) fn unresolved(&self) {
        add(&self.unresolved);
    }

    pub(super) fn summary(&self, name: &str, servers: Vec<ServerSummary>) -> GroupSummary {
        GroupSummary {
            name: name.to_owned(),
            durations: Total::of(&BOUNDS_US, [&self.durations]),
            retries: read(&self.retries),
            unresolved: read(&self.unresolved),
            servers,
        }
    }
}

fn add(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

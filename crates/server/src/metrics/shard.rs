//! What one worker counts, so that workers do not wait for each other's cache lines.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tidegate_store::store::StoreError;

use super::histogram::{BOUNDS_US, Histogram};
use super::rules::Outcome;
use super::{AnswerCode, Protocol};

/// More workers than these share.
const SHARDS_MAX: usize = 16;
/// Statuses of HTTP begin here ...
const HTTP_FIRST: u16 = 100;
/// ... and there are so many.
const HTTP_CODES: usize = 500;
/// Statuses of gRPC.
const GRPC_CODES: usize = 17;
/// The status of gRPC that stands for those that do not exist.
const GRPC_UNKNOWN: usize = 2;

thread_local! {
    /// The number of this thread, from the first time that it counts.
    static NUMBER: Cell<Option<usize>> = const { Cell::new(None) };
}

/// How many shards there are for so many workers: a power of two.
pub(crate) fn shards_of(workers: usize) -> usize {
    workers.clamp(1, SHARDS_MAX).next_power_of_two()
}

/// The number of this thread: threads that count are numbered as they come.
pub(crate) fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    NUMBER.with(|number| {
        number.get().unwrap_or_else(|| {
            let new = NEXT.fetch_add(1, Ordering::Relaxed);
            number.set(Some(new));
            new
        })
    })
}

/// What all workers counted.
#[derive(Debug)]
pub(super) struct Shards {
    shards: Box<[Shard]>,
}

/// What one worker counted. Aligned, so that no cache line belongs to two of them.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Shard {
    protocols: [OfProtocol; Protocol::ALL.len()],
    degraded: [AtomicU64; StoreError::KINDS.len()],
    failopen: [AtomicU64; StoreError::KINDS.len()],
}

/// What came by one protocol.
#[derive(Debug)]
struct OfProtocol {
    durations: Histogram,
    checks: [AtomicU64; 2],
    unmatched: AtomicU64,
    http: Box<[AtomicU64]>,
    grpc: [AtomicU64; GRPC_CODES],
}

impl Shards {
    pub(super) fn new(workers: usize) -> Self {
        Self { shards: (0..shards_of(workers)).map(|_| Shard::new()).collect() }
    }

    /// The shard of this thread.
    pub(super) fn here(&self) -> &Shard {
        // The number of shards is a power of two.
        &self.shards[thread_number() & (self.shards.len() - 1)]
    }

    /// How often a request was allowed or denied.
    pub(super) fn checks(&self, protocol: Protocol, outcome: Outcome) -> u64 {
        self.sum(protocol, |of| &of.checks[outcome as usize])
    }

    /// How often no rule applied.
    pub(super) fn unmatched(&self, protocol: Protocol) -> u64 {
        self.sum(protocol, |of| &of.unmatched)
    }

    /// Decisions without the store, by the number of the reason: all, and those that were allowed.
    pub(super) fn degraded(&self, kind: usize) -> (u64, u64) {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let all = self.shards.iter().map(|shard| load(&shard.degraded[kind])).sum();
        (all, self.shards.iter().map(|shard| load(&shard.failopen[kind])).sum())
    }

    /// Answers by code, those that occurred.
    pub(super) fn answers(&self, protocol: Protocol) -> Vec<(AnswerCode, u64)> {
        let http = (HTTP_FIRST..).take(HTTP_CODES).enumerate();
        let http = http.map(|(index, code)| (AnswerCode::Http(code), self.sum(protocol, |of| &of.http[index])));
        let grpc = (0..).take(GRPC_CODES).enumerate();
        let grpc = grpc.map(|(index, code)| (AnswerCode::Grpc(code), self.sum(protocol, |of| &of.grpc[index])));
        http.chain(grpc).filter(|&(_, count)| count > 0).collect()
    }

    /// Durations of all workers.
    pub(super) fn durations(&self, protocol: Protocol) -> impl Iterator<Item = &Histogram> {
        self.shards.iter().map(move |shard| &shard.protocols[protocol as usize].durations)
    }

    fn sum(&self, protocol: Protocol, counter: impl Fn(&OfProtocol) -> &AtomicU64) -> u64 {
        self.shards.iter().map(|shard| counter(&shard.protocols[protocol as usize]).load(Ordering::Relaxed)).sum()
    }
}

impl Shard {
    fn new() -> Self {
        Self {
            protocols: std::array::from_fn(|_| OfProtocol {
                durations: Histogram::new(&BOUNDS_US),
                checks: Default::default(),
                unmatched: AtomicU64::new(0),
                http: (0..HTTP_CODES).map(|_| AtomicU64::new(0)).collect(),
                grpc: Default::default(),
            }),
            degraded: Default::default(),
            failopen: Default::default(),
        }
    }

    pub(super) fn count_check(&self, protocol: Protocol, outcome: Outcome) {
        add(&self.protocols[protocol as usize].checks[outcome as usize]);
    }

    pub(super) fn count_unmatched(&self, protocol: Protocol) {
        add(&self.protocols[protocol as usize].unmatched);
    }

    pub(super) fn count_degraded(&self, kind: usize, is_allowed: bool) {
        add(&self.degraded[kind]);
        if is_allowed {
            add(&self.failopen[kind]);
        }
    }

    pub(super) fn count_answer(&self, protocol: Protocol, code: AnswerCode) {
        let of = &self.protocols[protocol as usize];
        match code {
            AnswerCode::Http(status) => {
                let last = HTTP_CODES - 1;
                add(&of.http[usize::from(status.saturating_sub(HTTP_FIRST)).min(last)]);
            }
            AnswerCode::Grpc(status) => add(of.grpc.get(usize::from(status)).unwrap_or(&of.grpc[GRPC_UNKNOWN])),
        }
    }

    pub(super) fn observe(&self, protocol: Protocol, took: Duration) {
        self.protocols[protocol as usize].durations.observe(took);
    }
}

fn add(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

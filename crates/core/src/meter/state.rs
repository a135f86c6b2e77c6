//! What is remembered of one key under one quota.

use crate::algorithm::concurrency::{Concurrency, Leases};
use crate::algorithm::fixed_window::{Count, FixedWindow};
use crate::algorithm::gcra::Gcra;
use crate::algorithm::leaky_bucket::LeakyBucket;
use crate::algorithm::rate::Arrival;
use crate::algorithm::sliding_window::{BoundedLog, SlidingWindow};
use crate::algorithm::sliding_window_counter::{SlidingWindowCounter, TwoBuckets};
use crate::algorithm::sliding_window_log::{Log, SlidingWindowLog};
use crate::algorithm::sliding_window_ring::{Ring, SlidingWindowRing};
use crate::meter::Meter;
use crate::time::Ticks;

/// The algorithms, each with its parameters.
#[derive(Debug, Clone)]
pub(super) enum Kernel {
    Unlimited,
    /// A limit or burst of 0: nothing is ever admitted, and nothing is divided by it.
    Closed,
    Gcra(Gcra),
    LeakyBucket(LeakyBucket),
    FixedWindow(FixedWindow),
    Counter(SlidingWindowCounter),
    Ring(SlidingWindowRing),
    SlidingWindow(SlidingWindow),
    Log(SlidingWindowLog),
    Concurrency(Concurrency),
}

/// What one key has used of one quota. Made by [`Meter::empty`], and only ever shown to that quota's meter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    pub(super) usage: Usage,
    /// Only with `min_interval`: when a request was last admitted.
    pub(super) last_admitted: Option<Ticks>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Usage {
    Nothing,
    Arrival(Arrival),
    Count(Count),
    TwoBuckets(TwoBuckets),
    Ring(Ring),
    BoundedLog(BoundedLog),
    Log(Log),
    Leases(Leases),
}

impl State {
    /// Heap bytes held beyond the state itself.
    pub fn heap_bytes(&self) -> usize {
        match &self.usage {
            Usage::Nothing | Usage::Arrival(_) | Usage::Count(_) | Usage::TwoBuckets(_) => 0,
            Usage::Ring(ring) => ring.heap_bytes(),
            Usage::BoundedLog(log) => log.heap_bytes(),
            Usage::Log(log) => log.heap_bytes(),
            Usage::Leases(leases) => leases.heap_bytes(),
        }
    }
}

impl Meter {
    /// The state of a key that was never seen.
    pub fn empty(&self) -> State {
        let usage = match &self.kernel {
            Kernel::Unlimited | Kernel::Closed => Usage::Nothing,
            Kernel::Gcra(_) | Kernel::LeakyBucket(_) => Usage::Arrival(Arrival::default()),
            Kernel::FixedWindow(_) => Usage::Count(Count::default()),
            Kernel::Counter(_) => Usage::TwoBuckets(TwoBuckets::default()),
            Kernel::Ring(kernel) => Usage::Ring(kernel.empty()),
            Kernel::SlidingWindow(_) => Usage::BoundedLog(BoundedLog::default()),
            Kernel::Log(_) => Usage::Log(Log::default()),
            Kernel::Concurrency(_) => Usage::Leases(Leases::default()),
        };
        State { usage, last_admitted: None }
    }

    /// The state as two numbers, for stores that keep small states inline; `None` when it needs more.
    ///
    /// The first number is [`expires_at`](Self::expires_at): a store can sweep without knowing the quota.
    pub fn pack(&self, state: &State) -> Option<[u64; 2]> {
        if state.last_admitted.is_some() {
            return None;
        }
        match (&self.kernel, &state.usage) {
            (_, Usage::Arrival(arrival)) => Some(arrival.pack()),
            (_, Usage::Count(count)) => Some([count.end, count.used]),
            (Kernel::Counter(kernel), Usage::TwoBuckets(buckets)) => buckets.pack(kernel.expires_at(buckets)),
            (Kernel::SlidingWindow(kernel), Usage::BoundedLog(log)) => log.pack(kernel.window),
            _ => None,
        }
    }

    /// The reverse of [`pack`](Self::pack), with the same meter.
    pub fn unpack(&self, words: [u64; 2]) -> State {
        let usage = match &self.kernel {
            Kernel::Gcra(_) | Kernel::LeakyBucket(_) => Usage::Arrival(Arrival::unpack(words)),
            Kernel::FixedWindow(_) => Usage::Count(Count { end: words[0], used: words[1] }),
            Kernel::Counter(kernel) => Usage::TwoBuckets(TwoBuckets::unpack(words, kernel.window)),
            Kernel::SlidingWindow(kernel) => Usage::BoundedLog(BoundedLog::unpack(words, kernel.window)),
            Kernel::Unlimited | Kernel::Closed | Kernel::Ring(_) | Kernel::Log(_) | Kernel::Concurrency(_) => {
                return self.empty();
            }
        };
        State { usage, last_admitted: None }
    }
}

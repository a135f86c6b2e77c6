//! The algorithms, one file each: pure functions of parameters, state, time and cost.
//!
//! All of them are an [`Algorithm`], so that [`Meter`](crate::meter::Meter) can put one face over them. A state that is at full credit may be
//! dropped at any time: from `expires_at` on it answers like no state.

pub mod bucket;
pub mod concurrency;
pub mod constant;
pub mod fixed_window;
pub mod gcra;
pub mod leaky_bucket;
pub mod rate;
pub mod sliding_window;
pub mod sliding_window_counter;
pub mod sliding_window_log;
pub mod sliding_window_ring;

use std::fmt::Debug;

use crate::time::Ticks;

/// What a request asks of a quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ask {
    /// How much; 0 asks without taking.
    pub cost: u64,
    /// `concurrency`: the id of the lease, 128 bits that the caller made. Without one nothing can be taken, only asked.
    pub lease: Option<u128>,
    /// `leaky_bucket`: the longest delay that is of use to the caller, if that is shorter than the quota's own.
    pub max_delay: Ticks,
}

impl Ask {
    /// A cost, for quotas without leases.
    pub fn cost(cost: u64) -> Self {
        Self { cost, lease: None, max_delay: Ticks::MAX }
    }
}

/// Where a charge went, so that a refund can find what is left of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Receipt {
    /// Nothing was charged.
    Nothing,
    /// `gcra` and `leaky_bucket`: how things stood right after the charge.
    Arrival {
        /// When the bucket would have been empty again.
        arrival: rate::Arrival,
        /// What had been given back by then. In bytes, because a `u128` would align every receipt to 16.
        refunded: [u8; 16],
    },
    /// Windows and sub-windows: the one that was charged.
    Window {
        /// Its end, or its number.
        id: u64,
    },
    /// `sliding_window`: when it was charged.
    Stamp {
        /// The tick.
        at: Ticks,
        /// How often the log had been clamped by then: a clamp moves units, so that the stamp no longer finds them.
        clamps: u32,
    },
    /// `sliding_window_log`: the entry's sequence number.
    Entry {
        /// Unique within the state.
        sequence: u64,
        /// When it was charged.
        at: Ticks,
    },
    /// `concurrency`: the lease.
    Lease {
        /// The id its holder made. In bytes, because a `u128` would align every receipt to 16.
        id: [u8; 16],
    },
}

/// Units of one charge that are given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refund {
    /// Where the charge went.
    pub receipt: Receipt,
    /// Units that are given back now.
    pub cost: u64,
}

/// One algorithm with its parameters. Every verb but `settle` expects a settled state.
pub(crate) trait Algorithm {
    /// What is remembered of one key.
    type State: Debug + Clone + PartialEq;

    /// The state of a key that was never seen.
    fn empty(&self) -> Self::State;

    /// Brings a state to `now`: what has left the window goes, and what only a clock that went back can explain is clamped.
    fn settle(&self, state: &mut Self::State, now: Ticks);

    /// The smallest wait after which the request is admitted: 0 is now, `None` never.
    fn retry_after(&self, state: &Self::State, now: Ticks, ask: Ask) -> Option<Ticks>;

    /// How long a request that is admitted now has to wait before it starts.
    fn delay(&self, _state: &Self::State, _now: Ticks) -> Ticks {
        0
    }

    /// The largest cost that is admitted now.
    fn remaining(&self, state: &Self::State, now: Ticks) -> u64;

    /// The wait until everything is there again.
    fn reset_after(&self, state: &Self::State, now: Ticks) -> Ticks;

    /// Charges without asking, and says where the charge went.
    fn commit(&self, state: &mut Self::State, now: Ticks, ask: Ask) -> Receipt;

    /// Gives back the part of a charge that still counts. A receipt of another algorithm gives back nothing: the quota was changed since.
    fn refund(&self, state: &mut Self::State, now: Ticks, refund: Refund);

    /// From here on the state answers like an empty one.
    fn expires_at(&self, state: &Self::State) -> Ticks;

    /// The state as two numbers, expiry first; `None` when it needs more.
    fn pack(&self, _state: &Self::State) -> Option<[u64; 2]> {
        None
    }

    /// The reverse of `pack`; two zeros are the empty state.
    fn unpack(&self, _words: [u64; 2]) -> Self::State {
        self.empty()
    }

    /// Bytes that the state holds beyond its own size.
    fn heap_bytes(_state: &Self::State) -> usize {
        0
    }
}

/// A packed state that was charged, and what is left of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Admission {
    /// The state after the charge.
    pub words: [u64; 2],
    /// The largest cost that is admitted now.
    pub remaining: u64,
    /// The wait until everything is there again.
    pub reset_after: Ticks,
    /// Where the charge went.
    pub(crate) receipt: Receipt,
}

/// How much is used, of what, and how much more is asked.
#[derive(Debug, Clone, Copy)]
struct Demand {
    used: u64,
    limit: u64,
    cost: u64,
}

impl Demand {
    /// The walk that all logs share: the wait until enough of the oldest units have left. `leaving` says when how many units leave, in
    /// order.
    fn wait(self, now: Ticks, leaving: impl Iterator<Item = (Ticks, u64)>) -> Option<Ticks> {
        let Self { mut used, limit, cost } = self;
        if cost > limit {
            return None;
        }
        if used + cost <= limit {
            return Some(0);
        }
        for (leaves_at, units) in leaving {
            used -= units;
            if used + cost <= limit {
                return Some(leaves_at - now);
            }
        }
        unreachable!("without usage a cost of at most the limit is admitted")
    }
}

/// What is used after a charge: a debit stops at `bound`, and usage above it (the limit was lowered) is not forgiven.
fn charged(used: u64, cost: u64, bound: u64) -> u64 {
    used.max((used + cost).min(bound))
}

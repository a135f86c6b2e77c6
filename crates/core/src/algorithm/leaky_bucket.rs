//! `leaky_bucket`: admitted requests start at least *period / limit* apart, and none is delayed by more than *queue*.
//!
//! **State**: one instant, 16 bytes; after a [refund](super::bucket) a little more until it has drained.
//!
//! | symbol | field | unit |
//! | --- | --- | --- |
//! | l, p | [`Rate`] | l units per p ticks, in lowest terms |
//! | D | `max_delay` | ticks |
//! | – | `nodelay` | units that start at once although the queue is not empty |
//! | – | `max_cost` | units of one request |
//! | – | [`Bucket`] | when the queue is empty again |
//!
//! **Rule**
//! ```text
//! backlog = max(0, next_free - now)
//! delay   = max(0, backlog - nodelay * p/l)
//! allow     iff delay <= D and n <= max_cost
//! commit    next_free = max(now, next_free) + n * p/l ; start at now + delay
//! retry     = delay - D
//! ```
//!
//! **Timeline** of `10/second queue 200ms`, from `testdata/vectors/leaky_bucket.json`:
//! ```text
//! t=0.00s  cost 1 → allowed, starts at once, 2 left
//! t=0.00s  cost 1 → allowed, starts in 0.1 s, 1 left
//! t=0.00s  cost 1 → allowed, starts in 0.2 s, 0 left
//! t=0.00s  cost 1 → denied, retry after 0.1 s
//! t=0.05s  cost 1 → denied, retry after 0.05 s
//! t=0.10s  cost 1 → allowed, starts in 0.2 s, 0 left
//! ```
//!
//! **What it gets wrong**: `remaining` counts requests of cost 1; one dear request is admitted whenever its own delay fits, and those behind it
//! wait for all of it (hence `max_cost`). A refund does not move requests that were told when to start. To refuse instead of delaying, choose
//! [`gcra`](super::gcra).
//!
//! **Reference**: `algorithms.md` §1.7.

use super::bucket::Bucket;
use super::rate::Rate;
use super::{Algorithm, Ask, Receipt, Refund};
use crate::quota::UNITS_MAX;
use crate::time::Ticks;

/// Parameters of a `leaky_bucket` quota.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeakyBucket {
    /// How fast units leave the queue.
    pub rate: Rate,
    /// The longest delay.
    pub max_delay: Ticks,
    /// Units that start at once although the queue is not empty.
    pub nodelay: u64,
    /// The largest cost of one request, at least 1.
    pub max_cost: u64,
    /// How far a debit may lengthen the queue beyond what admission can, in units.
    pub max_debt: u64,
}

impl Algorithm for LeakyBucket {
    type State = Bucket;

    fn empty(&self) -> Bucket {
        Bucket::default()
    }

    /// Clamps a backlog that no admission can have produced, as [`Gcra`](super::gcra::Gcra) does.
    #[inline]
    fn settle(&self, state: &mut Bucket, now: Ticks) {
        state.settle(self.rate, self.backlog_max(), now);
    }

    #[inline]
    fn retry_after(&self, state: &Bucket, now: Ticks, ask: Ask) -> Option<Ticks> {
        if ask.cost > self.max_cost {
            return None;
        }
        let admitted = self.backlog_for(self.max_delay.min(ask.max_delay));
        Some(self.rate.ticks_up(state.level(self.rate, now).saturating_sub(admitted)))
    }

    /// How long a request that is admitted now has to wait, rounded up so that starts never come closer than the rate says.
    #[inline]
    fn delay(&self, state: &Bucket, now: Ticks) -> Ticks {
        let backlog = state.level(self.rate, now);
        self.rate.ticks_up(backlog.saturating_sub(self.rate.weight(self.nodelay)))
    }

    #[inline]
    fn remaining(&self, state: &Bucket, now: Ticks) -> u64 {
        let backlog = state.level(self.rate, now);
        self.backlog_admitted().checked_sub(backlog).map_or(0, |free| self.units_waiting(free) + 1)
    }

    /// Until `remaining` is full again: a remainder of the backlog below one unit does not lower it.
    #[inline]
    fn reset_after(&self, state: &Bucket, now: Ticks) -> Ticks {
        let free_when_idle = self.backlog_admitted();
        let harmless = free_when_idle - self.rate.weight(self.units_waiting(free_when_idle));
        self.rate.ticks_up(state.level(self.rate, now).saturating_sub(harmless))
    }

    #[inline]
    fn commit(&self, state: &mut Bucket, now: Ticks, Ask { cost, .. }: Ask) -> Receipt {
        state.charge(self.rate, cost, self.backlog_max(), now)
    }

    fn refund(&self, state: &mut Bucket, now: Ticks, refund: Refund) {
        state.refund(self.rate, refund, now);
    }

    fn expires_at(&self, state: &Bucket) -> Ticks {
        state.expires_at()
    }

    #[inline]
    fn pack(&self, state: &Bucket) -> Option<[u64; 2]> {
        state.pack()
    }

    #[inline]
    fn unpack(&self, words: [u64; 2]) -> Bucket {
        Bucket::unpack(words)
    }
}

impl LeakyBucket {
    /// How many units fit into a backlog, as far as they can be counted: a fast queue of a hundred years holds more than any cost can be.
    fn units_waiting(&self, backlog: u128) -> u64 {
        self.rate.units_in(backlog.min(self.rate.weight(UNITS_MAX - 1)))
    }

    /// The longest backlog at which a request is still admitted.
    fn backlog_admitted(&self) -> u128 {
        self.backlog_for(self.max_delay)
    }

    /// The longest backlog that delays a request by no more than `delay`.
    fn backlog_for(&self, delay: Ticks) -> u128 {
        self.rate.parts(delay) + self.rate.weight(self.nodelay)
    }

    /// As for [`Gcra`](super::gcra::Gcra::refunds).
    pub(crate) fn refunds(&self, charged: &Self) -> bool {
        self.rate == charged.rate && self.backlog_max() >= charged.backlog_max()
    }

    /// The longest backlog that can come about.
    pub(crate) fn backlog_max(&self) -> u128 {
        self.backlog_admitted() + self.rate.weight(self.max_cost + self.max_debt)
    }
}

//! A quota compiled for a clock's tick: one face over all algorithms.
//!
//! ```
//! use tidegate_core::meter::{Ask, Meter};
//! use tidegate_core::time::Tick;
//!
//! let quota = "2/minute".parse().unwrap();
//! let meter = Meter::new(&quota, Tick::NANOSECOND, None).unwrap();
//! let (mut state, now) = (meter.empty(), 1_000_000_000);
//!
//! assert_eq!(meter.assess(&mut state, now, Ask::cost(2)).retry_after, Some(0));
//! meter.commit(&mut state, now, Ask::cost(2));
//! assert_eq!(meter.assess(&mut state, now, Ask::cost(1)).retry_after, Some(60_000_000_000));
//! assert_eq!(meter.assess(&mut state, now, Ask::cost(3)).retry_after, None); // never
//! ```

mod compile;
mod state;

pub use compile::MeterError;
pub use state::State;

use state::{Kernel, Usage};

use crate::algorithm::Receipt;
use crate::algorithm::concurrency::Concurrency;
use crate::algorithm::fixed_window::FixedWindow;
use crate::algorithm::sliding_window_counter::SlidingWindowCounter;
use crate::algorithm::sliding_window_log::SlidingWindowLog;
use crate::mutant::Mutant;
use crate::time::Ticks;

/// A quota that can decide: parameters in ticks. Immutable and shared by all keys.
#[derive(Debug, Clone)]
pub struct Meter {
    kernel: Kernel,
    min_interval: Ticks,
    capacity: Option<u64>,
}

/// What a request asks of a quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ask {
    /// How much; 0 asks without taking.
    pub cost: u64,
    /// `concurrency`: the id of the lease, 128 bits that the caller made.
    pub lease: u128,
}

impl Ask {
    /// A cost, for quotas without leases.
    pub fn cost(cost: u64) -> Self {
        Self { cost, lease: 0 }
    }
}

/// Whether a request fits, before it is charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Assessment {
    /// The smallest wait until it fits: 0 is now, `None` never.
    pub retry_after: Option<Ticks>,
    /// `leaky_bucket`: when it may start, counted from now.
    pub delay: Ticks,
}

/// What is left of a quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Left {
    /// The largest cost that is admitted now; `None` is unlimited.
    pub remaining: Option<u64>,
    /// The wait until everything is there again.
    pub reset_after: Ticks,
}

impl Meter {
    /// The most that can be taken at once when nothing is used; `None` is unlimited.
    pub fn capacity(&self) -> Option<u64> {
        self.capacity
    }

    /// Whether the waiting time of a denial is an upper estimate only.
    pub fn retry_is_hint(&self) -> bool {
        matches!(self.kernel, Kernel::Concurrency(_))
    }

    /// Whether receipts of `charged`, an earlier meter of the same counters, still mean the same here.
    ///
    /// A rate's receipt is a time: after the rate has changed it would stand for another number of units.
    pub fn refunds(&self, charged: &Self) -> bool {
        match (&self.kernel, &charged.kernel) {
            (Kernel::Gcra(new), Kernel::Gcra(old)) => new.rate == old.rate,
            (Kernel::LeakyBucket(new), Kernel::LeakyBucket(old)) => new.rate == old.rate,
            _ => true,
        }
    }

    /// Whether there is nothing to remember: unlimited, or never admitted.
    pub fn is_stateless(&self) -> bool {
        matches!(self.kernel, Kernel::Unlimited | Kernel::Closed)
    }

    /// Settles the state and answers whether `ask` fits into it. Charges nothing.
    ///
    /// Settling is not a charge: it drops what no longer counts, and clamps what only a clock that went back can explain. Keep the settled
    /// state even when the request is denied, otherwise the waiting time it was told would not come true after such a step.
    pub fn assess(&self, state: &mut State, now: Ticks, ask: Ask) -> Assessment {
        self.settle(state, now);
        let retry_after = self.kernel_retry_after(state, now, ask).map(|wait| wait.max(self.gap_left(state, now)));
        if Mutant::ChargesDenied.is_active() && retry_after != Some(0) {
            self.commit(state, now, ask);
        }
        let delay = match (&self.kernel, &state.usage) {
            (Kernel::LeakyBucket(kernel), Usage::Arrival(arrival)) => kernel.delay(arrival, now),
            _ => 0,
        };
        Assessment { retry_after, delay }
    }

    /// What is left in a settled state.
    pub fn left(&self, state: &State, now: Ticks) -> Left {
        let gap = self.gap_left(state, now);
        let Left { remaining, reset_after } = self.kernel_left(state, now);
        Left { remaining: if gap > 0 { remaining.map(|_| 0) } else { remaining }, reset_after: reset_after.max(gap) }
    }

    /// Charges a settled state for an admitted request.
    pub fn commit(&self, state: &mut State, now: Ticks, ask: Ask) -> Receipt {
        if self.min_interval > 0 {
            state.last_admitted = Some(now);
        }
        self.kernel_commit(state, now, ask)
    }

    /// Charges without asking and without counting as a request; stops at the quota's `max_debt`. Leases cannot be owed.
    pub fn debit(&self, state: &mut State, now: Ticks, cost: u64) {
        self.settle(state, now);
        if !matches!(self.kernel, Kernel::Concurrency(_)) {
            self.kernel_commit(state, now, Ask::cost(cost));
        }
    }

    /// Gives back what still counts of a charge. Leases are not touched: they are released.
    pub fn refund(&self, state: &mut State, now: Ticks, receipt: Receipt, cost: u64) {
        self.settle(state, now);
        match (&self.kernel, &mut state.usage, receipt) {
            (Kernel::Gcra(kernel), Usage::Arrival(s), Receipt::Arrival(charged)) => kernel.refund(s, now, charged, cost),
            (Kernel::LeakyBucket(kernel), Usage::Arrival(s), Receipt::Arrival(charged)) => kernel.refund(s, now, charged, cost),
            (Kernel::FixedWindow(_), Usage::Count(s), Receipt::Window { id }) => FixedWindow::refund(s, id, cost),
            (Kernel::Counter(_), Usage::TwoBuckets(s), Receipt::Window { id }) => SlidingWindowCounter::refund(s, id, cost),
            (Kernel::Ring(kernel), Usage::Ring(s), Receipt::Window { id }) => kernel.refund(s, id, cost),
            (Kernel::SlidingWindow(kernel), Usage::BoundedLog(s), Receipt::Stamp { at, clamps }) => {
                kernel.refund(s, now, at, clamps, cost);
            }
            (Kernel::Log(_), Usage::Log(s), Receipt::Entry { sequence }) => SlidingWindowLog::refund(s, sequence, cost),
            // A receipt of another algorithm: the quota was changed since, and nothing of the charge is in this state.
            _ => {}
        }
    }

    /// Extends a lease; `false` when it is lost.
    pub fn renew(&self, state: &mut State, now: Ticks, lease: u128) -> bool {
        self.settle(state, now);
        match (&self.kernel, &mut state.usage) {
            (Kernel::Concurrency(kernel), Usage::Leases(leases)) => kernel.renew(leases, now, lease),
            _ => false,
        }
    }

    /// Gives a lease back; `false` when it was unknown, which is no error.
    pub fn release(&self, state: &mut State, now: Ticks, lease: u128) -> bool {
        self.settle(state, now);
        match &mut state.usage {
            Usage::Leases(leases) => Concurrency::release(leases, lease),
            _ => false,
        }
    }

    /// From here on the state answers like [`empty`](Self::empty) and may be dropped.
    pub fn expires_at(&self, state: &State) -> Ticks {
        let gap_end = state.last_admitted.map_or(0, |last| last + self.min_interval);
        let usage = match (&self.kernel, &state.usage) {
            (_, Usage::Arrival(arrival)) => arrival.expires_at(),
            (_, Usage::Count(count)) => count.end,
            (Kernel::Counter(kernel), Usage::TwoBuckets(s)) => kernel.expires_at(s),
            (Kernel::Ring(kernel), Usage::Ring(s)) => kernel.expires_at(s),
            (Kernel::SlidingWindow(kernel), Usage::BoundedLog(s)) => kernel.expires_at(s),
            (Kernel::Log(kernel), Usage::Log(s)) => kernel.expires_at(s),
            (_, Usage::Leases(leases)) => Concurrency::expires_at(leases),
            _ => 0,
        };
        if Mutant::ExpiryFromCreation.is_active() {
            return usage - usage / 1_000;
        }
        usage.max(gap_end)
    }

    fn settle(&self, state: &mut State, now: Ticks) {
        // A gap that began in the future began now: the clock went back.
        state.last_admitted = state.last_admitted.map(|last| last.min(now));
        match (&self.kernel, &mut state.usage) {
            (Kernel::Gcra(kernel), Usage::Arrival(s)) => kernel.settle(s, now),
            (Kernel::LeakyBucket(kernel), Usage::Arrival(s)) => kernel.settle(s, now),
            (Kernel::FixedWindow(kernel), Usage::Count(s)) => kernel.settle(s, now),
            (Kernel::Counter(kernel), Usage::TwoBuckets(s)) => kernel.settle(s, now),
            (Kernel::Ring(kernel), Usage::Ring(s)) => kernel.settle(s, now),
            (Kernel::SlidingWindow(kernel), Usage::BoundedLog(s)) => kernel.settle(s, now),
            (Kernel::Log(kernel), Usage::Log(s)) => kernel.settle(s, now),
            (Kernel::Concurrency(_), Usage::Leases(s)) => Concurrency::settle(s, now),
            _ => {}
        }
    }

    fn gap_left(&self, state: &State, now: Ticks) -> Ticks {
        state.last_admitted.map_or(0, |last| (last + self.min_interval).saturating_sub(now))
    }

    fn kernel_retry_after(&self, state: &State, now: Ticks, ask: Ask) -> Option<Ticks> {
        let cost = ask.cost;
        let retry_after = match (&self.kernel, &state.usage) {
            (Kernel::Unlimited, _) => Some(0),
            (Kernel::Gcra(kernel), Usage::Arrival(s)) => kernel.retry_after(s, now, cost),
            (Kernel::LeakyBucket(kernel), Usage::Arrival(s)) => kernel.retry_after(s, now, cost),
            (Kernel::FixedWindow(kernel), Usage::Count(s)) => kernel.retry_after(s, now, cost),
            (Kernel::Counter(kernel), Usage::TwoBuckets(s)) => kernel.retry_after(s, now, cost),
            (Kernel::Ring(kernel), Usage::Ring(s)) => kernel.retry_after(s, now, cost),
            (Kernel::SlidingWindow(kernel), Usage::BoundedLog(s)) => kernel.retry_after(s, now, cost),
            (Kernel::Log(kernel), Usage::Log(s)) => kernel.retry_after(s, now, cost),
            (Kernel::Concurrency(kernel), Usage::Leases(s)) => kernel.retry_after(s, now, cost, ask.lease),
            _ => None,
        };
        match retry_after {
            None if Mutant::LimitZeroAdmits.is_active() && matches!(self.kernel, Kernel::Closed) => Some(0),
            None if Mutant::NeverIsNotSaid.is_active() && cost > 1 => self.kernel_retry_after(state, now, Ask { cost: 1, ..ask }),
            Some(1..) if Mutant::RetryIgnoresCost.is_active() && cost > 1 => {
                self.kernel_retry_after(state, now, Ask { cost: 1, ..ask }).map(|wait| wait.max(1))
            }
            _ => retry_after,
        }
    }

    fn kernel_left(&self, state: &State, now: Ticks) -> Left {
        let (remaining, reset_after) = match (&self.kernel, &state.usage) {
            (Kernel::Unlimited, _) => return Left { remaining: None, reset_after: 0 },
            (Kernel::Gcra(kernel), Usage::Arrival(s)) => (kernel.remaining(s, now), kernel.reset_after(s, now)),
            (Kernel::LeakyBucket(kernel), Usage::Arrival(s)) => (kernel.remaining(s, now), kernel.reset_after(s, now)),
            (Kernel::FixedWindow(kernel), Usage::Count(s)) => (kernel.remaining(s), FixedWindow::reset_after(s, now)),
            (Kernel::Counter(kernel), Usage::TwoBuckets(s)) => (kernel.remaining(s, now), kernel.reset_after(s, now)),
            (Kernel::Ring(kernel), Usage::Ring(s)) => (kernel.remaining(s, now), kernel.reset_after(s, now)),
            (Kernel::SlidingWindow(kernel), Usage::BoundedLog(s)) => (kernel.remaining(s), kernel.reset_after(s, now)),
            (Kernel::Log(kernel), Usage::Log(s)) => (kernel.remaining(s), kernel.reset_after(s, now)),
            (Kernel::Concurrency(kernel), Usage::Leases(s)) => (kernel.remaining(s), Concurrency::reset_after(s, now)),
            _ => (0, 0),
        };
        Left { remaining: Some(remaining), reset_after }
    }

    fn kernel_commit(&self, state: &mut State, now: Ticks, ask: Ask) -> Receipt {
        match (&self.kernel, &mut state.usage) {
            (Kernel::Gcra(kernel), Usage::Arrival(s)) => kernel.commit(s, now, ask.cost),
            (Kernel::LeakyBucket(kernel), Usage::Arrival(s)) => kernel.commit(s, now, ask.cost),
            (Kernel::FixedWindow(kernel), Usage::Count(s)) => kernel.commit(s, now, ask.cost),
            (Kernel::Counter(kernel), Usage::TwoBuckets(s)) => kernel.commit(s, ask.cost),
            (Kernel::Ring(kernel), Usage::Ring(s)) => kernel.commit(s, now, ask.cost),
            (Kernel::SlidingWindow(kernel), Usage::BoundedLog(s)) => kernel.commit(s, now, ask.cost),
            (Kernel::Log(kernel), Usage::Log(s)) => kernel.commit(s, now, ask.cost),
            (Kernel::Concurrency(kernel), Usage::Leases(s)) => kernel.commit(s, now, ask.cost, ask.lease),
            _ => Receipt::Nothing,
        }
    }
}

//! What a meter is made of, for those who decide elsewhere: the scripts of a shared store.

use super::Meter;
use super::state::Kernel;
use crate::algorithm::fixed_window::Span;
use crate::algorithm::rate::Rate;
use crate::time::Ticks;

/// The parameters of a meter, by algorithm: units, and times in its ticks.
#[derive(Debug, Clone, Copy)]
pub enum Parameters<'a> {
    /// Admits everything.
    Unlimited,
    /// Admits nothing.
    Closed,
    /// See [`Gcra`](crate::algorithm::gcra::Gcra).
    Gcra {
        /// l and p.
        rate: Rate,
        /// The most units at once.
        burst: u64,
        /// The weight that debits can reach, in parts of `1/l` tick.
        level_max: u128,
    },
    /// See [`LeakyBucket`](crate::algorithm::leaky_bucket::LeakyBucket).
    LeakyBucket {
        /// l and p.
        rate: Rate,
        /// The longest delay.
        max_delay: Ticks,
        /// Units that start at once although the queue is not empty.
        nodelay: u64,
        /// The largest cost of one request.
        max_cost: u64,
        /// The longest backlog that can come about, in parts of `1/l` tick.
        level_max: u128,
    },
    /// See [`FixedWindow`](crate::algorithm::fixed_window::FixedWindow).
    FixedWindow {
        /// Units per window.
        limit: u64,
        /// How far a debit may overdraw.
        max_debt: u64,
        /// Where windows begin and end.
        span: &'a Span,
    },
    /// See [`SlidingWindowCounter`](crate::algorithm::sliding_window_counter::SlidingWindowCounter).
    SlidingWindowCounter {
        /// Units per window.
        limit: u64,
        /// How far a debit may overdraw.
        max_debt: u64,
        /// Length of the window.
        window: Ticks,
    },
    /// See [`SlidingWindowRing`](crate::algorithm::sliding_window_ring::SlidingWindowRing).
    SlidingWindowRing {
        /// Units per window.
        limit: u64,
        /// How far a debit may overdraw.
        max_debt: u64,
        /// k.
        buckets: u32,
        /// Length of a sub-window.
        width: Ticks,
    },
    /// See [`SlidingWindow`](crate::algorithm::sliding_window::SlidingWindow).
    SlidingWindow {
        /// Units per window.
        limit: u64,
        /// How far a debit may overdraw.
        max_debt: u64,
        /// Length of the window.
        window: Ticks,
        /// M.
        entries: u32,
    },
    /// See [`SlidingWindowLog`](crate::algorithm::sliding_window_log::SlidingWindowLog).
    SlidingWindowLog {
        /// Units per window.
        limit: u64,
        /// How far a debit may overdraw.
        max_debt: u64,
        /// Length of the window.
        window: Ticks,
    },
    /// See [`Concurrency`](crate::algorithm::concurrency::Concurrency).
    Concurrency {
        /// Units in flight.
        limit: u64,
        /// How long a lease lives without being renewed.
        ttl: Ticks,
    },
}

impl Meter {
    /// What it is made of.
    pub fn parameters(&self) -> Parameters<'_> {
        match &self.kernel {
            Kernel::Unlimited(_) => Parameters::Unlimited,
            Kernel::Closed(_) => Parameters::Closed,
            Kernel::Gcra(k) => Parameters::Gcra { rate: k.rate, burst: k.burst(), level_max: k.level_max() },
            Kernel::LeakyBucket(k) => Parameters::LeakyBucket {
                rate: k.rate,
                max_delay: k.max_delay,
                nodelay: k.nodelay,
                max_cost: k.max_cost,
                level_max: k.backlog_max(),
            },
            Kernel::FixedWindow(k) => Parameters::FixedWindow { limit: k.limit, max_debt: k.max_debt, span: &k.span },
            Kernel::SlidingWindowCounter(k) => {
                Parameters::SlidingWindowCounter { limit: k.limit, max_debt: k.max_debt, window: k.window }
            }
            Kernel::SlidingWindowRing(k) => {
                Parameters::SlidingWindowRing { limit: k.limit, max_debt: k.max_debt, buckets: k.buckets, width: k.width }
            }
            Kernel::SlidingWindow(k) => {
                Parameters::SlidingWindow { limit: k.limit, max_debt: k.max_debt, window: k.window, entries: k.entries }
            }
            Kernel::SlidingWindowLog(k) => {
                Parameters::SlidingWindowLog { limit: k.limit, max_debt: k.max_debt, window: k.window }
            }
            Kernel::Concurrency(k) => Parameters::Concurrency { limit: k.limit, ttl: k.ttl },
        }
    }

    /// The same meter, under which limit and debt of a window together are at most `units`.
    ///
    /// For stores that cannot count further. Buckets are left as they are: there it is the weight that has to fit.
    #[must_use]
    pub fn with_units_at_most(mut self, units: u64) -> Self {
        let (limit, max_debt) = match &mut self.kernel {
            Kernel::FixedWindow(k) => (k.limit, &mut k.max_debt),
            Kernel::SlidingWindowCounter(k) => (k.limit, &mut k.max_debt),
            Kernel::SlidingWindowRing(k) => (k.limit, &mut k.max_debt),
            Kernel::SlidingWindow(k) => (k.limit, &mut k.max_debt),
            Kernel::SlidingWindowLog(k) => (k.limit, &mut k.max_debt),
            _ => return self,
        };
        *max_debt = units.saturating_sub(limit).min(*max_debt);
        self
    }
}

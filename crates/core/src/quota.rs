//! What a rule allows: an amount per period, with the algorithm that enforces it.
//!
//! A [`Quota`] is made from a text (`100/minute burst 20`, see [`parse`]) or from its object form, a [`QuotaSpec`] with every
//! parameter. Both pass the same checks, once; afterwards a `Quota` is trusted and no later step can overflow.
//!
//! ```
//! use tidegate_core::quota::{Quota, Shape};
//!
//! let quota: Quota = "100/minute burst 20".parse().unwrap();
//! assert_eq!(quota.shape(), &Shape::Gcra { limit: 100, period_ns: 60_000_000_000, burst: 20 });
//! assert_eq!(quota.to_string(), "100/minute burst 20");
//! ```

mod advance;
mod check;
mod error;
mod lex;
mod parse;
mod share;
mod spec;
mod text;
mod unit;

pub use error::{QuotaError, QuotaErrorCode};
pub use parse::{parse, parse_specs};
pub use share::Share;
pub use spec::{AlgorithmName, CalendarUnit, QuotaSpec};

/// The largest limit, burst, cost and debt: integers up to here are exact in Redis scripts and in JSON as well.
pub const UNITS_MAX: u64 = 1 << 53;

/// The longest period, and the longest time an empty bucket may take to fill: 36,500 days in nanoseconds.
pub const PERIOD_MAX_NS: u64 = 36_500 * 86_400 * 1_000_000_000;

/// An amount per period and how it is enforced. Checked at construction: see [`QuotaSpec::build`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Quota {
    name: Option<Box<str>>,
    shape: Shape,
    min_interval_ns: u64,
    advance_ns: u64,
    max_debt: u64,
}

/// The algorithm of a quota together with its own parameters, in the units that people write: nanoseconds and whole units of cost.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Shape {
    /// No limit at all. A value of its own: neither 0 nor -1 means it.
    Unlimited,
    /// Never more than `limit` in any window, from a bounded log of `entries` pairs.
    SlidingWindow {
        /// Units per window.
        limit: u64,
        /// Length of the window.
        window_ns: u64,
        /// M, the most pairs that are kept. Exact while `limit <= entries`.
        entries: u32,
    },
    /// Never more than `limit` in any window, from one entry per request.
    SlidingWindowLog {
        /// Units per window.
        limit: u64,
        /// Length of the window.
        window_ns: u64,
    },
    /// The two-counter approximation, or a ring of `buckets` sub-windows.
    SlidingWindowCounter {
        /// Units per window.
        limit: u64,
        /// Length of the window.
        window_ns: u64,
        /// `None`: two interpolated counters. `Some(k)`: k + 1 counters, summed without interpolation.
        buckets: Option<u32>,
    },
    /// One counter per window; windows are aligned to the epoch or to a calendar.
    FixedWindow {
        /// Units per window.
        limit: u64,
        /// Where windows begin and end.
        window: FixedWindowSpan,
    },
    /// A steady rate with a stated burst (also known as token bucket).
    Gcra {
        /// Units per period.
        limit: u64,
        /// The period over which `limit` units are earned.
        period_ns: u64,
        /// The most units that can be taken at once.
        burst: u64,
    },
    /// Shaping: admitted requests are told when to start.
    LeakyBucket {
        /// Units per period.
        limit: u64,
        /// The period over which `limit` units leave the queue.
        period_ns: u64,
        /// The longest delay a request may be given.
        max_delay_ns: u64,
        /// Units that start at once although the queue is not empty.
        nodelay: u64,
        /// The largest cost of one request, so that one cannot block everyone behind it.
        max_cost: u64,
    },
    /// At most `limit` units in flight, held by leases that expire unless renewed.
    Concurrency {
        /// Units in flight.
        limit: u64,
        /// How long a lease lives without being renewed.
        ttl_ns: u64,
    },
}

/// Where the windows of a fixed window begin and end.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum FixedWindowSpan {
    /// Windows of this length, counted from the epoch.
    Epoch {
        /// Length of the window.
        window_ns: u64,
    },
    /// Calendar days, months and so on in a time zone. Somebody outside this crate knows the calendar.
    Calendar {
        /// One window per this unit.
        unit: CalendarUnit,
        /// IANA name of the zone, such as `Europe/Berlin`.
        zone: Box<str>,
    },
}

impl Quota {
    /// The name given in the object form, if any.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The algorithm and its parameters.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Smallest gap between two admitted requests of one key; 0 when there is none.
    pub fn min_interval_ns(&self) -> u64 {
        self.min_interval_ns
    }

    /// How long before they are spent units may be taken from a store that is shared; 0 when each request asks for its own.
    pub fn advance_ns(&self) -> u64 {
        self.advance_ns
    }

    /// How far `debit` may overdraw, in units beyond the capacity.
    pub fn max_debt(&self) -> u64 {
        self.max_debt
    }

    /// The name of the algorithm; `None` for an unlimited quota, which needs none.
    pub fn algorithm(&self) -> Option<AlgorithmName> {
        Some(match self.shape {
            Shape::Unlimited => return None,
            Shape::SlidingWindow { .. } => AlgorithmName::SlidingWindow,
            Shape::SlidingWindowLog { .. } => AlgorithmName::SlidingWindowLog,
            Shape::SlidingWindowCounter { .. } => AlgorithmName::SlidingWindowCounter,
            Shape::FixedWindow { .. } => AlgorithmName::FixedWindow,
            Shape::Gcra { .. } => AlgorithmName::Gcra,
            Shape::LeakyBucket { .. } => AlgorithmName::LeakyBucket,
            Shape::Concurrency { .. } => AlgorithmName::Concurrency,
        })
    }

    /// The limit as people know it: units per period, or in flight. `None` is unlimited.
    pub fn limit(&self) -> Option<u64> {
        match self.shape {
            Shape::Unlimited => None,
            Shape::SlidingWindow { limit, .. }
            | Shape::SlidingWindowLog { limit, .. }
            | Shape::SlidingWindowCounter { limit, .. }
            | Shape::FixedWindow { limit, .. }
            | Shape::Gcra { limit, .. }
            | Shape::LeakyBucket { limit, .. }
            | Shape::Concurrency { limit, .. } => Some(limit),
        }
    }

    /// The same quota with a limit no smaller than this; `None` stands for unlimited and changes nothing.
    ///
    /// Used while a quota is phased out, when it must not be stricter than its successor. A rate stays as it is, for its limit and period are
    /// one exact fraction; it drains within the time that its burst takes to fill.
    #[must_use]
    pub fn with_limit_at_least(&self, least: Option<u64>) -> Self {
        let mut quota = self.clone();
        let is_default_debt = self.limit() == Some(self.max_debt);
        match &mut quota.shape {
            Shape::SlidingWindow { limit, .. }
            | Shape::SlidingWindowLog { limit, .. }
            | Shape::SlidingWindowCounter { limit, .. }
            | Shape::FixedWindow { limit, .. } => *limit = least.unwrap_or(0).max(*limit),
            Shape::Unlimited | Shape::Concurrency { .. } | Shape::Gcra { .. } | Shape::LeakyBucket { .. } => return quota,
        }
        // The default follows the limit, so that the quota reads like one that somebody wrote.
        if let (true, Some(limit)) = (is_default_debt, quota.limit()) {
            quota.max_debt = limit;
        }
        quota
    }

    /// The window or period in nanoseconds; `None` where there is none (unlimited, concurrency, calendar).
    pub fn period_ns(&self) -> Option<u64> {
        match self.shape {
            Shape::SlidingWindow { window_ns, .. }
            | Shape::SlidingWindowLog { window_ns, .. }
            | Shape::SlidingWindowCounter { window_ns, .. }
            | Shape::FixedWindow { window: FixedWindowSpan::Epoch { window_ns }, .. } => Some(window_ns),
            Shape::Gcra { period_ns, .. } | Shape::LeakyBucket { period_ns, .. } => Some(period_ns),
            Shape::Unlimited | Shape::FixedWindow { .. } | Shape::Concurrency { .. } => None,
        }
    }
}

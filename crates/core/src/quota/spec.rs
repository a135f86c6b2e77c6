//! The object form of a quota, and the checks that turn it into a [`Quota`](super::Quota).

use super::Quota;
use super::check;
use super::error::QuotaError;

/// The name of an algorithm in the rule language.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AlgorithmName {
    /// Bounded log: never more than the limit in any window. The default.
    SlidingWindow,
    /// One entry per request: exact, and large.
    SlidingWindowLog,
    /// Two counters, or a ring of sub-windows.
    SlidingWindowCounter,
    /// One counter per window.
    FixedWindow,
    /// Steady rate with a burst; `token_bucket` is its second name.
    Gcra,
    /// Shaping with a bounded queue.
    LeakyBucket,
    /// Leases on slots.
    Concurrency,
}

/// The unit of a calendar window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CalendarUnit {
    /// From one full minute to the next.
    Minute,
    /// From one full hour to the next, in local time.
    Hour,
    /// From midnight to midnight, in local time: 23 or 25 hours when the clocks change.
    Day,
    /// From Monday to Monday.
    Week,
    /// From the first of a month to the first of the next.
    Month,
    /// From the first of January to the next.
    Year,
}

/// Every parameter of a quota, none of them checked yet. `None` means: not given, use the default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QuotaSpec {
    /// A name for headers, metrics and status lists: `[A-Za-z0-9][A-Za-z0-9_.:/-]{0,63}`.
    pub name: Option<String>,
    /// Units per period, or in flight.
    pub limit: Option<u64>,
    /// `unlimited`: takes no other parameter but `name`.
    pub unlimited: bool,
    /// The window or period in nanoseconds.
    pub period_ns: Option<u64>,
    /// The algorithm; chosen from the other parameters when absent.
    pub algorithm: Option<AlgorithmName>,
    /// `gcra`: the most units at once. Default: `limit`.
    pub burst: Option<u64>,
    /// `leaky_bucket`: the longest delay in nanoseconds.
    pub queue_ns: Option<u64>,
    /// `leaky_bucket`: units that start at once although the queue is not empty. Default 0.
    pub nodelay: Option<u64>,
    /// `leaky_bucket`: the largest cost of one request. Default: what an idle queue admits in unit costs.
    pub max_cost: Option<u64>,
    /// `sliding_window`: M, the most pairs kept. Default 16.
    pub entries: Option<u64>,
    /// `sliding_window_counter`: number of sub-windows. Default: two interpolated counters.
    pub buckets: Option<u64>,
    /// `fixed_window`: one window per calendar unit.
    pub calendar: Option<CalendarUnit>,
    /// The zone of `calendar`, an IANA name. Default `UTC`. Whether the zone exists is checked where the calendar is known.
    pub zone: Option<String>,
    /// `concurrency`: how long a lease lives without being renewed, in nanoseconds. Default 60 s.
    pub ttl_ns: Option<u64>,
    /// Smallest gap between two admitted requests of a key, in nanoseconds. Default: none.
    pub min_interval_ns: Option<u64>,
    /// How long before they are spent units may be taken from a store that is shared, in nanoseconds. Default: each request asks for its own.
    pub advance_ns: Option<u64>,
    /// How far `debit` may overdraw, in units. Default: the capacity.
    pub max_debt: Option<u64>,
}

impl AlgorithmName {
    /// Every algorithm.
    pub const ALL: [Self; 7] = [
        Self::SlidingWindow,
        Self::SlidingWindowLog,
        Self::SlidingWindowCounter,
        Self::FixedWindow,
        Self::Gcra,
        Self::LeakyBucket,
        Self::Concurrency,
    ];

    /// The name in rules, metrics and file names.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SlidingWindow => "sliding_window",
            Self::SlidingWindowLog => "sliding_window_log",
            Self::SlidingWindowCounter => "sliding_window_counter",
            Self::FixedWindow => "fixed_window",
            Self::Gcra => "gcra",
            Self::LeakyBucket => "leaky_bucket",
            Self::Concurrency => "concurrency",
        }
    }

    /// The algorithm of that name, exactly as [`as_str`](Self::as_str) spells it, or `token_bucket`.
    ///
    /// ```
    /// use tidegate_core::quota::AlgorithmName;
    ///
    /// assert_eq!(AlgorithmName::from_name("token_bucket"), Some(AlgorithmName::Gcra));
    /// assert_eq!(AlgorithmName::from_name("GCRA"), None);
    /// ```
    pub fn from_name(name: &str) -> Option<Self> {
        if name == "token_bucket" {
            return Some(Self::Gcra);
        }
        Self::ALL.into_iter().find(|algorithm| algorithm.as_str() == name)
    }
}

impl CalendarUnit {
    /// Every unit, the shortest first.
    pub const ALL: [Self; 6] = [Self::Minute, Self::Hour, Self::Day, Self::Week, Self::Month, Self::Year];

    /// The name in rules.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
            Self::Year => "year",
        }
    }

    /// The unit of that name, exactly as [`as_str`](Self::as_str) spells it.
    ///
    /// ```
    /// use tidegate_core::quota::CalendarUnit;
    ///
    /// assert_eq!(CalendarUnit::from_name("month"), Some(CalendarUnit::Month));
    /// assert_eq!(CalendarUnit::from_name("second"), None);
    /// ```
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|unit| unit.as_str() == name)
    }
}

impl QuotaSpec {
    /// Checks every parameter and fills in the defaults.
    ///
    /// Without `algorithm`: `ttl_ns` without a period means `concurrency`, `burst` `gcra`, `queue_ns` or `nodelay` `leaky_bucket`,
    /// `calendar` `fixed_window`, and everything else `sliding_window`.
    ///
    /// A limit of 0 is legal and denies everything. Where a default of `max_debt` or `max_cost` would let an empty bucket take more
    /// than 36,500 days to fill, the default is what fits; a value that was given is refused instead.
    ///
    /// ```
    /// use tidegate_core::quota::{QuotaErrorCode, QuotaSpec, Shape};
    ///
    /// let second = 1_000_000_000;
    /// let spec = QuotaSpec { limit: Some(50), period_ns: Some(second), ..QuotaSpec::default() };
    /// let shaping = QuotaSpec { queue_ns: Some(second / 5), ..spec.clone() }.build()?;
    /// assert_eq!(
    ///     shaping.shape(),
    ///     // Units leave 20 ms apart, so an idle queue of 200 ms admits 11: one now and ten that wait.
    ///     &Shape::LeakyBucket { limit: 50, period_ns: second, max_delay_ns: second / 5, nodelay: 0, max_cost: 11 },
    /// );
    ///
    /// let error = QuotaSpec { entries: Some(0), ..spec }.build().unwrap_err();
    /// assert_eq!(error.code(), QuotaErrorCode::EntriesOutOfRange);
    /// # Ok::<(), tidegate_core::quota::QuotaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The first rule that is broken, each with its own [code](super::QuotaErrorCode).
    pub fn build(self) -> Result<Quota, QuotaError> {
        check::build(self)
    }

    /// The algorithm that the parameters ask for when none is named.
    pub(super) fn algorithm_default(&self) -> AlgorithmName {
        let has_period = self.period_ns.is_some() || self.calendar.is_some();
        if self.ttl_ns.is_some() && !has_period {
            AlgorithmName::Concurrency
        } else if self.burst.is_some() {
            AlgorithmName::Gcra
        } else if self.queue_ns.is_some() || self.nodelay.is_some() {
            AlgorithmName::LeakyBucket
        } else if self.calendar.is_some() {
            AlgorithmName::FixedWindow
        } else {
            AlgorithmName::SlidingWindow
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{FixedWindowSpan, PERIOD_MAX_NS, QuotaErrorCode as Code, Shape, UNITS_MAX};
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    fn rate(limit: u64, period_ns: u64) -> QuotaSpec {
        QuotaSpec { limit: Some(limit), period_ns: Some(period_ns), ..QuotaSpec::default() }
    }

    fn with(change: impl FnOnce(&mut QuotaSpec)) -> QuotaSpec {
        let mut spec = rate(10, SECOND_NS);
        change(&mut spec);
        spec
    }

    #[test]
    fn names_are_read_back() {
        for algorithm in AlgorithmName::ALL {
            assert_eq!(AlgorithmName::from_name(algorithm.as_str()), Some(algorithm));
        }
        for unit in CalendarUnit::ALL {
            assert_eq!(CalendarUnit::from_name(unit.as_str()), Some(unit));
        }
    }

    #[test]
    fn the_algorithm_follows_from_the_parameters() {
        use AlgorithmName::{Concurrency, FixedWindow, Gcra, LeakyBucket, SlidingWindow};
        let cases = [
            (with(|_| {}), SlidingWindow),
            (with(|spec| spec.burst = Some(5)), Gcra),
            (with(|spec| spec.queue_ns = Some(0)), LeakyBucket),
            (with(|spec| spec.nodelay = Some(0)), LeakyBucket),
            (with(|spec| (spec.ttl_ns, spec.period_ns) = (Some(SECOND_NS), None)), Concurrency),
            (with(|spec| (spec.calendar, spec.period_ns) = (Some(CalendarUnit::Day), None)), FixedWindow),
        ];
        for (spec, algorithm) in cases {
            let quota = spec.clone().build().unwrap();

            assert_eq!(quota.algorithm(), Some(algorithm), "{spec:?}");
        }
    }

    #[test]
    fn defaults_are_filled_in() {
        let build = |algorithm| with(|spec| spec.algorithm = Some(algorithm)).build().unwrap();
        let (limit, window_ns, period_ns) = (10, SECOND_NS, SECOND_NS);
        let cases = [
            (AlgorithmName::SlidingWindow, Shape::SlidingWindow { limit, window_ns, entries: 16 }),
            (AlgorithmName::SlidingWindowLog, Shape::SlidingWindowLog { limit, window_ns }),
            (AlgorithmName::SlidingWindowCounter, Shape::SlidingWindowCounter { limit, window_ns, buckets: None }),
            (AlgorithmName::FixedWindow, Shape::FixedWindow { limit, window: FixedWindowSpan::Epoch { window_ns } }),
            (AlgorithmName::Gcra, Shape::Gcra { limit, period_ns, burst: 10 }),
        ];
        for (algorithm, shape) in cases {
            let quota = build(algorithm);

            assert_eq!((quota.shape(), quota.max_debt()), (&shape, 10));
            assert_eq!(quota.min_interval_ns(), 0);
        }
        let leaky = build(AlgorithmName::LeakyBucket);
        let shape = Shape::LeakyBucket { limit, period_ns, max_delay_ns: 0, nodelay: 0, max_cost: 1 };
        assert_eq!((leaky.shape(), leaky.max_debt()), (&shape, 1));
    }

    #[test]
    fn a_limit_of_zero_is_legal_for_every_algorithm() {
        for algorithm in AlgorithmName::ALL {
            let mut spec = rate(0, SECOND_NS);
            spec.algorithm = Some(algorithm);
            if algorithm == AlgorithmName::Concurrency {
                spec.period_ns = None;
            }

            assert_eq!(spec.build().unwrap().limit(), Some(0), "{algorithm:?}");
        }
    }

    #[test]
    fn values_at_the_bounds_are_accepted() {
        let concurrent = |ttl_ns| QuotaSpec { limit: Some(100_000), ttl_ns: Some(ttl_ns), ..QuotaSpec::default() };
        let specs = [
            rate(UNITS_MAX, 1_000),
            rate(UNITS_MAX, PERIOD_MAX_NS),
            with(|spec| spec.entries = Some(1)),
            with(|spec| spec.entries = Some(1_024)),
            with(|spec| spec.min_interval_ns = Some(PERIOD_MAX_NS)),
            with(|spec| spec.max_debt = Some(UNITS_MAX)),
            with(|spec| spec.name = Some(format!("a{}", "-".repeat(63)))),
            concurrent(1_000_000),
            concurrent(86_400 * SECOND_NS),
        ];
        for spec in specs {
            assert!(spec.clone().build().is_ok(), "{spec:?}");
        }
    }

    #[test]
    fn a_parameter_of_another_algorithm_is_refused_and_both_are_named() {
        let gcra = with(|spec| (spec.burst, spec.queue_ns) = (Some(5), Some(5))).build();
        let concurrency = with(|spec| spec.algorithm = Some(AlgorithmName::Concurrency)).build();
        let unlimited = QuotaSpec { unlimited: true, max_debt: Some(0), ..QuotaSpec::default() };

        let cases = [
            (gcra, "\"queue\" is a parameter of leaky_bucket, not of gcra"),
            (concurrency, "\"period\" is not a parameter of concurrency"),
            (unlimited.build(), "\"max_debt\" is not a parameter of unlimited"),
        ];
        for (result, message) in cases {
            let error = result.unwrap_err();

            assert_eq!(error.code(), Code::ParameterNotForAlgorithm);
            assert_eq!(error.message(), message);
        }
    }
}

//! What one instance of several may admit on its own, when they cannot ask the store that they share.
//!
//! Together the instances never admit more than the quota: amounts are divided and rounded down, and a rate is divided exactly, by lengthening
//! its period. What does not suffice for everybody is not rounded up to 1 for each: then as many instances have a share as there are units, and
//! the others have none. Which ones they are, all must agree on.
//!
//! | quota | of N instances | have each |
//! | --- | --- | --- |
//! | windows, limit L | K = min(N, L) | `floor(L/K)` in the same windows |
//! | `gcra`, rate r, burst B | K = min(N, B) | rate `r/K`, burst `floor(B/K)` |
//! | `leaky_bucket`, rate r | K = min(N, `max_cost`) | rate `r/K`, `max_cost` and `nodelay` divided by K, the same queue in time |
//! | `concurrency`, limit C | K = min(N, C) | `floor(C/K)` |
//! | unlimited, or a limit of 0 | N | the same |
//!
//! `min_interval` becomes K times as long: on average requests are no closer than it says, but two instances do not know of each other's last.

use super::check::gcd;
use super::{PERIOD_MAX_NS, Quota, Shape};
use crate::mutant::Mutant;

/// A part of a quota; see [`Quota::share`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    /// What each instance with a share may admit. It may not owe anything.
    pub quota: Quota,
    /// How many instances have a share. The others admit nothing.
    pub sharers: u32,
}

impl Quota {
    /// The part of one of so many instances, 0 counting as 1.
    ///
    /// ```
    /// use tidegate_core::quota::Quota;
    ///
    /// let share = |text: &str, instances| {
    ///     let share = text.parse::<Quota>().unwrap().share(instances);
    ///     (share.quota.to_string(), share.sharers)
    /// };
    /// assert_eq!(share("100/minute", 8), ("12/minute max_debt 0".to_owned(), 8));
    /// assert_eq!(share("100/minute burst 20", 8), ("100/8m burst 2 max_debt 0".to_owned(), 8));
    /// assert_eq!(share("100/minute burst 5", 8), ("100/5m burst 1 max_debt 0".to_owned(), 5));
    /// ```
    #[must_use]
    pub fn share(&self, instances: u32) -> Share {
        let instances = instances.max(1);
        let least = |units: u64| u32::try_from(units).map_or(instances, |units| units.min(instances));
        let mut shape = self.shape.clone();
        let sharers = match &mut shape {
            Shape::Unlimited => instances,
            _ if self.limit() == Some(0) => instances,
            Shape::SlidingWindow { limit, .. }
            | Shape::SlidingWindowLog { limit, .. }
            | Shape::SlidingWindowCounter { limit, .. }
            | Shape::FixedWindow { limit, .. }
            | Shape::Concurrency { limit, .. } => {
                let sharers = least(*limit);
                *limit = if Mutant::SharesOfFortyPercent.is_active() { *limit * 2 / 5 } else { *limit / u64::from(sharers) };
                sharers
            }
            Shape::Gcra { burst: 0, .. } => instances,
            Shape::Gcra { limit, period_ns, burst } => {
                let sharers = least(*burst);
                *burst /= u64::from(sharers);
                (*limit, *period_ns) = slower(*limit, *period_ns, sharers);
                sharers
            }
            Shape::LeakyBucket { limit, period_ns, nodelay, max_cost, .. } => {
                let sharers = least(*max_cost);
                *max_cost /= u64::from(sharers);
                *nodelay /= u64::from(sharers);
                (*limit, *period_ns) = slower(*limit, *period_ns, sharers);
                sharers
            }
        };
        let min_interval_ns = self.min_interval_ns.saturating_mul(sharers.into()).min(PERIOD_MAX_NS);
        Share { quota: Self { name: self.name.clone(), shape, min_interval_ns, advance_ns: 0, max_debt: 0 }, sharers }
    }
}

/// A rate divided by a number: as it stands with a longer period, else in lowest terms, else rounded down to what the longest period can say.
///
/// It stays as fine as [`check`](super::check) demands, because a factor of the period can only shorten the fraction. And it stays above 0: a bucket
/// of one unit fills within the longest period, so at least one unit flows in it.
fn slower(limit: u64, period_ns: u64, times: u32) -> (u64, u64) {
    let period = u128::from(period_ns) * u128::from(times);
    let fits = |period: u128| u64::try_from(period).ok().filter(|&period| period <= PERIOD_MAX_NS);
    if let Some(period) = fits(period) {
        return (limit, period);
    }
    let rest = u64::try_from(period % u128::from(limit)).unwrap_or(0);
    let divisor = gcd(limit, rest);
    if let Some(period) = fits(period / u128::from(divisor)) {
        return (limit / divisor, period);
    }
    let units = u128::from(limit) * u128::from(PERIOD_MAX_NS) / period;
    (u64::try_from(units).unwrap_or(limit), PERIOD_MAX_NS)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{AlgorithmName, QuotaSpec};
    use super::*;
    use crate::decision::Status;
    use crate::meter::{Ask, Meter, State};
    use crate::time::Tick;

    const DAY_NS: u64 = 86_400 * 1_000_000_000;

    fn share(text: &str, instances: u32) -> (String, u32) {
        let share = text.parse::<Quota>().unwrap_or_else(|error| panic!("{error}")).share(instances);
        (share.quota.to_string(), share.sharers)
    }

    #[test]
    fn each_algorithm_has_its_share() {
        let cases = [
            ("10/s", 3, "3/second max_debt 0", 3),
            ("10/s", 11, "1/second max_debt 0", 10),
            ("10/s", 1, "10/second max_debt 0", 1),
            ("10/s", 0, "10/second max_debt 0", 1),
            ("7/s sliding_window_log", 2, "3/second sliding_window_log max_debt 0", 2),
            ("7/s sliding_window_counter", 4, "1/second sliding_window_counter max_debt 0", 4),
            ("1000/day calendar Europe/Berlin", 16, "62/day calendar Europe/Berlin max_debt 0", 16),
            ("20 concurrent", 6, "3 concurrent", 6),
            ("2 concurrent", 6, "1 concurrent", 2),
            ("unlimited", 6, "unlimited", 6),
            ("0/s", 6, "0/second", 6),
            ("0/s burst 4", 6, "0/second burst 4 max_debt 0", 6),
            ("10/s burst 0", 6, "10/second burst 0", 6),
            ("10/s burst 100 min_interval 5ms", 4, "10/4s burst 25 min_interval 20ms max_debt 0", 4),
            ("50/s queue 200ms nodelay 5", 4, "50/4s queue 200ms nodelay 1 max_debt 0", 4),
            ("50/s queue 200ms", 20, "50/11s queue 200ms max_debt 0", 11),
        ];
        for (text, instances, expected, sharers) in cases {
            assert_eq!(share(text, instances), (expected.to_owned(), sharers), "{text} of {instances}");
        }
    }

    #[test]
    fn a_rate_that_does_not_fit_the_longest_period_is_reduced_then_rounded_down() {
        assert_eq!(slower(10, DAY_NS, 36_500), (10, PERIOD_MAX_NS));
        assert_eq!(slower(10, DAY_NS, 36_501 * 2), (1, 36_501 * 2 * DAY_NS / 10));
        assert_eq!(slower(7, 10_000 * DAY_NS, 11), (2, PERIOD_MAX_NS));
        assert_eq!(slower(u64::from(u32::MAX), PERIOD_MAX_NS, u32::MAX), (1, PERIOD_MAX_NS));
    }

    /// Any quota of an algorithm that has amounts to divide.
    fn quotas() -> impl Strategy<Value = Quota> {
        use AlgorithmName::{Concurrency, FixedWindow, Gcra, LeakyBucket, SlidingWindow, SlidingWindowCounter, SlidingWindowLog};
        let algorithms = [SlidingWindow, SlidingWindowLog, SlidingWindowCounter, FixedWindow, Gcra, LeakyBucket, Concurrency];
        let numbers = (0u64..40, 1_000u64..5_000, 0u64..40, 0u64..4_000, 0u64..10, 1u64..12);
        (prop::sample::select(algorithms.to_vec()), numbers).prop_map(|(algorithm, numbers)| {
            let (limit, period_ns, burst, queue_ns, nodelay, max_cost) = numbers;
            let spec =
                QuotaSpec { limit: Some(limit), period_ns: Some(period_ns), algorithm: Some(algorithm), ..QuotaSpec::default() };
            let spec = match algorithm {
                SlidingWindow => QuotaSpec { entries: Some(4), ..spec },
                SlidingWindowCounter => QuotaSpec { buckets: Some(5), ..spec },
                Gcra => QuotaSpec { burst: Some(burst), ..spec },
                LeakyBucket => QuotaSpec { queue_ns: Some(queue_ns), nodelay: Some(nodelay), max_cost: Some(max_cost), ..spec },
                Concurrency => QuotaSpec { period_ns: None, ..spec },
                SlidingWindowLog | FixedWindow => spec,
            };
            spec.build().unwrap_or_else(|error| panic!("{error}"))
        })
    }

    /// The highest that a bucket stands that all units flow into, in parts of `period_ns` to the unit, of which `limit` leave in a nanosecond.
    fn level_max(starts: &[(u64, u64)], limit: u64, period_ns: u64) -> u128 {
        let (mut level, mut highest, mut last) = (0u128, 0, 0);
        for &(at, cost) in starts {
            level = level.saturating_sub(u128::from(limit) * u128::from(at - last)) + u128::from(cost) * u128::from(period_ns);
            (highest, last) = (highest.max(level), at);
        }
        highest
    }

    /// The most units of one window that is looked at whenever something starts.
    fn window_max(starts: &[(u64, u64)], same_window: impl Fn(u64, u64) -> bool) -> u64 {
        let within = |end: u64| starts.iter().filter(|(at, _)| *at <= end && same_window(*at, end)).map(|(_, cost)| cost).sum();
        starts.iter().map(|(end, _)| within(*end)).max().unwrap_or(0)
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, cases: 3_000, ..ProptestConfig::default() })]

        #[test]
        fn all_shares_together_admit_no_more_than_the_quota(
            quota in quotas(),
            instances in 1u32..20,
            requests in prop::collection::vec((0u64..1_500, any::<u32>(), 1u64..4), 1..150),
        ) {
            let share = quota.share(instances);
            let meter = Meter::new(&share.quota, Tick::NANOSECOND, None).expect("a share can be compiled");
            let mut states: Vec<State> = (0..share.sharers).map(|_| meter.empty()).collect();
            let (mut now, mut starts, mut lease) = (1_000_000u64, Vec::new(), 0);
            for (wait, instance, cost) in requests {
                now += wait;
                lease += 1;
                let state = states.get_mut((instance % instances) as usize);
                let ask = Ask { lease: Some(lease), ..Ask::cost(cost) };
                if let Some(status) = state.map(|state| meter.decide(state, now, ask)).filter(Status::is_allowed) {
                    starts.push((now + status.delay, cost));
                }
            }
            starts.sort_unstable();
            match *quota.shape() {
                Shape::Gcra { limit, period_ns, burst } => {
                    prop_assert!(level_max(&starts, limit, period_ns) <= u128::from(burst) * u128::from(period_ns));
                }
                Shape::LeakyBucket { limit, period_ns, nodelay, max_cost, .. } => {
                    // Each instance rounds its starts up to whole ticks, and so may bring them together by less than one.
                    let rounding = u128::from(limit) * u128::from(share.sharers);
                    let most = u128::from(nodelay + max_cost) * u128::from(period_ns) + rounding;
                    prop_assert!(level_max(&starts, limit, period_ns) <= most);
                }
                // No lease of a minute ends in this story.
                Shape::Concurrency { limit, .. } => prop_assert!(window_max(&starts, |_, _| true) <= limit),
                Shape::FixedWindow { limit, .. } => {
                    let window = quota.period_ns().expect("no calendar");
                    prop_assert!(window_max(&starts, |at, end| at / window == end / window) <= limit);
                }
                _ => {
                    let (limit, window) = (quota.limit().expect("limited"), quota.period_ns().expect("has a window"));
                    prop_assert!(window_max(&starts, |at, end| at + window > end) <= limit);
                }
            }
        }

        #[test]
        fn shares_sum_to_the_quota_and_lose_less_than_one_unit_each(quota in quotas(), instances in 1u32..100) {
            let Share { quota: part, sharers } = quota.share(instances);
            prop_assert!((1..=instances).contains(&sharers));
            let capacity = |quota: &Quota| Meter::new(quota, Tick::NANOSECOND, None).expect("can be compiled").capacity();
            let (all, one) = (capacity(&quota).unwrap_or(0), capacity(&part).unwrap_or(0));
            prop_assert!(all == 0 || one > 0, "who has a share can use it");
            match (quota.shape(), part.shape()) {
                (&Shape::LeakyBucket { limit: rate, period_ns, .. }, &Shape::LeakyBucket { limit, period_ns: longer, .. })
                | (&Shape::Gcra { limit: rate, period_ns, .. }, &Shape::Gcra { limit, period_ns: longer, .. })
                    if all > 0 && rate > 0 =>
                {
                    prop_assert_eq!(u128::from(limit) * u128::from(period_ns) * u128::from(sharers), u128::from(rate) * u128::from(longer));
                }
                _ => prop_assert!(one * u64::from(sharers) <= all && all < (one + 1) * u64::from(sharers) || all == 0),
            }
        }
    }
}

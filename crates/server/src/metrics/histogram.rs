//! Durations in buckets.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of the buckets in microseconds. Decisions in memory take some, those on a shared store hundreds up to the budget of 5 ms; what takes
/// longer than 20 ms is only wrong.
pub(super) const BOUNDS_US: [u64; 20] = [
    10, 25, 50, 100, 200, 300, 500, 750, 1_000, 1_500, 2_000, 3_000, 4_000, 5_000, 7_500, 10_000, 20_000, 50_000, 100_000,
    1_000_000,
];

/// Durations in buckets, and their sum.
#[derive(Debug)]
pub(crate) struct Histogram {
    bounds_us: &'static [u64],
    /// The last bucket has no bound.
    buckets: Box<[AtomicU64]>,
    sum_ns: AtomicU64,
}

/// What histograms hold together.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Total {
    /// The upper bounds of the buckets.
    pub(super) bounds_us: &'static [u64],
    /// How many durations are at most as long as each bound.
    pub(super) up_to: Vec<u64>,
    /// How many there are.
    pub(super) count: u64,
    /// Their sum.
    pub(super) sum_ns: u64,
}

impl Histogram {
    /// One with buckets up to these bounds, which grow.
    pub(crate) fn new(bounds_us: &'static [u64]) -> Self {
        let buckets = (0..=bounds_us.len()).map(|_| AtomicU64::new(0)).collect();
        Self { bounds_us, buckets, sum_ns: AtomicU64::new(0) }
    }

    /// Takes one in.
    pub(crate) fn observe(&self, took: Duration) {
        let took_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let bucket = self.bounds_us.partition_point(|&bound_us| bound_us * 1_000 < took_ns);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum_ns.fetch_add(took_ns, Ordering::Relaxed);
    }
}

impl Total {
    /// What histograms with these bounds hold.
    pub(crate) fn of<'a>(bounds_us: &'static [u64], histograms: impl IntoIterator<Item = &'a Histogram>) -> Self {
        let mut buckets = vec![0; bounds_us.len() + 1];
        let mut sum_ns = 0;
        for histogram in histograms {
            for (total, bucket) in buckets.iter_mut().zip(&histogram.buckets) {
                *total += bucket.load(Ordering::Relaxed);
            }
            sum_ns += histogram.sum_ns.load(Ordering::Relaxed);
        }
        let mut up_to = vec![0; bounds_us.len()];
        let mut count = 0;
        for (index, bucket) in buckets.into_iter().enumerate() {
            count += bucket;
            if let Some(up_to) = up_to.get_mut(index) {
                *up_to = count;
            }
        }
        Self { bounds_us, up_to, count, sum_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_counted_in_every_bucket_that_reaches_it() {
        let (one, two) = (Histogram::new(&BOUNDS_US), Histogram::new(&BOUNDS_US));
        one.observe(Duration::from_micros(10));
        one.observe(Duration::from_nanos(10_001));
        two.observe(Duration::from_secs(5));

        let total = Total::of(&BOUNDS_US, [&one, &two]);

        assert_eq!(total.up_to[..3], [1, 2, 2]);
        assert_eq!(total.up_to[BOUNDS_US.len() - 1], 2);
        assert_eq!((total.count, total.sum_ns), (3, 5_000_020_001));
    }

    #[test]
    fn buckets_resolve_what_is_below_twenty_milliseconds() {
        assert!(BOUNDS_US.is_sorted());
        assert!(BOUNDS_US.iter().filter(|&&bound| bound <= 20_000).count() >= 15);
    }
}

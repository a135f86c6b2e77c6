//! A share of what comes, which shrinks by halves while there is too much of it.
//!
//! One number serves a service with ten requests a second, of which everything is of use, and one with a million. What is taken stands for `weight` of
//! its kind, so that sums stay right.
//!
//! ```text
//! 1,000 a second at most, 100,000 come:   all, until 1,000 of this second are taken; then a half, a quarter, ... 1/128, which is 781 a second
//! then only 100 come:                     less than a quarter of 1,000 is taken, so each second twice the share, until it is all again
//! ```

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::chance::threshold;

const SECOND_NS: u64 = 1_000_000_000;
/// One of 2^40 is nobody any more.
const HALVINGS_MAX: u32 = 40;

/// A share of what comes.
#[derive(Debug)]
pub(super) struct Sampler {
    /// The largest share: numbers up to it are in it.
    threshold: u64,
    per_second: u64,
    /// How often the share was halved.
    halvings: AtomicU32,
    second: AtomicU64,
    /// How many were taken in this second, at most.
    taken: AtomicU64,
}

impl Sampler {
    /// Takes this share, and about so many a second at most.
    pub(super) fn new(share: f64, per_second: u32) -> Self {
        let threshold = if per_second == 0 { 0 } else { threshold(share) };
        Self {
            threshold,
            per_second: per_second.into(),
            halvings: AtomicU32::new(0),
            second: AtomicU64::new(0),
            taken: AtomicU64::new(0),
        }
    }

    /// How many of its kind one stands for that draws this number; `None` if it is not taken.
    #[inline]
    pub(super) fn weight(&self, number: u64) -> Option<u64> {
        let threshold = self.threshold >> self.halvings.load(Ordering::Relaxed);
        // Rounded to the nearest: a share of one in a hundred is a little less or more in binary, and stands for a hundred.
        (threshold > 0 && number <= threshold).then(|| u64::MAX / threshold + u64::from(u64::MAX % threshold > threshold / 2))
    }

    /// One was taken at this time.
    pub(super) fn took(&self, now_ns: u64) {
        self.turn(now_ns);
        if self.taken.fetch_add(1, Ordering::Relaxed) + 1 == self.per_second.max(2) {
            // The next half of them halves it again.
            self.taken.store(self.per_second / 2, Ordering::Relaxed);
            let more = |halvings: u32| Some((halvings + 1).min(HALVINGS_MAX));
            let _ = self.halvings.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        }
    }

    /// Begins another second if this one is over. Who takes what was sampled calls it too: a share may be so small that nobody is in it any more.
    pub(super) fn turn(&self, now_ns: u64) {
        let second = now_ns / SECOND_NS;
        let before = self.second.load(Ordering::Relaxed);
        if before == second || self.second.compare_exchange(before, second, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            return;
        }
        // What others count meanwhile may go astray, and moves the share a moment later.
        if self.taken.swap(0, Ordering::Relaxed) < self.per_second.div_ceil(4) {
            let fewer = |halvings: u32| halvings.checked_sub(1);
            let _ = self.halvings.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::random;

    /// How many of `come` are taken in one second, and how many they stand for. It begins as for who takes what was sampled: with a turn of the
    /// second, without which the share comes back only when chance takes somebody.
    fn second(sampler: &Sampler, second: u64, come: u64) -> (u64, u64) {
        sampler.turn(second * SECOND_NS);
        let weights = (0..come).filter_map(|_| {
            let weight = sampler.weight(random())?;
            sampler.took(second * SECOND_NS);
            Some(weight)
        });
        weights.fold((0, 0), |(count, sum), weight| (count + 1, sum + weight))
    }

    #[test]
    fn little_is_taken_as_a_whole() {
        let sampler = Sampler::new(1.0, 1_000);
        for number in 1..10 {
            assert_eq!(second(&sampler, number, 500), (500, 500));
        }
    }

    #[test]
    fn much_is_taken_in_part_and_the_weights_make_up_for_it() {
        let sampler = Sampler::new(1.0, 1_000);
        second(&sampler, 1, 100_000);
        for number in 2..10 {
            let (taken, stands_for) = second(&sampler, number, 100_000);
            assert!((250..2_500).contains(&taken), "{taken}");
            assert!((80_000..120_000).contains(&stands_for), "{stands_for}");
        }
    }

    #[test]
    fn the_share_comes_back_when_it_is_quiet() {
        let sampler = Sampler::new(1.0, 1_000);
        second(&sampler, 1, 1_000_000);
        for number in 2..60 {
            second(&sampler, number, 200);
        }

        assert_eq!(second(&sampler, 60, 200), (200, 200));
    }

    #[test]
    fn the_share_comes_back_when_nobody_is_in_it_any_more() {
        let sampler = Sampler::new(1.0, 10);
        second(&sampler, 1, 1_000_000);
        assert_eq!(sampler.weight(u64::MAX), None);
        for number in 2..60 {
            sampler.turn(number * SECOND_NS);
        }

        assert_eq!(sampler.weight(u64::MAX), Some(1));
    }

    #[test]
    fn a_share_is_never_exceeded_and_none_is_nobody() {
        let sampler = Sampler::new(0.01, 100_000);
        let (taken, stands_for) = second(&sampler, 1, 100_000);

        assert!((800..1_200).contains(&taken), "{taken}");
        assert_eq!(stands_for / taken, 100);
        assert_eq!(second(&Sampler::new(0.0, 1_000), 1, 1_000), (0, 0));
        assert_eq!(second(&Sampler::new(1.0, 0), 1, 1_000), (0, 0));
    }
}

//! What the calls of the last second came to.

use tidegate_core::mutant::Mutant;

use super::OpenReason;
use crate::failure::MILLISECOND;

const BUCKETS: usize = 10;
const BUCKET_NS: u64 = 100 * MILLISECOND;

/// Calls that a ratio needs to mean something.
const CALLS_MIN: u64 = 20;
/// So many failures in a row ...
const RUN: usize = 5;
/// ... within this time are enough without a ratio: a quiet service does not make 20 calls in a second.
const RUN_WITHIN_NS: u64 = 500 * MILLISECOND;
/// Or within so many budgets, if that is longer: a caller that waits for each of them makes no more.
const RUN_WITHIN_BUDGETS: u64 = 10;

/// Ten buckets of 100 ms, and the present run of failures.
#[derive(Debug, Clone, Default)]
pub(super) struct Window {
    buckets: [Bucket; BUCKETS],
    /// When the last failures happened between which nothing succeeded, the oldest first.
    run: [u64; RUN],
    run_length: usize,
}

#[derive(Debug, Clone, Copy, Default)]
struct Bucket {
    /// Which 100 ms: its start divided by its length.
    number: u64,
    calls: u64,
    failed: u64,
    slow: u64,
}

impl Window {
    /// Counts a call that was answered; says whether the breaker has to open.
    pub(super) fn answered(&mut self, now: u64, is_slow: bool) -> Option<OpenReason> {
        if !Mutant::BreakerNeverForgets.is_active() {
            self.run_length = 0;
        }
        self.count(now, false, is_slow);
        if is_slow { self.ratio(now) } else { None }
    }

    /// Counts a call that failed; says whether the breaker has to open.
    pub(super) fn failed(&mut self, now: u64, budget_ns: u64) -> Option<OpenReason> {
        if self.run_length == RUN {
            self.run.rotate_left(1);
            self.run_length -= 1;
        }
        self.run[self.run_length] = now;
        self.run_length += 1;
        self.count(now, true, false);
        if self.has_run(budget_ns) { Some(OpenReason::Consecutive) } else { self.ratio(now) }
    }

    fn has_run(&self, budget_ns: u64) -> bool {
        let within = RUN_WITHIN_NS.max(budget_ns.saturating_mul(RUN_WITHIN_BUDGETS));
        let took = self.run[RUN - 1].saturating_sub(self.run[0]);
        self.run_length == RUN && (took <= within || Mutant::BreakerNeverForgets.is_active())
    }

    fn count(&mut self, now: u64, is_failure: bool, is_slow: bool) {
        let number = now / BUCKET_NS;
        let bucket = &mut self.buckets[index(number)];
        if bucket.number < number {
            *bucket = Bucket { number, ..Bucket::default() };
        }
        // A thread that was held up for a second counts here as if it were not late.
        bucket.calls += 1;
        bucket.failed += u64::from(is_failure);
        bucket.slow += u64::from(is_slow);
    }

    /// Whether too many of the calls failed or were slow.
    fn ratio(&self, now: u64) -> Option<OpenReason> {
        let oldest = (now / BUCKET_NS).saturating_sub(BUCKETS as u64 - 1);
        let recent = self.buckets.iter().filter(|bucket| bucket.number >= oldest);
        let (calls, failed, slow) = recent
            .fold((0, 0, 0), |(calls, failed, slow), bucket| (calls + bucket.calls, failed + bucket.failed, slow + bucket.slow));
        if calls < CALLS_MIN {
            None
        } else if failed * 2 >= calls {
            Some(OpenReason::Failures)
        } else if slow * 5 >= calls * 4 {
            Some(OpenReason::Slow)
        } else {
            None
        }
    }
}

#[allow(clippy::cast_possible_truncation, reason = "a remainder of 10")]
fn index(number: u64) -> usize {
    (number % BUCKETS as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: u64 = MILLISECOND;

    /// Feeds one call a step: `.` answered, `s` slow, `x` failed. Returns what opened it, and at which call.
    fn feed(calls: &str) -> Option<(usize, OpenReason)> {
        let mut window = Window::default();
        calls.chars().enumerate().find_map(|(index, call)| {
            let now = 5_000 * MILLISECOND + index as u64 * STEP;
            let reason = match call {
                'x' => window.failed(now, 5 * MILLISECOND),
                call => window.answered(now, call == 's'),
            };
            reason.map(|reason| (index + 1, reason))
        })
    }

    #[test]
    fn a_window_opens_at_its_thresholds_and_not_before() {
        let cases = [
            ("xxxx", None),
            ("xxxxx", Some((5, OpenReason::Consecutive))),
            ("xxxx.xxxx.xxxx.xxxx", None),
            ("xxxx.xxxx.xxxx.xxxx.x", Some((21, OpenReason::Failures))),
            (".x.x.x.x.x.x.x.x.x.x", Some((20, OpenReason::Failures))),
            ("..x..x..x..x..x..x..x..x..x..x", None),
            ("ssssssssssssssss....s", Some((21, OpenReason::Slow))),
            ("sssssssssssssss.....s", None),
            ("sssssssssssssssssss", None),
            ("ssssssssssssssssssss", Some((20, OpenReason::Slow))),
        ];
        for (calls, expected) in cases {
            assert_eq!(feed(calls), expected, "{calls}");
        }
    }

    #[test]
    fn what_is_older_than_a_second_does_not_count() {
        let mut window = Window::default();
        for failure in 0..9 {
            assert_eq!(window.failed(failure * 200 * MILLISECOND, 5 * MILLISECOND), None);
            assert_eq!(window.answered(failure * 200 * MILLISECOND, false), None);
        }
        for _ in 0..10 {
            window.answered(1_700 * MILLISECOND, false);
        }

        assert_eq!(window.failed(1_700 * MILLISECOND, 5 * MILLISECOND), None);
    }

    #[test]
    fn failures_far_apart_are_no_run() {
        let mut window = Window::default();
        for failure in 0..100 {
            assert_eq!(window.failed(failure * 126 * MILLISECOND, 5 * MILLISECOND), None);
        }
        // The last four and this one.
        assert_eq!(window.failed(100 * 125 * MILLISECOND, 5 * MILLISECOND), Some(OpenReason::Consecutive));
    }

    #[test]
    fn a_late_thread_does_not_bring_back_an_old_bucket() {
        let mut window = Window::default();
        for _ in 0..19 {
            window.answered(10_000 * MILLISECOND, false);
        }
        for _ in 0..4 {
            assert_eq!(window.failed(1_000 * MILLISECOND, 5 * MILLISECOND), None);
        }

        assert_eq!(window.buckets.iter().map(|bucket| bucket.calls).sum::<u64>(), 23);
    }
}

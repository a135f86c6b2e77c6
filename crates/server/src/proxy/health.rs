//! Whether a server gets requests: what its answers and its checks say. Pure: time is passed in.
//!
//! ```text
//!               `ejection.after` failures in a row                `ejection.time` is over
//!          up ────────────────────────────────────► ejected ─────────────────────────────► up, slowly
//!                                                      ▲     one failure: twice as long         │
//!                                                      └────────────────────────────────────────┘
//!               `check.unhealthy` checks in a row fail              `check.healthy` checks in a row pass
//!          up ────────────────────────────────────► down ─────────────────────────────► up, slowly
//! ```
//!
//! Both are independent: who is ejected or down gets nothing. Whoever comes back gets a tenth of its share at first, and all of it after `slow_start`.

use std::time::Duration;

use tokio::time::Instant;

use super::settings::{CheckSettings, EjectionSettings};

/// What a server is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// It gets requests.
    Up,
    /// It failed too often, and gets none for a while.
    Ejected,
    /// Its checks fail.
    Down,
}

impl State {
    pub(crate) const ALL: [Self; 3] = [Self::Up, Self::Ejected, Self::Down];

    /// The word for metrics and logs.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Ejected => "ejected",
            Self::Down => "down",
        }
    }
}

/// A whole share.
pub(super) const WHOLE: u32 = 100;

/// What who comes back gets at first.
const FIRST: u32 = 10;

/// What is known of a server.
#[derive(Debug)]
pub(super) struct Health {
    checks: Checks,
    /// Checks in a row that say otherwise than `checks`.
    otherwise: u32,
    /// Failures in a row.
    failures: u32,
    /// Ejections, each of them soon after the one before.
    ejections: u32,
    ejected_until: Option<Instant>,
    /// When it came back, or will: from then on its share grows.
    back_at: Option<Instant>,
}

/// What checks say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Checks {
    /// Nobody has looked: the first check decides, and until then it is believed to be well.
    Unknown,
    Passed,
    Failed,
}

impl Health {
    /// A server of which nothing is known. One that joins others that serve already does so slowly, from `joined` on.
    pub(super) fn new(joined: Option<Instant>) -> Self {
        Self { checks: Checks::Unknown, otherwise: 0, failures: 0, ejections: 0, ejected_until: None, back_at: joined }
    }

    /// Notes that it answered.
    pub(super) fn succeeded(&mut self) {
        self.failures = 0;
    }

    /// Notes that it did not answer as it should. Answers whether it is ejected for that.
    pub(super) fn failed(&mut self, ejection: &EjectionSettings, now: Instant) -> bool {
        // What was under way when it was ejected says nothing new.
        if ejection.after == 0 || self.is_ejected(now) {
            return false;
        }
        self.failures = self.failures.saturating_add(1);
        if self.failures < ejection.after {
            return false;
        }
        if self.ejected_until.is_some_and(|until| now.saturating_duration_since(until) >= ejection.time_max) {
            self.ejections = 0;
        }
        let time = ejection.time.saturating_mul(2_u32.saturating_pow(self.ejections)).min(ejection.time_max);
        self.ejections = self.ejections.saturating_add(1);
        // Once it is back, one failure is enough.
        self.failures = ejection.after - 1;
        self.ejected_until = Some(now + time);
        self.back_at = self.ejected_until;
        true
    }

    /// Notes how a check went.
    pub(super) fn checked(&mut self, is_right: bool, check: &CheckSettings, now: Instant) {
        let said = if is_right { Checks::Passed } else { Checks::Failed };
        if said == self.checks {
            self.otherwise = 0;
            return;
        }
        self.otherwise += 1;
        let enough = match self.checks {
            Checks::Unknown => 1,
            Checks::Passed => check.unhealthy,
            Checks::Failed => check.healthy,
        };
        if self.otherwise >= enough {
            if self.checks == Checks::Failed {
                self.back_at = Some(self.back_at.map_or(now, |at| at.max(now)));
            }
            self.checks = said;
            self.otherwise = 0;
        }
    }

    /// Forgets what checks said, because there are none any more.
    pub(super) fn forget_checks(&mut self) {
        (self.checks, self.otherwise) = (Checks::Unknown, 0);
    }

    /// What it is.
    pub(super) fn state(&self, now: Instant) -> State {
        match self.checks {
            Checks::Failed => State::Down,
            _ if self.is_ejected(now) => State::Ejected,
            _ => State::Up,
        }
    }

    /// How much it gets of its weight, in per cent; 0 is nothing.
    pub(super) fn share(&self, slow_start: Duration, now: Instant) -> u32 {
        if self.state(now) != State::Up {
            return 0;
        }
        let Some(back_at) = self.back_at.filter(|_| !slow_start.is_zero()) else { return WHOLE };
        let passed = now.saturating_duration_since(back_at);
        let grown = passed.as_micros() * u128::from(WHOLE) / slow_start.as_micros().max(1);
        u32::try_from(grown).unwrap_or(WHOLE).clamp(FIRST, WHOLE)
    }

    /// Whether it stays as it is, with its whole share, until somebody notes something bad.
    pub(super) fn is_settled(&self, slow_start: Duration, now: Instant) -> bool {
        self.failures == 0 && self.share(slow_start, now) == WHOLE
    }

    fn is_ejected(&self, now: Instant) -> bool {
        self.ejected_until.is_some_and(|until| now < until)
    }
}

/// Whether so few are left that all are used: then the others are more likely to be well than the few are to bear everything.
pub(super) fn is_panic(available: usize, all: usize, below: f64) -> bool {
    #[allow(clippy::cast_precision_loss, reason = "groups have a few thousand servers at most")]
    let share = available as f64 / all.max(1) as f64;
    available == 0 || share < below
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn ejection(after: u32) -> EjectionSettings {
        EjectionSettings { after, time: SECOND, time_max: 5 * SECOND, counts_5xx: false }
    }

    fn check() -> CheckSettings {
        serde_json::from_value(
            serde_json::json!({"path": "/", "interval": 1, "timeout": 1, "healthy": 2, "unhealthy": 3, "status": [[200, 399]]}),
        )
        .expect("settings of a check")
    }

    #[test]
    fn failures_in_a_row_eject_and_an_answer_between_them_does_not() {
        let (mut health, now) = (Health::new(None), Instant::now());
        let rules = ejection(3);
        assert!(!health.failed(&rules, now) && !health.failed(&rules, now));
        health.succeeded();
        assert!(!health.failed(&rules, now) && !health.failed(&rules, now));
        assert_eq!(health.state(now), State::Up);
        assert!(health.failed(&rules, now));
        assert_eq!((health.state(now), health.share(Duration::ZERO, now)), (State::Ejected, 0));
        let almost = now + SECOND.checked_sub(Duration::from_nanos(1)).expect("a second is longer");
        assert_eq!((health.state(almost), health.state(now + SECOND)), (State::Ejected, State::Up));
    }

    #[test]
    fn each_ejection_is_twice_as_long_up_to_the_longest_and_peace_forgets() {
        let (mut health, mut now) = (Health::new(None), Instant::now());
        let rules = ejection(2);
        assert!(!health.failed(&rules, now));
        let mut times = Vec::new();
        for _ in 0..5 {
            assert!(health.failed(&rules, now), "once it is back, one failure is enough");
            assert!(!health.failed(&rules, now), "what was under way says nothing new");
            let until = health.ejected_until.expect("it is ejected");
            times.push((until - now).as_secs());
            now = until;
        }
        assert_eq!(times, [1, 2, 4, 5, 5]);
        now += rules.time_max;
        assert!(health.failed(&rules, now));
        assert_eq!(health.ejected_until, Some(now + SECOND), "after a while in peace it begins anew");
    }

    #[test]
    fn nobody_is_ejected_who_may_fail_as_often_as_it_likes() {
        let (mut health, now) = (Health::new(None), Instant::now());
        assert!((0..100).all(|_| !health.failed(&ejection(0), now)));
        assert_eq!(health.state(now), State::Up);
    }

    #[test]
    fn checks_need_several_in_a_row_but_for_the_first() {
        let (mut health, now) = (Health::new(None), Instant::now());
        let mut after = |is_right| {
            health.checked(is_right, &check(), now);
            health.state(now)
        };
        assert_eq!([false, true].map(&mut after), [State::Down, State::Down]);
        assert_eq!([false, true, true].map(&mut after), [State::Down, State::Down, State::Up]);
        assert_eq!([false, false, true].map(&mut after), [State::Up; 3]);
        assert_eq!([false, false, false].map(&mut after), [State::Up, State::Up, State::Down]);
        health.forget_checks();
        assert_eq!(health.state(now), State::Up);
    }

    #[test]
    fn whoever_comes_back_gets_more_and_more() {
        let (mut health, now) = (Health::new(None), Instant::now());
        assert!(health.is_settled(10 * SECOND, now));
        health.checked(false, &check(), now);
        for _ in 0..2 {
            health.checked(true, &check(), now);
        }
        let shares = [0, 1, 3, 5, 9, 10, 20].map(|seconds| health.share(10 * SECOND, now + seconds * SECOND));
        assert_eq!(shares, [10, 10, 30, 50, 90, 100, 100]);
        assert_eq!(health.share(Duration::ZERO, now), 100);
        assert!(!health.is_settled(10 * SECOND, now) && health.is_settled(10 * SECOND, now + 10 * SECOND));
    }

    #[test]
    fn when_few_are_left_all_are_used() {
        let table =
            [(0, 3, 0.0, true), (1, 3, 0.0, false), (1, 3, 0.5, true), (2, 4, 0.5, false), (3, 3, 1.0, false), (0, 0, 0.0, true)];
        for (available, all, below, expected) in table {
            assert_eq!(is_panic(available, all, below), expected, "{available} of {all}, below {below}");
        }
    }
}

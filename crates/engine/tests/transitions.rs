//! How one generation of quotas follows another.

mod limiter;

use std::thread;

use proptest::prelude::*;
use proptest::sample::select;
use tidegate_core::quota::{Quota, QuotaSpec, Shape};
use tidegate_core::time::Ticks;
use tidegate_engine::plan::{LoadError, Transition};

use limiter::{Limiter, SECOND, cases, quotas};

#[test]
fn a_changed_limit_keeps_what_was_used() {
    let pairs = [
        ("10/minute", "6/minute"),
        ("10/minute sliding_window_log", "6/minute sliding_window_log"),
        ("10/minute sliding_window_counter", "6/minute sliding_window_counter"),
        ("10/minute sliding_window_counter buckets 6", "6/minute sliding_window_counter buckets 6"),
        ("10/minute fixed_window", "6/minute fixed_window"),
        ("10/minute burst 10", "10/minute burst 6"),
        ("10 concurrent", "6 concurrent"),
    ];
    for (large, small) in pairs {
        let limiter = Limiter::new(large);
        assert!(limiter.allows("a", 4));
        limiter.load(small, Transition::Safe);
        assert_eq!((limiter.remaining("a"), limiter.engine.plan().quotas().len()), (2, 1), "{small}");
        limiter.load(large, Transition::Immediate);
        assert_eq!(limiter.remaining("a"), 6, "{large}");
        limiter.load("0/minute", Transition::Immediate);
        limiter.load(large, Transition::Immediate);
        assert_eq!(limiter.remaining("a"), 6, "{large} again");
        assert_eq!(limiter.engine.plan().generation(), 5);
    }
}

#[test]
fn a_limit_lowered_below_what_is_used_leaves_nothing_and_forgives_nothing() {
    let limiter = Limiter::new("10/minute");
    assert!(limiter.allows("a", 8));
    limiter.advance(20 * SECOND);
    limiter.load("5/minute", Transition::Safe);
    let denied = limiter.check("a", 1);
    assert_eq!((denied.verdict().remaining(), denied.verdict().retry_after()), (Some(0), Some(40 * SECOND)));
    limiter.load("12/minute", Transition::Safe);
    assert_eq!(limiter.remaining("a"), 4);
}

#[test]
fn a_limit_of_zero_and_back_keeps_what_was_used() {
    let limiter = Limiter::new("10/minute");
    assert!(limiter.allows("a", 4));
    limiter.load("0/minute", Transition::Safe);
    assert_eq!(limiter.check("a", 1).verdict().retry_after(), None);
    limiter.load("10/minute", Transition::Safe);
    assert_eq!(limiter.remaining("a"), 6);
}

#[test]
fn an_immediate_change_of_window_starts_afresh() {
    let limiter = Limiter::new("10/minute");
    assert!(limiter.allows("a", 10));
    limiter.load("10/hour", Transition::Immediate);
    assert!(limiter.allows("a", 10), "one extra limit may pass");
    assert_eq!(limiter.engine.plan().quotas().len(), 1);
}

#[test]
fn a_safe_change_of_window_or_algorithm_admits_nothing_extra() {
    let changes = [
        ("10/minute", "10/hour", 60),
        ("10/minute", "10/minute gcra", 60),
        ("10/minute sliding_window_log", "10/30s sliding_window_log", 60),
        ("10/minute sliding_window_counter", "10/minute", 120),
        ("10/minute fixed_window", "10/minute", 60),
        ("10/minute gcra max_debt 0", "10/minute fixed_window", 60),
        ("10/minute gcra max_debt 5", "10/minute fixed_window", 90),
    ];
    for (old, new, seconds) in changes {
        let limiter = Limiter::new(old);
        limiter.advance(SECOND);
        assert!(limiter.allows("a", 10), "{old}");
        limiter.load(new, Transition::Safe);
        let denied = limiter.check("a", 10);
        assert!(!denied.is_allowed(), "{old} to {new}");
        assert_eq!(denied.binding().expect("a quota").0.until, Some(limiter.clock.now() + seconds * SECOND), "{old} to {new}");

        limiter.advance(denied.verdict().retry_after().expect("a wait") - 1);
        assert!(!limiter.allows("a", 10), "{old} to {new}");
        limiter.advance(1);
        assert!(limiter.allows("a", 10), "{old} to {new}");
        limiter.advance(seconds * SECOND);
        assert_eq!(limiter.engine.plan().quotas().len(), 1, "{old} to {new}: the old quota is gone");
    }
}

#[test]
fn while_both_are_asked_the_old_one_is_no_stricter_than_the_new() {
    let limiter = Limiter::new("10/minute");
    assert!(limiter.allows("a", 10));
    limiter.load("25/30s", Transition::Safe);
    assert!(limiter.allows("a", 15));
    assert!(!limiter.allows("a", 1), "25 in a minute that began under the old quota");
    limiter.advance(30 * SECOND);
    assert!(!limiter.allows("a", 1));
    limiter.advance(30 * SECOND);
    assert!(limiter.allows("a", 25));
}

#[test]
fn what_becomes_unlimited_is_so_at_once() {
    let limiter = Limiter::new("10/minute");
    assert!(limiter.allows("a", 10));
    limiter.load("unlimited", Transition::Safe);
    assert!(limiter.allows("a", 1_000));
    limiter.load("10/minute", Transition::Safe);
    assert!(!limiter.allows("a", 1), "what was used within the minute counts again");
}

#[test]
fn a_gap_that_has_begun_is_kept_to_its_end() {
    let limiter = Limiter::new("100/second min_interval 10s");
    assert!(limiter.allows("a", 1));
    limiter.load("100/minute min_interval 10s", Transition::Safe);
    assert_eq!(limiter.check("a", 1).verdict().retry_after(), Some(10 * SECOND));
    limiter.advance(9 * SECOND);
    assert!(!limiter.allows("a", 1));
    limiter.advance(SECOND);
    assert!(limiter.allows("a", 1));
}

#[test]
fn named_quotas_are_replaced_by_their_name_and_others_in_their_order() {
    let named = |name: &str, text: &str| QuotaSpec { name: Some(name.to_owned()), ..spec(text) }.build().expect("a quota");
    let limiter = Limiter::of(vec![named("slow", "5/hour"), named("fast", "2/second")]);
    assert!(limiter.allows("a", 2));
    limiter.engine.load(vec![named("fast", "2/2s"), named("slow", "50/day")], Transition::Safe).expect("quotas");
    let plan = limiter.engine.plan();
    let phased_out: Vec<_> = plan.quotas().iter().filter(|planned| planned.until.is_some()).collect();
    let limits: Vec<_> = phased_out.iter().map(|planned| (planned.quota.name(), planned.quota.limit())).collect();
    assert_eq!(limits, [(Some("slow"), Some(50)), (Some("fast"), Some(2))]);
}

#[test]
fn a_quota_that_is_removed_is_not_asked_any_more() {
    let limiter = Limiter::new("10/minute, 2/second");
    assert!(limiter.allows("a", 2));
    limiter.load("10/minute", Transition::Safe);
    assert!(limiter.allows("a", 8));
}

#[test]
fn quotas_that_cannot_be_loaded_leave_the_old_ones_in_force() {
    let limiter = Limiter::new("10/minute");
    assert!(limiter.allows("a", 10));
    assert_eq!(limiter.engine.load(Vec::new(), Transition::Safe), Err(LoadError::Empty));
    assert_eq!(limiter.engine.load(vec![quotas("1/s").remove(0); 65], Transition::Safe), Err(LoadError::TooMany { count: 65 }));
    let unknown = limiter.engine.load(quotas("1/day calendar Europe/Atlantis"), Transition::Safe);
    assert!(matches!(unknown, Err(LoadError::Zone(_))));
    assert!(!limiter.allows("a", 1));
    assert_eq!(limiter.engine.plan().generation(), 1);
}

#[test]
fn reloading_the_same_few_quotas_does_not_pile_them_up() {
    let limiter = Limiter::new("10/minute");
    for round in 0..200 {
        limiter.load(["10/hour", "10/day", "10/minute gcra", "10/minute"][round % 4], Transition::Safe);
        limiter.advance(SECOND / 10);
        assert!(limiter.engine.plan().quotas().len() <= 4, "round {round}");
        limiter.allows("a", 1);
    }
    limiter.advance(2 * 86_400 * SECOND);
    assert!(limiter.allows("a", 1));
    assert_eq!(limiter.engine.plan().quotas().len(), 1);
}

#[test]
fn loads_under_traffic_lose_no_generation_and_admit_nothing_extra() {
    let limiter = Limiter::new("100/hour");
    let admitted: u64 = thread::scope(|scope| {
        let callers: Vec<_> =
            (0..8).map(|_| scope.spawn(|| (0..200).filter(|_| limiter.allows("a", 1)).count() as u64)).collect();
        let loaders = (0..4).map(|_| {
            scope.spawn(|| {
                for round in 0..50 {
                    limiter.load(["100/hour", "150/hour", "50/hour"][round % 3], Transition::Safe);
                }
            })
        });
        loaders.collect::<Vec<_>>().into_iter().for_each(|loader| loader.join().expect("a thread that returns"));
        callers.into_iter().map(|caller| caller.join().expect("a thread that returns")).sum()
    });
    assert_eq!(limiter.engine.plan().generation(), 201);
    limiter.load("200/hour", Transition::Safe);
    assert_eq!(limiter.remaining("a"), 200 - admitted, "every admission was counted");
    assert!((50..=150).contains(&admitted), "{admitted} admitted");
}

#[test]
fn a_calendar_quota_is_phased_out_at_the_end_of_its_day() {
    let limiter = Limiter::new("10/day calendar");
    limiter.advance(20 * 3_600 * SECOND);
    assert!(limiter.allows("a", 10));
    limiter.load("10/hour", Transition::Safe);
    let denied = limiter.check("a", 1);
    assert_eq!(denied.verdict().retry_after(), Some(4 * 3_600 * SECOND));
    limiter.advance(4 * 3_600 * SECOND);
    assert!(limiter.allows("a", 10));
}

fn spec(text: &str) -> QuotaSpec {
    let mut specs = tidegate_core::quota::parse_specs(text).expect("a quota");
    specs.remove(0)
}

/// What happens between loads.
#[derive(Debug, Clone, Copy)]
enum Step {
    Check(u64),
    Forward(u64),
    /// As long as the last denial said. It must be true to the nanosecond.
    Wait,
    /// One of the other quotas, numbered from the one in force.
    Load(usize),
}

/// Quotas of every kind, small enough that they bind often.
const TEXTS: [&str; 12] = [
    "3/10s",
    "5/25s entries 2",
    "4/40s sliding_window_log",
    "3/10s sliding_window_log",
    "4/12s sliding_window_counter",
    "6/30s sliding_window_counter buckets 3",
    "3/20s fixed_window",
    "7/60s fixed_window",
    "4/20s burst 2",
    "7/30s gcra max_debt 0",
    "2/10s queue 5s",
    "unlimited",
];

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (1..=3_u64).prop_map(Step::Check),
        4 => (1..=15_000_u64).prop_map(|millis| Step::Forward(millis * (SECOND / 1_000))),
        3 => Just(Step::Wait),
        1 => (1..3_usize).prop_map(Step::Load),
    ];
    prop::collection::vec(step, 1..60)
}

/// What is admitted, and which quota is in force.
struct Watch {
    admitted: Vec<(Ticks, u64)>,
    quota: Quota,
    loaded_at: Ticks,
    /// How much had been admitted when it was loaded.
    loaded_after: usize,
    /// The quota before, and how much had been admitted when that was loaded.
    before: Option<(Quota, usize)>,
}

impl Watch {
    /// Units in the window that ends now, leaving the first `skipped` admissions out.
    fn used(&self, now: Ticks, window: Ticks, skipped: usize) -> u64 {
        self.admitted[skipped..].iter().filter(|&&(at, _)| at + window > now).map(|&(_, cost)| cost).sum()
    }

    /// The limit and window of quotas that promise never more than the limit in any window.
    fn promise(quota: &Quota) -> Option<(u64, Ticks)> {
        match *quota.shape() {
            Shape::SlidingWindow { limit, window_ns, .. }
            | Shape::SlidingWindowLog { limit, window_ns }
            | Shape::SlidingWindowCounter { limit, window_ns, buckets: Some(_) } => Some((limit, window_ns)),
            _ => None,
        }
    }

    fn compare(&self, now: Ticks) -> Result<(), TestCaseError> {
        if let Some((limit, window)) = Self::promise(&self.quota) {
            let used = self.used(now, window, self.loaded_after);
            prop_assert!(used <= limit, "{used} since the load, the new limit is {limit}");
        }
        if let Some((before, skipped)) = &self.before
            && let Some((limit, window)) = Self::promise(before)
            && let Some(new_limit) = self.quota.limit()
            && now < self.loaded_at + window
        {
            let (used, limit) = (self.used(now, window, *skipped), limit.max(new_limit));
            prop_assert!(used <= limit, "{used} in an old window, the larger limit is {limit}");
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(cases(10_000))]

    /// Any quotas follow each other at any time. The old promise holds for one more of its windows with the larger limit, the new one from the load on,
    /// and every wait is true, also when it ends with the transition.
    #[test]
    fn across_loads_both_promises_hold_and_waits_are_true(texts in prop::array::uniform3(select(&TEXTS[..])), steps in steps()) {
        let limiter = Limiter::new(texts[0]);
        let now = limiter.clock.now();
        let quota = quotas(texts[0]).remove(0);
        let mut watch = Watch { admitted: Vec::new(), quota, loaded_at: now, loaded_after: 0, before: None };
        let (mut in_force, mut wait) = (0, 1);
        for step in steps {
            match step {
                Step::Check(cost) => {
                    let decision = limiter.check("a", cost);
                    if decision.is_allowed() {
                        watch.admitted.push((limiter.clock.now(), cost));
                        watch.compare(limiter.clock.now())?;
                    } else if let Some(retry_after) = decision.verdict().retry_after() {
                        wait = retry_after;
                        limiter.advance(wait - 1);
                        prop_assert!(!limiter.peek("a", cost).is_allowed(), "admitted a nanosecond before {wait}");
                        limiter.advance(1);
                        prop_assert!(limiter.peek("a", cost).is_allowed(), "denied after {wait}");
                    }
                }
                Step::Forward(nanos) => limiter.advance(nanos),
                Step::Wait => limiter.advance(wait),
                Step::Load(other) => {
                    in_force = (in_force + other) % 3;
                    limiter.load(texts[in_force], Transition::Safe);
                    let quota = quotas(texts[in_force]).remove(0);
                    if quota.to_string() != watch.quota.to_string() {
                        watch.before = Some((std::mem::replace(&mut watch.quota, quota), watch.loaded_after));
                        (watch.loaded_at, watch.loaded_after) = (limiter.clock.now(), watch.admitted.len());
                    }
                    prop_assert!(limiter.engine.plan().quotas().len() <= 3);
                }
            }
        }
    }
}

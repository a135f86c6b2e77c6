//! What a breaker promises, and what those who decide without the store do.
//!
//! Plain functions, because `failure_breaker.rs` runs them as tests and `mutants.rs` with mistakes switched on.

/// Hands the list of all functions to a macro.
macro_rules! promises {
    ($visit:ident) => {
        $visit! {
            five_errors_in_a_week_never_open_it,
            a_success_between_failures_starts_the_count_again,
            at_most_one_probe_is_in_flight,
            of_many_threads_one_probes,
            it_is_never_stuck,
            a_blip_of_a_second_does_not_cost_much_more,
            the_ramp_sends_no_more_than_its_share,
            late_outcomes_do_not_disturb,
            a_lost_probe_is_replaced_and_its_outcome_ignored,
            repeated_failures_back_off_and_calm_forgets_them,
            a_new_primary_is_tried_at_once,
            shares_never_add_up_to_more_than_the_quota,
            what_was_admitted_is_owed_until_it_is_charged,
        }
    };
}
pub(crate) use promises;

mod local;

pub(crate) use local::{shares_never_add_up_to_more_than_the_quota, what_was_admitted_is_owed_until_it_is_charged};

use std::collections::BTreeMap;
use std::sync::Barrier;
use std::thread;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use tidegate_engine::failure::breaker::{Admit, Breaker, BreakerState, OpenReason, Opening, Outcome, Token};

const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MILLISECOND;
const BUDGET: u64 = 5 * MILLISECOND;
const OK: Outcome = Outcome::Ok { took_ns: MILLISECOND };
const SLOW: Outcome = Outcome::Ok { took_ns: BUDGET + 1 };

/// A breaker, a clock, and the calls under way.
struct Story {
    breaker: Breaker,
    now: u64,
    in_flight: BTreeMap<(u64, usize), (Token, Outcome)>,
    calls: usize,
}

impl Story {
    fn new(seed: u64) -> Self {
        Self { breaker: Breaker::new(BUDGET, seed), now: 1_000 * SECOND, in_flight: BTreeMap::new(), calls: 0 }
    }

    /// One call, answered at once.
    fn call(&mut self, outcome: Outcome) -> Admit {
        let admit = self.breaker.admit(self.now);
        if let Some(token) = admit.token() {
            self.breaker.record(self.now, token, outcome);
        }
        admit
    }

    /// One call whose outcome comes later.
    fn send(&mut self, after: u64, outcome: Outcome) -> Admit {
        let admit = self.breaker.admit(self.now);
        if let Some(token) = admit.token() {
            self.in_flight.insert((self.now + after, self.calls), (token, outcome));
            self.calls += 1;
        }
        admit
    }

    /// Time passes, and outcomes arrive.
    fn wait(&mut self, time: u64) {
        let end = self.now + time;
        while let Some((&(at, call), _)) = self.in_flight.first_key_value().filter(|((at, _), _)| *at <= end) {
            let (token, outcome) = self.in_flight.remove(&(at, call)).expect("just seen");
            self.breaker.record(at, token, outcome);
        }
        self.now = end;
    }

    fn state(&self) -> BreakerState {
        self.breaker.state(self.now)
    }

    fn opening(&self) -> Opening {
        self.breaker.last_opening().expect("it has opened")
    }

    /// The token of a call that may be sent.
    fn token(&self) -> Token {
        self.breaker.admit(self.now).token().expect("it may be sent")
    }

    /// Five failures, one right after the other.
    fn open(&mut self) {
        for _ in 0..5 {
            self.call(Outcome::Failed);
        }
    }

    /// Waits until an open breaker is half open.
    fn wait_open(&mut self) {
        if let BreakerState::Open { until } = self.state() {
            self.wait(until - self.now);
        }
    }

    /// Three probes, and three steps of the ramp.
    fn recover(&mut self) {
        self.wait_open();
        for _ in 0..3 {
            self.call(OK);
        }
        self.wait(SECOND);
        assert_eq!(self.state(), BreakerState::Closed);
    }
}

fn check<S: Strategy>(cases: u32, strategy: &S, test: impl Fn(S::Value) -> Result<(), TestCaseError>) {
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    if let Err(failure) = TestRunner::new(config).run(strategy, test) {
        panic!("{failure}");
    }
}

pub(crate) fn five_errors_in_a_week_never_open_it() {
    let mut story = Story::new(1);
    for failure in 0..7 {
        for _ in 0..10 {
            story.call(OK);
            story.wait(60 * SECOND);
        }
        story.call(Outcome::Failed);
        story.wait(86_400 * SECOND);
        assert_eq!(story.state(), BreakerState::Closed, "after failure {failure}");
    }
    // Not even if nothing is called in between.
    for _ in 0..7 {
        story.call(Outcome::Failed);
        story.wait(SECOND);
    }

    assert_eq!((story.state(), story.breaker.openings()), (BreakerState::Closed, 0));
}

pub(crate) fn a_success_between_failures_starts_the_count_again() {
    let mut story = Story::new(2);
    for outcome in [Outcome::Failed, Outcome::Failed, Outcome::Failed, Outcome::Failed, OK] {
        story.call(outcome);
    }
    for _ in 0..4 {
        story.call(Outcome::Failed);
        story.call(Outcome::NotAFailure);
    }
    assert_eq!(story.state(), BreakerState::Closed);

    story.call(Outcome::Failed);
    let opening = story.opening();
    assert_eq!((opening.reason, opening.at, opening.since), (OpenReason::Consecutive, story.now, story.now));
    assert_eq!((story.state().as_str(), opening.reason.as_str()), ("open", "consecutive_failures"));
}

/// What happens next in a random story.
#[derive(Debug, Clone)]
enum Step {
    Wait(u64),
    Send { after: u64, outcome: Outcome },
    Trial,
}

fn step() -> impl Strategy<Value = Step> {
    let outcome = prop_oneof![3 => Just(OK), 3 => Just(Outcome::Failed), 1 => Just(SLOW), 1 => Just(Outcome::NotAFailure)];
    prop_oneof![
        3 => (0..400u64).prop_map(|time| Step::Wait(time * MILLISECOND)),
        // Sometimes no outcome within the time of the story.
        8 => (prop_oneof![9 => 0..60u64, 1 => 900..100_000u64], outcome)
            .prop_map(|(after, outcome)| Step::Send { after: after * MILLISECOND, outcome }),
        1 => Just(Step::Trial),
    ]
}

fn steps() -> impl Strategy<Value = (u64, Vec<Step>)> {
    (any::<u64>(), prop::collection::vec(step(), 1..200))
}

pub(crate) fn at_most_one_probe_is_in_flight() {
    check(500, &steps(), |(seed, steps)| {
        let mut story = Story::new(seed);
        story.open();
        let mut probe_until = 0;
        for step in steps {
            match step {
                Step::Wait(time) => story.wait(time),
                Step::Send { after, outcome } => {
                    let admit = story.send(after, outcome);
                    if matches!(admit, Admit::Probe(_)) {
                        prop_assert!(
                            story.now >= probe_until,
                            "a probe is under way until {}, and it is {}",
                            probe_until,
                            story.now
                        );
                        // After a second without an outcome it is given up.
                        probe_until = story.now + after.clamp(1, SECOND);
                    }
                    // Answers of the very instant are there before the next call is made.
                    story.wait(u64::from(after == 0));
                }
                Step::Trial => {
                    story.breaker.trial();
                    probe_until = 0;
                }
            }
        }
        Ok(())
    });
}

pub(crate) fn of_many_threads_one_probes() {
    for seed in 0..20 {
        let mut story = Story::new(seed);
        story.open();
        story.wait(SECOND);
        let (breaker, now, barrier) = (&story.breaker, story.now, Barrier::new(4));
        let probes: usize = thread::scope(|scope| {
            let count = || {
                barrier.wait();
                (0..200).filter(|_| matches!(breaker.admit(now), Admit::Probe(_))).count()
            };
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(count)).collect();
            threads.into_iter().map(|thread| thread.join().expect("counts")).sum()
        });

        assert_eq!(probes, 1);
    }
}

/// After whatever happened, calls that succeed close it: the longest backoff, a lost probe, three probes, and the ramp.
pub(crate) fn it_is_never_stuck() {
    check(500, &steps(), |(seed, steps)| {
        let mut story = Story::new(seed);
        story.open();
        for step in steps {
            match step {
                Step::Wait(time) => story.wait(time),
                Step::Send { after, outcome } => drop(story.send(after, outcome)),
                Step::Trial => story.breaker.trial(),
            }
        }
        // What is still under way never comes back.
        story.in_flight.clear();
        let start = story.now;
        while story.state() != BreakerState::Closed {
            story.call(OK);
            story.wait(10 * MILLISECOND);
            prop_assert!(story.now < start + 17 * SECOND, "still {:?}", story.state());
        }
        Ok(())
    });
}

/// How long the store is not fully used, with a call every millisecond, if it is away for so long.
fn pause_after(outage: u64, seed: u64) -> u64 {
    let mut story = Story::new(seed);
    let start = story.now;
    loop {
        let is_away = story.now < start + outage;
        if is_away {
            story.send(BUDGET, Outcome::Failed);
        } else {
            story.send(MILLISECOND, OK);
        }
        story.wait(MILLISECOND);
        if !is_away && story.state() == BreakerState::Closed {
            return story.now - start;
        }
        assert!(story.now < start + 60 * SECOND, "the store is back, the breaker is not");
    }
}

/// The last backoff is as long as the outage so far, roughly: doubled, and varied by half. The ramp adds 0.6 s.
pub(crate) fn a_blip_of_a_second_does_not_cost_much_more() {
    let mut pauses: Vec<u64> = (0..500).map(|seed| pause_after(SECOND, seed) - SECOND).collect();
    pauses.sort_unstable();
    let at = |percent: usize| pauses[pauses.len() * percent / 100] / MILLISECOND;

    assert!(at(50) <= 1_500, "half of them take {} ms", at(50));
    assert!(at(99) <= 2_500, "one of 100 takes {} ms", at(99));
    assert!(pauses[499] <= 4 * SECOND);
}

pub(crate) fn the_ramp_sends_no_more_than_its_share() {
    let (mut sent, mut asked) = (BTreeMap::new(), BTreeMap::new());
    for seed in 0..200 {
        let mut story = Story::new(seed);
        story.open();
        story.wait_open();
        for _ in 0..3 {
            assert!(matches!(story.call(OK), Admit::Probe(_)));
        }
        while let BreakerState::Ramp { percent } = story.state() {
            let is_sent = matches!(story.call(OK), Admit::Send(_));
            *asked.entry(percent).or_insert(0u64) += 1;
            *sent.entry(percent).or_insert(0u64) += u64::from(is_sent);
            story.wait(MILLISECOND);
        }
        assert_eq!(story.state(), BreakerState::Closed);
    }
    assert_eq!(asked.keys().copied().collect::<Vec<u8>>(), [1, 5, 25]);
    for (percent, asked) in asked {
        // Some 40,000 calls for each: 200 ms of each of 200 ramps.
        assert!((36_000..44_000).contains(&asked), "{percent}: {asked}");
        let share = sent[&percent] * 10_000 / asked;
        assert!((share.abs_diff(u64::from(percent) * 100)) < 80, "{percent} %: {share} of 10,000");
    }

    let mut story = Story::new(1);
    story.open();
    story.recover();
    story.open();
    story.wait_open();
    for _ in 0..3 {
        story.call(OK);
    }
    while !matches!(story.call(Outcome::Failed), Admit::Send(_)) {
        story.wait(MILLISECOND);
    }
    assert_eq!(story.opening().reason, OpenReason::Ramp);
    assert!(matches!(story.state(), BreakerState::Open { .. }));
}

pub(crate) fn late_outcomes_do_not_disturb() {
    let mut story = Story::new(4);
    let early: Vec<Token> = (0..100).filter_map(|_| story.breaker.admit(story.now).token()).collect();
    story.open();
    story.wait_open();
    let probe = story.token();
    for (index, &token) in early.iter().enumerate() {
        story.breaker.record(story.now, token, if index < 50 { OK } else { Outcome::Failed });
    }
    assert_eq!((story.state(), story.breaker.openings()), (BreakerState::HalfOpen, 1));

    story.breaker.record(story.now, probe, OK);
    story.call(OK);
    story.call(OK);
    story.breaker.record(story.now, early[0], Outcome::Failed);
    // The same outcome twice, although a token is good for one.
    story.breaker.record(story.now, probe, Outcome::Failed);
    assert_eq!(story.state(), BreakerState::Ramp { percent: 1 });

    story.wait(SECOND);
    assert_eq!(story.state(), BreakerState::Closed);
    for &token in &early {
        story.breaker.record(story.now, token, Outcome::Failed);
    }
    assert_eq!((story.state(), story.breaker.openings()), (BreakerState::Closed, 1));
}

pub(crate) fn a_lost_probe_is_replaced_and_its_outcome_ignored() {
    let mut story = Story::new(5);
    story.open();
    story.wait_open();
    let lost = story.token();
    story.wait(SECOND - 1);
    assert_eq!(story.breaker.admit(story.now), Admit::Refuse { retry_after: 1 });

    story.wait(1);
    let probe = story.token();
    story.breaker.record(story.now, lost, Outcome::Failed);
    assert_eq!(story.state(), BreakerState::HalfOpen);
    assert!(matches!(story.breaker.admit(story.now), Admit::Refuse { .. }), "the second is still under way");

    // A probe that says nothing makes room for another.
    story.breaker.record(story.now, probe, Outcome::NotAFailure);
    assert!(matches!(story.call(SLOW), Admit::Probe(_)));
    assert_eq!(story.opening().reason, OpenReason::Probe);
}

pub(crate) fn repeated_failures_back_off_and_calm_forgets_them() {
    let mut story = Story::new(6);
    let backoff = |story: &Story| match story.state() {
        BreakerState::Open { until } => (until - story.now) / MILLISECOND,
        state => panic!("{state:?}"),
    };
    story.open();
    let since = story.now;
    for base in [250, 500, 1_000, 2_000, 4_000, 8_000, 10_000, 10_000] {
        let wait = backoff(&story);
        assert!((base / 2..=base * 3 / 2).contains(&wait), "{wait} instead of about {base}");
        story.wait_open();
        assert!(matches!(story.call(Outcome::Failed), Admit::Probe(_)));
    }
    assert_eq!(story.opening().since, since);

    // A store that fails as soon as it is trusted is not tried as often as one that fails for the first time.
    story.recover();
    story.wait(29 * SECOND);
    story.open();
    assert!(backoff(&story) >= 5_000);

    story.recover();
    story.wait(31 * SECOND);
    story.open();
    assert!(backoff(&story) <= 375);
    assert_eq!(story.opening().since, story.now);
}

pub(crate) fn a_new_primary_is_tried_at_once() {
    let mut story = Story::new(7);
    story.open();
    story.wait_open();
    story.call(Outcome::Failed);
    story.breaker.trial();
    assert_eq!(story.state(), BreakerState::HalfOpen);
    let old = story.token();
    story.breaker.trial();
    story.breaker.record(story.now, old, Outcome::Failed);
    assert_eq!(story.state(), BreakerState::HalfOpen, "the probe went to the old primary");
    story.call(Outcome::Failed);
    assert!(matches!(story.state(), BreakerState::Open { until } if until - story.now <= 750 * MILLISECOND), "k = 1");

    story.recover();
    for _ in 0..4 {
        story.call(Outcome::Failed);
    }
    story.breaker.trial();
    story.call(Outcome::Failed);
    assert_eq!(story.state(), BreakerState::Closed, "the old primary's failures are not held against the new one");
}

//! `retry_after`, `remaining` and `reset_after` are true from both sides, to the tick.

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use tidegate_core::meter::Ask;
use tidegate_core::quota::Shape;
use tidegate_core::time::{TICKS_MAX, Tick};

use super::desk::{Desk, Event};
use super::history::{Events, History, Step, histories};
use super::quotas::{Family, Kind, Options};
use super::{Outcome, ensure, holds, quotas};

/// Histories of every algorithm, of which `look` sees every state after a check.
///
/// After a step back of the clock a promise is worth something from the next check on: it remembers the step, while a peek must not.
fn settled(runner: &mut TestRunner, kinds: &'static [Kind], look: fn(&Desk, &History) -> Outcome) -> Outcome {
    let options = Options { quotas_max: 3, min_interval: true, ..Options::of(kinds) };
    holds(runner, histories(options, Events::ALL), |history| {
        let mut desk = Desk::open(&history);
        for &step in &history.steps {
            if matches!(desk.play(step), Event::Checked { .. }) && desk.now < TICKS_MAX {
                look(&desk, &history)?;
            }
        }
        Ok(())
    })
}

/// Admitted exactly then and denied one tick earlier; never, if and only if the cost is above what one request may have.
pub(crate) fn the_wait_is_true_and_not_a_tick_too_long(runner: &mut TestRunner) -> Outcome {
    settled(runner, quotas::ALL, |desk, history| {
        let most = match *history.family.quotas[desk.loaded].shape() {
            Shape::LeakyBucket { max_cost, .. } => max_cost,
            _ => desk.capacity(),
        };
        let remaining = desk.remaining();
        for cost in [1, 2, remaining, remaining + 1, most.div_ceil(2), most, most + 1, 2 * most] {
            match desk.answer(0, cost).retry_after {
                None => ensure!(cost > most, "cost {cost} of {most} is never admitted"),
                Some(_) if cost > most => return Err(format!("cost {cost} of {most} has a waiting time")),
                Some(0) => {}
                Some(wait) => {
                    ensure!(desk.admits(wait, cost), "cost {cost} is denied after {wait} ticks");
                    ensure!(!desk.admits(wait - 1, cost), "cost {cost} is admitted a tick before {wait}");
                }
            }
        }
        Ok(())
    })
}

/// A caller that has no use for a late start is denied until it can start in time, and told when that is.
pub(crate) fn a_start_in_time_is_promised_to_the_tick(runner: &mut TestRunner) -> Outcome {
    let options = Options { min_interval: true, ..Options::of(&[Kind::Leaky]) };
    holds(runner, (histories(options, Events::ALL), 0..=25_u64), |(history, max_delay)| {
        let mut desk = Desk::open(&history);
        for &step in &history.steps {
            if !matches!(desk.play(step), Event::Checked { .. }) || desk.now >= TICKS_MAX {
                continue;
            }
            let assess = |wait| {
                let ask = Ask { max_delay, ..Ask::cost(1) };
                desk.meter().assess(&mut desk.state.clone(), desk.now + wait, ask)
            };
            let wait = assess(0).retry_after.ok_or("a cost of 1 is never admitted")?;
            let start = assess(wait);
            ensure!(start.retry_after == Some(0) && start.delay <= max_delay, "after {wait} ticks {start:?}");
            ensure!(wait == 0 || assess(wait - 1).retry_after == Some(1), "a tick before {wait}: {:?}", assess(wait - 1));
        }
        Ok(())
    })
}

/// The largest cost that is admitted; for the queue, the largest number of requests of cost 1.
pub(crate) fn what_remains_is_admitted_and_one_more_is_not(runner: &mut TestRunner) -> Outcome {
    const ONE_COST: &[Kind] =
        &[Kind::SlidingWindow, Kind::Log, Kind::Counter, Kind::Ring, Kind::Fixed, Kind::Gcra, Kind::Concurrency];
    settled(runner, ONE_COST, |desk, _| {
        let remaining = desk.remaining();
        ensure!(remaining == 0 || desk.admits(0, remaining), "{remaining} remain and are denied");
        ensure!(!desk.admits(0, remaining + 1), "{remaining} remain and one more is admitted");
        Ok(())
    })?;
    settled(runner, &[Kind::Leaky], |desk, history| {
        // With a distance between requests, only one of them passes at a time.
        if history.family.quotas[desk.loaded].min_interval_ns() > 0 {
            return Ok(());
        }
        let remaining = desk.remaining();
        let mut desk = desk.clone();
        let admitted = (0..=remaining).take_while(|_| desk.check(1).is_allowed()).count();
        ensure!(admitted as u64 == remaining, "{remaining} remain and {admitted} were admitted");
        Ok(())
    })
}

/// `reset_after` is the smallest wait until everything remains.
pub(crate) fn everything_is_back_at_the_reset_and_not_a_tick_before(runner: &mut TestRunner) -> Outcome {
    settled(runner, quotas::ALL, |desk, _| {
        let (reset_after, capacity) = (desk.answer(0, 0).reset_after, desk.capacity());
        let remaining = |wait| desk.answer(wait, 0).remaining.unwrap_or(0);
        ensure!(remaining(reset_after) == capacity, "{} of {capacity} after {reset_after} ticks", remaining(reset_after));
        ensure!(
            reset_after == 0 || remaining(reset_after - 1) < capacity,
            "everything is back one tick before {reset_after} already"
        );
        Ok(())
    })
}

/// What is admissible stays admissible while nothing happens: that makes the longest of several waits a true one.
pub(crate) fn waiting_never_hurts(runner: &mut TestRunner) -> Outcome {
    settled(runner, quotas::ALL, |desk, history| {
        let reset_after = desk.answer(0, 0).reset_after;
        let waits = [1, 2, history.family.window / 2, history.family.window, reset_after / 2, reset_after];
        for cost in [1, desk.remaining(), desk.capacity()] {
            for wait in waits {
                ensure!(!desk.admits(0, cost) || desk.admits(wait, cost), "cost {cost} is admitted, but not after {wait} ticks");
            }
        }
        for wait in waits {
            ensure!(desk.answer(wait, 0).remaining >= desk.answer(0, 0).remaining, "less remains after {wait} ticks");
        }
        Ok(())
    })
}

/// One request of cost n and n requests of cost 1 in the same tick end in the same state, and pass together or not at all.
pub(crate) fn a_cost_of_n_is_n_costs_of_one(runner: &mut TestRunner) -> Outcome {
    const KINDS: &[Kind] = &[Kind::SlidingWindow, Kind::Log, Kind::Counter, Kind::Ring, Kind::Fixed, Kind::Gcra];
    let options = Options { quotas_max: 2, ..Options::of(KINDS) };
    holds(runner, (histories(options, Events::ALL), 2..=6_u64), |(history, cost)| {
        let mut desk = Desk::open(&history);
        for &step in &history.steps {
            desk.play(step);
            if cost > desk.capacity() {
                continue;
            }
            let (mut whole, mut parts) = (desk.clone(), desk.clone());
            let status = whole.check(cost);
            let admitted = (0..cost).filter(|_| parts.check(1).is_allowed()).count() as u64;
            ensure!(status.is_allowed() == (admitted == cost), "cost {cost}: {status:?}, in parts {admitted}");
            if status.is_allowed() {
                ensure!(whole.answer(0, 1) == parts.answer(0, 1), "{:?} and {:?}", whole.answer(0, 1), parts.answer(0, 1));
                ensure!(
                    whole.answer(1, cost) == parts.answer(1, cost),
                    "{:?} and {:?}",
                    whole.answer(1, cost),
                    parts.answer(1, cost)
                );
            }
        }
        Ok(())
    })
}

/// The same quota on a clock of nanoseconds and on one of microseconds, while all events fall on full microseconds.
pub(crate) fn a_coarser_tick_rounds_waits_up_and_decides_the_same(runner: &mut TestRunner) -> Outcome {
    const KINDS: &[Kind] = &[Kind::SlidingWindow, Kind::Log, Kind::Counter, Kind::Fixed, Kind::Gcra, Kind::Leaky];
    const MICRO: u64 = 1_000;
    let options = Options { whole_micros: true, ..Options::of(KINDS) };
    let histories = histories(options, Events { loads: false, refunds: false, ..Events::FORWARD });
    // Nanoseconds since the epoch must fit the clock.
    let histories = histories.prop_map(|history| History { start: history.start / MICRO / MICRO, ..history });
    holds(runner, histories, |history| {
        let mut coarse = Desk::open(&history);
        let fine = Family { tick: Tick::NANOSECOND, window: history.family.window * MICRO, ..history.family.clone() };
        let mut fine = Desk::open(&History { family: fine, start: history.start * MICRO, steps: Vec::new() });
        for &step in &history.steps {
            if let Event::Checked { cost, status } = coarse.play(step) {
                let fine = fine.check(cost);
                ensure!(status.is_allowed() == fine.is_allowed(), "{status:?} and {fine:?}");
                ensure!(status.remaining == fine.remaining, "{status:?} and {fine:?}");
                ensure!(status.retry_after == fine.retry_after.map(|wait| wait.div_ceil(MICRO)), "{status:?} and {fine:?}");
                ensure!(status.reset_after == fine.reset_after.div_ceil(MICRO), "{status:?} and {fine:?}");
            } else if let Step::Debit(_) = step {
                fine.play(step);
            }
            fine.now = coarse.now * MICRO;
        }
        Ok(())
    })
}

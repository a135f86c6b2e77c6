//! Never above the bound of `algorithms.md` §1.0 in any window, whatever the clock does.

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use tidegate_core::quota::Shape;
use tidegate_core::time::Ticks;

use super::desk::{Desk, Event};
use super::history::{Events, History, Step, histories};
use super::oracle::{Envelope, ExactLog, LeaseBook};
use super::quotas::{Family, Kind, Options};
use super::{Outcome, ensure, holds, quotas};

/// On a clock that only moves on: charges, debits, refunds and changed limits.
pub(crate) fn no_window_sees_more_than_its_bound(runner: &mut TestRunner) -> Outcome {
    let options = Options { quotas_max: 3, min_interval: true, ..Options::of(quotas::WINDOWS) };
    let events = Events { back: false, ..Events::ALL };
    holds(runner, histories(options, events), |history| watched(&history, true))?;
    // Under a changed burst or rate no single envelope holds; the queue's output is promised while nobody leaves it.
    let one = |kinds| Options { min_interval: true, ..Options::of(kinds) };
    let events = Events { loads: false, ..Events::FORWARD };
    holds(runner, histories(one(&[Kind::Gcra, Kind::Concurrency]), events), |history| watched(&history, true))?;
    let events = Events { refunds: false, ..events };
    holds(runner, histories(one(&[Kind::Leaky]), events), |history| watched(&history, true))
}

/// Time is measured by the moves forward alone, so that steps back and forth do not make a window longer.
pub(crate) fn a_clock_that_steps_back_grants_nothing(runner: &mut TestRunner) -> Outcome {
    const KINDS: &[Kind] =
        &[Kind::SlidingWindow, Kind::Log, Kind::Counter, Kind::Ring, Kind::Fixed, Kind::Gcra, Kind::Leaky, Kind::Concurrency];
    let events = Events { loads: false, refunds: false, ..Events::ALL };
    let options = Options { min_interval: true, ..Options::of(KINDS) };
    holds(runner, histories(options, events), |history| watched(&history, false))
}

/// `min_interval`, also across steps back, debits, refunds and changes.
pub(crate) fn admitted_requests_keep_their_distance(runner: &mut TestRunner) -> Outcome {
    let options = Options { min_interval: true, quotas_max: 2, ..Options::of(quotas::TIMED) };
    holds(runner, histories(options, Events::ALL), |history| {
        let mut desk = Desk::open(&history);
        let mut last: Option<Ticks> = None;
        for &step in &history.steps {
            let event = desk.play(step);
            let distance = history.family.tick.ceil(history.family.quotas[desk.loaded].min_interval_ns());
            if let Event::Checked { status, .. } = event
                && status.is_allowed()
            {
                let apart = last.map(|last| desk.elapsed - last);
                // Before a load the quota may have had no distance to remember.
                ensure!(apart.is_none_or(|apart| apart >= distance), "{apart:?} ticks apart instead of {distance}");
                last = Some(desk.elapsed);
            }
            last = last.filter(|_| distance > 0 || !matches!(event, Event::Checked { .. }));
        }
        Ok(())
    })
}

/// Merging entries only ever holds units back, so the true usage stays below the recorded one.
pub(crate) fn the_bounded_log_never_admits_more_than_the_exact_log(runner: &mut TestRunner) -> Outcome {
    let options = Options { quotas_max: 2, ..Options::of(&[Kind::SlidingWindow]) };
    let events = Events { debits: false, ..Events::FORWARD };
    holds(runner, histories(options, events), |history| {
        let mut desk = Desk::open(&history);
        let mut log = ExactLog::default();
        for &step in &history.steps {
            note(&mut log, desk.now, desk.play(step));
            let (remaining, limit) = (desk.remaining(), desk.capacity());
            let exact = log.remaining(desk.now, history.family.window, limit);
            ensure!(remaining <= exact, "{remaining} remain, by the exact log only {exact}");
        }
        Ok(())
    })
}

/// While no more ticks are busy than the log has entries, nothing is merged.
pub(crate) fn both_logs_answer_like_the_naive_one_up_to_m_entries(runner: &mut TestRunner) -> Outcome {
    let options = Options { quotas_max: 2, ..Options::of(&[Kind::SlidingWindow, Kind::Log]) };
    let events = Events { debits: false, ..Events::ALL };
    let is_exact = |history: &History| {
        history.family.quotas.iter().all(|quota| match *quota.shape() {
            Shape::SlidingWindow { limit, entries, .. } => limit <= entries.into(),
            _ => true,
        })
    };
    holds(runner, histories(options, events).prop_filter("a log that merges", is_exact), |history| {
        let mut desk = Desk::open(&history);
        let mut log = ExactLog::default();
        let mut has_stepped_back = false;
        for &step in &history.steps {
            has_stepped_back |= matches!(step, Step::Back(_));
            if has_stepped_back && matches!(step, Step::Refund(..)) {
                // Which units a clamped entry lost is not known any more: the refund is dropped, and an oracle would have to guess.
                continue;
            }
            let event = desk.play(step);
            if !matches!(event, Event::Moved | Event::Loaded) {
                log.settle(desk.now, history.family.window);
            }
            note(&mut log, desk.now, event);
            if !matches!(event, Event::Checked { .. }) {
                continue;
            }
            let (now, window, limit) = (desk.now, history.family.window, desk.capacity());
            for cost in [1, limit.div_ceil(2), limit, limit + 1] {
                let answer = desk.answer(0, cost);
                let retry_after = log.retry_after(now, window, limit, cost);
                ensure!(answer.retry_after == retry_after, "cost {cost}: {answer:?}, naively {retry_after:?}");
                ensure!(answer.remaining == Some(log.remaining(now, window, limit)), "{answer:?}");
                ensure!(answer.reset_after == log.reset_after(now, window), "{answer:?}, {:?}", log.reset_after(now, window));
            }
        }
        Ok(())
    })
}

fn note(log: &mut ExactLog, now: Ticks, event: Event) {
    match event {
        Event::Checked { cost, status } if status.is_allowed() => {
            log.take(now, cost);
        }
        Event::Refunded { charge, units } => log.give_back(charge, units),
        _ => {}
    }
}

/// Plays a history and compares every admission with the bound.
fn watched(history: &History, is_aligned: bool) -> Outcome {
    let mut desk = Desk::open(history);
    let mut witness = Witness::new(&history.family, is_aligned);
    for &step in &history.steps {
        let before = desk.remaining();
        let event = desk.play(step);
        if matches!(step, Step::Back(_)) {
            let after = desk.remaining();
            ensure!(after <= before, "{before} remained, and {after} after the clock went back");
        }
        witness.note(&desk, event)?;
    }
    Ok(())
}

/// What was admitted, by the time that never goes back.
struct Witness<'a> {
    family: &'a Family,
    /// Whether windows can be compared with the clock, because it never goes back.
    is_aligned: bool,
    log: ExactLog,
    charges: Vec<(Ticks, u64)>,
    starts: Vec<(Ticks, u64)>,
    leases: LeaseBook,
}

impl<'a> Witness<'a> {
    fn new(family: &'a Family, is_aligned: bool) -> Self {
        let (charges, starts) = (Vec::new(), Vec::new());
        Self { family, is_aligned, log: ExactLog::default(), charges, starts, leases: LeaseBook::default() }
    }

    fn note(&mut self, desk: &Desk, event: Event) -> Outcome {
        match event {
            Event::Checked { cost, status } if status.is_allowed() => {
                self.log.take(desk.elapsed, cost);
                self.charges.push((desk.elapsed, cost));
                self.starts.push((desk.elapsed + status.delay, cost));
                self.leases.expire(desk.elapsed);
                self.leases.acquire(self.charges.len() as u128, cost, desk.elapsed + self.family.window);
                self.compare(desk, cost)
            }
            Event::Refunded { charge, units } => {
                self.log.give_back(charge, units);
                self.charges[charge].1 -= units;
                self.leases.release(charge as u128 + 1);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn compare(&self, desk: &Desk, cost: u64) -> Outcome {
        let (window, limit) = (self.family.window, desk.capacity());
        let limit_max = self.family.quotas.iter().filter_map(tidegate_core::quota::Quota::limit).max().unwrap_or(0);
        let used = self.log.used(desk.elapsed, window);
        match *self.family.quotas[desk.loaded].shape() {
            Shape::SlidingWindow { .. }
            | Shape::SlidingWindowLog { .. }
            | Shape::SlidingWindowCounter { buckets: Some(_), .. } => {
                ensure!(used <= limit, "{used} in one window, the limit is {limit}");
            }
            Shape::SlidingWindowCounter { .. } => {
                ensure!(used < 2 * limit_max, "{used} in one window, not below twice {limit_max}");
            }
            Shape::FixedWindow { .. } => {
                ensure!(used <= 2 * limit_max, "{used} in one window, more than twice {limit_max}");
                let since_boundary = (desk.now % window).min(desk.elapsed);
                let aligned = self.log.between(desk.elapsed - since_boundary, desk.elapsed);
                ensure!(!self.is_aligned || aligned <= limit, "{aligned} since the boundary, the limit is {limit}");
            }
            Shape::Gcra { limit, period_ns, burst } => {
                let envelope = Envelope { limit, period_ns, tick_ns: self.family.tick.nanos() };
                let excess = envelope.excess(&self.charges, burst, 0);
                ensure!(excess.is_none(), "more than burst and rate allow between ticks {excess:?}");
            }
            Shape::LeakyBucket { limit, period_ns, nodelay, .. } => {
                let envelope = Envelope { limit, period_ns, tick_ns: self.family.tick.nanos() };
                let mut starts = self.starts.clone();
                // Whoever starts last may take its time. Starts are rounded to ticks.
                starts.last_mut().expect("a request has just been admitted").1 = 0;
                let excess = envelope.excess(&starts, nodelay, 1);
                ensure!(excess.is_none(), "starts between ticks {excess:?} come too close");
            }
            Shape::Concurrency { .. } => {
                let in_flight = self.leases.used();
                ensure!(in_flight <= limit, "{in_flight} in flight, the limit is {limit}");
            }
            Shape::Unlimited => {}
        }
        ensure!(cost <= limit || self.family.kind == Kind::Leaky, "cost {cost} was admitted, the capacity is {limit}");
        Ok(())
    }
}

//! Every verdict as by the formulas of `algorithms.md` §1.1-1.7, recomputed from the whole history each time: nothing is denied without need.

use proptest::test_runner::TestRunner;
use tidegate_core::quota::Shape;
use tidegate_core::time::Ticks;

use super::desk::{Desk, Event};
use super::history::{Events, histories};
use super::quotas::{Family, Kind, Options};
use super::{Outcome, ensure, holds};

/// Charges on a clock that only moves on. The logs have an oracle of their own, which also knows refunds and steps back.
pub(crate) fn every_decision_is_that_of_the_naive_formula(runner: &mut TestRunner) -> Outcome {
    const KINDS: &[Kind] = &[Kind::Fixed, Kind::Counter, Kind::Ring, Kind::Gcra, Kind::Leaky];
    holds(runner, histories(Options::of(KINDS), Events::default()), |history| {
        let mut desk = Desk::open(&history);
        let mut charges = Vec::new();
        for &step in &history.steps {
            let Event::Checked { cost, status } = desk.play(step) else { continue };
            let before = left(&history.family, &charges, desk.now);
            ensure!(status.is_allowed() == before.admits(cost), "cost {cost}: {status:?}, naively {before:?}");
            if status.is_allowed() {
                charges.push((desk.now, cost));
                ensure!(status.delay == before.delay, "{status:?}, naively {before:?}");
            }
            let after = left(&history.family, &charges, desk.now);
            ensure!(status.remaining == Some(after.remaining), "{status:?}, naively {after:?}");
        }
        Ok(())
    })
}

/// What is left, and how a request would fare.
#[derive(Debug)]
struct Left {
    remaining: u64,
    /// The largest cost of one request, if anything is left at all.
    cost_max: u64,
    delay: Ticks,
}

impl Left {
    fn of(remaining: u64) -> Self {
        Self { remaining, cost_max: remaining, delay: 0 }
    }

    fn admits(&self, cost: u64) -> bool {
        self.remaining > 0 && cost <= self.cost_max
    }
}

fn left(family: &Family, charges: &[(Ticks, u64)], now: Ticks) -> Left {
    let (window, tick_ns) = (family.window, family.tick.nanos());
    let sum =
        |counts: &dyn Fn(Ticks) -> bool| charges.iter().filter(|charge| counts(charge.0)).map(|charge| charge.1).sum::<u64>();
    match *family.quotas[0].shape() {
        Shape::FixedWindow { limit, .. } => Left::of(limit - sum(&|at| at / window == now / window)),
        Shape::SlidingWindowCounter { limit, buckets: None, .. } => {
            let (current, previous) = (sum(&|at| at / window == now / window), sum(&|at| at / window + 1 == now / window));
            let elapsed = now % window;
            Left::of((limit * window).saturating_sub(current * window + previous * (window - elapsed)) / window)
        }
        Shape::SlidingWindowCounter { limit, buckets: Some(k), .. } => {
            let width = window.div_ceil(k.into());
            Left::of(limit - sum(&|at| (at / width + 1) * width - 1 + u64::from(k) * width > now))
        }
        Shape::Gcra { limit, period_ns, burst } => {
            let used = level(charges, now, u128::from(limit * tick_ns), u128::from(period_ns));
            Left::of(whole((u128::from(burst) * u128::from(period_ns)).saturating_sub(used), period_ns))
        }
        Shape::LeakyBucket { limit, period_ns, max_delay_ns, nodelay, max_cost } => {
            let flow = u128::from(limit * tick_ns);
            let backlog = level(charges, now, flow, u128::from(period_ns));
            let at_once = u128::from(nodelay) * u128::from(period_ns);
            let admitted = u128::from(max_delay_ns / tick_ns) * flow + at_once;
            let remaining = admitted.checked_sub(backlog).map_or(0, |free| whole(free, period_ns) + 1);
            let delay = backlog.saturating_sub(at_once).div_ceil(flow);
            Left { remaining, cost_max: max_cost, delay: Ticks::try_from(delay).expect("a queue of at most a hundred years") }
        }
        ref other => unreachable!("{other:?} has another oracle"),
    }
}

/// The level of a bucket from which `flow` parts leave with every tick, and into which every unit brings `weight` parts.
fn level(charges: &[(Ticks, u64)], now: Ticks, flow: u128, weight: u128) -> u128 {
    let (mut level, mut last) = (0_u128, 0);
    for &(at, cost) in charges.iter().chain(&[(now, 0)]) {
        level = level.saturating_sub(u128::from(at - last) * flow) + u128::from(cost) * weight;
        last = at;
    }
    level
}

fn whole(parts: u128, weight: u64) -> u64 {
    u64::try_from(parts / u128::from(weight)).expect("a small number of units")
}

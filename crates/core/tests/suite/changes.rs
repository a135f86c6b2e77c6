//! Changed limits, and the limits 0 and unlimited.

use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::TestRunner;
use tidegate_core::meter::{Ask, Meter};
use tidegate_core::quota::{AlgorithmName, QuotaSpec, Shape};
use tidegate_core::time::Tick;

use super::desk::{Desk, ask};
use super::history::{Events, histories};
use super::quotas::{Kind, Options};
use super::{Outcome, ensure, holds};

/// A limit that is raised by n leaves n more, one that is lowered n less.
pub(crate) fn a_changed_limit_keeps_what_was_used(runner: &mut TestRunner) -> Outcome {
    const KINDS: &[Kind] =
        &[Kind::SlidingWindow, Kind::Log, Kind::Counter, Kind::Ring, Kind::Fixed, Kind::Gcra, Kind::Concurrency];
    let options = Options { quotas_max: 3, one_pace: true, ..Options::of(KINDS) };
    let events = Events { debits: false, loads: false, ..Events::FORWARD };
    holds(runner, histories(options, events), |history| {
        let mut desk = Desk::open(&history);
        for &step in &history.steps {
            desk.play(step);
            let used = desk.capacity() - desk.remaining();
            for quota in 0..desk.meters.len() {
                let mut changed = desk.clone();
                changed.load(quota);
                let expected = changed.capacity().saturating_sub(used);
                ensure!(
                    changed.remaining() == expected,
                    "{used} used, and {} remain of {}",
                    changed.remaining(),
                    changed.capacity()
                );
            }
        }
        Ok(())
    })
}

/// The state of a bucket is a time: whatever the new rate, it is full again when it would have been, or when an empty one is.
pub(crate) fn a_changed_rate_keeps_the_time_until_the_reset(runner: &mut TestRunner) -> Outcome {
    let options = Options { quotas_max: 2, ..Options::of(&[Kind::Gcra]) };
    holds(runner, histories(options, Events { loads: false, ..Events::FORWARD }), |history| {
        let mut desk = Desk::open(&history);
        for &step in &history.steps {
            desk.play(step);
            let before = desk.answer(0, 0).reset_after;
            let mut changed = desk.clone();
            changed.load(desk.meters.len() - 1);
            let after = changed.answer(0, 0).reset_after;
            let quota = &history.family.quotas[changed.loaded];
            let &Shape::Gcra { limit, period_ns, burst } = quota.shape() else { return Err(format!("{quota}")) };
            let units = u128::from(burst + quota.max_debt());
            let longest = (units * u128::from(period_ns)).div_ceil(u128::from(limit * history.family.tick.nanos()));
            let expected = u128::from(before).min(longest);
            let slack = u128::from(changed.loaded > 0);
            ensure!((expected..=expected + slack).contains(&u128::from(after)), "{before} ticks became {after}");
        }
        Ok(())
    })
}

/// A limit of 0 is legal. The first request is denied like any other, and no wait helps.
pub(crate) fn a_limit_of_zero_admits_nothing_and_says_never(runner: &mut TestRunner) -> Outcome {
    let cases = (select(&AlgorithmName::ALL[..]), any::<bool>(), any::<[u32; 8]>());
    holds(runner, cases, |(algorithm, is_burst, times)| {
        let is_burst = is_burst && algorithm == AlgorithmName::Gcra;
        let (limit, burst) = if is_burst { (10, Some(0)) } else { (0, None) };
        let period_ns = (algorithm != AlgorithmName::Concurrency).then_some(1_000_000);
        let spec = QuotaSpec { algorithm: Some(algorithm), limit: Some(limit), burst, period_ns, ..QuotaSpec::default() };
        let meter = meter(spec)?;
        let mut state = meter.empty();
        for now in times.map(u64::from) {
            for cost in [1, 2, 1 << 53] {
                let status = meter.decide(&mut state, now, ask(cost, now.into()));
                ensure!(status.retry_after.is_none(), "cost {cost}: {status:?}");
                ensure!((status.limit, status.remaining) == (Some(0), Some(0)), "{status:?}");
            }
            meter.debit(&mut state, now, 5);
        }
        Ok(())
    })
}

/// "Unlimited" is a value of its own.
pub(crate) fn without_a_limit_everything_passes(runner: &mut TestRunner) -> Outcome {
    holds(runner, any::<[(u64, u64); 8]>(), |asks| {
        let meter = meter(QuotaSpec { unlimited: true, ..QuotaSpec::default() })?;
        let mut state = meter.empty();
        for (now, cost) in asks {
            let status = meter.decide(&mut state, now, Ask::cost(cost));
            ensure!(status.is_allowed() && status.limit.is_none() && status.remaining.is_none(), "{status:?}");
            ensure!((status.reset_after, status.delay) == (0, 0), "{status:?}");
            meter.debit(&mut state, now, cost);
        }
        Ok(())
    })
}

fn meter(spec: QuotaSpec) -> Result<Meter, String> {
    let quota = spec.build().map_err(|error| error.to_string())?;
    Meter::new(&quota, Tick::NANOSECOND, None).map_err(|error| error.to_string())
}

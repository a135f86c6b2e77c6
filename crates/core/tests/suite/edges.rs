//! The largest and smallest numbers that a quota may have, at the beginning and at the end of time.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::TestRunner;
use tidegate_core::algorithm::Refund;
use tidegate_core::meter::Meter;
use tidegate_core::quota::{AlgorithmName, PERIOD_MAX_NS, QuotaSpec, UNITS_MAX};
use tidegate_core::time::{TICKS_MAX, Tick, Ticks};

use super::desk::ask;
use super::{Outcome, ensure, holds};

const UNITS: [u64; 10] = [0, 1, 2, 100_000, 1_000_000, u32::MAX as u64, 1 << 32, 9_007_199_250_000_000, UNITS_MAX - 1, UNITS_MAX];
const PERIODS: [u64; 7] = [1_000, 1_001, 1_000_000, 1_000_000_000, 999_999_999_989, PERIOD_MAX_NS - 1, PERIOD_MAX_NS];
const INSTANTS: [Ticks; 8] = [0, 1, 999, 1_000, 1_767_225_600_000_000_000, TICKS_MAX - PERIOD_MAX_NS, TICKS_MAX - 1, TICKS_MAX];

fn specs() -> impl Strategy<Value = QuotaSpec> {
    let units = || proptest::option::of(select(&UNITS[..]));
    let period = || select(&PERIODS[..]);
    let counts = (select(vec![1_u64, 2, 16, 1_024]), select(vec![2_u64, 3, 1_000, 1_024]));
    let durations = (period(), proptest::option::of(period()), proptest::option::of(period()));
    (select(&AlgorithmName::ALL[..]), select(&UNITS[..]), [units(), units(), units(), units()], durations, counts).prop_map(
        |(algorithm, limit, [burst, nodelay, max_cost, max_debt], (period_ns, queue_ns, min_interval_ns), (entries, buckets))| {
            let base = QuotaSpec { algorithm: Some(algorithm), limit: Some(limit), ..QuotaSpec::default() };
            let timed = QuotaSpec { period_ns: Some(period_ns), min_interval_ns, max_debt, ..base.clone() };
            match algorithm {
                AlgorithmName::SlidingWindow => QuotaSpec { entries: Some(entries), ..timed },
                AlgorithmName::SlidingWindowCounter => QuotaSpec { buckets: max_cost.map(|_| buckets), ..timed },
                AlgorithmName::Gcra => QuotaSpec { burst, ..timed },
                AlgorithmName::LeakyBucket => QuotaSpec { queue_ns, nodelay, max_cost, ..timed },
                AlgorithmName::SlidingWindowLog | AlgorithmName::FixedWindow => timed,
                AlgorithmName::Concurrency => QuotaSpec { ttl_ns: queue_ns, ..base },
            }
        },
    )
}

/// Whatever a quota accepts at construction, no later sum or product overflows, and what it answers makes sense.
pub(crate) fn numbers_at_their_limits_never_overflow(runner: &mut TestRunner) -> Outcome {
    let event = (0..6_u8, select(&UNITS[..]), select(&INSTANTS[..]), 0..3_u64);
    let ticks = select(vec![1_u64, 1_000, 1_000_000]);
    holds(runner, (specs(), ticks, vec(event, 1..24)), |(spec, tick_ns, events)| {
        let (Ok(quota), Some(tick)) = (spec.build(), Tick::from_nanos(tick_ns)) else { return Ok(()) };
        let Ok(meter) = Meter::new(&quota, tick, None) else {
            ensure!(tick_ns > 1, "{quota} cannot be compiled for nanoseconds");
            return Ok(());
        };
        let (mut state, mut receipts) = (meter.empty(), Vec::new());
        for (lease, (what, cost, instant, later)) in (1..).zip(events) {
            let now = (instant + later).min(TICKS_MAX);
            match what {
                0..=2 => {
                    let cost = if what == 0 { cost.max(1) } else { cost.clamp(1, meter.capacity().unwrap_or(1).max(1)) };
                    let status = meter.decide(&mut state, now, ask(cost, lease));
                    receipts.extend(status.is_allowed().then_some((status.receipt, cost)));
                    ensure!(status.remaining <= meter.capacity(), "{status:?}");
                    let waits = [status.retry_after.unwrap_or(0), status.reset_after, status.delay];
                    // After a step back of the clock leases expire late by as much.
                    let is_bounded = meter.retry_is_hint() || waits.iter().all(|&wait| wait <= 2 * PERIOD_MAX_NS);
                    ensure!(is_bounded, "{quota}: {status:?}");
                }
                3 => meter.debit(&mut state, now, cost),
                4 => {
                    if let Some((receipt, cost)) = receipts.pop() {
                        meter.refund(&mut state, now, Refund { receipt, cost: cost - cost / 2 });
                    }
                }
                _ => {
                    meter.assess(&mut state, now, ask(cost, lease));
                    let left = meter.left(&state, now);
                    ensure!(left.remaining <= meter.capacity(), "{left:?}");
                }
            }
            ensure!(meter.expires_at(&state) <= now.max(TICKS_MAX) + 2 * PERIOD_MAX_NS, "{:?}", state);
            meter.pack(&state).map(|words| meter.unpack(words)).inspect(|unpacked| assert_eq!(unpacked, &state));
        }
        Ok(())
    })
}

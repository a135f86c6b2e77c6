//! From a checked quota, in nanoseconds, to a meter, in ticks.

use std::sync::Arc;

use super::Meter;
use super::state::{Kernel, with_kernel};
use crate::algorithm::Algorithm as _;
use crate::algorithm::concurrency::Concurrency;
use crate::algorithm::constant::{Closed, Unlimited};
use crate::algorithm::fixed_window::{FixedWindow, Span};
use crate::algorithm::gcra::Gcra;
use crate::algorithm::leaky_bucket::LeakyBucket;
use crate::algorithm::rate::Rate;
use crate::algorithm::sliding_window::SlidingWindow;
use crate::algorithm::sliding_window_counter::SlidingWindowCounter;
use crate::algorithm::sliding_window_log::SlidingWindowLog;
use crate::algorithm::sliding_window_ring::SlidingWindowRing;
use crate::mutant::Mutant;
use crate::quota::{AlgorithmName, FixedWindowSpan, Quota, Shape};
use crate::time::{Calendar, Tick};

/// Why a quota cannot be compiled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MeterError {
    /// A calendar quota without somebody who knows the calendar.
    #[error("a calendar quota needs a calendar")]
    NeedsCalendar,
    /// The rate in lowest terms does not fit 32 bits at this tick.
    #[error("the rate is too fine for a tick of {tick_ns} ns")]
    RateTooFine {
        /// The tick.
        tick_ns: u64,
    },
    /// Amounts and times together do not fit numbers of 53 bits, which is all that scripts have, whatever the tick.
    #[error("limit, burst, debt and period are together too large for the exact arithmetic of the store")]
    TooLarge,
}

impl Meter {
    /// Compiles a quota for a clock of this tick.
    ///
    /// # Errors
    /// A calendar quota needs a `calendar`; a rate must fit the tick, which at one nanosecond every [`Quota`] does.
    pub fn new(quota: &Quota, tick: Tick, calendar: Option<Arc<dyn Calendar>>) -> Result<Self, MeterError> {
        // Slots that are held when their number becomes 0 can still be renewed and released.
        let is_closed = quota.limit() == Some(0) && quota.algorithm() != Some(AlgorithmName::Concurrency);
        let kernel = if is_closed { Kernel::Closed(Closed) } else { kernel(quota, tick, calendar)? };
        let meter = Self {
            kernel,
            min_interval: tick.ceil(quota.min_interval_ns()),
            capacity: None,
            advance_ns: 0,
            tick,
            fingerprint: fingerprint(quota, tick),
        };
        Ok(Self { capacity: capacity(&meter), ..meter })
    }
}

/// Fowler, Noll and Vo's hash of all that a meter is made of: fixed, so that it is the same in every process.
fn fingerprint(quota: &Quota, tick: Tick) -> u64 {
    let described = format!("{:?} {} {} {}", quota.shape(), quota.min_interval_ns(), quota.max_debt(), tick.nanos());
    described.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// What an empty state has left; `None` is unlimited.
fn capacity(meter: &Meter) -> Option<u64> {
    match meter.kernel {
        Kernel::Unlimited(_) => None,
        _ => Some(with_kernel!(meter, |kernel| kernel.remaining(&kernel.empty(), 0))),
    }
}

fn kernel(quota: &Quota, tick: Tick, calendar: Option<Arc<dyn Calendar>>) -> Result<Kernel, MeterError> {
    let max_debt = quota.max_debt();
    Ok(match *quota.shape() {
        Shape::Unlimited => Kernel::Unlimited(Unlimited),
        Shape::SlidingWindow { limit, window_ns, .. } if Mutant::TwoBucketsAsSlidingWindow.is_active() => {
            Kernel::SlidingWindowCounter(SlidingWindowCounter { limit, window: tick.ceil(window_ns), max_debt })
        }
        Shape::SlidingWindow { limit, window_ns, entries } => {
            Kernel::SlidingWindow(SlidingWindow { limit, window: tick.ceil(window_ns), entries, max_debt })
        }
        Shape::SlidingWindowLog { limit, window_ns } => {
            Kernel::SlidingWindowLog(SlidingWindowLog { limit, window: tick.ceil(window_ns), max_debt })
        }
        Shape::SlidingWindowCounter { limit, window_ns, buckets: None } => {
            Kernel::SlidingWindowCounter(SlidingWindowCounter { limit, window: tick.ceil(window_ns), max_debt })
        }
        Shape::SlidingWindowCounter { limit, window_ns, buckets: Some(buckets) } => {
            let width = tick.ceil(window_ns).div_ceil(u64::from(buckets));
            Kernel::SlidingWindowRing(SlidingWindowRing { limit, buckets, width, max_debt })
        }
        Shape::FixedWindow { limit, ref window } => {
            let span = match window {
                FixedWindowSpan::Epoch { window_ns } => Span::Epoch(tick.ceil(*window_ns)),
                FixedWindowSpan::Calendar { .. } => Span::Calendar(calendar.ok_or(MeterError::NeedsCalendar)?),
            };
            Kernel::FixedWindow(FixedWindow { limit, max_debt, span })
        }
        Shape::Gcra { burst: 0, .. } => Kernel::Closed(Closed),
        Shape::Gcra { limit, period_ns, burst } => Kernel::Gcra(Gcra::new(rate(limit, period_ns, tick)?, burst, max_debt)),
        Shape::LeakyBucket { limit, period_ns, max_delay_ns, nodelay, max_cost } => {
            let max_delay = max_delay_ns / tick.nanos();
            Kernel::LeakyBucket(LeakyBucket { rate: rate(limit, period_ns, tick)?, max_delay, nodelay, max_cost, max_debt })
        }
        Shape::Concurrency { limit, ttl_ns } => Kernel::Concurrency(Concurrency { limit, ttl: tick.ceil(ttl_ns) }),
    })
}

/// `limit` per `period_ns` nanoseconds is `limit * tick` per `period_ns` ticks, exactly.
fn rate(limit: u64, period_ns: u64, tick: Tick) -> Result<Rate, MeterError> {
    let scaled = limit.checked_mul(tick.nanos());
    scaled.and_then(|limit| Rate::new(limit, period_ns)).ok_or(MeterError::RateTooFine { tick_ns: tick.nanos() })
}

//! A quota, compiled at the finest tick at which the numbers of Lua, which have 53 bits, are exact.

use std::sync::Arc;

use tidegate_core::algorithm::fixed_window::Span;
use tidegate_core::meter::{Meter, MeterError, Parameters};
use tidegate_core::quota::{Quota, UNITS_MAX};
use tidegate_core::time::{Calendar, Tick};

use super::assemble::{Build, Scripts};
use super::calendar::Coarse;
use super::timeline::ERA_NS;

/// Whole numbers up to here are exact.
const EXACT: u128 = 1 << 53;
/// The longest tick. A bucket that takes 36,500 days to fill needs no longer one, if any helps.
const TICK_MAX_NS: u64 = 10_000_000_000_000;
/// The latest microsecond, in the year 2049: with it the longest windows are still exact.
const NOW_MAX_US: u64 = 2_500_000_000_000_000;

impl Scripts {
    /// Compiles a quota for these scripts. See [`meter`].
    ///
    /// # Errors
    /// See [`meter`].
    #[allow(clippy::needless_pass_by_value, reason = "as `Store::meter` takes it")]
    pub fn meter(&self, quota: &Quota, calendar: Option<Arc<dyn Calendar>>) -> Result<Meter, MeterError> {
        meter(self.build, quota, calendar.as_ref())
    }
}

/// Compiles a quota at the finest tick at which scripts of this build are exact: a microsecond and, for fast buckets with odd rates, ten or a hundred
/// times that, and so on. `calendar` counts nanoseconds.
///
/// A quota of which units are taken in advance is compiled as the stricter one by which that admits nothing extra.
///
/// Of the debt that a window may have, only as much is kept as fits 2^53 together with its limit.
///
/// # Errors
/// A calendar quota needs a `calendar`. A rate may be too fine, or a bucket too large, for every tick.
pub fn meter(build: Build, quota: &Quota, calendar: Option<&Arc<dyn Calendar>>) -> Result<Meter, MeterError> {
    let charged = quota.in_advance();
    let mut tick_ns = build.unit_ns();
    while let Some(tick) = Tick::from_nanos(tick_ns).filter(|_| tick_ns <= TICK_MAX_NS) {
        let coarse = calendar.cloned().map(|calendar| Arc::new(Coarse::new(calendar, tick)) as Arc<dyn Calendar>);
        let meter = match Meter::new(&charged, tick, coarse) {
            Ok(meter) => meter.with_units_at_most(UNITS_MAX).with_advance(quota.advance_ns()),
            // At a longer tick a rate is no less fine.
            Err(MeterError::RateTooFine { .. }) if tick_ns > build.unit_ns() => break,
            Err(error) => return Err(error),
        };
        if is_exact(&meter, build) {
            return Ok(meter);
        }
        // Windows fit a microsecond, and a nanosecond or not at all.
        if !matches!(meter.parameters(), Parameters::Gcra { .. } | Parameters::LeakyBucket { .. }) {
            break;
        }
        tick_ns *= 10;
    }
    Err(MeterError::TooLarge)
}

/// Whether no number in a script can become larger than 2^53.
fn is_exact(meter: &Meter, build: Build) -> bool {
    let now_max = match build {
        Build::Production | Build::InjectedMicros => NOW_MAX_US,
        Build::Injected => ERA_NS,
    };
    let now_max = now_max * build.unit_ns() / meter.tick().nanos();
    // How far ahead of now a state looks, and how far before its era a quota begins to count.
    let (ahead, weight) = match meter.parameters() {
        Parameters::Unlimited | Parameters::Closed => return true,
        Parameters::Gcra { rate, level_max, .. } | Parameters::LeakyBucket { rate, level_max, .. } => {
            (level_max / u128::from(rate.units()), level_max)
        }
        Parameters::FixedWindow { span: Span::Calendar(_), .. } => (0, 0),
        Parameters::FixedWindow { span: Span::Epoch(window), .. } => (windows(*window, build), 0),
        Parameters::SlidingWindowCounter { window, .. }
        | Parameters::SlidingWindow { window, .. }
        | Parameters::SlidingWindowLog { window, .. } => (windows(window, build), 0),
        Parameters::SlidingWindowRing { buckets, width, .. } => (u128::from(buckets + 2) * u128::from(width), 0),
        Parameters::Concurrency { ttl, .. } => (u128::from(ttl), 0),
    };
    let ahead = ahead.max(u128::from(meter.min_interval()));
    weight < EXACT && u128::from(now_max) + ahead < EXACT
}

fn windows(window: u64, build: Build) -> u128 {
    let count = if build == Build::Injected { 3 } else { 2 };
    u128::from(window) * count
}

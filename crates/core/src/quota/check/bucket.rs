//! The buckets, `gcra` and `leaky_bucket`: their arithmetic is exact, so what does not fit must be refused here.
//!
//! Units flow at `limit / period_ns`, a fraction. Its reduced numerator must fit 32 bits, and the time that an empty bucket with its
//! whole debt takes to fill must fit [`PERIOD_MAX_NS`]; then no later product leaves 128 bits and no later time 64.

use super::super::error::{QuotaError, QuotaErrorCode as Code};
use super::super::spec::QuotaSpec;
use super::super::unit::duration_text;
use super::super::{PERIOD_MAX_NS, Shape, UNITS_MAX};
use super::value::{period_ns, shown, units};

const DAY_NS: u64 = 86_400 * 1_000_000_000;

pub(super) fn gcra(spec: &QuotaSpec, limit: u64) -> Result<Shape, QuotaError> {
    let period_ns = period_ns(spec)?;
    let burst = units(spec.burst.unwrap_or(limit), "burst", Code::BurstTooLarge)?;
    check_rate(limit, period_ns)?;
    Ok(Shape::Gcra { limit, period_ns, burst })
}

pub(super) fn leaky_bucket(spec: &QuotaSpec, limit: u64) -> Result<Shape, QuotaError> {
    let period_ns = period_ns(spec)?;
    let max_delay_ns = max_delay_ns(spec)?;
    let nodelay = units(spec.nodelay.unwrap_or(0), "nodelay", Code::NodelayTooLarge)?;
    check_rate(limit, period_ns)?;
    let idle = Shape::LeakyBucket { limit, period_ns, max_delay_ns, nodelay, max_cost: 0 };
    let max_cost = match spec.max_cost {
        None => max_cost_default(&idle, spec.max_debt),
        Some(0) => {
            return Err(QuotaError::new(Code::MaxCostZero, "max_cost is 0", "write at least 1; a limit of 0 denies everything"));
        }
        Some(max_cost) => units(max_cost, "max_cost", Code::MaxCostTooLarge)?,
    };
    Ok(Shape::LeakyBucket { limit, period_ns, max_delay_ns, nodelay, max_cost })
}

/// What an idle queue admits in unit costs, `floor((max_delay + nodelay * T) / T) + 1` with `T = period / limit`, or as much of it as
/// leaves room for a `max_debt` that was given. At least 1, even if [`check_fill`] then refuses it. The shape's own `max_cost` is ignored.
pub(in super::super) fn max_cost_default(shape: &Shape, max_debt: Option<u64>) -> u64 {
    let &Shape::LeakyBucket { limit, period_ns, max_delay_ns, nodelay, .. } = shape else {
        return 0;
    };
    let waiting = units_within(max_delay_ns, limit, period_ns);
    let idle = waiting.saturating_add(nodelay).saturating_add(1).min(UNITS_MAX);
    let empty = Shape::LeakyBucket { limit, period_ns, max_delay_ns, nodelay, max_cost: 0 };
    let room = debt_room(&empty).saturating_sub(max_debt.unwrap_or(0));
    idle.min(room).max(1)
}

/// How many units of debt an empty bucket can have and still fill in time. Nothing bounds it where nothing fills.
pub(super) fn debt_room(shape: &Shape) -> u64 {
    let (limit, period_ns, delay_ns, capacity) = match *shape {
        Shape::Gcra { limit, period_ns, burst } => (limit, period_ns, 0, burst),
        Shape::LeakyBucket { limit, period_ns, max_delay_ns, nodelay, max_cost } => {
            (limit, period_ns, max_delay_ns, nodelay + max_cost)
        }
        _ => return UNITS_MAX,
    };
    if limit == 0 {
        return UNITS_MAX;
    }
    let time_ns = PERIOD_MAX_NS.saturating_sub(delay_ns);
    units_within(time_ns, limit, period_ns).saturating_sub(capacity).min(UNITS_MAX)
}

/// Refuses a bucket that takes too long to fill from the bottom of `max_debt`.
pub(super) fn check_fill(shape: &Shape, max_debt: u64) -> Result<(), QuotaError> {
    let (limit, period_ns, delay_ns, capacity, parts) = match *shape {
        Shape::Gcra { limit, period_ns, burst } => (limit, period_ns, 0, burst, format!("burst {burst}")),
        Shape::LeakyBucket { limit, period_ns, max_delay_ns, nodelay, max_cost } => {
            let queue = duration_text(max_delay_ns);
            let parts = format!("queue {queue}, nodelay {nodelay}, max_cost {max_cost}");
            (limit, period_ns, max_delay_ns, nodelay + max_cost, parts)
        }
        _ => return Ok(()),
    };
    if limit == 0 {
        return Ok(());
    }
    // At most 2^55 units times 2^62 nanoseconds: it fits 128 bits.
    let flow_ns = (u128::from(capacity + max_debt) * u128::from(period_ns)).div_ceil(limit.into());
    let fill_ns = u128::from(delay_ns) + flow_ns;
    if fill_ns <= u128::from(PERIOD_MAX_NS) {
        return Ok(());
    }
    let days = fill_ns.div_ceil(DAY_NS.into());
    let days_max = PERIOD_MAX_NS / DAY_NS;
    Err(QuotaError::new(
        Code::Overflow,
        format!("{parts} and max_debt {max_debt} take {days} days to fill, more than {days_max}"),
        "lower the largest of them, or raise the limit per period",
    ))
}

/// Whole units that flow in `time_ns`.
fn units_within(time_ns: u64, limit: u64, period_ns: u64) -> u64 {
    let units = u128::from(time_ns) * u128::from(limit) / u128::from(period_ns);
    u64::try_from(units).unwrap_or(u64::MAX)
}

fn max_delay_ns(spec: &QuotaSpec) -> Result<u64, QuotaError> {
    match spec.queue_ns {
        Some(ns) if ns > PERIOD_MAX_NS => Err(QuotaError::new(
            Code::QueueTooLong,
            format!("queue {} is longer than {}", shown(ns), duration_text(PERIOD_MAX_NS)),
            "write a shorter queue",
        )),
        ns => Ok(ns.unwrap_or(0)),
    }
}

fn check_rate(limit: u64, period_ns: u64) -> Result<(), QuotaError> {
    let units = limit / gcd(limit, period_ns);
    if units < 1 << 32 {
        return Ok(());
    }
    let period = duration_text(period_ns);
    let hint = match coarser_step(limit, period_ns) {
        Some(step) => format!("round the limit to a multiple of {step}, such as {}, or use sliding_window", limit / step * step),
        None => "use a period of whole seconds, or sliding_window".to_owned(),
    };
    Err(QuotaError::new(Code::RateTooFine, format!("{limit} per {period} is a fraction too fine for exact arithmetic"), hint))
}

/// A power of ten in the period that is large enough for a limit of its multiples.
fn coarser_step(limit: u64, period_ns: u64) -> Option<u64> {
    let mut steps = (1..=9).map(|exponent| 10u64.pow(exponent));
    steps.find(|step| period_ns.is_multiple_of(*step) && limit / step < 1 << 32)
}

/// The greatest common divisor; with 0 it is the other number.
pub(in super::super) fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::super::super::Quota;
    use super::*;

    fn quota(text: &str) -> Quota {
        text.parse().unwrap_or_else(|error| panic!("{error}"))
    }

    fn error(text: &str) -> QuotaError {
        text.parse::<Quota>().unwrap_err()
    }

    /// `max_cost` and `max_debt`.
    fn cost_and_debt(text: &str) -> (u64, u64) {
        let quota = quota(text);
        match *quota.shape() {
            Shape::LeakyBucket { max_cost, .. } => (max_cost, quota.max_debt()),
            ref shape => panic!("{shape:?}"),
        }
    }

    #[test]
    fn the_default_of_max_cost_is_what_an_idle_queue_admits() {
        let cases = [
            ("50/s queue 200ms", 11),
            ("50/s queue 199ms", 10),
            ("50/s queue 200ms nodelay 5", 16),
            ("3/7s queue 7s", 4),
            ("1/day leaky_bucket", 1),
            ("0/s queue 1h nodelay 5", 6),
        ];
        for (text, max_cost) in cases {
            assert_eq!(cost_and_debt(text), (max_cost, max_cost), "{text}");
        }
    }

    #[test]
    fn a_default_is_reduced_to_what_fits_and_a_given_value_is_refused() {
        assert_eq!(quota("1/30000d gcra").max_debt(), 0);
        assert_eq!(quota("10/30000d gcra").max_debt(), 2);
        assert_eq!(error("10/30000d gcra max_debt 3").code(), Code::Overflow);
        assert_eq!(quota("10/30000d burst 12").max_debt(), 0);
        assert_eq!(error("10/30000d burst 13").code(), Code::Overflow);

        // 36500 - 36000 days leave room for 500 units of nodelay, max_cost and max_debt.
        assert_eq!(cost_and_debt("1/day queue 36000d"), (500, 0));
        assert_eq!(cost_and_debt("1/day queue 36000d max_cost 300"), (300, 200));
        assert_eq!(cost_and_debt("1/day queue 36000d max_debt 400"), (100, 400));
        assert_eq!(cost_and_debt("1/day queue 36000d nodelay 100 max_cost 300"), (300, 100));
        assert_eq!(cost_and_debt("1/day queue 36499d"), (1, 0));
        assert_eq!(error("1/day queue 36000d max_cost 501").code(), Code::Overflow);
        assert_eq!(error("1/day queue 36000d max_debt 500").code(), Code::Overflow);
        assert_eq!(error("1/day queue 36500d").code(), Code::Overflow);
    }

    #[test]
    fn nothing_bounds_a_bucket_that_never_fills() {
        let most = format!("0/36500d burst {UNITS_MAX} max_debt {UNITS_MAX}");

        assert_eq!(quota(&most).max_debt(), UNITS_MAX);
        assert_eq!(cost_and_debt(&format!("0/s nodelay {UNITS_MAX}")), (UNITS_MAX, UNITS_MAX));
    }

    #[test]
    fn a_rate_too_fine_is_refused_with_a_limit_that_works() {
        assert!("4294967295/s gcra".parse::<Quota>().is_ok());
        assert!("4294967296/s gcra".parse::<Quota>().is_ok());
        assert_eq!(error("4294967297/s gcra").code(), Code::RateTooFine);
        assert_eq!(error("4294967297/999999937ns gcra").code(), Code::RateTooFine);

        let hint = error("9007199254740991/s leaky_bucket").hint().to_owned();

        assert!(hint.contains("a multiple of 10000000, such as 9007199250000000"), "{hint}");
        assert!("9007199250000000/s leaky_bucket".parse::<Quota>().is_ok());
    }

    #[test]
    fn the_divisor_with_zero_is_the_other_number() {
        let cases = [(0, 7, 7), (7, 0, 7), (12, 18, 6), (u64::MAX, 1, 1)];
        for (a, b, expected) in cases {
            assert_eq!(gcd(a, b), expected);
        }
    }
}

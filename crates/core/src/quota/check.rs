//! The checks between the object form and a [`Quota`]: one rule, one message, one code.

mod advance;
mod bucket;
mod parameter;
mod value;

use super::error::{QuotaError, QuotaErrorCode as Code, quoted};
use super::spec::{AlgorithmName, QuotaSpec};
use super::{FixedWindowSpan, Quota, Shape};

pub(super) use bucket::{gcd, max_cost_default};

use value::{check_name, check_zone, count_within, limit, min_interval_ns, period_ns, shown, units};

/// `sliding_window`: pairs kept unless given.
pub(super) const ENTRIES_DEFAULT: u32 = 16;
/// `concurrency`: life of a lease unless given.
pub(super) const TTL_DEFAULT_NS: u64 = 60 * 1_000_000_000;
/// `calendar`: the zone unless given.
pub(super) const ZONE_DEFAULT: &str = "UTC";

const ENTRIES_MAX: u32 = 1_024;
const BUCKETS_MIN: u32 = 2;
const BUCKETS_MAX: u32 = 1_024;
const LOG_LIMIT_MAX: u64 = 1_000_000;
const CONCURRENCY_LIMIT_MAX: u64 = 100_000;
const TTL_MIN_NS: u64 = 1_000_000;
const TTL_MAX_NS: u64 = 86_400 * 1_000_000_000;

/// See [`QuotaSpec::build`].
pub(super) fn build(spec: QuotaSpec) -> Result<Quota, QuotaError> {
    if let Some(name) = &spec.name {
        check_name(name)?;
    }
    if spec.unlimited {
        parameter::check_unlimited(&spec)?;
        let name = spec.name.map(Into::into);
        return Ok(Quota { name, shape: Shape::Unlimited, min_interval_ns: 0, advance_ns: 0, max_debt: 0 });
    }
    let algorithm = spec.algorithm.unwrap_or_else(|| spec.algorithm_default());
    parameter::check(&spec, algorithm)?;
    let shape = shape(&spec, algorithm)?;
    Ok(Quota {
        min_interval_ns: min_interval_ns(&spec)?,
        advance_ns: advance::advance_ns(&spec, &shape)?,
        max_debt: max_debt(&spec, &shape)?,
        name: spec.name.map(Into::into),
        shape,
    })
}

/// What `max_debt` is when it is not given: the capacity, or what still fits the longest time to fill a bucket.
pub(super) fn max_debt_default(shape: &Shape) -> u64 {
    match *shape {
        Shape::Unlimited | Shape::Concurrency { .. } => 0,
        Shape::SlidingWindow { limit, .. }
        | Shape::SlidingWindowLog { limit, .. }
        | Shape::SlidingWindowCounter { limit, .. }
        | Shape::FixedWindow { limit, .. } => limit,
        Shape::Gcra { burst, .. } => burst.min(bucket::debt_room(shape)),
        Shape::LeakyBucket { max_cost, .. } => max_cost.min(bucket::debt_room(shape)),
    }
}

fn shape(spec: &QuotaSpec, algorithm: AlgorithmName) -> Result<Shape, QuotaError> {
    let limit = limit(spec)?;
    match algorithm {
        AlgorithmName::SlidingWindow => sliding_window(spec, limit),
        AlgorithmName::SlidingWindowLog => sliding_window_log(spec, limit),
        AlgorithmName::SlidingWindowCounter => sliding_window_counter(spec, limit),
        AlgorithmName::FixedWindow => fixed_window(spec, limit),
        AlgorithmName::Gcra => bucket::gcra(spec, limit),
        AlgorithmName::LeakyBucket => bucket::leaky_bucket(spec, limit),
        AlgorithmName::Concurrency => concurrency(spec, limit),
    }
}

fn sliding_window(spec: &QuotaSpec, limit: u64) -> Result<Shape, QuotaError> {
    let window_ns = period_ns(spec)?;
    let entries = match spec.entries {
        None => ENTRIES_DEFAULT,
        Some(entries) => count_within(entries, 1, ENTRIES_MAX, "entries", Code::EntriesOutOfRange)?,
    };
    Ok(Shape::SlidingWindow { limit, window_ns, entries })
}

fn sliding_window_log(spec: &QuotaSpec, limit: u64) -> Result<Shape, QuotaError> {
    if limit > LOG_LIMIT_MAX {
        return Err(QuotaError::new(
            Code::LogLimitTooLarge,
            format!("limit {limit} is above {LOG_LIMIT_MAX}, the most sliding_window_log can hold"),
            "use sliding_window, which keeps the same promise in bounded memory",
        ));
    }
    Ok(Shape::SlidingWindowLog { limit, window_ns: period_ns(spec)? })
}

fn sliding_window_counter(spec: &QuotaSpec, limit: u64) -> Result<Shape, QuotaError> {
    let window_ns = period_ns(spec)?;
    let Some(buckets) = spec.buckets else {
        return Ok(Shape::SlidingWindowCounter { limit, window_ns, buckets: None });
    };
    let buckets = count_within(buckets, BUCKETS_MIN, BUCKETS_MAX, "buckets", Code::BucketsOutOfRange)?;
    if window_ns < u64::from(buckets) {
        return Err(QuotaError::new(
            Code::BucketsExceedWindow,
            format!("{buckets} buckets in a window of {window_ns} nanoseconds"),
            "lower buckets or lengthen the period: a bucket is at least one nanosecond long",
        ));
    }
    Ok(Shape::SlidingWindowCounter { limit, window_ns, buckets: Some(buckets) })
}

fn fixed_window(spec: &QuotaSpec, limit: u64) -> Result<Shape, QuotaError> {
    let window = match (spec.calendar, &spec.zone) {
        (None, None) => FixedWindowSpan::Epoch { window_ns: period_ns(spec)? },
        (None, Some(zone)) => {
            return Err(QuotaError::new(
                Code::ZoneWithoutCalendar,
                format!("the zone {} is given without a calendar unit", quoted(zone)),
                "give the calendar unit, such as day, or remove the zone",
            ));
        }
        (Some(unit), _) if spec.period_ns.is_some() => {
            let unit = unit.as_str();
            return Err(QuotaError::new(
                Code::PeriodWithCalendar,
                format!("both a period and the calendar unit \"{unit}\" are given"),
                "keep one of the two",
            ));
        }
        (Some(unit), zone) => {
            let zone = zone.as_deref().unwrap_or(ZONE_DEFAULT);
            check_zone(zone)?;
            FixedWindowSpan::Calendar { unit, zone: zone.into() }
        }
    };
    Ok(Shape::FixedWindow { limit, window })
}

fn concurrency(spec: &QuotaSpec, limit: u64) -> Result<Shape, QuotaError> {
    if limit > CONCURRENCY_LIMIT_MAX {
        return Err(QuotaError::new(
            Code::ConcurrencyLimitTooLarge,
            format!("limit {limit} is above {CONCURRENCY_LIMIT_MAX}, the most leases of one key"),
            "lower the limit, or limit requests per second instead",
        ));
    }
    let ttl_ns = spec.ttl_ns.unwrap_or(TTL_DEFAULT_NS);
    if !(TTL_MIN_NS..=TTL_MAX_NS).contains(&ttl_ns) {
        return Err(QuotaError::new(
            Code::TtlOutOfRange,
            format!("ttl {} is not between 1ms and 1d", shown(ttl_ns)),
            "write a ttl that outlives a lost connection by a little, such as 60s",
        ));
    }
    Ok(Shape::Concurrency { limit, ttl_ns })
}

fn max_debt(spec: &QuotaSpec, shape: &Shape) -> Result<u64, QuotaError> {
    match spec.max_debt {
        None => {
            bucket::check_fill(shape, 0)?;
            Ok(max_debt_default(shape))
        }
        Some(max_debt) => {
            let max_debt = units(max_debt, "max_debt", Code::MaxDebtTooLarge)?;
            bucket::check_fill(shape, max_debt)?;
            Ok(max_debt)
        }
    }
}

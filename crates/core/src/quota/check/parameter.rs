//! Which parameter belongs to which algorithm.

use super::super::error::{QuotaError, QuotaErrorCode as Code};
use super::super::spec::AlgorithmName::{
    self, Concurrency, FixedWindow, Gcra, LeakyBucket, SlidingWindow, SlidingWindowCounter, SlidingWindowLog,
};
use super::super::spec::QuotaSpec;

struct Parameter {
    name: &'static str,
    is_given: fn(&QuotaSpec) -> bool,
    algorithms: &'static [AlgorithmName],
}

/// Everything that is counted over time.
const TIMED: &[AlgorithmName] = &[SlidingWindow, SlidingWindowLog, SlidingWindowCounter, FixedWindow, Gcra, LeakyBucket];

#[rustfmt::skip] // One row each.
const PARAMETERS: [Parameter; 13] = [
    Parameter { name: "period", is_given: |spec| spec.period_ns.is_some(), algorithms: TIMED },
    Parameter { name: "burst", is_given: |spec| spec.burst.is_some(), algorithms: &[Gcra] },
    Parameter { name: "queue", is_given: |spec| spec.queue_ns.is_some(), algorithms: &[LeakyBucket] },
    Parameter { name: "nodelay", is_given: |spec| spec.nodelay.is_some(), algorithms: &[LeakyBucket] },
    Parameter { name: "max_cost", is_given: |spec| spec.max_cost.is_some(), algorithms: &[LeakyBucket] },
    Parameter { name: "entries", is_given: |spec| spec.entries.is_some(), algorithms: &[SlidingWindow] },
    Parameter { name: "buckets", is_given: |spec| spec.buckets.is_some(), algorithms: &[SlidingWindowCounter] },
    Parameter { name: "calendar", is_given: |spec| spec.calendar.is_some(), algorithms: &[FixedWindow] },
    Parameter { name: "zone", is_given: |spec| spec.zone.is_some(), algorithms: &[FixedWindow] },
    Parameter { name: "ttl", is_given: |spec| spec.ttl_ns.is_some(), algorithms: &[Concurrency] },
    Parameter { name: "min_interval", is_given: |spec| spec.min_interval_ns.is_some(), algorithms: TIMED },
    Parameter { name: "advance", is_given: |spec| spec.advance_ns.is_some(), algorithms: &[SlidingWindow, FixedWindow, Gcra] },
    Parameter { name: "max_debt", is_given: |spec| spec.max_debt.is_some(), algorithms: TIMED },
];

/// Refuses a parameter that the algorithm would ignore.
pub(super) fn check(spec: &QuotaSpec, algorithm: AlgorithmName) -> Result<(), QuotaError> {
    let foreign = PARAMETERS.iter().find(|parameter| (parameter.is_given)(spec) && !parameter.algorithms.contains(&algorithm));
    let Some(Parameter { name, algorithms, .. }) = foreign else {
        return Ok(());
    };
    let algorithm = algorithm.as_str();
    let (message, hint) = match algorithms {
        [owner] => (
            format!("\"{name}\" is a parameter of {}, not of {algorithm}", owner.as_str()),
            format!("remove \"{name}\", or use {}", owner.as_str()),
        ),
        _ => (
            format!("\"{name}\" is not a parameter of {algorithm}"),
            format!("remove \"{name}\", or use another algorithm than {algorithm}"),
        ),
    };
    Err(QuotaError::new(Code::ParameterNotForAlgorithm, message, hint))
}

/// Refuses everything but a name.
pub(super) fn check_unlimited(spec: &QuotaSpec) -> Result<(), QuotaError> {
    let head = [("limit", spec.limit.is_some()), ("algorithm", spec.algorithm.is_some())];
    let rest = PARAMETERS.iter().map(|parameter| (parameter.name, (parameter.is_given)(spec)));
    match head.into_iter().chain(rest).find(|(_, is_given)| *is_given) {
        None => Ok(()),
        Some((name, _)) => Err(QuotaError::new(
            Code::ParameterNotForAlgorithm,
            format!("\"{name}\" is not a parameter of unlimited"),
            format!("remove \"{name}\", or write a limit instead of \"unlimited\""),
        )),
    }
}

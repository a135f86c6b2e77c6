//! The rules for single values, whatever the algorithm.

use super::super::error::{QuotaError, QuotaErrorCode as Code, quoted};
use super::super::lex::is_zone_char;
use super::super::parse::is_clause_word;
use super::super::spec::QuotaSpec;
use super::super::unit::duration_text;
use super::super::{PERIOD_MAX_NS, UNITS_MAX};

const PERIOD_MIN_NS: u64 = 1_000;
const NAME_LENGTH_MAX: usize = 64;
const ZONE_LENGTH_MAX: usize = 64;

pub(super) fn limit(spec: &QuotaSpec) -> Result<u64, QuotaError> {
    match spec.limit {
        Some(limit) => units(limit, "limit", Code::LimitTooLarge),
        None => Err(QuotaError::new(
            Code::LimitMissing,
            "the limit is missing",
            "give the number of units per period; 0 denies everything",
        )),
    }
}

pub(super) fn period_ns(spec: &QuotaSpec) -> Result<u64, QuotaError> {
    let (code, message, hint) = match (spec.period_ns, spec.burst) {
        (None, Some(burst)) => (
            Code::BurstWithoutPeriod,
            format!("burst {burst} without a period"),
            "write how fast the burst comes back, as in 100/minute burst 20",
        ),
        (None, None) => (
            Code::PeriodMissing,
            "the period is missing".to_owned(),
            "write the period, as in 100/minute, or \"concurrent\" for units in flight",
        ),
        (Some(0), _) => (Code::PeriodZero, "the period is zero".to_owned(), "write a period of at least 1us, or \"unlimited\""),
        (Some(ns), _) if ns < PERIOD_MIN_NS => (
            Code::PeriodTooShort,
            format!("the period {} is shorter than 1us", duration_text(ns)),
            "scale limit and period up: 1000/us for 1/ns",
        ),
        (Some(ns), _) if ns > PERIOD_MAX_NS => (
            Code::PeriodTooLong,
            format!("the period {} is longer than {}", shown(ns), duration_text(PERIOD_MAX_NS)),
            "write a shorter period",
        ),
        (Some(ns), _) => return Ok(ns),
    };
    Err(QuotaError::new(code, message, hint))
}

pub(super) fn min_interval_ns(spec: &QuotaSpec) -> Result<u64, QuotaError> {
    match spec.min_interval_ns {
        Some(ns) if ns > PERIOD_MAX_NS => Err(QuotaError::new(
            Code::MinIntervalTooLong,
            format!("min_interval {} is longer than {}", shown(ns), duration_text(PERIOD_MAX_NS)),
            "write a shorter min_interval",
        )),
        ns => Ok(ns.unwrap_or(0)),
    }
}

/// An amount that every store and every JSON reader can hold exactly.
pub(super) fn units(value: u64, parameter: &str, code: Code) -> Result<u64, QuotaError> {
    if value > UNITS_MAX {
        let message = format!("{parameter} {value} is above {UNITS_MAX}");
        return Err(QuotaError::new(code, message, format!("write at most {UNITS_MAX}, which is 2^53")));
    }
    Ok(value)
}

pub(super) fn count_within(value: u64, min: u32, max: u32, parameter: &str, code: Code) -> Result<u32, QuotaError> {
    let count = u32::try_from(value).ok().filter(|count| (min..=max).contains(count));
    count.ok_or_else(|| {
        QuotaError::new(
            code,
            format!("{parameter} {value} is not between {min} and {max}"),
            format!("write {parameter} {min} to {parameter} {max}"),
        )
    })
}

pub(super) fn check_name(name: &str) -> Result<(), QuotaError> {
    let is_allowed = |b: u8| b.is_ascii_alphanumeric() || b"_.:/-".contains(&b);
    let begins_well = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    if begins_well && name.len() <= NAME_LENGTH_MAX && name.bytes().all(is_allowed) {
        return Ok(());
    }
    Err(QuotaError::new(
        Code::NameInvalid,
        format!("the name {} cannot be used in headers and metrics", quoted(name)),
        "use 1 to 64 of A-Z a-z 0-9 _ . : / - and begin with a letter or digit",
    ))
}

/// A word of the quota language is refused as well: as a text, `calendar burst` would mean something else.
pub(super) fn check_zone(zone: &str) -> Result<(), QuotaError> {
    let has_length = (1..=ZONE_LENGTH_MAX).contains(&zone.len());
    if has_length && zone.chars().all(is_zone_char) && !is_clause_word(&zone.to_ascii_lowercase()) {
        return Ok(());
    }
    Err(QuotaError::new(
        Code::ZoneInvalid,
        format!("{} is not the name of a time zone", quoted(zone)),
        "use an IANA name such as Europe/Berlin or UTC",
    ))
}

/// A length of time in a message. The parser gives the largest number for what does not fit, so that one is no exact value.
pub(super) fn shown(ns: u64) -> String {
    if ns == u64::MAX { "of more than 213503d".to_owned() } else { duration_text(ns) }
}

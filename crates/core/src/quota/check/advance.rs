//! How early units may be taken from a store that is shared.
//!
//! What is taken early is charged by a stricter quota (see [`Quota::in_advance`](super::super::Quota::in_advance)). Strictness is what users pay for
//! speed, so it is bounded: a window becomes longer by an eighth at most, and a burst smaller by an eighth.

use super::super::error::{QuotaError, QuotaErrorCode as Code};
use super::super::spec::QuotaSpec;
use super::super::unit::duration_text;
use super::super::{FixedWindowSpan, PERIOD_MAX_NS, Shape};
use super::value::shown;

/// Less would be over before anybody could spend it.
const ADVANCE_MIN_NS: u64 = 1_000_000;
/// More would keep from others for too long what nobody spends.
const ADVANCE_MAX_NS: u64 = 60 * 1_000_000_000;
/// The part of a window or of a burst that it may cost.
const PART: u64 = 8;

pub(super) fn advance_ns(spec: &QuotaSpec, shape: &Shape) -> Result<u64, QuotaError> {
    let Some(advance_ns) = spec.advance_ns.filter(|&ns| ns > 0) else { return Ok(0) };
    if spec.min_interval_ns.is_some_and(|ns| ns > 0) {
        return Err(QuotaError::new(
            Code::AdvanceWithMinInterval,
            "units are taken in advance, and requests have to keep a distance",
            "remove \"advance\" or \"min_interval\"",
        ));
    }
    let most_ns = most_ns(shape);
    if (ADVANCE_MIN_NS..=most_ns).contains(&advance_ns) {
        return Ok(advance_ns);
    }
    let (why, hint) = if most_ns < ADVANCE_MIN_NS {
        (
            "no advance is short enough for this quota".to_owned(),
            format!("remove \"advance\", or give the quota a {}", larger(shape)),
        )
    } else {
        let (least, most) = (duration_text(ADVANCE_MIN_NS), duration_text(most_ns));
        (
            format!("advance {} is not between {least} and {most}", shown(advance_ns)),
            format!("write at most {most}{}", because(shape)),
        )
    };
    Err(QuotaError::new(Code::AdvanceOutOfRange, why, hint))
}

/// The longest time in which no more than the allowed part is lost.
fn most_ns(shape: &Shape) -> u64 {
    let most_ns = match *shape {
        Shape::SlidingWindow { window_ns, .. } => (window_ns / PART).min(PERIOD_MAX_NS - window_ns),
        Shape::FixedWindow { window: FixedWindowSpan::Epoch { window_ns }, .. } => window_ns / PART,
        Shape::Gcra { limit, period_ns, burst } if limit > 0 => {
            let fill_ns = u128::from(burst / PART) * u128::from(period_ns) / u128::from(limit);
            u64::try_from(fill_ns).unwrap_or(u64::MAX)
        }
        _ => ADVANCE_MAX_NS,
    };
    // Whole milliseconds, so that the bound can be said and written.
    most_ns.min(ADVANCE_MAX_NS) / ADVANCE_MIN_NS * ADVANCE_MIN_NS
}

fn larger(shape: &Shape) -> &'static str {
    if matches!(shape, Shape::Gcra { .. }) { "larger burst" } else { "longer period" }
}

fn because(shape: &Shape) -> &'static str {
    match shape {
        Shape::Gcra { .. } => ", in which an eighth of the burst comes in",
        Shape::SlidingWindow { .. } | Shape::FixedWindow { window: FixedWindowSpan::Epoch { .. }, .. } => {
            ", an eighth of the period"
        }
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::Quota;
    use super::*;

    #[test]
    fn an_advance_is_at_most_an_eighth_of_what_it_costs() {
        let bounds = [
            ("100/minute", "7500ms"),
            ("100/hour", "1m"),
            ("100/minute fixed_window", "7500ms"),
            ("100/day calendar", "1m"),
            ("1000/second burst 1000", "125ms"),
            ("1000/minute gcra", "7500ms"),
            ("0/minute gcra", "1m"),
        ];
        for (quota, most) in bounds {
            let written = format!("{quota} advance {most}").parse::<Quota>().unwrap_or_else(|error| panic!("{error}"));
            let (at_most, longer) = (written.advance_ns(), format!("{quota} advance {}ns", written.advance_ns() + 1));

            assert_eq!(written.in_advance().advance_ns(), 0, "{quota}");
            assert_eq!(longer.parse::<Quota>().unwrap_err().code(), Code::AdvanceOutOfRange, "{quota}, above {at_most}");
        }
    }

    #[test]
    fn what_cannot_be_taken_early_says_what_would_help() {
        let cases = [
            ("100/minute advance 999us", "write at most 7500ms, an eighth of the period"),
            ("100/minute advance 1h", "write at most 7500ms, an eighth of the period"),
            ("100/s burst 80 advance 1s", "write at most 100ms, in which an eighth of the burst comes in"),
            ("100/s burst 7 advance 1ms", "remove \"advance\", or give the quota a larger burst"),
            ("100/7ms advance 1ms", "remove \"advance\", or give the quota a longer period"),
            ("100/day calendar advance 2m", "write at most 1m"),
        ];
        for (text, hint) in cases {
            let error = text.parse::<Quota>().unwrap_err();

            assert_eq!((error.code(), error.hint()), (Code::AdvanceOutOfRange, hint), "{text}");
        }
    }
}

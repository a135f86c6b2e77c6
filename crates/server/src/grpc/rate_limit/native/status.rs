//! A decision by rules in the words of the protocol.

use tidegate_core::descriptors::Unit;
use tidegate_core::descriptors::answer::{CurrentLimit, Status};
use tidegate_core::quota::{CalendarUnit, FixedWindowSpan, Quota, Shape};
use tidegate_core::time::Ticks;
use tidegate_engine::decision::Decision;

const SECOND: u64 = 1_000_000_000;

/// The answer to one descriptor: what the quota said that binds, unless its rule is not to be talked about.
pub(super) fn of(decision: &Decision) -> Status {
    let is_over = !decision.is_allowed();
    let code = Status { is_over, is_shadowed: !decision.shadowed().is_empty(), ..Status::default() };
    let Some((planned, said)) = decision.binding().filter(|(_, said)| decision.is_told(said)) else { return code };
    let (Some(limit), Some(remaining)) = (planned.quota.limit(), said.remaining) else {
        return Status { is_shadowed: code.is_shadowed, ..Status::unlimited() };
    };
    let reset_after = if is_over { said.retry_after } else { Some(said.reset_after) };
    Status {
        current_limit: Some(CurrentLimit {
            name: Some(planned.label.as_str().into()),
            requests_per_unit: u32::try_from(limit).unwrap_or(u32::MAX),
            unit: unit(&planned.quota),
        }),
        remaining: if is_over { 0 } else { u32::try_from(remaining).unwrap_or(u32::MAX) },
        reset_after_s: reset_after.map(seconds_up),
        ..code
    }
}

/// The unit of a quota; a window that is no unit of the protocol, such as 10 seconds, has none.
fn unit(quota: &Quota) -> Unit {
    if let Shape::FixedWindow { window: FixedWindowSpan::Calendar { unit, .. }, .. } = quota.shape() {
        return match unit {
            CalendarUnit::Minute => Unit::Minute,
            CalendarUnit::Hour => Unit::Hour,
            CalendarUnit::Day => Unit::Day,
            CalendarUnit::Week => Unit::Week,
            CalendarUnit::Month => Unit::Month,
            CalendarUnit::Year => Unit::Year,
        };
    }
    let is_length = |unit: &Unit| quota.period_ns() == Some(unit.seconds() * SECOND);
    Unit::ALL.into_iter().find(is_length).unwrap_or(Unit::Unknown)
}

fn seconds_up(wait: Ticks) -> u64 {
    wait.div_ceil(SECOND)
}

#[cfg(test)]
mod tests {
    use tidegate_core::quota::parse;

    use super::*;

    #[test]
    fn only_windows_that_the_protocol_knows_have_a_unit() {
        let table = [
            ("5/second", Unit::Second),
            ("100/minute burst 10", Unit::Minute),
            ("1000/hour", Unit::Hour),
            ("1000/day", Unit::Day),
            ("7/week", Unit::Week),
            ("100/10s", Unit::Unknown),
            ("100/2m", Unit::Unknown),
            ("20 concurrent", Unit::Unknown),
        ];
        for (text, expected) in table {
            let quotas = parse(text).expect(text);
            assert_eq!(unit(&quotas[0]), expected, "{text}");
        }
    }
}

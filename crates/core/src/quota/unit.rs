//! Units of time: how quota texts spell them, and how a length of time is spelled.

use super::spec::CalendarUnit;

/// One minute, as a fixed length of time.
const MINUTE_NS: u64 = 60 * 1_000_000_000;

/// One day, as a fixed length of time.
const DAY_NS: u64 = 24 * 60 * MINUTE_NS;

/// A unit of time with its spellings.
#[derive(Debug)]
pub(super) struct Unit {
    /// Every spelling, the full word first: suggestions take the first of the nearest.
    names: &'static [&'static str],
    /// How one unit is written as a period: `100/minute`.
    single: &'static str,
    /// How a number of units is written: `10m`.
    short: &'static str,
    /// Its length; months and years have none.
    pub(super) ns: Option<u64>,
    /// The calendar window of that name, if calendars have one.
    pub(super) calendar: Option<CalendarUnit>,
}

/// All units, the longest first, so that the first that divides a length writes it shortest.
const UNITS: [Unit; 10] = [
    Unit { names: &["year", "years"], single: "year", short: "year", ns: None, calendar: Some(CalendarUnit::Year) },
    Unit { names: &["month", "months"], single: "month", short: "month", ns: None, calendar: Some(CalendarUnit::Month) },
    Unit { names: &["week", "weeks", "w"], single: "week", short: "w", ns: Some(7 * DAY_NS), calendar: Some(CalendarUnit::Week) },
    Unit { names: &["day", "days", "d"], single: "day", short: "d", ns: Some(DAY_NS), calendar: Some(CalendarUnit::Day) },
    Unit {
        names: &["hour", "hours", "hr", "hrs", "h"],
        single: "hour",
        short: "h",
        ns: Some(60 * MINUTE_NS),
        calendar: Some(CalendarUnit::Hour),
    },
    Unit {
        names: &["minute", "minutes", "min", "mins", "m"],
        single: "minute",
        short: "m",
        ns: Some(MINUTE_NS),
        calendar: Some(CalendarUnit::Minute),
    },
    Unit {
        names: &["second", "seconds", "sec", "secs", "s"],
        single: "second",
        short: "s",
        ns: Some(1_000_000_000),
        calendar: None,
    },
    Unit { names: &["millisecond", "milliseconds", "ms"], single: "ms", short: "ms", ns: Some(1_000_000), calendar: None },
    Unit {
        // Keyboards and fonts have two characters for micro; both mean it.
        names: &["microsecond", "microseconds", "us", "\u{b5}s", "\u{3bc}s"],
        single: "us",
        short: "us",
        ns: Some(1_000),
        calendar: None,
    },
    Unit { names: &["nanosecond", "nanoseconds", "ns"], single: "ns", short: "ns", ns: Some(1), calendar: None },
];

impl Unit {
    /// The unit of that name, in lower case.
    pub(super) fn find(name: &str) -> Option<&'static Self> {
        UNITS.iter().find(|unit| unit.names.contains(&name))
    }

    /// Every spelling of every unit.
    pub(super) fn names() -> impl Iterator<Item = &'static str> {
        UNITS.iter().flat_map(|unit| unit.names.iter().copied())
    }

    /// Its length as a period. A month counts as long as the longest month, and a year as the longest year: then no month and no
    /// year, whichever it is, sees more than the limit.
    pub(super) fn longest_ns(&self) -> u64 {
        match (self.ns, self.calendar) {
            (Some(ns), _) => ns,
            (None, Some(CalendarUnit::Year)) => 366 * DAY_NS,
            (None, _) => 31 * DAY_NS,
        }
    }

    /// How one unit is written.
    pub(super) fn single(&self) -> &'static str {
        self.single
    }
}

/// A length of time as it stands behind the slash: `minute`, `10s`.
pub(super) fn period_text(ns: u64) -> String {
    match largest_unit(ns) {
        Some((1, unit)) => unit.single.to_owned(),
        _ => duration_text(ns),
    }
}

/// A length of time with its number: `1m`, `10s`, `0s`.
pub(super) fn duration_text(ns: u64) -> String {
    match largest_unit(ns) {
        Some((count, unit)) => format!("{count}{}", unit.short),
        None => "0s".to_owned(),
    }
}

/// The longest unit that divides `ns`, and how often; `None` for 0, which every unit divides.
fn largest_unit(ns: u64) -> Option<(u64, &'static Unit)> {
    UNITS
        .iter()
        .filter_map(|unit| Some((unit, unit.ns?)))
        .find_map(|(unit, length)| (ns > 0 && ns.is_multiple_of(length)).then(|| (ns / length, unit)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn no_spelling_means_two_units() {
        let names: Vec<&str> = Unit::names().collect();

        assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len());
    }

    #[test]
    fn lengths_are_written_in_the_longest_unit_that_divides_them() {
        let cases = [
            (0, "0s", "0s"),
            (1, "ns", "1ns"),
            (1_001, "1001ns", "1001ns"),
            (1_000_000, "ms", "1ms"),
            (1_500_000_000, "1500ms", "1500ms"),
            (1_000_000_000, "second", "1s"),
            (90 * 1_000_000_000, "90s", "90s"),
            (5 * MINUTE_NS, "5m", "5m"),
            (24 * 60 * MINUTE_NS, "day", "1d"),
            (7 * 24 * 60 * MINUTE_NS, "week", "1w"),
            (10 * 24 * 60 * MINUTE_NS, "10d", "10d"),
            (u64::MAX, "18446744073709551615ns", "18446744073709551615ns"),
        ];
        for (ns, period, duration) in cases {
            assert_eq!((&*period_text(ns), &*duration_text(ns)), (period, duration));
        }
    }
}

//! Days, weeks and months in time zones, for `fixed_window` quotas with `calendar`.
//!
//! The time zone database is compiled in (jiff), so a container without one counts the same days.

use std::sync::Mutex;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan, Zoned};
use tidegate_core::quota::CalendarUnit;
use tidegate_core::time::{Calendar, Ticks, Window};

/// A calendar of one unit in one zone, on a clock of nanoseconds.
#[derive(Debug)]
pub struct ZonedCalendar {
    unit: CalendarUnit,
    zone: TimeZone,
    /// The window that was asked for last. Only saves work: every answer is a function of `now` alone.
    last: Mutex<Window>,
}

/// The zone is not in the database.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown time zone {zone:?}")]
pub struct UnknownZone {
    /// Its name as it was given.
    pub zone: String,
}

impl ZonedCalendar {
    /// A calendar for an IANA zone such as `Europe/Berlin`.
    ///
    /// # Errors
    /// The zone is not in the database.
    pub fn new(unit: CalendarUnit, zone: &str) -> Result<Self, UnknownZone> {
        let zone = TimeZone::get(zone).map_err(|_| UnknownZone { zone: zone.to_owned() })?;
        Ok(Self { unit, zone, last: Mutex::new(Window { start: 0, end: 0 }) })
    }

    fn compute(&self, now: Ticks) -> Result<Window, jiff::Error> {
        let instant = Timestamp::from_nanosecond(i128::from(now))?;
        let local = instant.to_zoned(self.zone.clone());
        let (start, end) = match self.unit {
            CalendarUnit::Minute => return Ok(self.clock_window(&local, 60)),
            CalendarUnit::Hour => return Ok(self.clock_window(&local, 3_600)),
            CalendarUnit::Day => (local.date(), local.date().tomorrow()?),
            CalendarUnit::Week => {
                let monday = local.date().checked_sub(i64::from(local.weekday().to_monday_zero_offset()).days())?;
                (monday, monday.checked_add(1.week())?)
            }
            CalendarUnit::Month => (local.date().first_of_month(), local.date().last_of_month().tomorrow()?),
            CalendarUnit::Year => (local.date().first_of_year(), local.date().last_of_year().tomorrow()?),
        };
        Ok(Window { start: self.first_instant(start)?, end: self.first_instant(end)? })
    }

    /// The first instant of a day, which is not midnight where the clocks are put forward at midnight.
    fn first_instant(&self, day: Date) -> Result<Ticks, jiff::Error> {
        Ok(ticks(day.to_zoned(self.zone.clone())?.start_of_day()?.timestamp()))
    }

    /// Full minutes and hours by the local clock; a window ends early where the clocks are changed.
    fn clock_window(&self, local: &Zoned, seconds: i64) -> Window {
        let instant = local.timestamp();
        let offset = i64::from(local.offset().seconds());
        let start = (instant.as_second() + offset).div_euclid(seconds) * seconds - offset;
        let nanos = |seconds: i64| u64::try_from(seconds).unwrap_or(0) * 1_000_000_000;
        let earliest = self.zone.preceding(instant).next().map_or(0, |change| ticks(change.timestamp()));
        let latest = self.zone.following(instant).next().map_or(Ticks::MAX, |change| ticks(change.timestamp()));
        let changed_now = self.zone.to_offset(instant) != self.zone.to_offset(instant - 1.nanosecond());
        let earliest = if changed_now { ticks(instant) } else { earliest };
        Window { start: nanos(start).max(earliest), end: nanos(start + seconds).min(latest) }
    }
}

impl Calendar for ZonedCalendar {
    fn window_at(&self, now: Ticks) -> Window {
        // A poisoned lock guards a value that is never half written.
        let mut last = self.last.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if !(last.start..last.end).contains(&now) {
            *last = self.compute(now).expect("a clock's instants lie centuries within the calendar");
        }
        *last
    }
}

fn ticks(instant: Timestamp) -> Ticks {
    u64::try_from(instant.as_nanosecond()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000_000_000;

    fn at(instant: &str) -> Ticks {
        ticks(instant.parse().expect("valid instant"))
    }

    fn window(unit: CalendarUnit, zone: &str, instant: &str) -> Window {
        let calendar = ZonedCalendar::new(unit, zone).expect("valid zone");
        calendar.window_at(at(instant))
    }

    #[test]
    fn a_day_lasts_from_midnight_to_midnight_in_its_zone() {
        let day = window(CalendarUnit::Day, "Europe/Berlin", "2026-01-10T22:59:59Z");
        assert_eq!(day, Window { start: at("2026-01-09T23:00:00Z"), end: at("2026-01-10T23:00:00Z") });
    }

    #[test]
    fn a_day_has_23_or_25_hours_when_the_clocks_change() {
        let spring = window(CalendarUnit::Day, "Europe/Berlin", "2026-03-29T12:00:00Z");
        let autumn = window(CalendarUnit::Day, "Europe/Berlin", "2026-10-25T12:00:00Z");
        assert_eq!((spring.end - spring.start, autumn.end - autumn.start), (23 * HOUR, 25 * HOUR));
    }

    #[test]
    fn weeks_begin_on_monday_and_months_and_years_on_the_first() {
        let week = window(CalendarUnit::Week, "UTC", "2026-11-16T00:00:00Z");
        let month = window(CalendarUnit::Month, "UTC", "2028-02-29T23:59:59Z");
        let year = window(CalendarUnit::Year, "UTC", "2026-12-31T23:59:59Z");
        assert_eq!(week, Window { start: at("2026-11-16T00:00:00Z"), end: at("2026-11-23T00:00:00Z") });
        assert_eq!(month, Window { start: at("2028-02-01T00:00:00Z"), end: at("2028-03-01T00:00:00Z") });
        assert_eq!(year, Window { start: at("2026-01-01T00:00:00Z"), end: at("2027-01-01T00:00:00Z") });
    }

    #[test]
    fn hours_follow_each_other_without_a_gap_where_the_clocks_move_by_half_an_hour() {
        let calendar = ZonedCalendar::new(CalendarUnit::Hour, "Australia/Lord_Howe").expect("valid zone");
        let mut now = at("2026-04-03T00:00:00Z");
        while now < at("2026-04-07T00:00:00Z") {
            let window = calendar.window_at(now);
            assert!(window.start == now || now == at("2026-04-03T00:00:00Z"), "{window:?} at {now}");
            assert_eq!(calendar.compute(window.end - 1).expect("in range"), window);
            now = window.end;
        }
    }

    #[test]
    fn an_unknown_zone_is_refused() {
        assert!(ZonedCalendar::new(CalendarUnit::Day, "Europe/Atlantis").is_err());
    }
}

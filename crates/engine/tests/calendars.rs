//! Calendar quotas through the engine: they roll where people expect it.

mod limiter;

use proptest::prelude::*;
use proptest::sample::select;
use tidegate_core::quota::CalendarUnit;
use tidegate_core::time::Calendar as _;
use tidegate_engine::calendar::ZonedCalendar;

use limiter::{Limiter, SECOND, cases};

const HOUR: u64 = 3_600 * SECOND;

/// Uses everything up, and returns the hours until the next window, which must then come to the nanosecond.
fn hours_until_it_rolls(limiter: &Limiter) -> u64 {
    assert!(limiter.allows("a", 3));
    let wait = limiter.check("a", 1).verdict().retry_after().expect("a wait");
    limiter.advance(wait - 1);
    assert!(!limiter.allows("a", 1));
    limiter.advance(1);
    assert_eq!(limiter.remaining("a"), 3);
    assert_eq!(wait % HOUR, 0);
    wait / HOUR
}

/// From the first of January 2026, 0:00 UTC, to this day and hour.
fn advance_to(limiter: &Limiter, day_of_year: u64, hour: u64) {
    limiter.advance(((day_of_year - 1) * 24 + hour) * HOUR);
}

#[test]
fn a_day_ends_at_local_midnight() {
    let limiter = Limiter::new("3/day calendar Europe/Berlin");
    advance_to(&limiter, 10, 12);
    assert_eq!([(); 3].map(|()| hours_until_it_rolls(&limiter)), [11, 24, 24]);
}

#[test]
fn the_day_on_which_the_clocks_change_has_23_or_25_hours() {
    let limiter = Limiter::new("3/day calendar Europe/Berlin");
    // The 28th of March, 12:00 UTC; on the 29th the clocks are put forward.
    advance_to(&limiter, 87, 12);
    assert_eq!([(); 3].map(|()| hours_until_it_rolls(&limiter)), [11, 23, 24]);
    let limiter = Limiter::new("3/day calendar Europe/Berlin");
    // The 24th of October, 12:00 UTC; on the 25th they are put back.
    advance_to(&limiter, 297, 12);
    assert_eq!([(); 3].map(|()| hours_until_it_rolls(&limiter)), [10, 25, 24]);
}

#[test]
fn weeks_and_months_last_as_long_as_they_last() {
    let limiter = Limiter::new("3/week calendar");
    // Thursday, the first of January.
    assert_eq!([(); 2].map(|()| hours_until_it_rolls(&limiter)), [4 * 24, 7 * 24]);
    let limiter = Limiter::new("3/month calendar");
    assert_eq!([(); 4].map(|()| hours_until_it_rolls(&limiter)), [31 * 24, 28 * 24, 31 * 24, 30 * 24]);
}

#[test]
fn a_calendar_quota_keeps_its_counters_when_its_limit_changes() {
    let limiter = Limiter::new("3/day calendar Asia/Kathmandu");
    assert!(limiter.allows("a", 2));
    limiter.load("10/day calendar Asia/Kathmandu", tidegate_engine::plan::Transition::Safe);
    assert_eq!(limiter.remaining("a"), 8);
}

#[test]
fn several_quotas_in_one_check_roll_by_their_own_calendars() {
    let limiter = Limiter::new("3/day calendar America/New_York, 5/day calendar Asia/Tokyo");
    assert!(limiter.allows("a", 3), "a first request of two quotas");
    // Midnight in New York is at 5:00 UTC, in Tokyo at 15:00.
    limiter.advance(5 * HOUR);
    assert!(limiter.allows("a", 2));
    let denied = limiter.check("a", 1);
    assert_eq!(
        (denied.binding().expect("a quota").0.label.as_str(), denied.verdict().retry_after()),
        ("5/day-calendar-Asia/Tokyo", Some(10 * HOUR))
    );
}

/// Zones that change their clocks at midnight, by half an hour or by two, skipped a day, or never change.
const ZONES: [&str; 12] = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "America/Sao_Paulo",
    "Africa/Cairo",
    "Asia/Beirut",
    "Asia/Kathmandu",
    "Asia/Pyongyang",
    "Pacific/Apia",
    "Pacific/Kwajalein",
    "Australia/Lord_Howe",
    "Antarctica/Troll",
];

proptest! {
    #![proptest_config(cases(20_000))]

    /// Every instant belongs to one window, all instants of a window agree about it, and the next begins where it ends.
    #[test]
    fn windows_follow_each_other_without_gap_or_overlap(
        zone in select(&ZONES[..]),
        unit in select(&CalendarUnit::ALL[..]),
        day in 400..47_000_u64,
        nanos in 0..24 * HOUR,
        windows in 1..6_usize,
    ) {
        // A calendar remembers its last window, so each question has a calendar of its own.
        let window_at = |now| ZonedCalendar::new(unit, zone).expect("a zone of the database").window_at(now);
        let mut now = day * 24 * HOUR + nanos;
        for _ in 0..windows {
            let window = window_at(now);
            prop_assert!(window.start <= now && now < window.end, "{now} in {window:?}");
            for inside in [window.start, window.start + (window.end - window.start) / 2, window.end - 1] {
                prop_assert_eq!(window_at(inside), window, "at {}", inside);
            }
            prop_assert_eq!(window_at(window.end).start, window.end);
            now = window.end;
        }
    }
}

//! Calendar quotas through the engine: they roll where people expect it.

mod limiter;

use limiter::{Limiter, SECOND};

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
    assert_eq!((denied.binding().0.label.as_str(), denied.verdict().retry_after()), ("5/day-calendar-Asia/Tokyo", Some(10 * HOUR)));
}

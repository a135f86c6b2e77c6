//! Counting here after the store, and the store after counting here, on a clock that the test moves.

use tidegate_core::quota::{CalendarUnit, Quota};
use tidegate_core::time::Calendar;
use tidegate_store::clock::ManualClock;

use super::*;
use crate::calendar::ZonedCalendar;
use crate::word::Word;

const SECOND: Ticks = 1_000_000_000;
const HOUR: Ticks = 3_600 * SECOND;
const KEY: Digest = Digest([3, 4]);

/// One counter of one instance, and the time.
struct Away {
    clock: ManualClock,
    fallback: Fallback,
    planned: Planned,
}

impl Away {
    fn new(quota: &str, calendar: Option<ZonedCalendar>, began: Ticks) -> Self {
        let clock = ManualClock::new(began);
        let fallback = Fallback { started_at: 0, ..Fallback::with_clock(Clock::Manual(clock.clone()), 1_000, 1) };
        let quota: Quota = quota.parse().expect("a quota");
        let calendar = calendar.map(|calendar| Arc::new(calendar) as Arc<dyn Calendar>);
        let meter = fallback.counters.meter(&quota, calendar.clone()).expect("a meter");
        let namespace = Digest([1, 2]);
        let (label, text) = (String::new(), String::new());
        let planned = Planned { quota, meter, namespace, until: None, rule: None, label, text, calendar, refunds_since: 0 };
        Self { clock, fallback, planned }
    }

    fn counter(&self) -> Digest {
        KEY ^ self.planned.namespace
    }

    /// How many of so many requests are admitted here now.
    fn admitted(&self, requests: usize) -> usize {
        let local =
            Local { index: 0, planned: &self.planned, key: KEY, place: Place::of(KEY), ask: Ask::cost(1), part: Part::Enforced };
        let decide = || self.fallback.decide_at(self.clock.now(), Origin::Check, &[local]);
        (0..requests).filter(|_| decide().iter().all(|status| status.receipt != Receipt::Nothing)).count()
    }

    /// The store answers: it is told what it is owed, and says what remains.
    fn store_says(&self, remaining: u64) {
        if let Some(debt) = self.fallback.debts().send(self.counter()) {
            self.fallback.debts().charged(&debt);
        }
        self.hears(remaining);
    }

    fn hears(&self, left: u64) {
        let now = self.clock.now();
        self.fallback.saw(now, self.counter(), Word { said_at: now, left, reset_after: SECOND });
    }

    fn pass(&self, by: Ticks) {
        self.clock.advance(i64::try_from(by).expect("a short time"));
    }
}

/// The counts of the first outage run out a moment after the second one has begun, and what the store has admitted in between does not.
#[test]
fn what_the_store_admits_between_two_outages_counts_for_a_whole_window() {
    let away = Away::new("10/second", None, 1_000 * SECOND);
    away.store_says(7);
    assert_eq!(away.admitted(20), 7);

    away.pass(SECOND * 95 / 100);
    away.store_says(0);
    assert_eq!(away.admitted(1), 0);

    away.pass(SECOND / 10);
    assert_eq!(away.admitted(20), 0);
    away.pass(SECOND);
    assert_eq!(away.admitted(20), 10);
}

#[test]
fn what_the_store_was_not_told_of_is_used_too() {
    let away = Away::new("10/second", None, 1_000 * SECOND);
    away.store_says(10);
    assert_eq!(away.admitted(4), 4);

    away.hears(9);
    assert_eq!(away.admitted(20), 5);
}

#[test]
fn one_word_of_the_store_is_taken_into_account_once() {
    let away = Away::new("10/second", None, 1_000 * SECOND);
    away.store_says(4);

    assert_eq!((away.admitted(3), away.admitted(20)), (3, 1));
    away.pass(SECOND);
    assert_eq!(away.admitted(20), 10);
}

/// Whatever part of the day is over, and however long nothing was heard: what was used today is used until midnight.
#[test]
fn a_day_that_was_begun_with_the_store_goes_on_without_it() {
    let midnight = 20_000 * 24 * HOUR;
    let calendar = ZonedCalendar::new(CalendarUnit::Day, "UTC").expect("a zone");
    let away = Away::new("10/day calendar UTC", Some(calendar), midnight + 15 * HOUR);
    away.store_says(2);

    away.pass(5 * HOUR);
    assert_eq!(away.admitted(20), 2);
    away.pass(4 * HOUR);
    assert_eq!(away.admitted(20), 10);
    away.pass(3 * HOUR);
    assert_eq!(away.admitted(20), 0);
}

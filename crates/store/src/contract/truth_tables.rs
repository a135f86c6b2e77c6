//! The truth tables, played through a store.

use std::collections::HashMap;

use tidegate_core::decision::Verdict;
use tidegate_core::meter::{Meter, Receipt, Refund};
use tidegate_core::quota::Quota;
use tidegate_core::time::Ticks;

use super::counter::{Counter, Metered};
use super::vectors::{self, Action, Answer, Decision, Row, Subject, Table};
use crate::clock::ManualClock;
use crate::store::Store;

/// Every field of every answer, as the tables say. Calendars are left to the engine.
///
/// The tables count nanoseconds, and have quotas at the edge of what can be written. Where these are too fine for the numbers that a store counts with,
/// it says so, and such a table is left out; but not more than a few.
pub fn every_row_is_answered_as_the_tables_say<S: Store>(factory: impl Fn(ManualClock) -> S) {
    let (mut played, mut too_fine) = (0, Vec::new());
    vectors::play_all(|table| {
        if table.needs_calendar() {
            return None;
        }
        let counter = Counter::new(&factory);
        if quotas(table).any(|quota| counter.store.meter(quota, None).is_err()) {
            too_fine.push(table.name.clone());
            return None;
        }
        played += 1;
        Some(Player::new(counter, table))
    });
    assert!(too_fine.len() * 20 <= played, "too fine are {too_fine:?}");
}

/// The quotas that are in force at some time.
fn quotas(table: &Table) -> impl Iterator<Item = &Quota> {
    let loaded = table.rows.iter().filter_map(|row| match &row.action {
        Action::Load(quota) => Some(&**quota),
        _ => None,
    });
    std::iter::once(&table.quota).chain(loaded)
}

/// What a row took, under which quota, and how much of it was given back.
struct Taken {
    receipt: Receipt,
    meter: Meter,
    given_back: u64,
}

struct Player<S> {
    counter: Counter<S>,
    quota: Metered,
    taken: HashMap<usize, Taken>,
}

impl<S: Store> Player<S> {
    fn new(counter: Counter<S>, table: &Table) -> Self {
        let quota = counter.metered("table", &table.quota);
        Self { counter, quota, taken: HashMap::new() }
    }

    fn refund(&mut self, of: usize, row: &Row) {
        let Some(taken) = self.taken.get_mut(&of) else { return };
        let refund = Refund { receipt: taken.receipt, cost: row.cost };
        taken.given_back += row.cost;
        if self.quota.meter().refunds(&taken.meter) {
            self.counter.store.refund(&self.quota.charge(&row.key, row.cost), refund).expect("a store that works");
        }
    }
}

impl<S: Store> Subject for Player<S> {
    fn set_clock(&mut self, now: Ticks) {
        let (now, before) = (now.cast_signed(), self.counter.clock.now().cast_signed());
        self.counter.clock.advance(now - before);
    }

    fn play(&mut self, number: usize, row: &Row) -> Option<Answer> {
        let (store, quota) = (&self.counter.store, &self.quota);
        let charge = match row.lease {
            Some(lease) => quota.leased(&row.key, row.cost, lease),
            None => quota.charge(&row.key, row.cost),
        };
        let decision = |verdict: Verdict| Some(Answer::Decision(Decision::from(&verdict)));
        match &row.action {
            Action::Check => {
                let verdict = store.check(&[charge]).expect("a store that works");
                let receipt = verdict.statuses()[0].receipt;
                self.taken.insert(number, Taken { receipt, meter: quota.meter().clone(), given_back: 0 });
                decision(verdict)
            }
            Action::Peek => decision(store.peek(&[charge]).expect("a store that works")),
            Action::Debit => decision(store.debit(&[charge]).expect("a store that works")),
            Action::Renew => Some(Answer::Held(store.renew(&charge).expect("a store that works"))),
            Action::Release => Some(Answer::Held(store.release(&charge).expect("a store that works"))),
            Action::Refund(of) => {
                self.refund(*of, row);
                None
            }
            Action::Load(quota) => {
                self.quota = self.counter.metered("table", quota);
                None
            }
        }
    }
}

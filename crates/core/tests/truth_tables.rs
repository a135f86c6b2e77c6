//! The truth tables of `testdata/vectors`, played on plain meters: one state per key, and the time passed in.

#[path = "../../store/src/contract/vectors.rs"]
#[allow(unreachable_pub, reason = "in its own crate the module is public")]
mod vectors;

use std::collections::HashMap;

use tidegate_core::algorithm::{Receipt, Refund};
use tidegate_core::meter::{Ask, Meter, State};
use tidegate_core::quota::Quota;
use tidegate_core::time::{Tick, Ticks};

use vectors::{Action, Answer, Decision, Row, Subject, Table};

/// What a row took, under which quota, and how much of it was given back.
struct Taken {
    receipt: Receipt,
    meter: Meter,
    given_back: u64,
}

/// All keys under one quota.
struct Meters {
    meter: Meter,
    states: HashMap<String, State>,
    taken: HashMap<usize, Taken>,
    now: Ticks,
}

impl Meters {
    fn new(table: &Table) -> Self {
        Self { meter: meter(&table.quota), states: HashMap::new(), taken: HashMap::new(), now: table.start }
    }

    fn refund(&mut self, of: usize, row: &Row) {
        let Some(taken) = self.taken.get_mut(&of) else { return };
        let refund = Refund { receipt: taken.receipt, cost: row.cost };
        taken.given_back += row.cost;
        if self.meter.refunds(&taken.meter) && !self.meter.is_stateless() {
            let state = self.states.get_mut(&row.key).expect("what was charged is there");
            self.meter.refund(state, self.now, refund);
        }
    }
}

impl Subject for Meters {
    fn set_clock(&mut self, now: Ticks) {
        self.now = now;
    }

    fn play(&mut self, number: usize, row: &Row) -> Option<Answer> {
        // A limit of 0 must not touch what was counted before.
        let mut untouched = self.meter.empty();
        let state = if self.meter.is_stateless() {
            &mut untouched
        } else {
            self.states.entry(row.key.clone()).or_insert_with(|| self.meter.empty())
        };
        let (meter, now, ask) = (&self.meter, self.now, Ask { lease: row.lease, ..Ask::cost(row.cost) });
        match &row.action {
            Action::Check if row.cost > 0 => {
                let status = meter.decide(state, now, ask);
                self.taken.insert(number, Taken { receipt: status.receipt, meter: meter.clone(), given_back: 0 });
                Some(Answer::Decision(Decision::from(&status)))
            }
            Action::Check | Action::Peek => {
                let mut copy = state.clone();
                let assessment = meter.assess(&mut copy, now, ask);
                Some(decision(meter, &copy, now, assessment.retry_after, assessment.delay))
            }
            Action::Debit => {
                meter.debit(state, now, row.cost);
                Some(decision(meter, state, now, Some(0), 0))
            }
            Action::Renew => Some(Answer::Held(meter.renew(state, now, row.lease?))),
            Action::Release => Some(Answer::Held(meter.release(state, now, row.lease?))),
            Action::Refund(of) => {
                self.refund(*of, row);
                None
            }
            Action::Load(quota) => {
                self.meter = self::meter(quota);
                None
            }
        }
    }
}

fn decision(meter: &Meter, state: &State, now: Ticks, retry_after: Option<Ticks>, delay: Ticks) -> Answer {
    let left = meter.left(state, now);
    Answer::Decision(Decision {
        allowed: retry_after == Some(0),
        limit: meter.capacity(),
        remaining: left.remaining,
        retry_after,
        reset_after: left.reset_after,
        delay,
    })
}

fn meter(quota: &Quota) -> Meter {
    Meter::new(quota, Tick::NANOSECOND, None).expect("a quota without a calendar")
}

#[test]
fn every_row_is_answered_as_the_tables_say() {
    vectors::play_all(|table| (!table.needs_calendar()).then(|| Meters::new(table)));
}

//! The truth tables of `testdata/vectors`, played through the engine, calendars included.

mod limiter;

use std::collections::HashMap;

use tidegate_core::time::Ticks;
use tidegate_engine::decision::Decision;
use tidegate_engine::engine::CheckOptions;
use tidegate_engine::plan::Transition;
use tidegate_store::contract::vectors::{self, Action, Answer, Row, Subject, Table};

use limiter::Limiter;

struct Player {
    limiter: Limiter,
    decisions: HashMap<usize, Decision>,
}

impl Player {
    fn new(table: &Table) -> Self {
        Self { limiter: Limiter::of(vec![table.quota.clone()]), decisions: HashMap::new() }
    }
}

impl Subject for Player {
    fn set_clock(&mut self, now: Ticks) {
        self.limiter.clock.advance(now.cast_signed() - self.limiter.clock.now().cast_signed());
    }

    fn play(&mut self, number: usize, row: &Row) -> Option<Answer> {
        let (engine, key) = (&self.limiter.engine, row.key.as_bytes());
        let answer = |decision: &Decision| Some(Answer::Decision(vectors::Decision::from(decision.verdict())));
        match &row.action {
            Action::Check => {
                let options = CheckOptions { lease: row.lease, ..CheckOptions::default() };
                let decision = engine.check(key, row.cost, options).expect("a call that makes sense");
                let answer = answer(&decision);
                self.decisions.insert(number, decision);
                answer
            }
            Action::Peek => answer(&self.limiter.peek(&row.key, row.cost)),
            Action::Debit => answer(&engine.debit(key, row.cost).expect("a call that makes sense")),
            Action::Renew => Some(Answer::Held(engine.renew(key, row.lease?).expect("a call that makes sense"))),
            Action::Release => Some(Answer::Held(engine.release(key, row.lease?).expect("a call that makes sense"))),
            Action::Refund(of) => {
                let refunded = engine.refund(key, &self.decisions[of], Some(row.cost));
                assert!(refunded.is_ok() || !self.decisions[of].is_allowed(), "{refunded:?}");
                None
            }
            Action::Load(quota) => {
                engine.load(vec![(**quota).clone()], Transition::Safe).expect("a quota that can be loaded");
                None
            }
        }
    }
}

#[test]
fn every_row_is_answered_as_the_tables_say() {
    vectors::play_all(|table| Some(Player::new(table)));
}

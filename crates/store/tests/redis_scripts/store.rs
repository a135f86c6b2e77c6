//! A store of the scripts alone: one connection, no topology, a clock moved by hand.

use std::fmt;
use std::sync::Arc;

use tidegate_core::decision::Verdict;
use tidegate_core::meter::{Meter, MeterError, Refund};
use tidegate_core::quota::Quota;
use tidegate_core::time::{Calendar, Tick, Ticks};
use tidegate_store::clock::ManualClock;
use tidegate_store::redis::script::{Build, Op, Reply, Scripts, key};
use tidegate_store::store::{Charge, Store, StoreError, StoreStats};

use super::connection::Connection;

pub(crate) const PREFIX: &[u8] = b"tg:";

pub(crate) struct ScriptStore {
    pub(crate) scripts: Scripts,
    pub(crate) connection: Connection,
    pub(crate) clock: ManualClock,
}

impl ScriptStore {
    pub(crate) fn new(clock: ManualClock) -> Self {
        Self { scripts: Scripts::new(Build::Injected), connection: Connection::new(), clock }
    }

    pub(crate) fn run(&self, op: Op, charges: &[Charge<'_>]) -> Result<Reply, StoreError> {
        let now = self.clock.now();
        let call = self.scripts.call(op, charges, PREFIX, now);
        call.answer(now).map_or_else(|| self.connection.call(&call), Ok)
    }

    fn verdict(&self, op: Op, charges: &[Charge<'_>]) -> Result<Verdict, StoreError> {
        match self.run(op, charges)? {
            Reply::Verdict { verdict, .. } => Ok(verdict),
            other => panic!("{other:?}"),
        }
    }

    fn done(&self, op: Op, charge: &Charge<'_>) -> Result<bool, StoreError> {
        match self.run(op, &[*charge])? {
            Reply::Done(done) => Ok(done),
            other => panic!("{other:?}"),
        }
    }
}

impl fmt::Debug for ScriptStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ScriptStore")
    }
}

impl Store for ScriptStore {
    fn now(&self) -> Ticks {
        self.clock.now()
    }

    fn tick(&self) -> Tick {
        Tick::NANOSECOND
    }

    fn meter(&self, quota: &Quota, calendar: Option<Arc<dyn Calendar>>) -> Result<Meter, MeterError> {
        self.scripts.meter(quota, calendar)
    }

    fn check(&self, charges: &[Charge<'_>]) -> Result<Verdict, StoreError> {
        self.verdict(Op::Check, charges)
    }

    fn peek(&self, charges: &[Charge<'_>]) -> Result<Verdict, StoreError> {
        self.verdict(Op::Peek, charges)
    }

    fn debit(&self, charges: &[Charge<'_>]) -> Result<Verdict, StoreError> {
        self.verdict(Op::Debit, charges)
    }

    fn refund(&self, charge: &Charge<'_>, refund: Refund) -> Result<(), StoreError> {
        self.done(Op::Refund(refund), charge).map(|_| ())
    }

    fn renew(&self, charge: &Charge<'_>) -> Result<bool, StoreError> {
        self.done(Op::Renew, charge)
    }

    fn release(&self, charge: &Charge<'_>) -> Result<bool, StoreError> {
        self.done(Op::Release, charge)
    }

    fn reset(&self, charge: &Charge<'_>) -> Result<bool, StoreError> {
        let mut name = Vec::new();
        key::write(&mut name, PREFIX, charge);
        Ok(self.connection.ask_bytes(&[b"DEL", &name]).int() == Some(1))
    }

    fn clear(&self) {
        self.connection.ask(&["FLUSHDB"]);
    }

    fn stats(&self) -> StoreStats {
        StoreStats { keys: self.connection.int(&["DBSIZE"]).unsigned_abs(), ..StoreStats::default() }
    }
}

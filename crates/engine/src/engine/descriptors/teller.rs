//! The store, as a task asks it.

use std::time::Duration;

use tidegate_core::algorithm::Refund;
use tidegate_core::decision::Verdict;
use tidegate_store::redis::script::Op;
use tidegate_store::store::{Charge, Store, StoreError};

use super::Engine;
use crate::remote::{Prepared, Terms};

/// The store, as a task asks it that waits no longer than it says.
pub(super) struct Teller<'a> {
    pub(super) engine: &'a Engine,
    pub(super) patience: Option<Duration>,
}

impl Teller<'_> {
    pub(super) fn store(&self) -> &dyn Store {
        &*self.engine.store
    }

    pub(super) async fn check(&self, charges: &[Charge<'_>]) -> Result<Verdict, StoreError> {
        let Some(remote) = &self.engine.remote else { return self.store().check(charges) };
        match remote.prepare(Op::Check, charges, Terms { patience: self.patience, ..Terms::default() }) {
            Prepared::Known(outcome) => outcome,
            Prepared::Ready(ready) => ready.ask().await,
        }
    }

    pub(super) async fn refund(&self, charge: &Charge<'_>, refund: Refund) -> Result<(), StoreError> {
        match &self.engine.remote {
            Some(remote) => remote.refund_in_task(charge, refund).await,
            None => self.store().refund(charge, refund),
        }
    }
}

//! Slots of concurrency quotas: renewing and releasing them.

use tidegate_core::meter::Ask;
use tidegate_store::digest::Digest;
use tidegate_store::store::Charge;

use super::{Engine, UsageError, charge};
use crate::plan::{Plan, Planned};

impl Engine {
    /// Extends a lease on every concurrency quota; `false` when one of them lost it.
    ///
    /// # Errors
    /// See [`UsageError`].
    pub fn renew(&self, key: &[u8], lease: u128) -> Result<bool, UsageError> {
        let key = self.key(key, 0)?;
        let plan = self.plan.load();
        let mut leases = lease_charges(&plan, key, lease).peekable();
        Ok(leases.peek().is_some() && leases.all(|charge| self.store.renew(&charge).unwrap_or(false)))
    }

    /// Gives a lease back; `false` when it was unknown, which is no error.
    ///
    /// # Errors
    /// See [`UsageError`].
    pub fn release(&self, key: &[u8], lease: u128) -> Result<bool, UsageError> {
        Ok(self.release_digest(self.key(key, 0)?, lease))
    }

    pub(super) fn release_digest(&self, key: Digest, lease: u128) -> bool {
        let plan = self.plan.load();
        lease_charges(&plan, key, lease).filter(|charge| self.store.release(charge).unwrap_or(false)).count() > 0
    }
}

fn lease_charges(plan: &Plan, key: Digest, lease: u128) -> impl Iterator<Item = Charge<'_>> {
    let holds_leases = |planned: &&Planned| planned.meter.retry_is_hint();
    plan.quotas().iter().filter(holds_leases).map(move |planned| charge(planned, key, Ask { lease: Some(lease), ..Ask::cost(0) }))
}

//! Slots of concurrency quotas: renewing and releasing them.

use smallvec::SmallVec;
use tidegate_core::algorithm::Receipt;
use tidegate_core::meter::Ask;
use tidegate_store::digest::Digest;
use tidegate_store::store::{Charge, Place};

use super::{Charges, Engine, UsageError, charge};
use crate::decision::{Asked, Decision};
use crate::plan::{Plan, Planned};

impl Engine {
    /// Extends a lease on every concurrency quota; `false` when one of them lost it.
    ///
    /// # Errors
    /// See [`UsageError`].
    pub fn renew(&self, key: &[u8], lease: u128) -> Result<bool, UsageError> {
        let key = self.key(key, 0)?;
        let plan = self.plan.load();
        Ok(self.renew_all(&lease_charges(plan.quotas(), key, Place::of(key), lease)))
    }

    /// Gives a lease back; `false` when it was unknown, which is no error.
    ///
    /// # Errors
    /// See [`UsageError`].
    pub fn release(&self, key: &[u8], lease: u128) -> Result<bool, UsageError> {
        let key = self.key(key, 0)?;
        let plan = self.plan.load();
        Ok(self.release_all(&lease_charges(plan.quotas(), key, Place::of(key), lease)))
    }

    /// Extends the slots that a decision holds; `false` when it holds none, or lost one.
    ///
    /// # Errors
    /// See [`UsageError`].
    pub fn renew_decision(&self, decision: &Decision) -> Result<bool, UsageError> {
        self.require_own(decision)?;
        let plan = self.plan.load();
        Ok(self.renew_all(&held(&plan, decision)))
    }

    /// Gives the slots back that a decision holds; `false` when there were none any more.
    ///
    /// # Errors
    /// See [`UsageError`].
    pub fn release_decision(&self, decision: &Decision) -> Result<bool, UsageError> {
        self.require_own(decision)?;
        let plan = self.plan.load();
        Ok(self.release_all(&held(&plan, decision)))
    }

    /// A store that cannot answer has not lost anything yet, and may be back before the lease expires.
    fn renew_all(&self, charges: &[Charge<'_>]) -> bool {
        let is_held = |charge: &Charge<'_>| match self.store.renew(charge) {
            Ok(is_held) => is_held || self.remote.as_ref().is_some_and(|remote| remote.parts().fallback.renew(charge)),
            Err(error) => error.is_transient(),
        };
        !charges.is_empty() && charges.iter().all(is_held)
    }

    fn release_all(&self, charges: &[Charge<'_>]) -> bool {
        let is_given_back = |charge: &&Charge<'_>| {
            // Lent while the store was away: it knows nothing of it.
            let is_local = self.remote.as_ref().is_some_and(|remote| remote.parts().fallback.release(charge));
            is_local || self.store.release(charge).unwrap_or(false)
        };
        charges.iter().filter(is_given_back).count() > 0
    }
}

/// The charges under which the slots of a decision are held now.
pub(super) fn held<'a>(plan: &'a Plan, decision: &Decision) -> Charges<'a> {
    let Some(lease) = decision.lease else { return Charges::new() };
    match &decision.asked {
        Asked::Key(key) => lease_charges(plan.quotas(), *key, Place::of(*key), lease),
        Asked::Request(requested) => {
            // A rule in shadow that would have denied the request lent nothing, and loses nothing.
            let lent = decision.verdict().statuses().iter().filter(|status| matches!(status.receipt, Receipt::Lease { .. }));
            let charged = lent.map(|status| &requested.charged[usize::from(status.quota)]);
            let mut sets: SmallVec<[(usize, Digest, Place); 4]> =
                charged.map(|charged| (charged.set, charged.key, charged.place)).collect();
            sets.dedup();
            let successor = |(set, key, place)| Some((plan.successor(&decision.plan, set)?, key, place));
            let successors = sets.into_iter().filter_map(successor);
            successors.flat_map(|(set, key, place)| lease_charges(&set.quotas, key, place, lease)).collect()
        }
    }
}

fn lease_charges(quotas: &[Planned], key: Digest, place: Place, lease: u128) -> Charges<'_> {
    let holds_leases = |planned: &&Planned| planned.meter.retry_is_hint();
    let ask = Ask { lease: Some(lease), ..Ask::cost(0) };
    quotas.iter().filter(holds_leases).map(|planned| Charge { place, ..charge(planned, key, ask) }).collect()
}

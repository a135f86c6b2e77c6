//! Giving back: a decision is its own receipt.

use std::sync::atomic::Ordering;

use tidegate_core::algorithm::{Receipt, Refund};
use tidegate_core::meter::Ask;
use tidegate_store::digest::Digest;

use super::{Engine, UsageError, charge};
use crate::decision::{Decision, Origin};
use crate::plan::Planned;

impl Engine {
    /// Gives back `cost` units of a decision, or all that are left; returns how many were accepted.
    ///
    /// Of those, what has drained by itself in the meantime is not given back again. When nothing is left, slots are released too.
    ///
    /// # Errors
    /// See [`UsageError`].
    pub fn refund(&self, key: &[u8], decision: &Decision, cost: Option<u64>) -> Result<u64, UsageError> {
        let key = self.receipt_key(key, decision)?;
        let given_back = UsageError::AlreadyGivenBack { left: decision.refundable.load(Ordering::SeqCst), cost: decision.cost };
        let taken = decision.take_refundable(cost).filter(|&taken| taken > 0 || cost == Some(0)).ok_or(given_back)?;
        self.give_back(key, decision, taken);
        if let (Some(lease), 0) = (decision.lease, decision.refundable.load(Ordering::SeqCst)) {
            self.release_digest(key, lease);
        }
        Ok(taken)
    }

    /// Corrects what a decision took to its true cost, once: gives back what was too much, debits what was missing.
    ///
    /// # Errors
    /// See [`UsageError`].
    pub fn settle(&self, key: &[u8], decision: &Decision, cost: u64) -> Result<Decision, UsageError> {
        self.key(key, cost)?;
        let key = self.receipt_key(key, decision)?;
        let given_back = UsageError::AlreadyGivenBack { left: 0, cost: decision.cost };
        let taken = decision.take_refundable(None).filter(|&taken| taken > 0).ok_or(given_back)?;
        if cost < taken {
            self.give_back(key, decision, taken - cost);
        }
        Ok(self.debit_digest(key, cost.saturating_sub(taken)))
    }

    /// The key of a decision that is used as a receipt, if it is one.
    fn receipt_key(&self, key: &[u8], decision: &Decision) -> Result<Digest, UsageError> {
        let key = self.key(key, 0)?;
        if decision.engine != self.id {
            return Err(UsageError::ForeignDecision);
        }
        if decision.key != key {
            return Err(UsageError::WrongKey);
        }
        let why = match decision.origin {
            Origin::Peek => "a peek",
            Origin::Debit => "a debit, which is final",
            Origin::Check if decision.degraded.is_some() => "taken without the store",
            Origin::Check if !decision.is_allowed() => "denied",
            Origin::Check if decision.cost == 0 => "a check with cost 0",
            Origin::Check => return Ok(key),
        };
        Err(UsageError::NothingTaken { why })
    }

    /// Refunds each quota that is still counted in the same way as when it was charged. Losing a refund errs to the safe side.
    fn give_back(&self, key: Digest, decision: &Decision, cost: u64) {
        if decision.resets != self.resets.load(Ordering::SeqCst) {
            return;
        }
        let plan = self.plan.load();
        for (charged, status) in decision.statuses() {
            if status.receipt == Receipt::Nothing {
                continue;
            }
            // Compared with every generation in between: a burst that was lowered and raised again has clamped what was charged.
            let is_valid = |planned: &&Planned| decision.generation() >= planned.refunds_since;
            let Some(planned) = plan.find(charged.namespace).filter(is_valid) else { continue };
            let refund = Refund { receipt: status.receipt, cost };
            let _ = self.store.refund(&charge(planned, key, Ask::cost(cost)), refund);
        }
    }
}

//! Giving back: a decision is its own receipt.

use std::sync::atomic::Ordering;

use tidegate_core::algorithm::{Receipt, Refund};
use tidegate_core::meter::Ask;
use tidegate_core::quota::UNITS_MAX;
use tidegate_store::store::{Charge, Place};

use super::{Engine, UsageError, charge};
use crate::decision::{Asked, Charged, Decision, Origin, Taken};
use crate::plan::Planned;

impl Engine {
    /// Gives back `cost` units of a decision, or all that are left; returns how many were accepted.
    ///
    /// Of those, what has drained by itself in the meantime is not given back again. When nothing is left, slots are released too.
    ///
    /// # Errors
    /// See [`UsageError`].
    pub fn refund(&self, key: &[u8], decision: &Decision, cost: Option<u64>) -> Result<u64, UsageError> {
        self.require_key(key, decision)?;
        self.refund_decision(decision, cost)
    }

    /// The same for a decision on a request.
    ///
    /// Where rules charge different costs, the first units go back to those that were charged more, and the last to all.
    ///
    /// # Errors
    /// See [`UsageError`].
    pub fn refund_decision(&self, decision: &Decision, cost: Option<u64>) -> Result<u64, UsageError> {
        self.require_receipt(decision)?;
        let given_back = UsageError::AlreadyGivenBack { left: decision.refundable.load(Ordering::SeqCst), cost: decision.cost };
        let taken = decision.take_refundable(cost).filter(|taken| taken.units > 0 || cost == Some(0)).ok_or(given_back)?;
        self.give_back(decision, taken, taken.units);
        if decision.lease.is_some() && decision.refundable.load(Ordering::SeqCst) == 0 {
            self.release_decision(decision)?;
        }
        Ok(taken.units)
    }

    /// Corrects what a decision took to its true cost, once: gives back what was too much, debits what was missing.
    ///
    /// # Errors
    /// See [`UsageError`].
    pub fn settle(&self, key: &[u8], decision: &Decision, cost: u64) -> Result<Decision, UsageError> {
        self.key(key, cost)?;
        self.require_key(key, decision)?;
        self.settle_decision(decision, cost)
    }

    /// The same for a decision on a request.
    ///
    /// # Errors
    /// See [`UsageError`].
    pub fn settle_decision(&self, decision: &Decision, cost: u64) -> Result<Decision, UsageError> {
        if cost > UNITS_MAX {
            return Err(UsageError::CostTooLarge { cost });
        }
        self.require_receipt(decision)?;
        let given_back = UsageError::AlreadyGivenBack { left: 0, cost: decision.cost };
        let taken = decision.take_refundable(None).filter(|taken| taken.units > 0).ok_or(given_back)?;
        if cost < taken.units {
            self.give_back(decision, taken, taken.units - cost);
        }
        let missing = cost.saturating_sub(taken.units);
        Ok(match &decision.asked {
            Asked::Key(key) => self.debit_digest(*key, missing),
            Asked::Request(requested) => self.debit_again(decision, requested, missing),
        })
    }

    /// The same for a decision on a request that is no receipt, because it took nothing or was taken without the store: nothing is given back, but what is
    /// missing is debited. Each time: who calls it knows that it is once.
    ///
    /// # Errors
    /// See [`UsageError`].
    pub fn debit_decision(&self, decision: &Decision, cost: u64) -> Result<Decision, UsageError> {
        if cost > UNITS_MAX {
            return Err(UsageError::CostTooLarge { cost });
        }
        self.require_own(decision)?;
        let missing = cost.saturating_sub(decision.cost);
        Ok(match &decision.asked {
            Asked::Key(key) => self.debit_digest(*key, missing),
            Asked::Request(requested) => self.debit_again(decision, requested, missing),
        })
    }

    /// That a decision was made for this key.
    fn require_key(&self, key: &[u8], decision: &Decision) -> Result<(), UsageError> {
        let key = self.key(key, 0)?;
        self.require_own(decision)?;
        match decision.asked {
            Asked::Key(asked) if asked == key => Ok(()),
            _ => Err(UsageError::WrongKey),
        }
    }

    pub(super) fn require_own(&self, decision: &Decision) -> Result<(), UsageError> {
        if decision.engine == self.id { Ok(()) } else { Err(UsageError::ForeignDecision) }
    }

    /// That a decision is a receipt.
    fn require_receipt(&self, decision: &Decision) -> Result<(), UsageError> {
        self.require_own(decision)?;
        let why = match decision.origin {
            Origin::Peek => "a peek",
            Origin::Debit => "a debit, which is final",
            Origin::Check if decision.degraded.is_some() => "taken without the store",
            Origin::Check if !decision.is_allowed() => "denied",
            Origin::Check if decision.cost == 0 => "a check with cost 0",
            Origin::Check => return Ok(()),
        };
        Err(UsageError::NothingTaken { why })
    }

    /// Refunds each quota that is still counted in the same way as when it was charged. Losing a refund errs to the safe side.
    fn give_back(&self, decision: &Decision, taken: Taken, units: u64) {
        if decision.resets != self.resets.load(Ordering::SeqCst) {
            return;
        }
        let plan = self.plan.load();
        for (charged, status) in decision.statuses() {
            if status.receipt == Receipt::Nothing {
                continue;
            }
            let (set, key, place, cost) = match &decision.asked {
                Asked::Key(key) => (0, *key, Place::of(*key), decision.cost),
                Asked::Request(requested) => {
                    let Charged { set, key, place, cost, .. } = requested.charged[usize::from(status.quota)];
                    (set, key, place, cost)
                }
            };
            let cost = taken.of(units, cost);
            // Compared with every generation in between: a burst that was lowered and raised again has clamped what was charged.
            let is_valid = |planned: &&Planned| decision.generation() >= planned.refunds_since;
            let successor = plan.successor(&decision.plan, set).and_then(|set| set.find(charged.namespace));
            let Some(planned) = successor.filter(is_valid).filter(|_| cost > 0) else { continue };
            let refund = Refund { receipt: status.receipt, cost };
            let _ = self.store.refund(&Charge { place, ..charge(planned, key, Ask::cost(cost)) }, refund);
        }
    }
}

//! The answer to a check, which is also the receipt for what it took.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_core::decision::{Status, Verdict};
use tidegate_store::digest::Digest;
use tidegate_store::store::StoreError;

use crate::plan::{Plan, Planned};

/// What was asked when a decision was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// `check`: what it took can be given back.
    Check,
    /// `peek`: it took nothing.
    Peek,
    /// `debit` or `settle`: what they took stays taken.
    Debit,
}

/// The answer. Everything but the record of refunds is immutable.
#[derive(Debug)]
pub struct Decision {
    pub(crate) verdict: Verdict,
    pub(crate) plan: Arc<Plan>,
    pub(crate) origin: Origin,
    pub(crate) engine: Digest,
    pub(crate) key: Digest,
    pub(crate) cost: u64,
    pub(crate) lease: Option<u128>,
    /// How many resets the engine had seen: see [`Engine::reset`](crate::engine::Engine::reset).
    pub(crate) resets: u64,
    /// Why the store could not decide. The statuses then say what the policy said.
    pub(crate) degraded: Option<StoreError>,
    /// Units that were taken and not given back yet.
    pub(crate) refundable: AtomicU64,
}

impl Decision {
    /// Whether the request may pass.
    pub fn is_allowed(&self) -> bool {
        self.verdict.is_allowed()
    }

    /// The cost that was asked for.
    pub fn cost(&self) -> u64 {
        self.cost
    }

    /// The lease that was taken; `None` without a concurrency quota or when denied.
    pub fn lease(&self) -> Option<u128> {
        self.lease
    }

    /// Why the decision was taken without the store, if it was.
    pub fn degraded(&self) -> Option<&StoreError> {
        self.degraded.as_ref()
    }

    /// The generation of quotas that decided.
    pub fn generation(&self) -> u64 {
        self.plan.generation()
    }

    /// What the quotas said.
    pub fn verdict(&self) -> &Verdict {
        &self.verdict
    }

    /// What each quota said, with the quota.
    pub fn statuses(&self) -> impl Iterator<Item = (&Planned, &Status)> {
        self.verdict.statuses().iter().map(|status| (&self.plan.quotas()[usize::from(status.quota)], status))
    }

    /// The quota that decides what is reported, and what it said.
    #[allow(clippy::missing_panics_doc, reason = "every plan has a quota that is not phased out")]
    pub fn binding(&self) -> (&Planned, &Status) {
        let status = self.verdict.binding().expect("a plan has at least one quota that is not phased out");
        (&self.plan.quotas()[usize::from(status.quota)], status)
    }

    /// The quotas that were asked.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// Takes `cost` units, or all that are left, off the record; `None` if there are fewer.
    pub(crate) fn take_refundable(&self, cost: Option<u64>) -> Option<u64> {
        let after = |left: u64| cost.map_or(Some(0), |cost| left.checked_sub(cost));
        let left = self.refundable.fetch_update(Ordering::SeqCst, Ordering::SeqCst, after).ok()?;
        Some(cost.unwrap_or(left))
    }
}

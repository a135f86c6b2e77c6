//! The answer to a check, which is also the receipt for what it took.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use smallvec::SmallVec;
use tidegate_core::algorithm::Receipt;
use tidegate_core::decision::{Status, Verdict};
use tidegate_store::digest::Digest;
use tidegate_store::store::{Part, Place, StoreError};

use crate::engine::Blocked;
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

/// Who was asked for.
#[derive(Debug)]
pub(crate) enum Asked {
    /// One key, of all quotas.
    Key(Digest),
    /// A request, of the rules that apply to it.
    Request(Box<Requested>),
}

/// What the rules made of a request.
#[derive(Debug, Default)]
pub(crate) struct Requested {
    /// The rules that apply, also those without quotas.
    pub(crate) rules: SmallVec<[usize; 4]>,
    /// What was asked of the store, in order.
    pub(crate) charged: SmallVec<[Charged; 4]>,
    /// Whether the sender is blocked: then no store is asked.
    pub(crate) blocked: Option<Blocked>,
}

/// One quota that was asked for one key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Charged {
    pub(crate) rule: usize,
    pub(crate) set: usize,
    pub(crate) quota: usize,
    pub(crate) key: Digest,
    pub(crate) place: Place,
    pub(crate) cost: u64,
    pub(crate) part: Part,
}

/// What was asked, before it is answered.
#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) plan: Arc<Plan>,
    pub(crate) origin: Origin,
    pub(crate) asked: Asked,
    pub(crate) cost: u64,
    pub(crate) resets: u64,
    pub(crate) lease: Option<u128>,
}

impl Question {
    /// A question that takes nothing which could be given back.
    pub(crate) fn new(plan: Arc<Plan>, origin: Origin, asked: Asked, cost: u64) -> Self {
        Self { plan, origin, asked, cost, resets: 0, lease: None }
    }
}

/// The answer. Everything but the record of refunds is immutable.
#[derive(Debug)]
pub struct Decision {
    pub(crate) verdict: Verdict,
    pub(crate) plan: Arc<Plan>,
    pub(crate) origin: Origin,
    pub(crate) engine: Digest,
    pub(crate) asked: Asked,
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

    /// What was asked.
    pub fn origin(&self) -> Origin {
        self.origin
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
        self.verdict.statuses().iter().map(|status| (self.planned(status), status))
    }

    /// The quota that decides what is reported, and what it said; `None` if no rule is enforced.
    pub fn binding(&self) -> Option<(&Planned, &Status)> {
        self.verdict.binding().map(|status| (self.planned(status), status))
    }

    /// The quota that a status is of.
    pub fn planned(&self, status: &Status) -> &Planned {
        let (set, quota) = self.place(status);
        &self.plan.set(set).quotas[quota]
    }

    /// Where the quota of a status is in the plan: its set, and its position there.
    pub fn place(&self, status: &Status) -> (usize, usize) {
        let index = usize::from(status.quota);
        match &self.asked {
            Asked::Key(_) => (0, index),
            Asked::Request(requested) => (requested.charged[index].set, requested.charged[index].quota),
        }
    }

    /// Names of the rules that apply, in the order in which they were looked at.
    pub fn rules(&self) -> impl Iterator<Item = &Arc<str>> {
        self.rule_numbers().iter().filter_map(|&rule| Some(&self.plan.rules()?.set.rule(rule).name))
    }

    /// Numbers of the rules that apply, in the order in which they were looked at.
    pub fn rule_numbers(&self) -> &[usize] {
        match &self.asked {
            Asked::Key(_) => &[],
            Asked::Request(requested) => &requested.rules,
        }
    }

    /// The number of the rule that a status is of, and the key that it counted; no number if there are only quotas for keys.
    pub fn counted(&self, status: &Status) -> (Option<usize>, Digest) {
        match &self.asked {
            Asked::Key(key) => (None, *key),
            Asked::Request(requested) => {
                let charged = &requested.charged[usize::from(status.quota)];
                (Some(charged.rule), charged.key)
            }
        }
    }

    /// The key by which the fewest requests are counted together; `None` if all that are counted are everybody's.
    pub fn narrowest_key(&self) -> Option<Digest> {
        match &self.asked {
            Asked::Key(key) => Some(*key),
            Asked::Request(requested) => {
                let own = requested.charged.iter().filter(|charged| charged.place.breadth < Place::EVERYBODY);
                own.min_by_key(|charged| charged.place.breadth).map(|charged| charged.key)
            }
        }
    }

    /// Names of the rules in shadow that would have denied the request.
    pub fn shadowed(&self) -> SmallVec<[&Arc<str>; 2]> {
        let denied = self.statuses().filter(|(_, status)| status.is_shadow && !status.is_allowed());
        let mut names: SmallVec<[&Arc<str>; 2]> = denied.filter_map(|(planned, _)| planned.rule.as_ref()).collect();
        names.dedup();
        names
    }

    /// Whether clients are told about the quota of this status: it is enforced, and its rule does not forbid it.
    pub fn is_told(&self, status: &Status) -> bool {
        let is_silent = || match (&self.asked, self.plan.rules()) {
            (Asked::Request(requested), Some(rules)) => {
                !rules.set.rule(requested.charged[usize::from(status.quota)].rule).headers
            }
            _ => false,
        };
        !status.is_shadow && !is_silent()
    }

    /// The quotas that were asked.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// The same decision, as a receipt for what a check took. What was taken without the store can be released, but not refunded.
    pub(crate) fn taken(self, lease: Option<u128>) -> Self {
        let is_taken = self.is_allowed() && self.cost > 0;
        let refundable = AtomicU64::new(if is_taken && self.degraded.is_none() { self.cost } else { 0 });
        let is_lent = is_taken && (self.degraded.is_none() || self.verdict.statuses().iter().any(is_lease));
        Self { lease: lease.filter(|_| is_lent), refundable, ..self }
    }

    /// Takes `cost` units, or all that are left, off the record; `None` if there are fewer.
    pub(crate) fn take_refundable(&self, cost: Option<u64>) -> Option<Taken> {
        let after = |left: u64| cost.map_or(Some(0), |cost| left.checked_sub(cost));
        let before = self.refundable.fetch_update(Ordering::SeqCst, Ordering::SeqCst, after).ok()?;
        Some(Taken { before, units: cost.unwrap_or(before) })
    }
}

fn is_lease(status: &Status) -> bool {
    matches!(status.receipt, Receipt::Lease { .. })
}

/// Units taken off the record of a decision.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Taken {
    /// How many were left before.
    before: u64,
    /// How many are now.
    pub(crate) units: u64,
}

impl Taken {
    /// How many of `units` of these there are for a quota that was charged `cost`, which with rules may be less than the decision's.
    ///
    /// The units that only the costly quotas were charged go back first: a request that took fewer tokens than were reserved is still a request.
    pub(crate) fn of(self, units: u64, cost: u64) -> u64 {
        self.before.min(cost) - (self.before - units).min(cost)
    }
}

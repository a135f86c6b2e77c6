//! What is decided when the store cannot.

use smallvec::SmallVec;
use tidegate_core::algorithm::Receipt;
use tidegate_core::decision::{Status, Statuses, Verdict};
use tidegate_core::meter::Ask;
use tidegate_core::rules::spec::StoreErrorPolicy;
use tidegate_core::time::Ticks;
use tidegate_store::digest::Digest;
use tidegate_store::store::{Part, Place, StoreError};

use super::{Engine, OnStoreError};
use crate::decision::{Asked, Decision, Origin, Question};
use crate::plan::{Plan, Planned};
use crate::remote::Local;

/// One quota that the store was asked in vain.
struct Unanswered<'a> {
    index: u16,
    planned: &'a Planned,
    key: Digest,
    place: Place,
    cost: u64,
    part: Part,
    policy: OnStoreError,
}

impl Engine {
    /// Decides by policy, and counts it. When the store is back can only be estimated.
    pub(super) fn without_store(&self, question: &Question, error: &StoreError) -> Verdict {
        let &Question { ref plan, origin, ref asked, cost, lease, .. } = question;
        let unanswered = self.unanswered(plan, asked, cost);
        let is_denied = |one: &Unanswered<'_>| one.part == Part::Enforced && one.policy == OnStoreError::Deny;
        // What is refused anyway must not use up anybody's share.
        let origin = if unanswered.iter().any(is_denied) && origin == Origin::Check { Origin::Peek } else { origin };
        let mut statuses: Statuses = self.shares(&unanswered, origin, lease);
        for one in unanswered.iter().filter(|one| one.policy != OnStoreError::Local) {
            let retry_after = if one.policy == OnStoreError::Allow { 0 } else { error.retry_after().max(1) };
            statuses.push(by_policy(one, retry_after));
        }
        statuses.sort_by_key(|status| status.quota);
        let verdict = Verdict::new(statuses);
        self.degraded.count(verdict.is_allowed(), error);
        verdict
    }

    /// Whether this instance counts its share when the store cannot answer, where no rule says otherwise.
    pub fn counts_without_store(&self) -> bool {
        self.effective(self.on_store_error) == OnStoreError::Local
    }

    /// Whether nobody counted: the store could not answer, and what decided is `allow` or `deny` and not this instance's share.
    pub fn is_by_policy(&self, decision: &Decision) -> bool {
        let (Some(_), Some(status)) = (decision.degraded(), decision.verdict().binding()) else { return false };
        let policy = match &decision.asked {
            Asked::Key(_) => self.effective(self.on_store_error),
            Asked::Request(requested) => self.policy(&decision.plan, requested.charged[usize::from(status.quota)].rule),
        };
        policy != OnStoreError::Local
    }

    /// The quotas of a question, with what is decided for each.
    fn unanswered<'a>(&self, plan: &'a Plan, asked: &Asked, cost: u64) -> SmallVec<[Unanswered<'a>; 4]> {
        let number = |index: usize| u16::try_from(index).unwrap_or(u16::MAX);
        match asked {
            Asked::Key(key) => {
                let lasting = plan.quotas().iter().enumerate().filter(|(_, planned)| planned.until.is_none());
                let policy = self.effective(self.on_store_error);
                let one = |(index, planned)| Unanswered {
                    index: number(index),
                    planned,
                    key: *key,
                    place: Place::of(*key),
                    cost,
                    part: Part::Enforced,
                    policy,
                };
                lasting.map(one).collect()
            }
            Asked::Request(requested) => {
                let one = |(index, charged): (usize, &crate::decision::Charged)| Unanswered {
                    index: number(index),
                    planned: &plan.set(charged.set).quotas[charged.quota],
                    key: charged.key,
                    place: charged.place,
                    cost: charged.cost,
                    part: charged.part,
                    policy: self.policy(plan, charged.rule),
                };
                let lasting = |one: &Unanswered<'_>| one.planned.until.is_none();
                requested.charged.iter().enumerate().map(one).filter(lasting).collect()
            }
        }
    }

    /// What this instance's shares say.
    fn shares(&self, unanswered: &[Unanswered<'_>], origin: Origin, lease: Option<u128>) -> Statuses {
        let Some(remote) = &self.remote else { return Statuses::new() };
        let local: SmallVec<[Local<'_>; 4]> = unanswered
            .iter()
            .filter(|one| one.policy == OnStoreError::Local)
            .map(|one| Local {
                index: one.index,
                planned: one.planned,
                key: one.key,
                place: one.place,
                ask: Ask { lease, ..Ask::cost(one.cost) },
                part: one.part,
            })
            .collect();
        if local.is_empty() { Statuses::new() } else { remote.parts().fallback.decide(origin, &local) }
    }

    /// What is decided for a rule when the store cannot.
    pub(super) fn policy(&self, plan: &Plan, rule: usize) -> OnStoreError {
        self.effective(match plan.rules().and_then(|rules| rules.set.rule(rule).on_store_error) {
            Some(StoreErrorPolicy::Allow) => OnStoreError::Allow,
            Some(StoreErrorPolicy::Deny) => OnStoreError::Deny,
            Some(StoreErrorPolicy::Local) => OnStoreError::Local,
            None => self.on_store_error,
        })
    }

    /// A store in this process is local already: when it is full, there is no other place to count.
    pub(super) fn effective(&self, policy: OnStoreError) -> OnStoreError {
        match policy {
            OnStoreError::Local if self.remote.is_none() => OnStoreError::Deny,
            policy => policy,
        }
    }
}

/// Nothing is known to be left.
fn by_policy(one: &Unanswered<'_>, retry_after: Ticks) -> Status {
    Status {
        quota: one.index,
        is_shadow: matches!(one.part, Part::Shadow(_)),
        limit: one.planned.meter.capacity(),
        remaining: one.planned.meter.capacity().map(|_| 0),
        retry_after: Some(retry_after),
        retry_is_hint: true,
        reset_after: retry_after,
        delay: 0,
        receipt: Receipt::Nothing,
    }
}

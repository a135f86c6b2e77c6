//! The quotas of members, compiled.

use std::sync::Arc;

use tidegate_core::rules::Members;
use tidegate_core::rules::members::spec::MembersSpec;
use tidegate_store::digest::Digester;
use tidegate_store::store::Store;

use super::quotas::{Owner, QuotaSet};
use super::{LoadError, Rules};

/// Members, with the quotas of their plans.
#[derive(Debug, Clone)]
pub struct MemberSets {
    /// As they were given: other rules need other plans.
    pub(super) spec: Arc<MembersSpec>,
    /// As they are found.
    pub(super) members: Arc<Members>,
    /// One for each of their plans.
    pub(super) sets: Vec<QuotaSet>,
}

impl MemberSets {
    pub(super) fn new(
        spec: Arc<MembersSpec>,
        rules: &Rules,
        generation: u64,
        store: &dyn Store,
        digester: &Digester,
    ) -> Result<Self, LoadError> {
        let members = Members::new(&spec, &rules.set)?;
        let set = |plan: &tidegate_core::rules::members::MemberPlan| {
            let owner = Owner { rule: Arc::clone(&rules.set.rules()[plan.rule].name), plan: plan.owner.clone() };
            QuotaSet::first(owner, plan.quotas.clone(), generation, store, digester)
        };
        let sets = members.plans().iter().map(set).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { spec, members: Arc::new(members), sets })
    }

    /// The same without quotas that are phased out. Usually there are none, and nothing is copied: a request does this.
    pub(super) fn after_transition(self: &Arc<Self>) -> Arc<Self> {
        if self.sets.iter().all(|set| set.transition_ends().is_none()) {
            return Arc::clone(self);
        }
        let mut after = Self::clone(self);
        after.sets.iter_mut().for_each(QuotaSet::end_transition);
        Arc::new(after)
    }
}

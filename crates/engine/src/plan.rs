//! What is in force, and how one generation follows another.

mod members;
mod quotas;

pub use members::MemberSets;
pub(crate) use quotas::descriptor_namespace;
pub use quotas::{Planned, QuotaSet};

use std::collections::HashMap;
use std::sync::Arc;

use quotas::Owner;
use tidegate_core::descriptors::{Domain, Domains, DomainsError, Limit};
use tidegate_core::meter::MeterError;
use tidegate_core::quota::{FixedWindowSpan, Quota, Shape};
use tidegate_core::rules::members::MembersError;
use tidegate_core::rules::members::spec::MembersSpec;
use tidegate_core::rules::{Members, PlanOf, RuleSet, RuleSetError, RuleSetSpec};
use tidegate_core::time::Ticks;
use tidegate_store::digest::Digester;
use tidegate_store::store::Store;

use crate::calendar::UnknownZone;
use crate::jwt::{Jwt, JwtError};

/// The most quotas that are asked together.
const QUOTAS_MAX: usize = 64;

/// What happens when a quota's window or algorithm changes, to which its counters are tied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Transition {
    /// For one old window both the old and the new quota are asked, so the change admits nothing extra.
    #[default]
    Safe,
    /// Counting starts afresh: one extra limit may pass.
    Immediate,
}

/// Why quotas cannot be loaded. The old ones stay in force.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// There is none.
    #[error("no quota given")]
    Empty,
    /// The rules cannot be compiled.
    #[error(transparent)]
    Rules(#[from] RuleSetError),
    /// Members without rules.
    #[error("members need rules; the limiter was made of quotas")]
    NoRules,
    /// The members cannot be compiled.
    #[error(transparent)]
    Members(#[from] MembersError),
    /// The trees of descriptors cannot be compiled.
    #[error(transparent)]
    Domains(#[from] DomainsError),
    /// The key that verifies tokens cannot be used.
    #[error(transparent)]
    Jwt(#[from] JwtError),
    /// There are too many.
    #[error("{count} quotas given, at most {QUOTAS_MAX} are possible")]
    TooMany {
        /// How many.
        count: usize,
    },
    /// A calendar quota names a zone that does not exist.
    #[error(transparent)]
    Zone(#[from] UnknownZone),
    /// A quota cannot be compiled for the store's clock.
    #[error(transparent)]
    Meter(#[from] MeterError),
}

/// What is to be in force.
#[derive(Debug, Clone)]
pub enum Source {
    /// Quotas for keys.
    Quotas(Vec<Quota>),
    /// Rules for requests.
    Rules(Box<RuleSetSpec>),
}

impl From<Vec<Quota>> for Source {
    fn from(quotas: Vec<Quota>) -> Self {
        Self::Quotas(quotas)
    }
}

impl From<RuleSetSpec> for Source {
    fn from(rules: RuleSetSpec) -> Self {
        Self::Rules(Box::new(rules))
    }
}

/// The first generation.
pub(crate) const FIRST: u64 = 1;

/// One generation. Immutable: a decision sees exactly one.
#[derive(Debug, Clone)]
pub struct Plan {
    generation: u64,
    rules: Option<Arc<Rules>>,
    sets: Vec<QuotaSet>,
    /// What customers have of their own; none if there are no rules.
    members: Option<Arc<MemberSets>>,
    /// The shortest lease of the concurrency quotas.
    lease_ttl_ns: Option<u64>,
    /// When the last quota that is phased out ends.
    transition_ends: Option<Ticks>,
}

/// Rules, with what only the engine knows about them.
#[derive(Debug)]
pub struct Rules {
    /// As they match.
    pub set: RuleSet,
    /// Who verifies claims.
    pub jwt: Option<Jwt>,
    /// Trees of descriptors.
    pub domains: Domains,
    /// Where the quota sets of each rule begin: one for each of its plans.
    first_sets: Vec<usize>,
    /// That of the rule which refuses members who are blocked.
    blocked_set: usize,
    /// Where those of the descriptors' limits begin: one for each, by number.
    first_limit: usize,
}

impl Plan {
    /// The first generation.
    ///
    /// # Errors
    /// See [`LoadError`].
    pub fn first(source: Source, store: &dyn Store, digester: &Digester) -> Result<Self, LoadError> {
        Self::compile(source, FIRST, store, digester)
    }

    /// The next generation. Quotas that keep their algorithm and window keep their counters, whatever their limit.
    ///
    /// # Errors
    /// See [`LoadError`].
    pub fn next(
        &self,
        source: Source,
        transition: Transition,
        store: &dyn Store,
        digester: &Digester,
    ) -> Result<Self, LoadError> {
        let mut next = Self::compile(source, self.generation + 1, store, digester)?;
        self.pass_on(&mut next.sets, transition, store)?;
        let mut members = None;
        // Without rules there is nobody to ask who a member is.
        if let (Some(rules), Some(old)) = (&next.rules, &self.members) {
            let mut compiled = MemberSets::new(Arc::clone(&old.spec), rules, next.generation, store, digester)?;
            self.pass_on(&mut compiled.sets, transition, store)?;
            members = Some(Arc::new(compiled));
        }
        Ok(Self::new(next.generation, next.rules, next.sets, members))
    }

    /// The next generation, with other members and the same rules.
    ///
    /// # Errors
    /// See [`LoadError`].
    pub fn with_members(&self, spec: Arc<MembersSpec>, store: &dyn Store, digester: &Digester) -> Result<Self, LoadError> {
        let rules = self.rules.as_ref().ok_or(LoadError::NoRules)?;
        let generation = self.generation + 1;
        let mut members = MemberSets::new(spec, rules, generation, store, digester)?;
        self.pass_on(&mut members.sets, Transition::Safe, store)?;
        let members = Some(members).filter(|members| !members.members.is_empty()).map(Arc::new);
        Ok(Self::new(generation, Some(Arc::clone(rules)), self.sets.clone(), members))
    }

    /// Lets sets of the next generation take over from those of this one.
    fn pass_on(&self, next: &mut [QuotaSet], transition: Transition, store: &dyn Store) -> Result<(), LoadError> {
        let owners: HashMap<&Owner, &QuotaSet> = self.all_sets().map(|set| (&set.owner, set)).collect();
        for set in next {
            if let Some(old) = owners.get(&set.owner) {
                // As in the reference service, the count of descriptors starts afresh when their unit changes.
                set.inherit(old, transition == Transition::Safe && !set.is_of_descriptors(), store)?;
            }
        }
        Ok(())
    }

    fn compile(source: Source, generation: u64, store: &dyn Store, digester: &Digester) -> Result<Self, LoadError> {
        let set = |owner, quotas| QuotaSet::first(owner, quotas, generation, store, digester);
        match source {
            Source::Quotas(quotas) if quotas.is_empty() => Err(LoadError::Empty),
            Source::Quotas(quotas) => Ok(Self::new(generation, None, vec![set(Owner::default(), quotas)?], None)),
            Source::Rules(spec) => {
                let jwt = spec.jwt.as_ref().map(Jwt::new).transpose()?;
                let rules = RuleSet::new(*spec)?;
                let (mut first_sets, mut sets) = (Vec::new(), Vec::new());
                for rule in rules.rules() {
                    first_sets.push(sets.len());
                    for plan in &rule.plans {
                        sets.push(set(Owner { rule: Arc::clone(&rule.name), plan: plan.name.clone() }, plan.quotas.clone())?);
                    }
                }
                let blocked_set = sets.len();
                let blocked = rules.rule(rules.blocked());
                sets.push(set(Owner::of_block(&blocked.name), blocked.plans[0].quotas.clone())?);
                let domains = Domains::new(rules.domains())?;
                let first_limit = sets.len();
                for (number, (domain, limit)) in domains.limits().into_iter().enumerate() {
                    sets.push(set(Owner::of_limit(number), counted(domain, limit))?);
                }
                let rules = Rules { set: rules, jwt, domains, first_sets, blocked_set, first_limit };
                Ok(Self::new(generation, Some(Arc::new(rules)), sets, None))
            }
        }
    }

    fn new(generation: u64, rules: Option<Arc<Rules>>, sets: Vec<QuotaSet>, members: Option<Arc<MemberSets>>) -> Self {
        let ttl = |planned: &Planned| match *planned.quota.shape() {
            Shape::Concurrency { ttl_ns, .. } => Some(ttl_ns),
            _ => None,
        };
        let mut plan = Self { generation, rules, sets, members, lease_ttl_ns: None, transition_ends: None };
        plan.lease_ttl_ns = plan.all_sets().flat_map(|set| &set.quotas).filter_map(ttl).min();
        plan.transition_ends = plan.all_sets().filter_map(QuotaSet::transition_ends).max();
        plan
    }

    /// The same generation without its phased-out quotas, once the last of them has ended.
    pub(crate) fn after_transition(&self, store: &dyn Store) -> Option<Self> {
        self.transition_ends.filter(|&ends| ends <= store.now())?;
        let mut sets = self.sets.clone();
        sets.iter_mut().for_each(QuotaSet::end_transition);
        let members = self.members.as_ref().map(MemberSets::after_transition);
        Some(Self::new(self.generation, self.rules.clone(), sets, members))
    }

    /// 1 at first, one more with each load.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The rules; `None` if there are only quotas for keys.
    pub fn rules(&self) -> Option<&Rules> {
        self.rules.as_deref()
    }

    /// The quotas for keys; none if there are rules.
    pub fn quotas(&self) -> &[Planned] {
        match (&self.rules, self.sets.first()) {
            (None, Some(set)) => &set.quotas,
            _ => &[],
        }
    }

    /// A set of quotas: those of members come after all others.
    pub fn set(&self, number: usize) -> &QuotaSet {
        match (number.checked_sub(self.sets.len()), &self.members) {
            (Some(of_members), Some(members)) => &members.sets[of_members],
            _ => &self.sets[number],
        }
    }

    /// The quotas of a rule for some of its keys, by their number.
    pub(crate) fn set_of(&self, rules: &Rules, rule: usize, plan: PlanOf) -> usize {
        match plan {
            PlanOf::Rule(plan) => rules.first_sets[rule] + plan,
            PlanOf::Member(plan) => self.sets.len() + plan,
        }
    }

    /// What customers have of their own, if anybody has anything.
    pub fn members(&self) -> Option<&Members> {
        self.members.as_ref().map(|members| &*members.members)
    }

    fn all_sets(&self) -> impl Iterator<Item = &QuotaSet> {
        self.sets.iter().chain(self.members.iter().flat_map(|members| &members.sets))
    }

    /// The shortest lease of the concurrency quotas; `None` without one.
    pub fn lease_ttl_ns(&self) -> Option<u64> {
        self.lease_ttl_ns
    }

    /// The set that stands here where `set` stood in another generation.
    pub(crate) fn successor(&self, of: &Self, set: usize) -> Option<&QuotaSet> {
        if self.generation == of.generation {
            return Some(self.set(set));
        }
        let owner = &of.set(set).owner;
        self.all_sets().find(|set| set.owner == *owner)
    }
}

impl Rules {
    /// The quota of the rule that refuses members who are blocked, by the number of its set.
    pub(crate) fn blocked_set(&self) -> usize {
        self.blocked_set
    }

    /// The quotas of one limit of a descriptor, by their number.
    pub(crate) fn set_of_limit(&self, limit: &Limit) -> usize {
        self.first_limit + limit.number
    }
}

/// The quotas of a descriptor as they are charged.
fn counted(domain: &Domain, limit: &Limit) -> Vec<Quota> {
    let is_counted = !domain.is_atomic && is_counted(&limit.quotas);
    limit.quotas.iter().map(|quota| if is_counted { above_zero(quota) } else { quota.clone() }).collect()
}

/// Whether a descriptor with these quotas is counted as in the reference service, also above its limit: one window that is counted from the epoch.
pub(crate) fn is_counted(quotas: &[Quota]) -> bool {
    matches!(quotas, [quota] if matches!(quota.shape(), Shape::FixedWindow { window: FixedWindowSpan::Epoch { .. }, .. }))
}

/// A limit of 0 is counted too, and over with the first hit. Its quota alone would remember nothing.
pub(crate) fn above_zero(quota: &Quota) -> Quota {
    quota.with_limit_at_least(Some(1))
}

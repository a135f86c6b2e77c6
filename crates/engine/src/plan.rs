//! What is in force, and how one generation follows another.

mod quotas;

pub(crate) use quotas::descriptor_namespace;
pub use quotas::{Planned, QuotaSet};

use std::collections::HashMap;
use std::sync::Arc;

use quotas::Owner;
use tidegate_core::descriptors::{Domain, Domains, DomainsError, Limit};
use tidegate_core::meter::MeterError;
use tidegate_core::quota::{FixedWindowSpan, Quota, Shape};
use tidegate_core::rules::{RuleSet, RuleSetError, RuleSetSpec};
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
        let owners: HashMap<&Owner, &QuotaSet> = self.sets.iter().map(|set| (&set.owner, set)).collect();
        for set in &mut next.sets {
            if let Some(old) = owners.get(&set.owner) {
                // As in the reference service, the count of descriptors starts afresh when their unit changes.
                set.inherit(old, transition == Transition::Safe && !set.is_of_descriptors(), store)?;
            }
        }
        Ok(Self::new(next.generation, next.rules, next.sets))
    }

    fn compile(source: Source, generation: u64, store: &dyn Store, digester: &Digester) -> Result<Self, LoadError> {
        let set = |owner, quotas| QuotaSet::first(owner, quotas, generation, store, digester);
        match source {
            Source::Quotas(quotas) if quotas.is_empty() => Err(LoadError::Empty),
            Source::Quotas(quotas) => Ok(Self::new(generation, None, vec![set(Owner::default(), quotas)?])),
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
                let domains = Domains::new(rules.domains())?;
                let first_limit = sets.len();
                for (number, (domain, limit)) in domains.limits().into_iter().enumerate() {
                    sets.push(set(Owner::of_limit(number), counted(domain, limit))?);
                }
                let rules = Rules { set: rules, jwt, domains, first_sets, first_limit };
                Ok(Self::new(generation, Some(Arc::new(rules)), sets))
            }
        }
    }

    fn new(generation: u64, rules: Option<Arc<Rules>>, sets: Vec<QuotaSet>) -> Self {
        let ttl = |planned: &Planned| match *planned.quota.shape() {
            Shape::Concurrency { ttl_ns, .. } => Some(ttl_ns),
            _ => None,
        };
        let quotas = || sets.iter().flat_map(|set| &set.quotas);
        let lease_ttl_ns = quotas().filter_map(ttl).min();
        let transition_ends = quotas().filter_map(|planned| planned.until).max();
        Self { generation, rules, sets, lease_ttl_ns, transition_ends }
    }

    /// The same generation without its phased-out quotas, once the last of them has ended.
    pub(crate) fn after_transition(&self, store: &dyn Store) -> Option<Self> {
        self.transition_ends.filter(|&ends| ends <= store.now())?;
        let mut sets = self.sets.clone();
        sets.iter_mut().for_each(QuotaSet::end_transition);
        Some(Self::new(self.generation, self.rules.clone(), sets))
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

    /// All sets of quotas.
    pub fn sets(&self) -> &[QuotaSet] {
        &self.sets
    }

    /// The shortest lease of the concurrency quotas; `None` without one.
    pub fn lease_ttl_ns(&self) -> Option<u64> {
        self.lease_ttl_ns
    }

    /// The set that stands here where `set` stood in another generation.
    pub(crate) fn successor(&self, of: &Self, set: usize) -> Option<&QuotaSet> {
        if self.generation == of.generation {
            return self.sets.get(set);
        }
        let owner = &of.sets.get(set)?.owner;
        self.sets.iter().find(|set| set.owner == *owner)
    }
}

impl Rules {
    /// The quotas of one plan of a rule, by their number.
    pub(crate) fn set_of(&self, rule: usize, plan: usize) -> usize {
        self.first_sets[rule] + plan
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

//! One set of quotas, compiled, and what becomes of it in the next generation.

use std::sync::Arc;

use tidegate_core::meter::Meter;
use tidegate_core::quota::{FixedWindowSpan, Quota, Shape};
use tidegate_core::time::{Calendar, Ticks};
use tidegate_store::digest::{Digest, Digester};
use tidegate_store::store::Store;

use super::{LoadError, QUOTAS_MAX};
use crate::calendar::{UnknownZone, ZonedCalendar};

/// Quotas that are asked together, for the same key.
#[derive(Debug, Clone)]
pub struct QuotaSet {
    /// Whose they are; the same in every generation.
    pub(super) owner: Owner,
    /// Those that are phased out come last.
    pub quotas: Vec<Planned>,
}

/// Whose quotas they are.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct Owner {
    /// The rule; empty without rules.
    pub(super) rule: Arc<str>,
    /// The rule's plan; empty without rules.
    pub(super) plan: Box<str>,
}

/// The owner's rule for limits of descriptors: no rule can have this name.
const DESCRIPTORS: &str = "descriptors:";

impl Owner {
    /// The owner of a descriptor's limit. All of them share their namespaces: who is counted says the descriptor, whatever limit it meets.
    pub(super) fn of_limit(number: usize) -> Self {
        Self { rule: DESCRIPTORS.into(), plan: number.to_string().into() }
    }

    /// The owner of the quota of members who are blocked. A rule of the same name has a plan, and this one none.
    pub(super) fn of_block(rule: &Arc<str>) -> Self {
        Self { rule: Arc::clone(rule), plan: Box::default() }
    }
}

/// A quota, compiled, with the namespace of its counters.
#[derive(Debug, Clone)]
pub struct Planned {
    /// As it was given.
    pub quota: Quota,
    /// As it decides.
    pub meter: Meter,
    /// Keeps its counters apart from those of other quotas, and finds them again in the next generation.
    pub namespace: Digest,
    /// A quota of an earlier generation that is phased out: not asked from this instant on.
    pub until: Option<Ticks>,
    /// The rule that it belongs to, if there are rules.
    pub rule: Option<Arc<str>>,
    /// Its name in headers and metrics.
    pub label: String,
    /// Its canonical text.
    pub text: String,
    /// Where windows begin and end, if a calendar says so.
    pub calendar: Option<Arc<dyn Calendar>>,
    /// The first generation whose receipts still mean the same: see [`Meter::refunds`].
    pub refunds_since: u64,
}

impl QuotaSet {
    /// The first generation of a set.
    pub(super) fn first(
        owner: Owner,
        quotas: Vec<Quota>,
        generation: u64,
        store: &dyn Store,
        digester: &Digester,
    ) -> Result<Self, LoadError> {
        Ok(Self { quotas: compile(&owner, quotas, generation, store, digester)?, owner })
    }

    /// Takes over from the set of the generation before: which receipts are still good, and, if it is to be `safe`, what is phased out.
    pub(super) fn inherit(&mut self, old: &Self, is_safe: bool, store: &dyn Store) -> Result<(), LoadError> {
        for new in &mut self.quotas {
            if let Some(old) = old.find(new.namespace).filter(|old| new.meter.refunds(&old.meter)) {
                new.refunds_since = old.refunds_since;
            }
        }
        if is_safe {
            let phased_out = old.phased_out(&self.quotas, store)?;
            self.quotas.extend(phased_out);
        }
        Ok(())
    }

    /// Whether it is the limit of a descriptor.
    pub(super) fn is_of_descriptors(&self) -> bool {
        &*self.owner.rule == DESCRIPTORS
    }

    /// The quota with these counters.
    pub fn find(&self, namespace: Digest) -> Option<&Planned> {
        self.quotas.iter().find(|planned| planned.namespace == namespace)
    }

    /// When the last of its quotas that is phased out ends.
    pub(super) fn transition_ends(&self) -> Option<Ticks> {
        self.quotas.iter().filter_map(|planned| planned.until).max()
    }

    /// Forgets the quotas that are phased out.
    pub(super) fn end_transition(&mut self) {
        self.quotas.retain(|planned| planned.until.is_none());
    }

    /// Quotas of this generation that the next one replaces by others, to be asked for one more window of theirs.
    fn phased_out(&self, next: &[Planned], store: &dyn Store) -> Result<Vec<Planned>, LoadError> {
        let now = store.now();
        let is_gone = |planned: &&Planned| next.iter().all(|new| new.namespace != planned.namespace);
        let is_new = |new: &&Planned| self.find(new.namespace).is_none_or(|planned| planned.until.is_some());
        let mut replacements: Vec<&Planned> = next.iter().filter(is_new).collect();
        let mut phased_out = Vec::new();
        for old in self.quotas.iter().filter(is_gone) {
            if old.until.is_some() {
                phased_out.extend(old.until.filter(|&until| now < until).map(|_| old.clone()));
                continue;
            }
            // The replacement of a named quota has its name, that of another is the next one without a name.
            let Some(position) = replacements.iter().position(|new| new.quota.name() == old.quota.name()) else { continue };
            let replacement = replacements.remove(position);
            // The old limit is raised to the new one, and here the new one is none.
            if replacement.quota.limit().is_none() {
                continue;
            }
            if let Some(until) = old.outlives(now) {
                let quota = old.quota.with_limit_at_least(replacement.quota.limit());
                let meter = store.meter(&quota, old.calendar.clone())?;
                phased_out.push(Planned {
                    meter,
                    label: old.rule.as_ref().map_or_else(|| quota.label(), |rule| format!("{rule}:{}", quota.label())),
                    text: quota.to_string(),
                    quota,
                    until: Some(until),
                    ..old.clone()
                });
            }
        }
        Ok(phased_out)
    }
}

impl Planned {
    /// When the last charge of an earlier generation has drained and the last gap is over; `None` if nothing has to be waited for.
    fn outlives(&self, now: Ticks) -> Option<Ticks> {
        self.drained_at(now).map(|at| at.max(now + self.quota.min_interval_ns()))
    }

    /// How far back charges may still count at `now`, a time since the epoch; `None` if that cannot be said.
    pub(crate) fn looks_back_ns(&self, now: Ticks) -> Option<Ticks> {
        match *self.quota.shape() {
            Shape::Concurrency { ttl_ns, .. } => Some(ttl_ns),
            Shape::FixedWindow { window: FixedWindowSpan::Calendar { .. }, .. } => self
                .calendar
                .as_ref()
                .map(|calendar| now.saturating_sub(calendar.window_at(now).start).max(self.quota.min_interval_ns())),
            _ => self.outlives(now).map(|at| at - now),
        }
    }

    fn drained_at(&self, now: Ticks) -> Option<Ticks> {
        match *self.quota.shape() {
            Shape::Unlimited | Shape::Concurrency { .. } => None,
            Shape::FixedWindow { window: FixedWindowSpan::Calendar { .. }, .. } => {
                self.calendar.as_ref().map(|calendar| calendar.window_at(now).end)
            }
            // The two-bucket counter looks back over two windows.
            Shape::SlidingWindowCounter { window_ns, buckets: None, .. } => Some(now + 2 * window_ns),
            Shape::Gcra { limit, .. } | Shape::LeakyBucket { limit, .. } if limit == 0 => None,
            Shape::Gcra { limit, period_ns, burst } => Some(now + fill_time(burst + self.quota.max_debt(), period_ns, limit)),
            Shape::LeakyBucket { limit, period_ns, max_delay_ns, nodelay, max_cost } => {
                Some(now + max_delay_ns + fill_time(nodelay + max_cost + self.quota.max_debt(), period_ns, limit))
            }
            _ => self.quota.period_ns().map(|period_ns| now + period_ns),
        }
    }
}

/// How long `units` take at `limit` per `period_ns`, rounded up.
fn fill_time(units: u64, period_ns: u64, limit: u64) -> Ticks {
    let time = (u128::from(units) * u128::from(period_ns)).div_ceil(u128::from(limit));
    u64::try_from(time).expect("the quota's longest fill time is checked at construction")
}

fn compile(
    owner: &Owner,
    quotas: Vec<Quota>,
    generation: u64,
    store: &dyn Store,
    digester: &Digester,
) -> Result<Vec<Planned>, LoadError> {
    if quotas.len() > QUOTAS_MAX {
        return Err(LoadError::TooMany { count: quotas.len() });
    }
    let rule = Some(&owner.rule).filter(|rule| !rule.is_empty());
    let is_only = quotas.len() == 1;
    let identities: Vec<String> = quotas.iter().map(identity).collect();
    let planned = quotas.into_iter().enumerate().map(|(index, quota)| {
        // Two quotas alike are told apart by their order.
        let twins = identities[..index].iter().filter(|&identity| *identity == identities[index]).count();
        // All plans of a rule share its counters as far as they can be shared, so that a change of plan starts nothing afresh.
        let namespace = namespace(&owner.rule, &identities[index], twins, digester);
        let calendar = calendar_of(&quota)?;
        let meter = store.meter(&quota, calendar.clone())?;
        let label = match rule {
            Some(rule) if is_only && quota.name().is_none() => rule.to_string(),
            Some(rule) => format!("{rule}:{}", quota.label()),
            None => quota.label(),
        };
        let (rule, text) = (rule.cloned(), quota.to_string());
        Ok(Planned { meter, namespace, until: None, rule, label, text, calendar, quota, refunds_since: generation })
    });
    planned.collect()
}

fn namespace(rule: &str, identity: &str, twins: usize, digester: &Digester) -> Digest {
    digester.digest(format!("quota:{rule}:{identity}:{twins}").as_bytes())
}

/// The namespace of a quota that a descriptor brings along: the same as if the tree said it.
pub(crate) fn descriptor_namespace(quota: &Quota, digester: &Digester) -> Digest {
    namespace(DESCRIPTORS, &identity(quota), 0, digester)
}

/// What counters are tied to: not to the limit, and for rates not to the period either, because their state is a time.
fn identity(quota: &Quota) -> String {
    let name = quota.name().unwrap_or_default();
    let tied_to = match quota.shape() {
        Shape::Unlimited => "unlimited".to_owned(),
        Shape::SlidingWindow { window_ns, .. } => format!("sliding_window/{window_ns}"),
        Shape::SlidingWindowLog { window_ns, .. } => format!("sliding_window_log/{window_ns}"),
        Shape::SlidingWindowCounter { window_ns, buckets, .. } => format!("sliding_window_counter/{window_ns}/{buckets:?}"),
        Shape::FixedWindow { window, .. } => format!("fixed_window/{window:?}"),
        Shape::Gcra { .. } => "gcra".to_owned(),
        Shape::LeakyBucket { .. } => "leaky_bucket".to_owned(),
        Shape::Concurrency { .. } => "concurrency".to_owned(),
    };
    format!("{name}:{tied_to}")
}

fn calendar_of(quota: &Quota) -> Result<Option<Arc<dyn Calendar>>, UnknownZone> {
    match quota.shape() {
        Shape::FixedWindow { window: FixedWindowSpan::Calendar { unit, zone }, .. } => {
            Ok(Some(Arc::new(ZonedCalendar::new(*unit, zone)?)))
        }
        _ => Ok(None),
    }
}

//! The quotas in force, and how one generation follows another.

use std::sync::Arc;

use tidegate_core::meter::{Meter, MeterError};
use tidegate_core::quota::{FixedWindowSpan, Quota, Shape};
use tidegate_core::time::{Calendar, Ticks};
use tidegate_store::digest::{Digest, Digester};
use tidegate_store::store::Store;

use crate::calendar::{UnknownZone, ZonedCalendar};

/// The most quotas of one limiter.
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

/// One generation of quotas. Immutable: a decision sees exactly one.
#[derive(Debug)]
pub struct Plan {
    generation: u64,
    quotas: Vec<Planned>,
    /// The shortest lease of the concurrency quotas.
    lease_ttl_ns: Option<u64>,
    /// When the last quota that is phased out ends.
    transition_ends: Option<Ticks>,
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
    /// Its name in headers and metrics.
    pub label: String,
    /// Its canonical text.
    pub text: String,
    /// Where windows begin and end, if a calendar says so.
    pub calendar: Option<Arc<dyn Calendar>>,
    /// The first generation whose receipts still mean the same: see [`Meter::refunds`].
    pub refunds_since: u64,
}

impl Plan {
    /// The first generation.
    ///
    /// # Errors
    /// See [`LoadError`].
    pub fn first(quotas: Vec<Quota>, store: &dyn Store, digester: &Digester) -> Result<Self, LoadError> {
        Ok(Self::new(1, compile(quotas, 1, store, digester)?))
    }

    /// The next generation. Quotas that keep their algorithm and window keep their counters, whatever their limit.
    ///
    /// # Errors
    /// See [`LoadError`].
    pub fn next(
        &self,
        quotas: Vec<Quota>,
        transition: Transition,
        store: &dyn Store,
        digester: &Digester,
    ) -> Result<Self, LoadError> {
        let generation = self.generation + 1;
        let mut planned = compile(quotas, generation, store, digester)?;
        for new in &mut planned {
            if let Some(old) = self.find(new.namespace).filter(|old| new.meter.refunds(&old.meter)) {
                new.refunds_since = old.refunds_since;
            }
        }
        if transition == Transition::Safe {
            let phased_out = self.phased_out(&planned, store)?;
            planned.extend(phased_out);
        }
        Ok(Self::new(generation, planned))
    }

    fn new(generation: u64, quotas: Vec<Planned>) -> Self {
        let ttl = |planned: &Planned| match *planned.quota.shape() {
            Shape::Concurrency { ttl_ns, .. } => Some(ttl_ns),
            _ => None,
        };
        let lease_ttl_ns = quotas.iter().filter_map(ttl).min();
        let transition_ends = quotas.iter().filter_map(|planned| planned.until).max();
        Self { generation, quotas, lease_ttl_ns, transition_ends }
    }

    /// The same generation without its phased-out quotas, once the last of them has ended.
    pub(crate) fn after_transition(&self, store: &dyn Store) -> Option<Self> {
        self.transition_ends.filter(|&ends| ends <= store.now())?;
        let lasting = self.quotas.iter().filter(|planned| planned.until.is_none());
        Some(Self::new(self.generation, lasting.cloned().collect()))
    }

    /// 1 at first, one more with each load.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// All quotas; those that are phased out come last.
    pub fn quotas(&self) -> &[Planned] {
        &self.quotas
    }

    /// The shortest lease of the concurrency quotas; `None` without one.
    pub fn lease_ttl_ns(&self) -> Option<u64> {
        self.lease_ttl_ns
    }

    /// The quota with these counters, if it is still in force.
    pub fn find(&self, namespace: Digest) -> Option<&Planned> {
        self.quotas.iter().find(|planned| planned.namespace == namespace)
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
                let meter = Meter::new(&quota, store.tick(), old.calendar.clone())?;
                phased_out.push(Planned {
                    meter,
                    label: quota.label(),
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

fn compile(quotas: Vec<Quota>, generation: u64, store: &dyn Store, digester: &Digester) -> Result<Vec<Planned>, LoadError> {
    match quotas.len() {
        0 => return Err(LoadError::Empty),
        1..=QUOTAS_MAX => {}
        count => return Err(LoadError::TooMany { count }),
    }
    let identities: Vec<String> = quotas.iter().map(identity).collect();
    let planned = quotas.into_iter().enumerate().map(|(index, quota)| {
        // Two quotas alike are told apart by their order.
        let twins = identities[..index].iter().filter(|&identity| *identity == identities[index]).count();
        let namespace = digester.digest(format!("quota:{}:{twins}", identities[index]).as_bytes());
        let calendar = calendar_of(&quota)?;
        let meter = Meter::new(&quota, store.tick(), calendar.clone())?;
        let (label, text) = (quota.label(), quota.to_string());
        Ok(Planned { meter, namespace, until: None, label, text, calendar, quota, refunds_since: generation })
    });
    planned.collect()
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

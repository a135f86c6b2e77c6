//! Which limits the descriptors of a request meet.

use smallvec::SmallVec;
use tidegate_core::descriptors::answer::{Count, CurrentLimit, Status, replaced};
use tidegate_core::descriptors::lookup::counter_of_entries;
use tidegate_core::descriptors::{Domain, Found, Limit, Unit};
use tidegate_core::meter::Meter;
use tidegate_core::quota::{AlgorithmName, FixedWindowSpan, Quota, QuotaSpec, Shape};
use tidegate_core::time::{Calendar, Tick, Ticks};
use tidegate_store::digest::Digest;
use tidegate_store::store::Part;

use super::super::{Engine, UsageError};
use super::{DescriptorAsk, DescriptorsRequest, OwnLimit};
use crate::plan::{self, Plan, Planned, Rules};

/// Hits above the limit count as well. Limit and debt together stay within 2^53.
const MAX_DEBT: u64 = 1 << 52;

/// What a descriptor met.
#[derive(Debug)]
pub(super) enum Matched<'p> {
    /// No limit, or one that another limit of the request replaces.
    Nothing,
    /// An explicit absence of a limit.
    Unlimited,
    /// A limit.
    Limited(Limited<'p>),
}

/// A descriptor with a limit.
#[derive(Debug)]
pub(super) struct Limited<'p> {
    limit: Source<'p>,
    /// Who is counted.
    pub(super) key: Digest,
    /// Hits to be counted.
    pub(super) cost: u64,
    /// Hits to be given back.
    pub(super) credit: u64,
    /// What it has to do with the other descriptors.
    pub(super) part: Part,
}

#[derive(Debug)]
enum Source<'p> {
    Tree(&'p Limit, &'p [Planned]),
    Own(CurrentLimit, Box<Planned>),
}

/// One quota of a descriptor.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window<'a> {
    quota: &'a Quota,
    calendar: Option<&'a dyn Calendar>,
    pub(super) meter: &'a Meter,
    pub(super) namespace: Digest,
}

impl<'a> Window<'a> {
    fn of(planned: &'a Planned) -> Self {
        let Planned { quota, calendar, meter, namespace, .. } = planned;
        Self { quota, calendar: calendar.as_deref(), meter, namespace: *namespace }
    }

    /// The end of the window of now; `None` if it is not fixed.
    pub(super) fn end(&self, now: Ticks, tick: Tick) -> Option<Ticks> {
        match self.quota.shape() {
            Shape::FixedWindow { window: FixedWindowSpan::Epoch { window_ns }, .. } => {
                let window = tick.ceil(*window_ns);
                Some(now - now % window + window)
            }
            Shape::FixedWindow { .. } => self.calendar.map(|calendar| calendar.window_at(now).end),
            _ => None,
        }
    }

    fn is_fixed(&self) -> bool {
        matches!(self.quota.shape(), Shape::FixedWindow { .. })
    }
}

impl Limited<'_> {
    /// Its quotas.
    pub(super) fn windows(&self) -> SmallVec<[Window<'_>; 1]> {
        self.quotas().iter().map(Window::of).collect()
    }

    /// The same, as they were planned.
    pub(super) fn quotas(&self) -> &[Planned] {
        match &self.limit {
            Source::Own(_, own) => std::slice::from_ref(own),
            Source::Tree(_, quotas) => quotas,
        }
    }

    /// Whether it is counted with a limit of 1 although its limit is 0.
    pub(super) fn is_zero(&self) -> bool {
        let requests_per_unit = match &self.limit {
            Source::Tree(limit, _) => limit.requests_per_unit,
            Source::Own(limit, _) => limit.requests_per_unit,
        };
        self.part == Part::Counted && requests_per_unit == 0
    }

    /// The answer to it.
    pub(super) fn status(&self, count: Count) -> Status {
        match &self.limit {
            Source::Tree(limit, _) => Status::limited(limit, count),
            Source::Own(limit, _) => Status::own(limit.clone(), count),
        }
    }

    fn is_quota(&self) -> bool {
        matches!(&self.limit, Source::Tree(limit, _) if limit.is_quota)
    }
}

/// Looks all descriptors up.
pub(super) fn find<'p>(
    engine: &Engine,
    plan: &'p Plan,
    rules: &'p Rules,
    domain: &'p Domain,
    request: &DescriptorsRequest<'_>,
) -> Result<Vec<Matched<'p>>, UsageError> {
    let found: Vec<_> =
        request.descriptors.iter().map(|ask| if ask.limit.is_some() { None } else { domain.find(ask.entries) }).collect();
    let limits: Vec<Option<&Limit>> = found.iter().map(|found| found.as_ref().map(Found::limit)).collect();
    let is_replaced = replaced(&limits);
    let mut matched = Vec::with_capacity(found.len());
    for (index, (ask, found)) in request.descriptors.iter().zip(&found).enumerate() {
        let (limit, key) = match (ask.limit, found) {
            (Some(own), _) => (own_limit(engine, domain, own, index)?, counter_of_entries(&domain.name, ask.entries)),
            (None, None) => {
                matched.push(Matched::Nothing);
                continue;
            }
            (None, Some(found)) if found.limit().is_unlimited() => {
                matched.push(Matched::Unlimited);
                continue;
            }
            (None, Some(_)) if is_replaced[index] => {
                matched.push(Matched::Nothing);
                continue;
            }
            (None, Some(found)) => {
                let quotas = &plan.set(rules.set_of_limit(found.limit())).quotas;
                (Source::Tree(found.limit(), quotas), found.counter(ask.entries))
            }
        };
        let hits = hits(request, ask);
        let limited = Limited {
            limit,
            key: engine.digester.digest(&key),
            cost: if ask.is_negative { 0 } else { hits },
            credit: if ask.is_negative { hits } else { 0 },
            part: Part::Enforced,
        };
        if limited.credit > 0 && !limited.windows().iter().all(Window::is_fixed) {
            return Err(UsageError::CreditWithoutWindow { descriptor: index });
        }
        matched.push(Matched::Limited(limited));
    }
    assign_parts(&mut matched, domain, request.modes.is_quota);
    Ok(matched)
}

fn hits(request: &DescriptorsRequest<'_>, ask: &DescriptorAsk<'_>) -> u64 {
    ask.hits.unwrap_or(request.hits_addend.max(1))
}

fn own_limit(engine: &Engine, domain: &Domain, own: OwnLimit, index: usize) -> Result<Source<'static>, UsageError> {
    if own.unit == Unit::Unknown {
        return Err(UsageError::LimitWithoutUnit { descriptor: index });
    }
    let spec = QuotaSpec {
        limit: Some(own.requests_per_unit.into()),
        period_ns: Some(own.unit.seconds() * 1_000_000_000),
        algorithm: Some(AlgorithmName::FixedWindow),
        max_debt: Some(MAX_DEBT),
        ..QuotaSpec::default()
    };
    let quota = spec.build().expect("every limit of 32 bits per unit is a quota");
    let quota = if domain.is_atomic { quota } else { plan::above_zero(&quota) };
    let meter = engine.store.meter(&quota, None).expect("windows from the epoch need no calendar, and no rate");
    let namespace = plan::descriptor_namespace(&quota, &engine.digester);
    let limit = CurrentLimit { name: None, requests_per_unit: own.requests_per_unit, unit: own.unit };
    let (label, text) = (quota.label(), quota.to_string());
    let planned =
        Planned { quota, meter, namespace, until: None, rule: None, label, text, calendar: None, refunds_since: plan::FIRST };
    Ok(Source::Own(limit, Box::new(planned)))
}

fn assign_parts(matched: &mut [Matched<'_>], domain: &Domain, are_all_quotas: bool) {
    let is_quota = |limited: &Limited<'_>| limited.is_quota() || are_all_quotas;
    let quotas = matched.iter().filter(|matched| match matched {
        Matched::Limited(limited) => is_quota(limited),
        Matched::Nothing => are_all_quotas,
        Matched::Unlimited => false,
    });
    let is_alone = quotas.count() == 1;
    for (index, matched) in matched.iter_mut().enumerate() {
        let Matched::Limited(limited) = matched else { continue };
        let number = u16::try_from(index).unwrap_or(u16::MAX);
        let (is_counted, is_shadow) = match &limited.limit {
            Source::Tree(limit, _) => (plan::is_counted(&limit.quotas), limit.is_shadow),
            Source::Own(..) => (true, false),
        };
        limited.part = match domain.is_atomic {
            false if is_counted => Part::Counted,
            true if !is_shadow && (is_alone || !is_quota(limited)) => Part::Enforced,
            // Without anything enforced, each number stands for itself.
            _ => Part::Shadow(number),
        };
    }
}

//! Decisions on descriptors, as the reference rate limit service takes them.
//!
//! Every descriptor is counted on its own, also above its limit and also when another one denies the request. In a domain that says `atomic` all are
//! charged together or none is. A descriptor with another algorithm than a fixed window, or with several windows, is charged only if it fits.

mod charge;
mod matched;
mod teller;

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use smallvec::SmallVec;
use tidegate_core::decision::Verdict;
use tidegate_core::descriptors::answer::{Answer, Code, Count, Modes, Status};
use tidegate_core::descriptors::{Domain, Entry, Unit};
use tidegate_core::meter::Ask;
use tidegate_core::quota::UNITS_MAX;
use tidegate_core::time::Ticks;
use tidegate_store::store::{Part, Place, StoreError};

use self::matched::{Limited, Matched};
use self::teller::Teller;
use super::usage::DESCRIPTORS_MAX;
use super::{Engine, OnStoreError, UsageError};
use crate::decision::Origin;
use crate::remote::Local;

/// One descriptor of a request.
#[derive(Debug, Clone, Copy)]
pub struct DescriptorAsk<'a> {
    /// Its entries, in order.
    pub entries: &'a [Entry<'a>],
    /// A limit that it brings along: then the tree is not asked.
    pub limit: Option<OwnLimit>,
    /// How many hits it counts; 0 only asks. `None` is what the request says.
    pub hits: Option<u64>,
    /// Whether the hits are given back to the window of now.
    pub is_negative: bool,
}

/// A limit that a descriptor brings along.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnLimit {
    /// So many ...
    pub requests_per_unit: u32,
    /// ... per unit.
    pub unit: Unit,
}

/// A request.
#[derive(Debug, Clone, Copy)]
pub struct DescriptorsRequest<'a> {
    /// The domain.
    pub domain: &'a str,
    /// What is counted.
    pub descriptors: &'a [DescriptorAsk<'a>],
    /// How many hits descriptors count that do not say it; 0 is 1.
    pub hits_addend: u64,
    /// How all requests are answered.
    pub modes: Modes,
}

/// The answer.
#[derive(Debug, Clone, PartialEq)]
pub struct DescriptorsDecision {
    /// What is said.
    pub answer: Answer,
    /// Whether there is such a domain.
    pub is_domain_known: bool,
    /// Why the store could not decide. The statuses then say what the policy said.
    pub degraded: Option<StoreError>,
    /// The generation of rules that decided.
    pub generation: u64,
}

impl Engine {
    /// Counts the descriptors of a request, and says which of them are over their limit. Waits on this thread.
    ///
    /// # Errors
    /// See [`UsageError`]; then nothing was counted.
    pub fn check_descriptors(&self, request: &DescriptorsRequest<'_>) -> Result<DescriptorsDecision, UsageError> {
        let decided = self.decide_descriptors(request, None);
        match &self.remote {
            Some(remote) => remote.io().handle().block_on(decided),
            // The memory store never waits.
            None => match pin!(decided).poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(decision) => decision,
                Poll::Pending => unreachable!("nothing was waited for"),
            },
        }
    }

    /// The same, waited for by a task, which is patient no longer than it says.
    ///
    /// # Errors
    /// See [`check_descriptors`](Self::check_descriptors).
    pub async fn decide_descriptors(
        &self,
        request: &DescriptorsRequest<'_>,
        patience: Option<Duration>,
    ) -> Result<DescriptorsDecision, UsageError> {
        match request.descriptors.len() {
            _ if request.domain.is_empty() => return Err(UsageError::EmptyDomain),
            0 => return Err(UsageError::NoDescriptors),
            1..=DESCRIPTORS_MAX => {}
            count => return Err(UsageError::TooManyDescriptors { count }),
        }
        // Wrong whether anything limits it or not.
        let hits = request.descriptors.iter().filter_map(|ask| ask.hits).chain([request.hits_addend]);
        if let Some(cost) = hits.max().filter(|&cost| cost > UNITS_MAX) {
            return Err(UsageError::CostTooLarge { cost });
        }
        let plan = self.plan();
        let rules = plan.rules().ok_or(UsageError::NoRules)?;
        let domain = rules.domains.get(request.domain);
        let (statuses, degraded) = match domain {
            None => (vec![Status::default(); request.descriptors.len()], None),
            Some(domain) => {
                let matched = matched::find(self, &plan, rules, domain, request)?;
                match self.count(domain, &matched, request.modes, patience).await {
                    Ok(statuses) => (statuses, None),
                    Err(error) => (self.by_policy(&matched, &error), Some(error)),
                }
            }
        };
        let answer = Answer::new(statuses, request.modes);
        if let Some(error) = &degraded {
            self.degraded.count(answer.overall == Code::Ok, error);
        }
        Ok(DescriptorsDecision { answer, is_domain_known: domain.is_some(), degraded, generation: plan.generation() })
    }

    async fn count(
        &self,
        domain: &Domain,
        matched: &[Matched<'_>],
        modes: Modes,
        patience: Option<Duration>,
    ) -> Result<Vec<Status>, StoreError> {
        let teller = Teller { engine: self, patience };
        charge::give_back(&teller, matched).await?;
        let now = self.store.now();
        let (counts, taken) = charge::charge_all(&teller, domain.is_atomic, matched).await?;
        let statuses = |counts: &[charge::Counted]| -> Vec<Status> {
            let status = |(matched, counted): (&Matched<'_>, &charge::Counted)| match matched {
                Matched::Nothing => Status::default(),
                Matched::Unlimited => Status::unlimited(),
                Matched::Limited(limited) => limited.status(counted.count(limited, now, self.store.tick())),
            };
            matched.iter().zip(counts).map(status).collect()
        };
        let told = statuses(&counts);
        // Several descriptors that deny only together cannot be asked before the others are charged.
        let is_denied = Answer::new(told.clone(), modes).overall == Code::OverLimit;
        if domain.is_atomic && is_denied && !taken.is_empty() {
            return Ok(statuses(&charge::undo(&teller, taken, counts).await?));
        }
        Ok(told)
    }

    /// What is said when the store cannot decide.
    fn by_policy(&self, matched: &[Matched<'_>], error: &StoreError) -> Vec<Status> {
        let policy = self.effective(self.on_store_error);
        let status = |matched: &Matched<'_>| match matched {
            Matched::Nothing => Status::default(),
            Matched::Unlimited => Status::unlimited(),
            Matched::Limited(limited) => limited.status(match policy {
                OnStoreError::Local => self.count_locally(limited),
                OnStoreError::Allow | OnStoreError::Deny => {
                    // Nothing is known to be left.
                    let reset_after_s = whole_seconds(error.retry_after(), self.store.tick().nanos());
                    Count { is_over: policy == OnStoreError::Deny, remaining: 0, reset_after_s }
                }
            }),
        };
        matched.iter().map(status).collect()
    }

    /// What this instance's share of a descriptor's limit says. Each descriptor is counted on its own.
    fn count_locally(&self, limited: &Limited<'_>) -> Count {
        let local = |(index, planned)| Local {
            index: u16::try_from(index).unwrap_or(u16::MAX),
            planned,
            key: limited.key,
            place: Place::of(limited.key),
            ask: Ask::cost(limited.cost),
            part: Part::Enforced,
        };
        let asked: SmallVec<[Local<'_>; 1]> = limited.quotas().iter().enumerate().map(local).collect();
        let verdict = Verdict::new(
            self.remote.as_ref().map(|remote| remote.parts().fallback.decide(Origin::Check, &asked)).unwrap_or_default(),
        );
        let wait = verdict.retry_after().filter(|&wait| wait > 0).unwrap_or(verdict.reset_after());
        Count {
            is_over: !verdict.is_allowed(),
            remaining: verdict.remaining().unwrap_or(u64::MAX),
            reset_after_s: whole_seconds(wait, self.store.tick().nanos()),
        }
    }
}

/// Whole seconds, rounded up: who waits as long is not too early.
fn whole_seconds(ticks: Ticks, tick_ns: u64) -> u64 {
    let ns = u128::from(ticks) * u128::from(tick_ns);
    u64::try_from(ns.div_ceil(1_000_000_000)).unwrap_or(u64::MAX)
}

//! Questions about the domain of our own rules: the entries of a descriptor are the attributes of a request.

mod facts;
mod status;

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tidegate_core::descriptors::answer::{Answer, Modes, Status};
use tidegate_core::quota::UNITS_MAX;
use tidegate_engine::decision::{Decision, Origin};
use tidegate_engine::engine::{Begun, CheckOptions, DescriptorAsk, UsageError};
use tidegate_store::store::StoreError;

use self::facts::Entries;
use super::super::failure::Failure;
use super::super::question::Question;
use super::{Decided, Decisions};
use crate::app::App;
use crate::watch::Watch;

/// Whether the rules answer for this domain. Where a file has the same domain, the file does.
pub(super) fn is_asked(app: &App, domain: &str) -> bool {
    let plan = app.engine.plan();
    plan.rules().is_some_and(|rules| rules.set.domain() == domain && rules.domains.get(domain).is_none())
}

/// Decides on each descriptor by itself, as if it were a request.
pub(super) async fn decide(
    app: &Arc<App>,
    watch: &mut Watch,
    question: &Question<'_>,
    modes: Modes,
    patience: Option<Duration>,
) -> Result<Decided, Failure> {
    let mut decisions = Decisions::new();
    let waiting = begin_all(app, question, patience, &mut decisions)?;
    if !waiting.is_empty() {
        wait(waiting, &mut decisions).await;
    }
    for (ask, decision) in question.asks().zip(&decisions) {
        if let Some(decision) = decision {
            watch.decided(app, &Entries(ask.entries), decision);
        }
    }
    let statuses = decisions.iter().map(|decision| decision.as_ref().map_or_else(Status::default, status::of)).collect();
    let degraded = decisions.iter().flatten().find_map(|decision| decision.degraded()).map(StoreError::kind);
    Ok(Decided { answer: Answer::new(statuses, modes), degraded, decisions })
}

/// A decision that is not there yet, and its place.
type Waiting = (usize, Pin<Box<dyn Future<Output = Decision> + Send>>);

/// Begins all decisions. Those that are there at once, which with a memory store are all, are put into their places.
fn begin_all(
    app: &Arc<App>,
    question: &Question<'_>,
    patience: Option<Duration>,
    decisions: &mut Decisions,
) -> Result<Vec<Waiting>, Failure> {
    if question.asks().len() == 0 {
        return Err(UsageError::NoDescriptors.into());
    }
    for (index, ask) in question.asks().enumerate() {
        refuse(index, &ask)?;
    }
    let options = CheckOptions { patience, ..CheckOptions::default() };
    let mut waiting: Vec<Waiting> = Vec::new();
    for (index, ask) in question.asks().enumerate() {
        let begun = if ask.entries.is_empty() { None } else { Some(begin(app, question, &ask, options)?) };
        decisions.push(match begun {
            None => None,
            Some(Begun::Decided(decision)) => Some(decision),
            Some(pending) => {
                waiting.push((index, Box::pin(pending.decide())));
                None
            }
        });
    }
    Ok(waiting)
}

/// Waits for all decisions at the same time.
async fn wait(mut waiting: Vec<Waiting>, decisions: &mut Decisions) {
    poll_fn(|context| {
        waiting.retain_mut(|(index, pending)| match pending.as_mut().poll(context) {
            Poll::Ready(decision) => {
                decisions[*index] = Some(decision);
                false
            }
            Poll::Pending => true,
        });
        if waiting.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// What is refused is refused before anything is charged.
fn refuse(index: usize, ask: &DescriptorAsk<'_>) -> Result<(), Failure> {
    if ask.limit.is_some() {
        return Err(Failure::invalid(format!("descriptor {index} brings a limit along, which only domains of descriptors take")));
    }
    if ask.is_negative {
        return Err(Failure::invalid(format!("descriptor {index} gives hits back, which only domains of descriptors take")));
    }
    match ask.hits {
        Some(cost) if cost > UNITS_MAX => Err(UsageError::CostTooLarge { cost }.into()),
        _ => Ok(()),
    }
}

fn begin(app: &Arc<App>, question: &Question<'_>, ask: &DescriptorAsk<'_>, options: CheckOptions) -> Result<Begun, UsageError> {
    let facts = Entries(ask.entries);
    let said = Some(u64::from(question.hits_addend)).filter(|&hits| hits > 0);
    let (origin, cost) = match ask.hits {
        // Whether what the rules ask for would fit.
        Some(0) => (Origin::Peek, said),
        hits if facts.is_debit() => (Origin::Debit, Some(hits.or(said).unwrap_or(1))),
        // If nobody says it, each rule says what it costs.
        hits => (Origin::Check, hits.or(said)),
    };
    app.engine.begin_request(origin, &facts, cost, options)
}

//! Questions about domains of the reference service's files, and about domains that nobody knows.

use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;
use tidegate_core::descriptors::answer::Modes;
use tidegate_engine::engine::{DescriptorAsk, DescriptorsRequest};
use tidegate_store::store::StoreError;

use super::super::failure::Failure;
use super::super::question::Question;
use super::{Decided, Decisions};
use crate::app::App;
use crate::watch::Watch;

/// Decides as the files say.
pub(super) async fn decide(
    app: &Arc<App>,
    watch: &mut Watch,
    question: &Question<'_>,
    modes: Modes,
    patience: Option<Duration>,
) -> Result<Decided, Failure> {
    let descriptors: SmallVec<[DescriptorAsk<'_>; 2]> = question.asks().collect();
    let request = DescriptorsRequest {
        domain: question.domain,
        descriptors: &descriptors,
        hits_addend: question.hits_addend.into(),
        modes,
    };
    // What waits for a shared store is large, and would make every call as large: futures are copied a few times before they run.
    let decision = match app.engine.remote() {
        None => app.engine.check_descriptors(&request)?,
        Some(_) => Box::pin(app.engine.decide_descriptors(&request, patience)).await?,
    };
    watch.described(app, &request, &decision);
    let degraded = decision.degraded.as_ref().map(StoreError::kind);
    Ok(Decided { answer: decision.answer, degraded, decisions: Decisions::new() })
}

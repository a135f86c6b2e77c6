//! Costs that only the server knows: it says them in a field of its response.

use std::sync::Arc;

use http::{HeaderMap, HeaderName};
use tidegate_engine::decision::Decision;
use tidegate_engine::engine::Engine;

/// Corrects what a decision took to what the server says; `None` if it says nothing that makes sense. The field is for this proxy, so it ends here.
pub(super) async fn settle(
    engine: &Arc<Engine>,
    decision: &Arc<Decision>,
    field: &HeaderName,
    headers: &mut HeaderMap,
) -> Option<Decision> {
    let said = headers.remove(field)?;
    let cost = said.to_str().ok()?.parse().ok()?;
    if engine.remote().is_none() {
        return settled(engine, decision, cost);
    }
    // The store is waited for on another thread: this one may be the one that talks to it.
    let (engine, decision) = (Arc::clone(engine), Arc::clone(decision));
    tokio::task::spawn_blocking(move || settled(&engine, &decision, cost)).await.ok()?
}

/// It can only fail for a cost that no quota could hold.
fn settled(engine: &Engine, decision: &Decision, cost: u64) -> Option<Decision> {
    // What a client says can cost nothing, and a store that is away has taken nothing.
    let is_receipt = decision.cost() > 0 && decision.degraded().is_none();
    let settled = if is_receipt { engine.settle_decision(decision, cost) } else { engine.debit_decision(decision, cost) };
    settled.ok()
}

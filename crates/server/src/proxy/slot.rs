//! The slots of concurrency quotas that a request holds until its response has ended, also when somebody breaks off.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tidegate_engine::decision::Decision;
use tidegate_engine::engine::Engine;
use tokio::task::AbortHandle;

/// How many times a slot is renewed before it would expire, so that one renewal may fail.
const RENEWALS: u64 = 3;

/// Slots, held until this is dropped.
pub(super) struct Slot {
    engine: Arc<Engine>,
    decision: Arc<Decision>,
    renewing: AbortHandle,
}

impl Slot {
    /// Holds the slots of a decision; `None` if it has none.
    pub(super) fn hold(engine: &Arc<Engine>, decision: &Arc<Decision>) -> Option<Self> {
        decision.lease()?;
        let every = Duration::from_nanos(decision.plan().lease_ttl_ns()? / RENEWALS).max(Duration::from_millis(1));
        let (renewed_by, renewed) = (Arc::clone(engine), Arc::clone(decision));
        let renewing = tokio::spawn(async move {
            loop {
                tokio::time::sleep(every).await;
                // One that is lost stays lost, and the request goes on: the server works on it already.
                let _ = renewed_by.renew_in_task(&renewed).await;
            }
        });
        Some(Self { engine: Arc::clone(engine), decision: Arc::clone(decision), renewing: renewing.abort_handle() })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.renewing.abort();
        // It can only fail for a decision of another engine.
        let _ = self.engine.release_soon(&self.decision);
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot").finish_non_exhaustive()
    }
}

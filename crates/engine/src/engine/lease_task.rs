//! Slots that a task holds: it must not wait on its thread, which may be the one that talks to the store.

use tidegate_store::redis::script::Op;
use tidegate_store::store::{Charge, StoreError};

use super::lease::held;
use super::{Engine, UsageError};
use crate::decision::Decision;

impl Engine {
    /// Gives the slots back that a decision holds; nobody waits for it.
    ///
    /// The release is queued before this returns, so who asks afterwards, through the same process, finds the slots free: a client that sends its next
    /// request as soon as it has the response of the last one. Not if the store has to be found first, or told the script. A store that is away gets
    /// them back when the lease expires.
    ///
    /// # Errors
    /// See [`UsageError`].
    pub fn release_soon(&self, decision: &Decision) -> Result<(), UsageError> {
        self.require_own(decision)?;
        let plan = self.plan.load();
        for charge in held(&plan, decision) {
            let Some(remote) = &self.remote else {
                let _ = self.store.release(&charge);
                continue;
            };
            // Lent while the store was away: it knows nothing of it.
            if remote.parts().fallback.release(&charge) {
                continue;
            }
            if let Ok(ready) = remote.prepare_return(Op::Release, &charge) {
                let io = ready.io().clone();
                io.begin(Box::pin(async move { drop(ready.reply().await) }));
            }
        }
        Ok(())
    }

    /// Extends the slots that a decision holds, waited for by a task; `false` when it holds none, or lost one.
    ///
    /// # Errors
    /// See [`UsageError`].
    pub async fn renew_in_task(&self, decision: &Decision) -> Result<bool, UsageError> {
        self.require_own(decision)?;
        let Some(remote) = &self.remote else { return self.renew_decision(decision) };
        let plan = self.plan.load_full();
        let charges = held(&plan, decision);
        let said = remote.done_in_task(Some(Op::Renew), &charges).await;
        // A store that cannot answer has not lost anything yet, and may be back before the lease expires.
        let is_held = |(charge, said): (&Charge<'_>, Result<bool, StoreError>)| {
            said.unwrap_or_else(|error| error.is_transient()) || remote.parts().fallback.renew(charge)
        };
        Ok(!charges.is_empty() && charges.iter().zip(said).all(is_held))
    }
}

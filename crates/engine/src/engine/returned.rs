//! What is given back or forgotten by naming the request again: for callers that hold no decision, because another process made it.

use tidegate_core::meter::Ask;
use tidegate_core::time::Ticks;
use tidegate_store::redis::script::Op;
use tidegate_store::store::{Charge, Part, StoreError};

use super::{Charges, CountersOf, Engine, request};

/// What became of a call that is answered by yes or no.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    /// Yes or no.
    pub is_done: bool,
    /// Why the store could not be asked, or not for all of it.
    pub degraded: Option<StoreError>,
}

/// What a store said of each counter.
type Said = Vec<Result<bool, StoreError>>;

impl Engine {
    /// Extends the slots that a request holds under a lease: no when it holds none, or lost one.
    ///
    /// A rule in shadow, or one for which the request is free, may have lent nothing: it loses nothing. A store that cannot answer has not lost
    /// anything yet, and may be back before the lease expires.
    pub async fn renew_counters(&self, counters: &CountersOf, lease: u128) -> Done {
        let charges = slots(counters, lease);
        let said = self.each(Some(Op::Renew), &charges).await;
        let held = |(charge, said): (&Charge<'_>, &Result<bool, StoreError>)| match said {
            Ok(is_held) => *is_held || self.remote.as_ref().is_some_and(|remote| remote.parts().fallback.renew(charge)),
            Err(error) => error.is_transient(),
        };
        let is_held: Vec<bool> = charges.iter().zip(&said).map(held).collect();
        let is_lost = charges.iter().zip(&is_held).any(|(charge, is_held)| has_lent(charge) && !is_held);
        Done { is_done: !is_lost && is_held.contains(&true), degraded: first_error(said) }
    }

    /// Gives the slots back that a request holds under a lease: no when there were none, which is no error.
    pub async fn release_counters(&self, counters: &CountersOf, lease: u128) -> Done {
        let mut charges = slots(counters, lease);
        let count = charges.len();
        if let Some(remote) = &self.remote {
            // Lent while the store was away: it knows nothing of it.
            charges.retain(|charge| !remote.parts().fallback.release(charge));
        }
        let said = self.each(Some(Op::Release), &charges).await;
        Done { is_done: charges.len() < count || said.contains(&Ok(true)), degraded: first_error(said) }
    }

    /// Forgets what is known of a request's keys: no when nothing was. See [`reset`](Self::reset) for what becomes of receipts.
    pub async fn reset_counters(&self, counters: &CountersOf) -> Done {
        self.note_reset();
        let CountersOf { plan, requested } = counters;
        let charges: Charges<'_> = request::charges(plan, requested, None, Ticks::MAX).collect();
        let said = self.each(None, &charges).await;
        Done { is_done: said.contains(&Ok(true)), degraded: first_error(said) }
    }

    /// Asks for each counter on its own, but for all at once: a store that is away costs one budget. Without `op` they are forgotten.
    async fn each(&self, op: Option<Op>, charges: &[Charge<'_>]) -> Said {
        if let Some(remote) = &self.remote {
            return remote.done_in_task(op, charges).await;
        }
        let done = |charge| match op {
            Some(Op::Renew) => self.store.renew(charge),
            Some(Op::Release) => self.store.release(charge),
            _ => self.store.reset(charge),
        };
        charges.iter().map(done).collect()
    }
}

/// The charges under which a request would hold slots.
fn slots(CountersOf { plan, requested }: &CountersOf, lease: u128) -> Charges<'_> {
    let charges = request::charges(plan, requested, Some(lease), Ticks::MAX);
    charges.filter(|charge| charge.meter.retry_is_hint()).collect()
}

/// Whether a charge that was allowed has lent a slot.
fn has_lent(&Charge { part, ask: Ask { cost, .. }, .. }: &Charge<'_>) -> bool {
    part == Part::Enforced && cost > 0
}

fn first_error(said: Said) -> Option<StoreError> {
    said.into_iter().find_map(Result::err)
}

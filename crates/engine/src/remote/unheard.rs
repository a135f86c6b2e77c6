//! Slots that were lent while nobody waited any more: who asked has gone, or was told that there is no answer.
//!
//! Whatever else such a check took stays taken, and drains by itself. A slot does not: it would be held by nobody until its lease ends, and a client that
//! gives up a few times would lock itself out for so long.

use tidegate_core::algorithm::Receipt;
use tidegate_store::redis::script::{Op, Reply};
use tidegate_store::store::{Charge, OwnedCharge, StoreError};

use super::call::Call;
use super::{Parts, Terms};

/// The charges of a call that ask for slots, each with its position among all. Most calls have none, and allocate nothing.
pub(super) type Slots = Vec<(usize, OwnedCharge)>;

/// The slots to give back if nobody hears that they were lent.
///
/// Not those under a lease that the caller chose: it may ask again under the same one, find its slot, and must not lose it to the first question.
pub(super) fn slots_of(op: Op, charges: &[Charge<'_>], terms: Terms) -> Slots {
    if op != Op::Check || terms.is_lease_chosen {
        return Slots::new();
    }
    let is_slot = |charge: &Charge<'_>| charge.meter.retry_is_hint() && charge.ask.lease.is_some();
    charges.iter().enumerate().filter(|(_, charge)| is_slot(charge)).map(|(index, charge)| (index, charge.to_owned())).collect()
}

impl Parts {
    /// Gives the slots back that an answer lent which nobody hears. Once, and whatever the breaker says, for the server has just answered: if that is
    /// lost too, the lease ends by itself.
    pub(super) fn give_back_slots(&self, call: &Call, reply: &Result<Reply, StoreError>) {
        let Ok(Reply::Verdict { verdict, .. }) = reply else { return };
        let lent = verdict.statuses().iter().filter(|status| matches!(status.receipt, Receipt::Lease { .. }));
        for status in lent {
            let slot = call.slots.iter().find(|(index, _)| *index == usize::from(status.quota));
            if let Some((_, charge)) = slot {
                let answer = self.store.begin(Op::Release, &[charge.charge()]);
                self.store.io().begin(Box::pin(async move { drop(answer.await) }));
            }
        }
    }
}

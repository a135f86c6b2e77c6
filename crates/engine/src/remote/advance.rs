//! Units of a shared store that are taken before anybody asks for them: how charges are paid by them, how more are asked for, and how the rest is given
//! back. What may be spent, and when, says [`Advances`](crate::advance::Advances).
//!
//! Those of a request's charges that can be paid here are, and the store is asked for the others only. If it refuses, what was paid is put back: it has
//! never left the process, so all charges are made or none is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use smallvec::SmallVec;
use tidegate_core::algorithm::Receipt;
use tidegate_core::decision::{Status, Statuses, Verdict};
use tidegate_core::meter::{Ask, Parameters, Refund};
use tidegate_store::clock::{boot_ns, monotonic_ns};
use tidegate_store::redis::script::{Op, Reply};
use tidegate_store::store::{Charge, OwnedCharge, Part, StoreError};

use super::Parts;
use super::call::Call;
use super::note::Note;
use super::unheard::Slots;
use super::waiting::{deadline, wait_for};
use crate::advance::{Asks, Granted, Held, HoldingId, Unspent, Wanted};
use crate::together::{Coming, all};
use crate::word::Word;

/// A unit that was charged: what the store needs to take it back.
pub(super) type Handle = Arc<OwnedCharge>;

/// A charge that was paid here.
#[derive(Debug, Clone, Copy)]
struct Paid {
    /// Its position among the charges of the request.
    index: u16,
    id: HoldingId,
    cost: u64,
    limit: Option<u64>,
    held: Held,
}

/// The charges of one request that were paid here.
#[derive(Debug)]
pub(super) struct Payment {
    paid: SmallVec<[Paid; 1]>,
    /// Whether the units are gone, and not only looked at.
    is_taken: bool,
    is_put_back: AtomicBool,
}

impl Parts {
    /// Pays those charges that can be paid here; `None` if there are none.
    pub(super) fn pay_in_advance(self: &Arc<Self>, op: Op, charges: &[Charge<'_>]) -> Option<Payment> {
        let is_taken = match op {
            Op::Check => true,
            Op::Peek => false,
            _ => return None,
        };
        if charges.iter().all(|charge| charge.meter.advance_ns() == 0) {
            return None;
        }
        let now = boot_ns();
        let pay = |(index, charge): (usize, &Charge<'_>)| {
            let held = self.held(now, charge, is_taken)?;
            let (index, id) = (u16::try_from(index).ok()?, holding_of(charge));
            Some(Paid { index, id, cost: charge.ask.cost, limit: charge.meter.capacity(), held })
        };
        let paid: SmallVec<[Paid; 1]> = charges.iter().enumerate().filter_map(pay).collect();
        (!paid.is_empty()).then(|| Payment { paid, is_taken, is_put_back: AtomicBool::new(false) })
    }

    /// The units of one charge, if they are here. A rule in shadow, and a quota that ends, are asked for every time.
    fn held(self: &Arc<Self>, now: u64, charge: &Charge<'_>, is_taken: bool) -> Option<Held> {
        let (advance_ns, cost) = (charge.meter.advance_ns(), charge.ask.cost);
        if advance_ns == 0 || cost == 0 || charge.part != Part::Enforced || charge.until.is_some() || self.is_closed() {
            return None;
        }
        let id = holding_of(charge);
        if !is_taken {
            return self.advances.peek(now, id, cost);
        }
        let instances = self.fallback.instances().count();
        let found = self.advances.spend(now, Asks { id, cost, advance_ns, instances });
        if let Some(wanted) = found.wanted {
            let charge = OwnedCharge { ask: Ask::cost(wanted.units), ..charge.to_owned() };
            self.store.io().run(Box::pin(Arc::clone(self).take_in_advance(id, wanted, Arc::new(charge))));
        }
        found.held
    }

    /// Asks the store for units. Nobody waits for the answer, so it has all the time in which they could be spent.
    async fn take_in_advance(self: Arc<Self>, id: HoldingId, wanted: Wanted, charge: Handle) {
        let asked_at = boot_ns();
        let advance_ns = charge.meter.advance_ns();
        let reply = Arc::clone(&self).charge_alone(&charge.charge()).await;
        let now = boot_ns();
        let said = match &reply {
            Ok(Reply::Verdict { now_ns, verdict }) => verdict.statuses().first().map(|status| (*now_ns, *status)),
            _ => None,
        };
        let Some((said_at, status)) = said.filter(|(_, status)| status.receipt != Receipt::Nothing) else {
            return self.advances.refused(now, id, wanted.number, advance_ns);
        };
        let Status { receipt, reset_after, .. } = status;
        let word = Word { said_at, left: status.remaining.unwrap_or(0), reset_after };
        let ends_after = matches!(charge.meter.parameters(), Parameters::FixedWindow { .. }).then_some(reset_after);
        let Wanted { units, number } = wanted;
        let handle = Arc::clone(&charge);
        let granted = Granted { number, units, asked_at, advance_ns, ends_after, receipt, word, handle };
        if let Some(unspent) = self.advances.granted(now, id, granted) {
            self.give_back(unspent).await;
        }
    }

    /// Charges one counter, as a request would, without anybody who waits.
    async fn charge_alone(self: Arc<Self>, charge: &Charge<'_>) -> Result<Reply, StoreError> {
        let sent_at = monotonic_ns();
        let charges = [*charge];
        let watch = self.watch(&charges, sent_at)?;
        let answer = self.begin(Op::Check, &charges, &watch);
        let reply = answer.await;
        watch.tell(monotonic_ns(), reply.as_ref().map(drop));
        // Of units that nobody asked for, a denial says nothing to anybody.
        let notes = SmallVec::from_buf([Note::of(charge).without_denial()]);
        self.take_in(&Call { op: Op::Check, sent_at, notes, watch, payment: None, slots: Slots::new() }, &reply);
        reply
    }

    /// Gives back what was not spent: once, whether the store hears of it or not.
    pub(super) async fn give_back(self: Arc<Self>, unspent: Unspent<Handle>) {
        let Unspent { units, receipt, handle } = unspent;
        let refund = Op::Refund(Refund { receipt, cost: units });
        if let Ok(ready) = self.prepare_return(Some(refund), &handle.charge()) {
            // In vain if the store is away: then the units count as long as if they had been spent.
            let _ = ready.reply().await;
        }
    }

    /// Gives everything back, within the budget of one decision.
    pub(super) fn give_all_back(self: &Arc<Self>) {
        if !self.advances.is_asking() && self.advances.units() == 0 {
            return;
        }
        let handle = self.store.io().handle().clone();
        let _context = handle.enter();
        let parts = Arc::clone(self);
        let mut given = Box::pin(async move {
            // What is still on its way would be lost otherwise.
            while parts.advances.is_asking() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            let give_back = |unspent| -> Coming<()> { Box::pin(Arc::clone(&parts).give_back(unspent)) };
            all(parts.advances.drain().into_iter().map(give_back).collect::<Vec<_>>()).await;
        });
        let _ = wait_for(&mut given, deadline(self.budget));
    }

    /// The answer to a whole request, of which the store was asked a part.
    pub(super) fn joined(&self, payment: &Payment, reply: Result<Reply, StoreError>) -> Result<Reply, StoreError> {
        match reply {
            Ok(Reply::Verdict { now_ns, verdict }) => {
                let is_refused = !verdict.is_allowed();
                if is_refused {
                    self.put_back(payment);
                }
                Ok(Reply::Verdict { now_ns, verdict: payment.join(verdict.statuses(), is_refused) })
            }
            Ok(other) => Ok(other),
            Err(error) => {
                self.put_back(payment);
                Err(error)
            }
        }
    }

    /// Puts back what was paid for a request that is not admitted, or not by this.
    pub(super) fn put_back(&self, payment: &Payment) {
        if payment.is_taken && !payment.is_put_back.swap(true, Ordering::SeqCst) {
            payment.paid.iter().for_each(|paid| self.advances.put_back(paid.id, paid.held, paid.cost));
        }
    }
}

impl Payment {
    /// Whether it is all that a request of so many charges owes.
    pub(super) fn is_all(&self, charges: usize) -> bool {
        self.paid.len() == charges
    }

    /// The charges that are still to be made.
    pub(super) fn rest<'a>(&self, charges: &[Charge<'a>]) -> SmallVec<[Charge<'a>; 2]> {
        let is_paid = |index: usize| self.paid.iter().any(|paid| usize::from(paid.index) == index);
        charges.iter().enumerate().filter(|(index, _)| !is_paid(*index)).map(|(_, charge)| *charge).collect()
    }

    /// What a request is told that was paid for here.
    pub(super) fn verdict(&self) -> Verdict {
        Verdict::new(self.paid.iter().map(|paid| paid.status(self.is_taken)).collect())
    }

    /// What the store said of the rest, together with what was paid here.
    fn join(&self, rest: &[Status], is_refused: bool) -> Verdict {
        let is_charged = self.is_taken && !is_refused;
        let mut statuses: Statuses = rest
            .iter()
            .map(|status| Status { quota: position(self.paid.iter().map(|paid| paid.index), status.quota), ..*status })
            .collect();
        statuses.extend(self.paid.iter().map(|paid| {
            let returned = if self.is_taken && is_refused { paid.cost } else { 0 };
            let status = paid.status(is_charged);
            Status { remaining: status.remaining.map(|remaining| remaining.saturating_add(returned)), ..status }
        }));
        statuses.sort_by_key(|status| status.quota);
        Verdict::new(statuses)
    }
}

impl Paid {
    fn status(&self, is_charged: bool) -> Status {
        Status {
            quota: self.index,
            is_shadow: false,
            limit: self.limit,
            remaining: Some(self.limit.map_or(self.held.remaining, |limit| self.held.remaining.min(limit))),
            retry_after: Some(0),
            retry_is_hint: false,
            reset_after: self.held.reset_after,
            delay: 0,
            receipt: if is_charged { self.held.receipt } else { Receipt::Nothing },
        }
    }
}

/// The position among all charges of one that is at this position among those that were not paid here.
fn position(paid: impl Iterator<Item = u16>, of_rest: u16) -> u16 {
    // In the order of the charges: each that was paid before it pushes it back by one.
    paid.fold(of_rest, |position, paid| if paid <= position { position + 1 } else { position })
}

/// The holding of a charge's counter.
pub(super) fn holding_of(charge: &Charge<'_>) -> HoldingId {
    HoldingId { meter: charge.meter.fingerprint(), counter: charge.counter() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_store_said_of_the_rest_finds_its_place() {
        let positions = |paid: &[u16], rest: u16| (0..rest).map(|of| position(paid.iter().copied(), of)).collect::<Vec<_>>();

        assert_eq!(positions(&[0], 3), [1, 2, 3]);
        assert_eq!(positions(&[1], 3), [0, 2, 3]);
        assert_eq!(positions(&[0, 1, 3], 3), [2, 4, 5]);
        assert_eq!(positions(&[4], 3), [0, 1, 2]);
    }
}

//! What is noted of a call until its answer comes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use smallvec::SmallVec;
use tidegate_core::time::Ticks;
use tidegate_store::digest::Digest;
use tidegate_store::store::{Charge, Part, StoreError};

use super::Guard;
use super::advance::holding_of;
use crate::advance::HoldingId;
use crate::failure::breaker::{Outcome, Token};
use crate::failure::deny_cache::DenialKey;

/// What has to be known of a charge when its answer comes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Note {
    pub(super) counter: Digest,
    pub(super) cost: u64,
    pub(super) part: Part,
    /// Whether requests have to keep a distance.
    pub(super) is_spaced: bool,
    /// Under what a denial is remembered; `None` if it does not hold until it says: of slots, and of quotas that end.
    pub(super) denial: Option<DenialKey>,
    /// The holding that wants to know what is left, if units are taken in advance.
    pub(super) holding: Option<HoldingId>,
}

/// The guards that learn from a call how its servers are doing, once.
#[derive(Debug)]
pub(super) struct Watch {
    sent_at: Ticks,
    pub(super) guards: SmallVec<[(Arc<Guard>, Token); 1]>,
    pub(super) is_told: AtomicBool,
}

impl Note {
    /// What has to be known of this one.
    pub(super) fn of(charge: &Charge<'_>) -> Self {
        let is_exact = charge.part == Part::Enforced && !charge.meter.retry_is_hint() && charge.until.is_none();
        // A denial belongs to the meter that said it: another generation with the same limit may use it, one with another limit may not.
        let denial = || DenialKey::new(charge.meter.fingerprint(), charge.counter(), charge.ask);
        let is_spaced = charge.meter.min_interval() > 0;
        let holding = (charge.meter.advance_ns() > 0).then(|| holding_of(charge));
        Self {
            counter: charge.counter(),
            cost: charge.ask.cost,
            part: charge.part,
            is_spaced,
            denial: is_exact.then(denial),
            holding,
        }
    }

    /// The same, whose denial nobody remembers.
    pub(super) fn without_denial(self) -> Self {
        Self { denial: None, ..self }
    }
}

impl Watch {
    /// Of a call that is sent now.
    pub(super) fn new(now: Ticks) -> Self {
        Self { sent_at: now, guards: SmallVec::new(), is_told: AtomicBool::new(false) }
    }

    /// Tells how it went, unless it was told already.
    pub(super) fn tell(&self, now: Ticks, reply: Result<(), &StoreError>) {
        if !self.is_told.swap(true, Ordering::SeqCst) {
            let took_ns = now.saturating_sub(self.sent_at);
            self.guards.iter().for_each(|(guard, token)| guard.record(now, *token, reply.map(|()| took_ns)));
        }
    }

    /// Whether all servers do answer.
    pub(super) fn is_answering(&self) -> bool {
        self.guards.iter().all(|(guard, _)| guard.is_answering())
    }

    /// It is not sent after all.
    pub(super) fn give_back(&self, now: Ticks) {
        self.guards.iter().for_each(|(guard, token)| guard.breaker.record(now, *token, Outcome::NotAFailure));
    }
}

//! The life of a decision on one state, written once for all algorithms.

use super::{Left, Meter};
use crate::algorithm::{Algorithm, Ask, Receipt};
use crate::decision::Status;
use crate::mutant::Mutant;
use crate::time::Ticks;

/// One algorithm at work on the state of one key, with the gap between requests that any quota may ask for.
pub(super) struct Work<'a, A: Algorithm> {
    pub(super) meter: &'a Meter,
    pub(super) kernel: &'a A,
    pub(super) usage: &'a mut A::State,
    pub(super) last_admitted: &'a mut Option<Ticks>,
    pub(super) now: Ticks,
}

impl<A: Algorithm> Work<'_, A> {
    /// Brings the state to `now`.
    #[inline(always)]
    pub(super) fn settle(&mut self) {
        self.kernel.settle(self.usage, self.now);
        if let Some(last) = self.last_admitted {
            // A gap that began in the future began now: the clock went back.
            *last = self.now.min(*last);
        }
    }

    /// Settles, and charges if there is room.
    #[inline(always)]
    pub(super) fn decide(&mut self, ask: Ask) -> Status {
        self.settle();
        let retry_after = self.retry_after(ask);
        let delay = self.delay(retry_after);
        let is_charged = retry_after == Some(0) || Mutant::ChargesDenied.is_active();
        let receipt = if is_charged { self.commit(ask) } else { Receipt::Nothing };
        let Left { remaining, reset_after } = left(self.meter, self.kernel, self.usage, *self.last_admitted, self.now);
        Status {
            quota: 0,
            is_shadow: false,
            limit: self.meter.capacity,
            remaining,
            retry_after,
            retry_is_hint: self.meter.retry_is_hint(),
            reset_after,
            delay,
            receipt,
        }
    }

    #[inline(always)]
    pub(super) fn retry_after(&self, ask: Ask) -> Option<Ticks> {
        let wait = self.kernel.retry_after(self.usage, self.now, ask);
        let wait = if cfg!(feature = "mutants") { self.mutated(wait, ask) } else { wait };
        wait.map(|wait| wait.max(gap_left(self.meter, *self.last_admitted, self.now)))
    }

    /// When the request may start: of no meaning if it is denied.
    #[inline(always)]
    pub(super) fn delay(&self, retry_after: Option<Ticks>) -> Ticks {
        if retry_after == Some(0) { self.kernel.delay(self.usage, self.now) } else { 0 }
    }

    #[inline(always)]
    pub(super) fn commit(&mut self, ask: Ask) -> Receipt {
        if self.meter.min_interval > 0 {
            *self.last_admitted = Some(self.now);
        }
        self.kernel.commit(self.usage, self.now, ask)
    }

    /// The waiting time as the mistakes about it have it.
    fn mutated(&self, wait: Option<Ticks>, ask: Ask) -> Option<Ticks> {
        let of_cost_1 = || self.kernel.retry_after(self.usage, self.now, Ask { cost: 1, ..ask });
        match wait {
            None if Mutant::LimitZeroAdmits.is_active() && self.meter.capacity == Some(0) => Some(0),
            None if Mutant::NeverIsNotSaid.is_active() && ask.cost > 1 => of_cost_1().map(|wait| wait.max(1)),
            Some(1..) if Mutant::RetryIgnoresCost.is_active() && ask.cost > 1 => of_cost_1().map(|wait| wait.max(1)),
            _ => wait,
        }
    }
}

/// What is left in a settled state.
#[inline(always)]
pub(super) fn left<A: Algorithm>(meter: &Meter, kernel: &A, usage: &A::State, last_admitted: Option<Ticks>, now: Ticks) -> Left {
    let gap = gap_left(meter, last_admitted, now);
    let remaining = if gap > 0 { 0 } else { kernel.remaining(usage, now) };
    Left { remaining: meter.capacity.map(|_| remaining), reset_after: kernel.reset_after(usage, now).max(gap) }
}

/// How long no request is admitted because the last one is too near.
#[inline(always)]
fn gap_left(meter: &Meter, last_admitted: Option<Ticks>, now: Ticks) -> Ticks {
    last_admitted.map_or(0, |last| (last + meter.min_interval).saturating_sub(now))
}

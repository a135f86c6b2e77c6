//! `gcra`, also called `token_bucket`: never more than *burst* at once, and *limit* per *period* in the long run.
//!
//! **State**: one instant, 16 bytes.
//!
//! | symbol | field | unit |
//! | --- | --- | --- |
//! | l, p | [`Rate`] | l units per p ticks, in lowest terms |
//! | B | `burst` | units |
//! | TAT | [`Arrival`] | theoretical arrival time, ticks and a fraction of 1/l |
//! | q | level | used, in parts of 1/p unit |
//!
//! **Rule**
//! ```text
//! q     = max(0, (TAT - now) * l)
//! allow   iff n <= B and q + n*p <= B*p
//! commit  TAT = now + (q + n*p) / l
//! retry   = ceil((q + n*p - B*p) / l)
//! ```
//!
//! **Timeline** of `60/minute burst 3`, from `testdata/vectors/gcra.json`:
//! ```text
//! t=0.0s  cost 1 → allowed, 2 left
//! t=0.0s  cost 1 → allowed, 1 left
//! t=0.0s  cost 1 → allowed, 0 left
//! t=0.0s  cost 1 → denied, retry after 1 s
//! t=0.5s  cost 1 → denied, retry after 0.5 s
//! t=1.0s  cost 1 → allowed, 0 left
//! t=9.0s  cost 4 → denied, never: the burst is 3
//! ```
//!
//! **What it gets wrong**: a window of one period can see *burst* + *limit*, so 2 × limit when the burst equals the limit. Where "never more than
//! the limit in any window" is wanted, choose [`sliding_window`](super::sliding_window).
//!
//! **Reference**: ITU-T I.371, generic cell rate algorithm; `algorithms.md` §1.6.

use super::rate::{Arrival, Rate};
use super::{Algorithm, Ask, Receipt, Refund};
use crate::mutant::Mutant;
use crate::time::Ticks;

/// Parameters of a `gcra` quota.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gcra {
    /// How fast units are earned.
    pub rate: Rate,
    /// B: the most units at once, at least 1.
    burst: u64,
    /// B * p: the weight of a full bucket.
    full: u128,
    /// The weight that debits can reach.
    level_max: u128,
}

impl Gcra {
    /// A bucket of `burst` units, at least 1, that a debit may overdraw by `max_debt` units.
    pub fn new(rate: Rate, burst: u64, max_debt: u64) -> Self {
        Self { rate, burst, full: rate.weight(burst), level_max: rate.weight(burst + max_debt) }
    }

    /// Whether receipts of `charged`, an earlier quota of the same counters, still mean the same.
    ///
    /// A receipt is a time: under another rate it stands for another number of units. And where less fits than before, what is above is clamped,
    /// with and without the charge: giving all of it back would leave less than if it had never been taken.
    pub(crate) fn refunds(&self, charged: &Self) -> bool {
        self.rate == charged.rate && self.level_max >= charged.level_max
    }
}

impl Algorithm for Gcra {
    type State = Arrival;

    fn empty(&self) -> Arrival {
        Arrival::default()
    }

    /// Clamps a level that no admission can have produced: the clock went back, or the burst was lowered.
    ///
    /// The bucket is then empty rather than locked for as long as the clock went back.
    #[inline(always)]
    fn settle(&self, state: &mut Arrival, now: Ticks) {
        self.rate.rebase(state);
        if self.rate.level(*state, now) > self.level_max {
            *state = self.rate.arrival(self.level_max, now);
        }
    }

    #[inline(always)]
    fn retry_after(&self, state: &Arrival, now: Ticks, Ask { cost, .. }: Ask) -> Option<Ticks> {
        if cost > self.burst {
            return None;
        }
        let wanted = self.rate.level(*state, now) + self.rate.weight(cost);
        Some(self.rate.ticks_up(wanted.saturating_sub(self.full)))
    }

    #[inline(always)]
    fn remaining(&self, state: &Arrival, now: Ticks) -> u64 {
        let free = self.full.saturating_sub(self.rate.level(*state, now));
        self.rate.units_in(free)
    }

    #[inline(always)]
    fn reset_after(&self, state: &Arrival, now: Ticks) -> Ticks {
        self.rate.ticks_up(self.rate.level(*state, now))
    }

    #[inline(always)]
    fn commit(&self, state: &mut Arrival, now: Ticks, Ask { cost, .. }: Ask) -> Receipt {
        let level = self.rate.level(*state, now) + self.rate.weight(cost);
        *state = self.rate.arrival(level.min(self.level_max), now);
        Receipt::Arrival(*state)
    }

    fn refund(&self, state: &mut Arrival, now: Ticks, refund: Refund) {
        let Receipt::Arrival(charged) = refund.receipt else { return };
        let level = self.rate.level(*state, now);
        let credit = if Mutant::RefundAfterExpiry.is_active() {
            self.rate.weight(refund.cost)
        } else {
            self.rate.credit(charged, now, refund)
        };
        *state = self.rate.arrival(level.saturating_sub(credit), now);
    }

    fn expires_at(&self, state: &Arrival) -> Ticks {
        state.expires_at()
    }

    #[inline(always)]
    fn pack(&self, state: &Arrival) -> Option<[u64; 2]> {
        Some(state.pack())
    }

    #[inline(always)]
    fn unpack(&self, words: [u64; 2]) -> Arrival {
        Arrival::unpack(words)
    }
}

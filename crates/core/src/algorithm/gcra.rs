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

use super::Receipt;
use super::rate::{Arrival, Rate};
use crate::mutant::Mutant;
use crate::time::Ticks;

/// Parameters of a `gcra` quota.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gcra {
    /// How fast units are earned.
    pub rate: Rate,
    /// The most units at once, at least 1.
    pub burst: u64,
    /// How far a debit may overdraw, in units.
    pub max_debt: u64,
}

impl Gcra {
    /// Clamps a level that no admission can have produced: the clock went back, or the burst was lowered.
    ///
    /// The bucket is then empty rather than locked for as long as the clock went back.
    pub(crate) fn settle(&self, state: &mut Arrival, now: Ticks) {
        self.rate.rebase(state);
        let level_max = self.rate.weight(self.burst + self.max_debt);
        if self.rate.level(*state, now) > level_max {
            *state = self.rate.arrival(level_max, now);
        }
    }

    pub(crate) fn retry_after(&self, state: &Arrival, now: Ticks, cost: u64) -> Option<Ticks> {
        if cost > self.burst {
            return None;
        }
        let wanted = self.rate.level(*state, now) + self.rate.weight(cost);
        Some(self.rate.ticks_up(wanted.saturating_sub(self.rate.weight(self.burst))))
    }

    pub(crate) fn remaining(&self, state: &Arrival, now: Ticks) -> u64 {
        let free = self.rate.weight(self.burst).saturating_sub(self.rate.level(*state, now));
        self.rate.units_in(free)
    }

    pub(crate) fn reset_after(&self, state: &Arrival, now: Ticks) -> Ticks {
        self.rate.ticks_up(self.rate.level(*state, now))
    }

    pub(crate) fn commit(&self, state: &mut Arrival, now: Ticks, cost: u64) -> Receipt {
        let level_max = self.rate.weight(self.burst + self.max_debt);
        let level = self.rate.level(*state, now) + self.rate.weight(cost);
        *state = self.rate.arrival(level.min(level_max), now);
        Receipt::Arrival(*state)
    }

    pub(crate) fn refund(&self, state: &mut Arrival, now: Ticks, receipt: Arrival, cost: u64) {
        let level = self.rate.level(*state, now);
        let credit =
            if Mutant::RefundAfterExpiry.is_active() { self.rate.weight(cost) } else { self.rate.credit(receipt, now, cost) };
        *state = self.rate.arrival(level.saturating_sub(credit), now);
    }
}

//! `gcra`, also called `token_bucket`: never more than *burst* at once, and *limit* per *period* in the long run.
//!
//! **State**: one instant, 16 bytes; after a [refund](super::bucket) a little more until it has drained.
//!
//! | symbol | field | unit |
//! | --- | --- | --- |
//! | l, p | [`Rate`] | l units per p ticks, in lowest terms |
//! | B | `burst` | units |
//! | TAT | [`Bucket`] | theoretical arrival time, ticks and a fraction of 1/l |
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

use super::bucket::Bucket;
use super::rate::{Arrival, Rate};
use super::{Admission, Algorithm, Ask, Receipt, Refund};
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
    /// `full`, if [`admit`](Algorithm::admit) can do with it: one unit per so many whole ticks, and sums of two weights fit 64 bits. 0 otherwise.
    full_ticks: Ticks,
}

impl Gcra {
    /// A bucket of `burst` units, at least 1, that a debit may overdraw by `max_debt` units.
    pub fn new(rate: Rate, burst: u64, max_debt: u64) -> Self {
        let full = rate.weight(burst);
        let full_ticks = u64::try_from(full).ok().filter(|&full| rate.is_whole() && full <= u64::MAX / 2).unwrap_or(0);
        Self { rate, burst, full, level_max: rate.weight(burst + max_debt), full_ticks }
    }

    /// B.
    pub(crate) fn burst(&self) -> u64 {
        self.burst
    }

    /// The weight that debits can reach.
    pub(crate) fn level_max(&self) -> u128 {
        self.level_max
    }

    /// Whether receipts of `charged`, an earlier quota of the same counters, still mean the same.
    ///
    /// A receipt is a time: under another rate it stands for another number of units. And where less fits than before, what is above is clamped,
    /// with and without the charge: giving all of it back would leave less than if it had never been taken.
    pub(crate) fn refunds(&self, charged: &Self) -> bool {
        self.rate == charged.rate && self.level_max >= charged.level_max
    }

    /// The usual case in few instructions: a bucket of whole ticks, without refunds to remember, that has room. `None` says nothing.
    #[inline]
    pub(crate) fn admit(&self, words: [u64; 2], now: Ticks, Ask { cost, .. }: Ask) -> Option<Admission> {
        if cost > self.burst || !Arrival::is_whole(words) {
            return None;
        }
        let level = words[0].saturating_sub(now);
        if level > self.full_ticks {
            return None;
        }
        let reset_after = level + cost * self.rate.ticks();
        if reset_after > self.full_ticks {
            return None;
        }
        let arrival = Arrival { ticks: now + reset_after, part: 0, base: 1 };
        Some(Admission {
            words: arrival.pack(),
            remaining: (self.full_ticks - reset_after) / self.rate.ticks(),
            reset_after,
            receipt: Receipt::Arrival { arrival, refunded: [0; 16] },
        })
    }
}

impl Algorithm for Gcra {
    type State = Bucket;

    fn empty(&self) -> Bucket {
        Bucket::default()
    }

    /// After a step back of the clock the bucket is at its fullest, rather than locked for as long as the clock went back.
    #[inline(always)]
    fn settle(&self, state: &mut Bucket, now: Ticks) {
        state.settle(self.rate, self.level_max, now);
    }

    #[inline(always)]
    fn retry_after(&self, state: &Bucket, now: Ticks, Ask { cost, .. }: Ask) -> Option<Ticks> {
        if cost > self.burst {
            return None;
        }
        let wanted = state.level(self.rate, now) + self.rate.weight(cost);
        Some(self.rate.ticks_up(wanted.saturating_sub(self.full)))
    }

    #[inline(always)]
    fn remaining(&self, state: &Bucket, now: Ticks) -> u64 {
        let free = self.full.saturating_sub(state.level(self.rate, now));
        self.rate.units_in(free)
    }

    #[inline(always)]
    fn reset_after(&self, state: &Bucket, now: Ticks) -> Ticks {
        self.rate.ticks_up(state.level(self.rate, now))
    }

    #[inline(always)]
    fn commit(&self, state: &mut Bucket, now: Ticks, Ask { cost, .. }: Ask) -> Receipt {
        state.charge(self.rate, cost, self.level_max, now)
    }

    fn refund(&self, state: &mut Bucket, now: Ticks, refund: Refund) {
        state.refund(self.rate, refund, now);
    }

    fn expires_at(&self, state: &Bucket) -> Ticks {
        state.expires_at()
    }

    #[inline(always)]
    fn pack(&self, state: &Bucket) -> Option<[u64; 2]> {
        state.pack()
    }

    #[inline(always)]
    fn unpack(&self, words: [u64; 2]) -> Bucket {
        Bucket::unpack(words)
    }
}

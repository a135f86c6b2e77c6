//! `sliding_window_counter` with `buckets: k`: never more than *limit* in any window, from k + 1 counters.
//!
//! **State**: the number of the newest sub-window and k + 1 counters of 8 bytes.
//!
//! | symbol | field | unit |
//! | --- | --- | --- |
//! | L | `limit` | units |
//! | k, s | `buckets`, `width` | number of sub-windows, ticks of one: ceil(W / k) |
//!
//! **Rule**: a window of k sub-windows touches k + 1 of them, so all k + 1 count until the last tick of the oldest has left.
//! ```text
//! used  = sum of the live buckets; bucket i lives until tick (i + k)*s + s - 1
//! allow   iff used + n <= L
//! commit  bucket[now / s] += n
//! retry   = until enough of the oldest buckets have left
//! ```
//!
//! **Timeline** of `6/minute sliding_window_counter buckets 6`, from `testdata/vectors/sliding_window_ring.json`:
//! ```text
//! t=5s   cost 4 → allowed, 2 left
//! t=15s  cost 2 → allowed, 0 left
//! t=15s  cost 1 → denied, retry after 54.999999999 s: bucket 0 may hold a charge of second 9.999999999
//! ```
//!
//! **What it gets wrong**: it holds charges back for up to one sub-window. Admitting less is its only error.
//! [`sliding_window`](super::sliding_window) does better with fewer numbers; choose this for its fixed size.
//!
//! **Reference**: `algorithms.md` §1.5.

use super::{Algorithm, Ask, Demand, Receipt, Refund, charged};
use crate::mutant::Mutant;
use crate::time::Ticks;

/// Parameters of a `sliding_window_counter` quota with `buckets`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlidingWindowRing {
    /// Units per window, at least 1.
    pub limit: u64,
    /// k: how many sub-windows make a window.
    pub buckets: u32,
    /// s: length of a sub-window. `buckets * width` is the window, rounded up by less than `buckets` ticks.
    pub width: Ticks,
    /// How far a debit may overdraw, in units.
    pub max_debt: u64,
}

/// Counters of the newest sub-window and the k before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ring {
    /// Number of the newest sub-window, counted from the epoch.
    newest: u64,
    /// Bucket `i` is at `i % (k + 1)`.
    counts: Box<[u64]>,
}

impl Algorithm for SlidingWindowRing {
    type State = Ring;

    fn empty(&self) -> Ring {
        Ring { newest: 0, counts: vec![0; self.buckets as usize + 1].into() }
    }

    /// Clears the buckets that have left. If the clock went back, what lies in later buckets is counted in the one of now.
    fn settle(&self, state: &mut Ring, now: Ticks) {
        let newest = now / self.width;
        if newest == state.newest {
            return;
        }
        let mut ring = Ring { newest, ..self.empty() };
        for (bucket, count) in state.filled() {
            let bucket = bucket.min(newest);
            if bucket + u64::from(self.buckets) >= newest {
                *ring.count_mut(bucket) += count;
            }
        }
        *state = ring;
    }

    fn retry_after(&self, state: &Ring, now: Ticks, Ask { cost, .. }: Ask) -> Option<Ticks> {
        let leaving = self.live(state, now).map(|(bucket, count)| (self.lives_until(bucket), count));
        Demand { used: self.used(state, now), limit: self.limit, cost }.wait(now, leaving)
    }

    fn remaining(&self, state: &Ring, now: Ticks) -> u64 {
        self.limit.saturating_sub(self.used(state, now))
    }

    fn reset_after(&self, state: &Ring, now: Ticks) -> Ticks {
        self.live(state, now).last().map_or(0, |(bucket, _)| self.lives_until(bucket) - now)
    }

    fn commit(&self, state: &mut Ring, now: Ticks, Ask { cost, .. }: Ask) -> Receipt {
        let used = self.used(state, now);
        *state.count_mut(state.newest) += charged(used, cost, self.limit + self.max_debt) - used;
        Receipt::Window { id: state.newest }
    }

    fn refund(&self, state: &mut Ring, _now: Ticks, Refund { receipt, cost, .. }: Refund) {
        let Receipt::Window { id: charged_bucket } = receipt else { return };
        if charged_bucket <= state.newest && charged_bucket + u64::from(self.buckets) >= state.newest {
            let count = state.count_mut(charged_bucket);
            *count = count.saturating_sub(cost);
        }
    }

    fn expires_at(&self, state: &Ring) -> Ticks {
        state.filled().last().map_or(0, |(bucket, _)| self.lives_until(bucket))
    }

    fn heap_bytes(state: &Ring) -> usize {
        size_of_val(&*state.counts)
    }
}

impl SlidingWindowRing {
    fn used(&self, state: &Ring, now: Ticks) -> u64 {
        self.live(state, now).map(|(_, count)| count).sum()
    }

    fn live<'a>(&'a self, state: &'a Ring, now: Ticks) -> impl Iterator<Item = (u64, u64)> + 'a {
        state.filled().filter(move |&(bucket, _)| self.lives_until(bucket) > now)
    }

    /// The tick at which the last tick of `bucket` leaves the window.
    fn lives_until(&self, bucket: u64) -> Ticks {
        let k = u64::from(self.buckets) - u64::from(Mutant::RingOfTooFewBuckets.is_active());
        (bucket + k) * self.width + (self.width - 1)
    }
}

impl Ring {
    /// Buckets with something in them, oldest first.
    fn filled(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let oldest = (self.newest + 1).saturating_sub(self.counts.len() as u64);
        (oldest..=self.newest).map(|bucket| (bucket, self.counts[self.slot(bucket)])).filter(|&(_, count)| count > 0)
    }

    fn count_mut(&mut self, bucket: u64) -> &mut u64 {
        let slot = self.slot(bucket);
        &mut self.counts[slot]
    }

    fn slot(&self, bucket: u64) -> usize {
        usize::try_from(bucket % self.counts.len() as u64).expect("a remainder is below the number of buckets")
    }
}

//! `sliding_window`, the default: never more than *limit* in any window, from a log of at most M pairs.
//!
//! **State**: up to M pairs of time and count, 16 bytes each.
//!
//! | symbol | field | unit |
//! | --- | --- | --- |
//! | L, W | `limit`, `window` | units, ticks |
//! | M | `entries` | pairs |
//! | u | `used` | units in the log |
//!
//! **Rule**: a log whose cheapest neighbours are merged when it is full, and a merged pair keeps the *later* time.
//! ```text
//! allow   iff u + n <= L
//! commit  append (now, n), or add n to the pair of the same tick
//!         more than M pairs: merge i into i+1 where count[i] * (at[i+1] - at[i]) is smallest, keeping at[i+1]
//! retry   = until enough of the oldest pairs have left
//! ```
//! Every unit's recorded time is no earlier than its true time, so recorded usage is never below true usage: admitting too much is impossible.
//!
//! **Timeline** of `3/minute`, from `testdata/vectors/sliding_window.json`:
//! ```text
//! t=0s   cost 1 → allowed, 2 left
//! t=20s  cost 1 → allowed, 1 left
//! t=40s  cost 1 → allowed, 0 left
//! t=50s  cost 1 → denied, retry after 10 s
//! t=60s  cost 1 → allowed, 0 left
//! t=60s  cost 2 → denied, retry after 40 s
//! t=61s  cost 4 → denied, never: the limit is 3
//! ```
//!
//! **What it gets wrong**: with more than M busy ticks in a window some units are held back longer than needed; on real traffic M = 16 admits
//! 96 to 99.8 % of what the exact log would (`algorithms.md` §1.3). Limits up to M are exact.
//!
//! **Reference**: `algorithms.md` §1.3.

use smallvec::SmallVec;

use super::{Algorithm, Ask, Demand, Receipt, Refund, charged};
use crate::mutant::Mutant;
use crate::time::Ticks;

/// Parameters of a `sliding_window` quota.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlidingWindow {
    /// Units per window, at least 1.
    pub limit: u64,
    /// Length of the window.
    pub window: Ticks,
    /// M: the most pairs kept, at least 1.
    pub entries: u32,
    /// How far a debit may overdraw, in units.
    pub max_debt: u64,
}

/// At most M pairs, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BoundedLog {
    /// Most keys have one or two pairs: they need no allocation.
    pairs: SmallVec<[Pair; 2]>,
    /// How often the clock was found to have gone back.
    clamps: u32,
}

/// Units that count until `at + window`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pair {
    at: Ticks,
    count: u64,
}

impl Algorithm for SlidingWindow {
    type State = BoundedLog;

    fn empty(&self) -> BoundedLog {
        BoundedLog::default()
    }

    /// Drops the pairs that have left the window, and brings those of the future to `now`: the clock went back.
    fn settle(&self, state: &mut BoundedLog, now: Ticks) {
        if state.pairs.last().is_some_and(|pair| pair.at > now) {
            state.clamp(now);
        }
        let left = state.pairs.partition_point(|pair| pair.at + self.window <= now);
        state.pairs.drain(..left);
    }

    fn retry_after(&self, state: &BoundedLog, now: Ticks, Ask { cost, .. }: Ask) -> Option<Ticks> {
        let leaving = state.pairs.iter().map(|pair| (pair.at + self.window, pair.count));
        Demand { used: state.used(), limit: self.limit, cost }.wait(now, leaving)
    }

    fn remaining(&self, state: &BoundedLog, _now: Ticks) -> u64 {
        self.limit.saturating_sub(state.used())
    }

    fn reset_after(&self, state: &BoundedLog, now: Ticks) -> Ticks {
        state.pairs.last().map_or(0, |newest| (newest.at + self.window).saturating_sub(now))
    }

    fn commit(&self, state: &mut BoundedLog, now: Ticks, Ask { cost, .. }: Ask) -> Receipt {
        let used = state.used();
        let count = charged(used, cost, self.limit + self.max_debt) - used;
        match state.pairs.last_mut() {
            Some(last) if last.at == now => last.count += count,
            _ if count > 0 => state.push(Pair { at: now, count }, self.entries as usize),
            _ => {}
        }
        while state.pairs.len() > self.entries as usize {
            state.merge_cheapest();
        }
        Receipt::Stamp { at: now, clamps: state.clamps }
    }

    /// The charge lies in the first pair that is no earlier than it, because merging only moves units to the next later pair.
    fn refund(&self, state: &mut BoundedLog, now: Ticks, Refund { receipt, cost, .. }: Refund) {
        let Receipt::Stamp { at, clamps } = receipt else { return };
        let has_left = at + self.window <= now && !Mutant::RefundAfterExpiry.is_active();
        if has_left || clamps != state.clamps {
            return;
        }
        let index = state.pairs.partition_point(|pair| pair.at < at);
        if let Some(pair) = state.pairs.get_mut(index) {
            pair.count = pair.count.saturating_sub(cost);
            if pair.count == 0 {
                state.pairs.remove(index);
            }
        }
    }

    fn expires_at(&self, state: &BoundedLog) -> Ticks {
        let last = if Mutant::ExpiryFromCreation.is_active() { state.pairs.first() } else { state.pairs.last() };
        last.map_or(0, |pair| pair.at + self.window)
    }

    /// While the log holds at most one pair.
    fn pack(&self, state: &BoundedLog) -> Option<[u64; 2]> {
        match state.pairs[..] {
            [] if state.clamps == 0 => Some([0, 0]),
            [Pair { at, count }] if state.clamps == 0 => Some([at + self.window, count]),
            _ => None,
        }
    }

    fn unpack(&self, [expires_at, count]: [u64; 2]) -> BoundedLog {
        let pair = (count > 0).then(|| Pair { at: expires_at - self.window, count });
        BoundedLog { pairs: pair.into_iter().collect(), clamps: 0 }
    }

    fn heap_bytes(state: &BoundedLog) -> usize {
        if state.pairs.spilled() { state.pairs.capacity() * size_of::<Pair>() } else { 0 }
    }
}

impl BoundedLog {
    fn used(&self) -> u64 {
        self.pairs.iter().map(|pair| pair.count).sum()
    }

    fn clamp(&mut self, now: Ticks) {
        let first = self.pairs.partition_point(|pair| pair.at < now);
        let count = self.pairs.drain(first..).map(|pair| pair.count).sum();
        self.pairs.push(Pair { at: now, count });
        self.clamps = self.clamps.wrapping_add(1);
    }

    /// Adds a pair; the allocation never holds more than one beyond the `entries` that stay.
    fn push(&mut self, pair: Pair, entries: usize) {
        if self.pairs.len() == self.pairs.capacity() {
            self.pairs.grow((2 * self.pairs.len()).min(entries.max(self.pairs.len()) + 1));
        }
        self.pairs.push(pair);
    }

    /// Merges the two neighbours that hold back the least: `count * gap` is the unit-time that a merge adds.
    fn merge_cheapest(&mut self) {
        let held_back = |two: &[Pair]| u128::from(two[0].count) * u128::from(two[1].at - two[0].at);
        let cheapest = self.pairs.windows(2).enumerate().min_by_key(|(_, two)| held_back(two)).map(|(index, _)| index);
        if let Some(index) = cheapest {
            let merged = self.pairs.remove(index);
            self.pairs[index].count += merged.count;
        }
    }
}

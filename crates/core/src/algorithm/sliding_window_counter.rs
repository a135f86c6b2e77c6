//! `sliding_window_counter`: the widespread two-counter approximation of a sliding window.
//!
//! **State**: the number of a window, what was used in it and in the one before; 16 bytes while the counters fit 32 bits.
//!
//! | symbol | field | unit |
//! | --- | --- | --- |
//! | L, W | `limit`, `window` | units, ticks |
//! | e | – | ticks since the window began |
//! | cur, prev | [`TwoBuckets`] | units |
//!
//! **Rule**, all sides multiplied by W so that nothing is rounded
//! ```text
//! used  = cur*W + prev*(W - e)
//! allow   iff n <= L and used + n*W <= L*W
//! commit  cur += n
//! retry   = W - floor((L - cur - n)*W / prev) - e             if cur + n <= L
//!         = (W - e) + max(0, W - floor((L - n)*W / cur))      otherwise: the window must roll first
//! ```
//!
//! **Timeline** of `10/minute sliding_window_counter`, from `testdata/vectors/sliding_window_counter.json`:
//! ```text
//! t=50s  cost 10 → allowed, 0 left
//! t=50s  cost 1  → denied, retry after 16 s
//! t=60s  cost 1  → denied, retry after 6 s: the full count carries over
//! t=66s  cost 1  → allowed, 0 left
//! t=90s  cost 4  → allowed, 0 left
//! t=90s  cost 1  → denied, retry after 6 s
//! ```
//!
//! **What it gets wrong**: it assumes that the previous window was used evenly. A burst at its end is forgotten too early, and just under 2 × limit
//! can pass in one window. With `buckets: k` the sum of [`sub-windows`](super::sliding_window_ring) is used instead, which never admits
//! too much. [`sliding_window`](super::sliding_window) is better in every respect but familiarity.
//!
//! **Reference**: `algorithms.md` §1.4.

use super::{Algorithm, Ask, Receipt, Refund, charged};
use crate::mutant::Mutant;
use crate::time::Ticks;

/// Parameters of a `sliding_window_counter` quota without `buckets`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlidingWindowCounter {
    /// Units per window, at least 1.
    pub limit: u64,
    /// Length of the window.
    pub window: Ticks,
    /// How far a debit may overdraw, in units.
    pub max_debt: u64,
}

/// What was used in a window and in the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TwoBuckets {
    /// Number of the window, counted from the epoch.
    pub id: u64,
    /// Units used in it.
    pub current: u64,
    /// Units used in window `id - 1`.
    pub previous: u64,
}

impl Algorithm for SlidingWindowCounter {
    type State = TwoBuckets;

    fn empty(&self) -> TwoBuckets {
        TwoBuckets::default()
    }

    /// Rolls the buckets. If the clock went back to an earlier window, everything is counted there at full weight: the weight that the
    /// previous window had when it was last looked at is not known.
    #[inline]
    fn settle(&self, state: &mut TwoBuckets, now: Ticks) {
        let id = now / self.window;
        *state = match *state {
            same if same.id == id => same,
            TwoBuckets { id: old, current, .. } if old + 1 == id => TwoBuckets { id, current: 0, previous: current },
            TwoBuckets { id: old, .. } if old < id => TwoBuckets { id, current: 0, previous: 0 },
            TwoBuckets { current, previous, .. } => {
                TwoBuckets { id, current: charged(current, previous, self.limit + self.max_debt), previous: 0 }
            }
        };
    }

    #[inline]
    fn retry_after(&self, state: &TwoBuckets, now: Ticks, Ask { cost, .. }: Ask) -> Option<Ticks> {
        let TwoBuckets { current, previous, .. } = *state;
        if cost > self.limit {
            return None;
        }
        if self.used(state, now) + self.scaled(cost) <= self.scaled(self.limit) || self.admits_by_mistake(state, now) {
            return Some(0);
        }
        let elapsed = now % self.window;
        if Mutant::ResetAtWindowEnd.is_active() {
            return Some(self.window - elapsed);
        }
        Some(if current + cost <= self.limit {
            self.window - self.share(self.limit - current - cost, previous) - elapsed
        } else {
            (self.window - elapsed) + (self.window - self.share(self.limit - cost, current))
        })
    }

    #[inline]
    fn remaining(&self, state: &TwoBuckets, now: Ticks) -> u64 {
        if Mutant::RemainingRoundedUp.is_active() {
            return self.limit.saturating_sub(narrow(self.used(state, now) / u128::from(self.window)));
        }
        narrow(self.scaled(self.limit).saturating_sub(self.used(state, now)) / u128::from(self.window))
    }

    #[inline]
    fn reset_after(&self, state: &TwoBuckets, now: Ticks) -> Ticks {
        let windows = match *state {
            TwoBuckets { current: 0, previous: 0, .. } => return 0,
            TwoBuckets { current: 0, .. } => 1,
            TwoBuckets { .. } if Mutant::ResetAtWindowEnd.is_active() => 1,
            TwoBuckets { .. } => 2,
        };
        (state.id + windows) * self.window - now
    }

    #[inline]
    fn commit(&self, state: &mut TwoBuckets, _now: Ticks, Ask { cost, .. }: Ask) -> Receipt {
        state.current = charged(state.current, cost, self.limit + self.max_debt);
        Receipt::Window { id: state.id }
    }

    fn refund(&self, state: &mut TwoBuckets, _now: Ticks, Refund { receipt, cost, .. }: Refund) {
        let Receipt::Window { id: charged_id } = receipt else { return };
        if charged_id == state.id || Mutant::RefundAfterExpiry.is_active() {
            state.current = state.current.saturating_sub(cost);
        } else if charged_id + 1 == state.id {
            state.previous = state.previous.saturating_sub(cost);
        }
    }

    /// From here on both buckets have rolled out.
    fn expires_at(&self, state: &TwoBuckets) -> Ticks {
        (state.id + 2) * self.window
    }

    /// While both counters fit 32 bits.
    #[inline]
    fn pack(&self, state: &TwoBuckets) -> Option<[u64; 2]> {
        let (current, previous) = (u32::try_from(state.current).ok()?, u32::try_from(state.previous).ok()?);
        Some([self.expires_at(state), u64::from(current) << 32 | u64::from(previous)])
    }

    #[inline]
    fn unpack(&self, [expires_at, counts]: [u64; 2]) -> TwoBuckets {
        let id = (expires_at / self.window).saturating_sub(2);
        TwoBuckets { id, current: counts >> 32, previous: counts & u64::from(u32::MAX) }
    }
}

impl SlidingWindowCounter {
    /// Usage times W.
    fn used(&self, state: &TwoBuckets, now: Ticks) -> u128 {
        let left = self.window - now % self.window;
        self.scaled(state.current) + u128::from(state.previous) * u128::from(left)
    }

    fn scaled(&self, units: u64) -> u128 {
        u128::from(units) * u128::from(self.window)
    }

    /// floor(units * W / of), at most W.
    fn share(&self, units: u64, of: u64) -> Ticks {
        if units >= of { self.window } else { narrow(self.scaled(units) / u128::from(of)) }
    }

    fn admits_by_mistake(&self, state: &TwoBuckets, now: Ticks) -> bool {
        Mutant::AdmitsBelowLimit.is_active() && self.used(state, now) < self.scaled(self.limit)
    }
}

fn narrow(value: u128) -> u64 {
    u64::try_from(value).expect("a share of a window or of a limit is no larger than it")
}

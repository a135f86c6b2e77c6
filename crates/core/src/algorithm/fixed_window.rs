//! `fixed_window`: never more than *limit* between two window boundaries.
//!
//! **State**: the end of a window and what was used in it, 16 bytes.
//!
//! | symbol | field | unit |
//! | --- | --- | --- |
//! | L | `limit` | units |
//! | W | [`Span::Epoch`] | ticks; or a calendar that supplies start and end |
//! | c | `used` | units |
//!
//! **Rule**
//! ```text
//! c     = used if the state's window is that of now, else 0
//! allow   iff c + n <= L
//! commit  used = c + n
//! retry   = end of the window - now
//! ```
//!
//! **Timeline** of `3/minute fixed_window`, from `testdata/vectors/fixed_window.json`:
//! ```text
//! t=50s  cost 1 → allowed, 2 left
//! t=50s  cost 2 → allowed, 0 left
//! t=50s  cost 1 → denied, retry after 10 s
//! t=59s  cost 1 → denied, retry after 1 s
//! t=60s  cost 3 → allowed, 0 left
//! t=61s  cost 4 → denied, never: the limit is 3
//! ```
//!
//! **What it gets wrong**: 2 × limit fit around a boundary (six units within ten seconds above). Choose it where the reset must be explainable:
//! daily and monthly quotas, invoices.
//!
//! **Reference**: `algorithms.md` §1.1.

use std::sync::Arc;

use super::{Algorithm, Ask, Receipt, Refund, charged};
use crate::mutant::Mutant;
use crate::time::{Calendar, Ticks};

/// Parameters of a `fixed_window` quota.
#[derive(Debug, Clone)]
pub struct FixedWindow {
    /// Units per window, at least 1.
    pub limit: u64,
    /// How far a debit may overdraw, in units.
    pub max_debt: u64,
    /// Where windows begin and end.
    pub span: Span,
}

/// Where windows begin and end.
#[derive(Debug, Clone)]
pub enum Span {
    /// Windows of this length, counted from the epoch.
    Epoch(Ticks),
    /// Windows that somebody else knows.
    Calendar(Arc<dyn Calendar>),
}

/// What was used in one window, which is named by its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    /// The first tick after the window.
    pub end: Ticks,
    /// Units.
    pub used: u64,
}

impl Algorithm for FixedWindow {
    type State = Count;

    fn empty(&self) -> Count {
        Count::default()
    }

    /// Touches a count only if the clock went back. It then stays in force, but for no longer than one more window: ending it at the boundary that
    /// is passed a second time would grant the window twice. A count that is over is replaced by the next charge and not before, so that a request
    /// which takes nothing forgets nothing.
    #[inline]
    fn settle(&self, state: &mut Count, now: Ticks) {
        if state.used_at(now) > 0 && !Mutant::WindowRenewedOnUse.is_active() {
            let end = self.end_of(now);
            if state.end > end {
                state.end = state.end.min(self.end_of(end));
            }
        }
    }

    #[inline]
    fn retry_after(&self, state: &Count, now: Ticks, Ask { cost, .. }: Ask) -> Option<Ticks> {
        match cost {
            _ if cost > self.limit => None,
            _ if state.used_at(now) + cost <= self.limit => Some(0),
            _ => Some(state.end - now),
        }
    }

    #[inline]
    fn remaining(&self, state: &Count, now: Ticks) -> u64 {
        self.limit.saturating_sub(state.used_at(now))
    }

    #[inline]
    fn reset_after(&self, state: &Count, now: Ticks) -> Ticks {
        if state.used_at(now) == 0 { 0 } else { state.end - now }
    }

    #[inline]
    fn commit(&self, state: &mut Count, now: Ticks, Ask { cost, .. }: Ask) -> Receipt {
        if state.used_at(now) == 0 {
            *state = Count { end: self.end_of(now), used: 0 };
        }
        state.used = charged(state.used, cost, self.limit + self.max_debt);
        if let (true, Span::Epoch(window)) = (Mutant::WindowRenewedOnUse.is_active(), &self.span) {
            state.end = now + window;
        }
        Receipt::Window { id: state.end }
    }

    /// Gives back only into the window that was charged: later ones never saw the charge.
    fn refund(&self, state: &mut Count, _now: Ticks, refund: Refund) {
        if refund.receipt == (Receipt::Window { id: state.end }) || Mutant::RefundAfterExpiry.is_active() {
            state.used = state.used.saturating_sub(refund.cost);
        }
    }

    fn expires_at(&self, state: &Count) -> Ticks {
        state.end
    }

    #[inline]
    fn pack(&self, state: &Count) -> Option<[u64; 2]> {
        Some([state.end, state.used])
    }

    #[inline]
    fn unpack(&self, [end, used]: [u64; 2]) -> Count {
        Count { end, used }
    }
}

impl Count {
    /// What of it counts at `now`: nothing from the end of its window on.
    #[inline]
    fn used_at(self, now: Ticks) -> u64 {
        if now < self.end { self.used } else { 0 }
    }
}

impl FixedWindow {
    fn end_of(&self, now: Ticks) -> Ticks {
        match &self.span {
            Span::Epoch(window) => now - now % window + window,
            Span::Calendar(calendar) => calendar.window_at(now).end,
        }
    }
}

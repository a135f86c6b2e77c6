//! `sliding_window_log`: never more than *limit* in any window, and never less than it allows.
//!
//! **State**: one entry of 24 bytes per admitted request.
//!
//! | symbol | field | unit |
//! | --- | --- | --- |
//! | L, W | `limit`, `window` | units, ticks |
//! | u | `used` | units in the log |
//!
//! **Rule**
//! ```text
//! allow   iff u + n <= L        after entries with at + W <= now are dropped
//! commit  append (sequence, now, n)
//! retry   = until enough of the oldest entries have left
//! ```
//!
//! **Timeline** of `3/minute sliding_window_log`, from `testdata/vectors/sliding_window_log.json`:
//! ```text
//! t=0s   cost 2 → allowed, 1 left
//! t=30s  cost 1 → allowed, 0 left
//! t=30s  cost 1 → denied, retry after 30 s
//! t=60s  cost 2 → allowed, 0 left
//! t=60s  cost 1 → denied, retry after 30 s
//! ```
//!
//! **What it gets wrong**: nothing, at the price of its size. Use it for tiny limits, for disputes about invoices, and as the oracle in tests.
//!
//! **Reference**: `algorithms.md` §1.2.

use std::collections::VecDeque;

use super::{Algorithm, Ask, Demand, Receipt, Refund, charged};
use crate::mutant::Mutant;
use crate::time::Ticks;

/// Parameters of a `sliding_window_log` quota.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlidingWindowLog {
    /// Units per window, at least 1.
    pub limit: u64,
    /// Length of the window.
    pub window: Ticks,
    /// How far a debit may overdraw, in units.
    pub max_debt: u64,
}

/// All charges in the window, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Log {
    entries: VecDeque<Entry>,
    used: u64,
    /// Names entries: two charges of one tick are two entries.
    next_sequence: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    sequence: u64,
    at: Ticks,
    cost: u64,
}

impl Algorithm for SlidingWindowLog {
    type State = Log;

    fn empty(&self) -> Log {
        Log::default()
    }

    /// Drops what has left the window, and brings entries of the future to `now`: the clock went back.
    fn settle(&self, state: &mut Log, now: Ticks) {
        for entry in state.entries.iter_mut().rev().take_while(|entry| entry.at > now) {
            entry.at = now;
        }
        while let Some(oldest) = state.entries.front().filter(|entry| entry.at + self.window <= now) {
            state.used -= oldest.cost;
            state.entries.pop_front();
        }
    }

    fn retry_after(&self, state: &Log, now: Ticks, Ask { cost, .. }: Ask) -> Option<Ticks> {
        let leaving = state.entries.iter().map(|entry| (entry.at + self.window, entry.cost));
        Demand { used: state.used, limit: self.limit, cost }.wait(now, leaving)
    }

    fn remaining(&self, state: &Log, _now: Ticks) -> u64 {
        self.limit.saturating_sub(state.used)
    }

    fn reset_after(&self, state: &Log, now: Ticks) -> Ticks {
        state.entries.back().map_or(0, |newest| (newest.at + self.window).saturating_sub(now))
    }

    fn commit(&self, state: &mut Log, now: Ticks, Ask { cost, .. }: Ask) -> Receipt {
        if Mutant::LogByTimestamp.is_active() && state.entries.back().is_some_and(|entry| entry.at == now) {
            return Receipt::Nothing;
        }
        let used = charged(state.used, cost, self.limit + self.max_debt);
        if used == state.used {
            // A debit beyond the bound: an entry without units would only hold the log open.
            return Receipt::Nothing;
        }
        let sequence = state.next_sequence;
        state.entries.push_back(Entry { sequence, at: now, cost: used - state.used });
        state.used = used;
        state.next_sequence += 1;
        Receipt::Entry { sequence, at: now }
    }

    /// Takes units out of the entry that was charged, and the entry itself once it is empty.
    ///
    /// An entry that has left the window is not looked for: a store may have dropped the log since, and numbers begin again in a new one.
    fn refund(&self, state: &mut Log, now: Ticks, Refund { receipt, cost, .. }: Refund) {
        let Receipt::Entry { sequence, at } = receipt else { return };
        if at + self.window <= now {
            return;
        }
        let Ok(index) = state.entries.binary_search_by_key(&sequence, |entry| entry.sequence) else { return };
        let entry = &mut state.entries[index];
        let credit = cost.min(entry.cost);
        entry.cost -= credit;
        state.used -= credit;
        if entry.cost == 0 {
            state.entries.remove(index);
        }
    }

    fn expires_at(&self, state: &Log) -> Ticks {
        let last = if Mutant::ExpiryFromCreation.is_active() { state.entries.front() } else { state.entries.back() };
        last.map_or(0, |entry| entry.at + self.window)
    }

    fn heap_bytes(state: &Log) -> usize {
        state.entries.capacity() * size_of::<Entry>()
    }
}

//! What happened, written down naively. Nothing here is shared with the algorithms, and nothing is fast.

use tidegate_core::time::Ticks;

/// Units that were taken at a time, and later perhaps given back.
#[derive(Debug, Clone, Copy)]
struct Entry {
    at: Ticks,
    units: u64,
}

/// Everything that was ever taken: the exact sliding log.
#[derive(Debug, Clone, Default)]
pub(crate) struct ExactLog {
    entries: Vec<Entry>,
}

impl ExactLog {
    /// Writes a charge down, and returns its number.
    pub(crate) fn take(&mut self, at: Ticks, units: u64) -> usize {
        self.entries.push(Entry { at, units });
        self.entries.len() - 1
    }

    pub(crate) fn give_back(&mut self, charge: usize, units: u64) {
        let entry = &mut self.entries[charge];
        entry.units = entry.units.saturating_sub(units);
    }

    /// Somebody looked: what has left the window is gone for good, and what lies in the future is of now, for the clock went back.
    pub(crate) fn settle(&mut self, now: Ticks, window: Ticks) {
        for entry in &mut self.entries {
            let has_left = entry.at + window <= now;
            *entry = Entry { at: entry.at.min(now), units: if has_left { 0 } else { entry.units } };
        }
    }

    /// Units in the window `(now - window, now]`.
    pub(crate) fn used(&self, now: Ticks, window: Ticks) -> u64 {
        self.entries.iter().filter(|entry| entry.at + window > now).map(|entry| entry.units).sum()
    }

    pub(crate) fn remaining(&self, now: Ticks, window: Ticks, limit: u64) -> u64 {
        limit.saturating_sub(self.used(now, window))
    }

    /// Tries every instant at which something leaves the window.
    pub(crate) fn retry_after(&self, now: Ticks, window: Ticks, limit: u64, cost: u64) -> Option<Ticks> {
        let leaves = self.entries.iter().map(|entry| entry.at + window).filter(|&at| at > now);
        let mut instants: Vec<Ticks> = leaves.chain([now]).collect();
        instants.sort_unstable();
        instants.into_iter().find(|&at| self.used(at, window) + cost <= limit).map(|at| at - now)
    }

    pub(crate) fn reset_after(&self, now: Ticks, window: Ticks) -> Ticks {
        let live = self.entries.iter().filter(|entry| entry.units > 0);
        live.map(|entry| (entry.at + window).saturating_sub(now)).max().unwrap_or(0)
    }

    /// Units taken between two instants, both included.
    pub(crate) fn between(&self, from: Ticks, to: Ticks) -> u64 {
        self.entries.iter().filter(|entry| (from..=to).contains(&entry.at)).map(|entry| entry.units).sum()
    }
}

/// The envelope `B + r*d`: no interval of length d may see more. Compared as whole numbers, both sides multiplied by the period.
#[derive(Debug, Clone)]
pub(crate) struct Envelope {
    pub(crate) limit: u64,
    pub(crate) period_ns: u64,
    pub(crate) tick_ns: u64,
}

impl Envelope {
    /// The first interval that ends with the newest charge and sees more than `burst + rate * length + slack`, with `slack` in ticks.
    pub(crate) fn excess(&self, charges: &[(Ticks, u64)], burst: u64, slack: Ticks) -> Option<(Ticks, Ticks)> {
        let &(end, _) = charges.last()?;
        let mut units = 0_u128;
        charges.iter().rev().find_map(|&(start, cost)| {
            units += u128::from(cost);
            let earned = u128::from(end.saturating_sub(start) + slack) * u128::from(self.tick_ns) * u128::from(self.limit);
            let allowed = u128::from(burst) * u128::from(self.period_ns) + earned;
            (units * u128::from(self.period_ns) > allowed).then_some((start, end))
        })
    }
}

/// Who holds how many slots, and until when.
#[derive(Debug, Clone, Default)]
pub(crate) struct LeaseBook {
    held: Vec<(u128, u64, Ticks)>,
}

impl LeaseBook {
    pub(crate) fn expire(&mut self, now: Ticks) {
        self.held.retain(|&(_, _, until)| until > now);
    }

    pub(crate) fn used(&self) -> u64 {
        self.held.iter().map(|&(_, weight, _)| weight).sum()
    }

    pub(crate) fn until(&self, id: u128) -> Option<Ticks> {
        self.held.iter().find(|&&(held, _, _)| held == id).map(|&(_, _, until)| until)
    }

    /// Adds a lease, or renews one that is held, which keeps its weight.
    pub(crate) fn acquire(&mut self, id: u128, weight: u64, until: Ticks) {
        if !self.renew(id, until) {
            self.held.push((id, weight, until));
        }
    }

    pub(crate) fn renew(&mut self, id: u128, until: Ticks) -> bool {
        let lease = self.held.iter_mut().find(|(held, _, _)| *held == id);
        lease.map(|lease| lease.2 = until).is_some()
    }

    pub(crate) fn release(&mut self, id: u128) -> bool {
        let before = self.held.len();
        self.held.retain(|&(held, _, _)| held != id);
        self.held.len() < before
    }

    /// When so many units are free, if nobody renews or releases.
    pub(crate) fn retry_after(&self, now: Ticks, limit: u64, cost: u64) -> Option<Ticks> {
        let mut instants: Vec<Ticks> = self.held.iter().map(|&(_, _, until)| until).chain([now]).collect();
        instants.sort_unstable();
        let used_at = |at: Ticks| self.held.iter().filter(|lease| lease.2 > at).map(|lease| lease.1).sum::<u64>();
        instants.into_iter().find(|&at| used_at(at) + cost <= limit).map(|at| at - now)
    }
}

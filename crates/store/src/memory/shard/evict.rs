//! What happens when a shard holds as many states as it may.

use tidegate_core::mutant::Mutant;
use tidegate_core::time::Ticks;

use super::super::table::{Entry, Slot};
use super::Shard;
use crate::digest::Digest;
use crate::store::StoreError;

/// Entries that are looked at to find one that may be evicted.
const EVICTION_SAMPLE: usize = 64;

impl Shard {
    /// Makes room for `wanted` more entries, without dropping those in `keep`.
    ///
    /// Drops states at full credit first, then the one closest to it. Never one that is limiting: forgetting it would let its key start again.
    pub(in crate::memory) fn make_room(&mut self, now: Ticks, wanted: usize, keep: &[Digest]) -> Result<(), StoreError> {
        while self.len + wanted > self.len_max {
            self.sweep(now, EVICTION_SAMPLE);
            if self.len + wanted > self.len_max {
                self.evict(now, keep)?;
            }
        }
        Ok(())
    }

    fn evict(&mut self, now: Ticks, keep: &[Digest]) -> Result<(), StoreError> {
        let mut victim: Option<(Ticks, Digest)> = None;
        let mut free_at = Ticks::MAX;
        for entry in self.sample() {
            let expires_at = entry.slot.expires_at().unwrap_or(Ticks::MAX);
            free_at = free_at.min(expires_at);
            let is_protected = entry.slot.is_limiting() && !Mutant::EvictsLimitingKeys.is_active();
            if !is_protected && !keep.contains(&entry.digest) && victim.is_none_or(|(soonest, _)| expires_at < soonest) {
                victim = Some((expires_at, entry.digest));
            }
        }
        let Some((_, digest)) = victim else {
            return Err(StoreError::Full { free_after: free_at.saturating_sub(now) });
        };
        self.remove(digest);
        self.stats.evicted += 1;
        Ok(())
    }

    /// Entries from the sweep's cursor on, around the end.
    fn sample(&self) -> impl Iterator<Item = &Entry> {
        let (first, index) = self.cursor;
        let segments = self.segments.iter().cycle().skip(first).take(self.segments.len() + 1);
        let entries = segments.flat_map(|segment| segment.table.entries()).skip(index);
        entries.filter(|entry| !matches!(entry.slot, Slot::Vacant)).take(EVICTION_SAMPLE)
    }
}

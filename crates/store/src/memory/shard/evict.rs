//! What happens when a shard holds as many states as it may.

use smallvec::SmallVec;
use tidegate_core::mutant::Mutant;
use tidegate_core::time::Ticks;

use super::super::table::{Entry, Slot};
use super::Shard;
use crate::digest::Digest;
use crate::store::StoreError;

/// Entries that are looked at to find one that may be evicted.
const EVICTION_SAMPLE: usize = 64;

impl Shard {
    /// Makes room for the states of one request, those in `wanted` that are not there yet.
    ///
    /// Drops states at full credit first, then those closest to it. Never one that is limiting, because forgetting it would let its key start
    /// again, and never one in `wanted`. Where that is not enough nothing is evicted.
    pub(in crate::memory) fn make_room(&mut self, now: Ticks, wanted: &[Digest]) -> Result<(), StoreError> {
        if self.len + wanted.len() <= self.len_max {
            return Ok(());
        }
        self.sweep(now, EVICTION_SAMPLE);
        // Counted after the sweep: it may have dropped an old state of the request itself, which then has to be made again.
        let new = wanted.iter().filter(|&&digest| !self.contains(digest)).count();
        match (self.len + new).saturating_sub(self.len_max) {
            0 => Ok(()),
            excess => self.evict(now, excess, wanted),
        }
    }

    fn evict(&mut self, now: Ticks, count: usize, keep: &[Digest]) -> Result<(), StoreError> {
        let mut victims: SmallVec<[(Ticks, Digest); EVICTION_SAMPLE]> = SmallVec::new();
        let mut free_at = Ticks::MAX;
        for entry in self.sample() {
            let expires_at = entry.slot.expires_at().unwrap_or(Ticks::MAX);
            free_at = free_at.min(expires_at);
            let is_protected = entry.slot.is_limiting() && !Mutant::EvictsLimitingKeys.is_active();
            if !is_protected && !keep.contains(&entry.digest) {
                victims.push((expires_at, entry.digest));
            }
        }
        // A small shard is sampled once around and then again.
        victims.sort_unstable_by_key(|&(expires_at, digest)| (expires_at, digest.0));
        victims.dedup();
        if victims.len() < count {
            return Err(StoreError::Full { free_after: free_at.saturating_sub(now) });
        }
        for &(_, digest) in &victims[..count] {
            self.remove(digest);
            self.evicted += 1;
        }
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

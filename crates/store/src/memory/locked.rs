//! The shards of one request, locked in their order, so that requests with several keys cannot block each other for ever.

use parking_lot::MutexGuard;
use smallvec::SmallVec;
use tidegate_core::time::Ticks;

use super::Padded;
use super::shard::Shard;
use crate::digest::Digest;
use crate::store::{Charge, StoreError};

/// Held until the request is decided.
pub(super) struct Locked<'a> {
    guards: SmallVec<[(usize, MutexGuard<'a, Shard>); 1]>,
    shards: usize,
}

impl<'a> Locked<'a> {
    pub(super) fn new(shards: &'a [Padded], charges: &[Charge<'_>]) -> Self {
        let mut indexes: SmallVec<[usize; 8]> = charges.iter().map(|charge| shard_index(charge.key, shards.len())).collect();
        indexes.sort_unstable();
        indexes.dedup();
        let guards = indexes.into_iter().map(|index| (index, shards[index].0.lock())).collect();
        Self { guards, shards: shards.len() }
    }

    pub(super) fn shard(&mut self, key: Digest) -> &mut Shard {
        let wanted = shard_index(key, self.shards);
        let (_, shard) =
            self.guards.iter_mut().find(|(index, _)| *index == wanted).expect("every shard of the request is locked");
        shard
    }

    /// Counts a decision, in the first shard, and says whether a sweep is due.
    pub(super) fn count(&mut self, is_allowed: bool) -> bool {
        self.guards.first_mut().is_some_and(|(_, shard)| shard.count(is_allowed))
    }

    /// Makes room in each shard for the states that the request is about to create: those of the charges that `is_charged` names.
    pub(super) fn make_room(
        &mut self,
        charges: &[Charge<'_>],
        now: Ticks,
        is_charged: impl Fn(&Charge<'_>) -> bool,
    ) -> Result<(), StoreError> {
        for (index, shard) in &mut self.guards {
            let wanted: SmallVec<[Digest; 8]> = in_force(charges, now)
                .filter(|(_, charge)| shard_index(charge.key, self.shards) == *index && is_charged(charge))
                .map(|(_, charge)| charge.key ^ charge.namespace)
                .collect();
            shard.make_room(now, &wanted)?;
        }
        Ok(())
    }
}

/// The charges that are still asked at `now`, with their positions.
pub(super) fn in_force<'a>(charges: &'a [Charge<'a>], now: Ticks) -> impl Iterator<Item = (usize, &'a Charge<'a>)> + Clone {
    charges.iter().enumerate().filter(move |(_, charge)| charge.until.is_none_or(|until| now < until))
}

/// The shard of a key, among a power of two of them.
#[allow(clippy::cast_possible_truncation, reason = "only the low bits count")]
pub(super) fn shard_index(key: Digest, shards: usize) -> usize {
    key.0[0] as usize & (shards - 1)
}

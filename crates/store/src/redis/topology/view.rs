//! What is known at one moment: which primary serves which slot.

use std::sync::Arc;

use super::shard::ShardId;
use super::slot_map::Range;
use super::slots::{SLOTS, Slot};
use crate::redis::node::Node;
use crate::store::StoreError;

/// No primary serves the slot.
const NOBODY: u16 = u16::MAX;

/// Which primary serves which slot. It does not change; what is learned makes a new one.
#[derive(Debug, Clone)]
pub(super) struct View {
    primaries: Vec<Primary>,
    owners: Owners,
    /// What a call for a slot without a primary is told.
    lacking: StoreError,
}

/// A server that takes the charges of some slots.
#[derive(Debug, Clone)]
pub(super) struct Primary {
    pub(super) shard: ShardId,
    pub(super) node: Arc<Node>,
}

#[derive(Debug, Clone)]
enum Owners {
    /// The first primary, if there is one, serves everything.
    One,
    /// For each slot the index of its primary, or `NOBODY`.
    Each(Box<[u16]>),
}

impl View {
    /// Nothing is known; calls are told why.
    pub(super) fn none(lacking: StoreError) -> Self {
        Self { primaries: Vec::new(), owners: Owners::One, lacking }
    }

    /// One primary serves everything.
    pub(super) fn one(primary: Primary) -> Self {
        Self { primaries: vec![primary], ..Self::none(StoreError::unavailable("no server is known")) }
    }

    /// Primaries serve ranges; where ranges overlap, the later one counts.
    pub(super) fn spread(ranges: Vec<(Range, Primary)>) -> Self {
        let mut view = Self {
            primaries: Vec::new(),
            owners: Owners::Each(vec![NOBODY; SLOTS.into()].into()),
            lacking: StoreError::Refused { why: "CLUSTERDOWN no server of the cluster owns the slot".into() },
        };
        for (range, primary) in ranges {
            let index = view.index_of(primary);
            if let Owners::Each(owners) = &mut view.owners {
                owners[usize::from(range.first)..=usize::from(range.last)].fill(index);
            }
        }
        view
    }

    /// The same, but another primary serves this slot.
    pub(super) fn with_owner(&self, slot: Slot, primary: Primary) -> Self {
        let mut view = self.clone();
        let index = view.index_of(primary);
        if let Owners::Each(owners) = &mut view.owners {
            owners[usize::from(slot.number())] = index;
        }
        view
    }

    /// The index of a primary, which is added if it is new. More than 65,534 do not exist: there are only 16,384 slots to own.
    fn index_of(&mut self, primary: Primary) -> u16 {
        let known = self.primaries.iter().position(|other| other.shard == primary.shard);
        let index = known.unwrap_or_else(|| {
            self.primaries.push(primary);
            self.primaries.len() - 1
        });
        u16::try_from(index).unwrap_or(NOBODY)
    }

    /// The primary that serves the slot.
    pub(super) fn owner(&self, slot: Slot) -> Result<&Primary, &StoreError> {
        let index = match &self.owners {
            Owners::One => 0,
            Owners::Each(owners) => owners[usize::from(slot.number())],
        };
        self.primaries.get(usize::from(index)).ok_or(&self.lacking)
    }

    /// All primaries.
    pub(super) fn primaries(&self) -> &[Primary] {
        &self.primaries
    }

    /// Why nothing is known.
    pub(super) fn trouble(&self) -> Option<&StoreError> {
        self.primaries.is_empty().then_some(&self.lacking)
    }

    /// How many slots each primary serves, in the order of [`primaries`](Self::primaries).
    pub(super) fn slot_counts(&self) -> Vec<u16> {
        match &self.owners {
            Owners::One => vec![SLOTS; self.primaries.len()],
            Owners::Each(owners) => {
                let mut counts = vec![0; self.primaries.len()];
                for &owner in owners.iter().filter(|&&owner| owner != NOBODY) {
                    counts[usize::from(owner)] += 1;
                }
                counts
            }
        }
    }

    /// How many slots nobody serves.
    pub(super) fn slots_lacking(&self) -> u16 {
        SLOTS - self.slot_counts().iter().sum::<u16>()
    }

    /// Whether every slot has the same primary as in the other.
    pub(super) fn agrees_with(&self, other: &Self) -> bool {
        (0..SLOTS).filter_map(Slot::new).all(|slot| self.shard(slot) == other.shard(slot))
    }

    /// The shard of a slot.
    pub(super) fn shard(&self, slot: Slot) -> ShardId {
        self.owner(slot).map_or(ShardId::UNKNOWN, |primary| primary.shard)
    }
}

#[cfg(test)]
mod tests {
    use super::super::endpoint::Endpoint;
    use super::super::health::Kind;
    use super::super::shared::Shared;
    use super::*;
    use crate::redis::url::Address;

    fn range(first: u16, last: u16) -> Range {
        Range { first, last, primary: Endpoint { host: None, port: 1 } }
    }

    fn slot(number: u16) -> Slot {
        Slot::new(number).unwrap()
    }

    /// Primaries on ports where nobody listens: what serves what does not depend on connections.
    fn primaries() -> (tokio::runtime::Runtime, Primary, Primary) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let shared = Shared::new(Kind::Cluster, Arc::default(), runtime.handle().clone());
        let primary = |port| shared.primary(shared.node(&Address::tcp("127.0.0.1", port)));
        let (one, two) = (primary(1), primary(2));
        (runtime, one, two)
    }

    #[test]
    fn a_slot_has_the_last_primary_that_a_map_names_or_none() {
        let (_runtime, one, two) = primaries();

        let view = View::spread(vec![(range(0, 99), one.clone()), (range(50, 149), two.clone()), (range(200, 200), one.clone())]);

        let shards = [0, 49, 50, 149, 150, 200].map(|number| view.shard(slot(number)));
        assert_eq!(shards, [one.shard, one.shard, two.shard, two.shard, ShardId::UNKNOWN, one.shard]);
        assert_eq!(view.slot_counts(), [51, 100]);
        assert_eq!(view.slots_lacking(), SLOTS - 151);
        assert!(matches!(view.owner(slot(150)), Err(StoreError::Refused { why }) if why.starts_with("CLUSTERDOWN")));
    }

    #[test]
    fn what_is_learned_of_one_slot_leaves_the_others() {
        let (_runtime, one, two) = primaries();
        let before = View::spread(vec![(range(0, 99), one.clone())]);

        let after = before.with_owner(slot(7), two.clone());

        assert!(!after.agrees_with(&before));
        assert_eq!((after.shard(slot(6)), after.shard(slot(7)), before.shard(slot(7))), (one.shard, two.shard, one.shard));
        assert!(after.with_owner(slot(7), one).agrees_with(&before));
    }

    #[test]
    fn one_primary_serves_everything() {
        let (_runtime, one, _) = primaries();

        let view = View::one(one.clone());

        assert_eq!((view.shard(Slot::ZERO), view.shard(slot(SLOTS - 1))), (one.shard, one.shard));
        assert_eq!((view.slots_lacking(), view.trouble()), (0, None));
    }
}

//! Names of primaries as small numbers.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::RwLock;

/// A primary, by its address. A slot that another primary serves has another shard.
///
/// The numbers count up from 0 in the order in which addresses are seen; 0 stands for a primary that nobody knows yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ShardId(u32);

impl ShardId {
    /// No primary is known for the slot.
    pub const UNKNOWN: Self = Self(0);

    /// Its number, as an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// All shards that were ever seen. It grows by one short text for each address: clusters have hundreds of servers, not millions.
#[derive(Debug)]
pub(super) struct Shards {
    known: RwLock<Known>,
}

#[derive(Debug)]
struct Known {
    names: Vec<Arc<str>>,
    ids: HashMap<Arc<str>, ShardId>,
}

impl Shards {
    pub(super) fn new() -> Self {
        Self { known: RwLock::new(Known { names: vec!["unknown".into()], ids: HashMap::new() }) }
    }

    /// The id of a name, a new one if it is new.
    pub(super) fn id(&self, name: &str) -> ShardId {
        if let Some(&id) = self.known.read().ids.get(name) {
            return id;
        }
        let mut known = self.known.write();
        // Somebody may have been quicker.
        if let Some(&id) = known.ids.get(name) {
            return id;
        }
        let Ok(number) = u32::try_from(known.names.len()) else { return ShardId::UNKNOWN };
        let name = Arc::<str>::from(name);
        known.names.push(name.clone());
        known.ids.insert(name, ShardId(number));
        ShardId(number)
    }

    pub(super) fn name(&self, id: ShardId) -> Arc<str> {
        let known = self.known.read();
        // Ids come from here only; another topology's may be larger.
        known.names.get(id.index()).unwrap_or(&known.names[0]).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_name_has_one_id_for_ever() {
        let shards = Shards::new();

        let (first, second) = (shards.id("a:1"), shards.id("a:2"));

        assert_ne!(first, second);
        assert_ne!(first, ShardId::UNKNOWN);
        assert_eq!(shards.id("a:1"), first);
        assert_eq!(&*shards.name(second), "a:2");
        assert_eq!(&*shards.name(ShardId::UNKNOWN), "unknown");
        assert_eq!(&*shards.name(ShardId(99)), "unknown");
    }
}

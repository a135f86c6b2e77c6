//! What callers and the task in the background share.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::time::Sleep;

use super::health::Kind;
use super::shard::{ShardId, Shards};
use super::slots::Slot;
use super::view::{Primary, View};
use crate::redis::node::{Node, NodeState};
use crate::redis::url::{Address, Login};
use crate::store::StoreError;

/// A node outlives so many maps in which it has no place: a server that is given its first slots is asked before any map names it.
const MAPS_WITHOUT_MAX: u8 = 2;

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) kind: Kind,
    io: Handle,
    login: Arc<Login>,
    shards: Shards,
    view: RwLock<Arc<View>>,
    nodes: Mutex<HashMap<Address, Pooled>>,
    /// Rung when what is known may be wrong.
    pub(super) doubt: Notify,
    /// Rung when somebody who must know says that a primary has changed.
    pub(super) news: Notify,
    /// Counts the changes of primaries.
    version: watch::Sender<u64>,
    /// Whether the first attempt to learn the primaries is over.
    is_settled: watch::Sender<bool>,
    is_closed: AtomicBool,
    /// Things that work, but not as they should.
    pub(super) warnings: Mutex<Vec<String>>,
}

#[derive(Debug)]
struct Pooled {
    node: Arc<Node>,
    maps_without: u8,
}

impl Shared {
    pub(super) fn new(kind: Kind, login: Arc<Login>, io: Handle) -> Self {
        Self {
            kind,
            io,
            login,
            shards: Shards::new(),
            view: RwLock::new(Arc::new(View::none(StoreError::unavailable("the servers are not known yet")))),
            nodes: Mutex::default(),
            doubt: Notify::new(),
            news: Notify::new(),
            version: watch::Sender::new(0),
            is_settled: watch::Sender::new(false),
            is_closed: AtomicBool::new(false),
            warnings: Mutex::default(),
        }
    }

    pub(super) fn io(&self) -> &Handle {
        &self.io
    }

    pub(super) fn view(&self) -> Arc<View> {
        self.view.read().clone()
    }

    pub(super) fn shard_of(&self, slot: Slot) -> ShardId {
        self.view.read().shard(slot)
    }

    pub(super) fn shard_name(&self, id: ShardId) -> Arc<str> {
        self.shards.name(id)
    }

    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    /// The node of an address; it is started if there is none.
    pub(super) fn node(&self, address: &Address) -> Arc<Node> {
        let mut nodes = self.nodes.lock();
        if let Some(pooled) = nodes.get_mut(address) {
            pooled.maps_without = 0;
            return pooled.node.clone();
        }
        let node = Node::start(address.clone(), self.login.clone(), &self.io);
        nodes.insert(address.clone(), Pooled { node: node.clone(), maps_without: 0 });
        node
    }

    pub(super) fn primary(&self, node: Arc<Node>) -> Primary {
        Primary { shard: self.shards.id(&node.address().to_string()), node }
    }

    /// Puts a new view in force.
    pub(super) fn publish(&self, view: View) {
        self.forget_nodes(&view);
        let view = Arc::new(view);
        let before = {
            let mut current = self.view.write();
            if self.is_closed.load(Ordering::Relaxed) {
                return;
            }
            std::mem::replace(&mut *current, view.clone())
        };
        if !view.agrees_with(&before) {
            self.version.send_modify(|version| *version += 1);
        }
        self.is_settled.send_replace(true);
    }

    /// An attempt to learn the primaries failed: what is known stays, and if that is nothing, calls are told why.
    pub(super) fn publish_failure(&self, why: StoreError) {
        if self.view().primaries().is_empty() {
            self.publish(View::none(why));
        }
    }

    /// A server said that the slot has another primary.
    pub(super) fn learn(&self, slot: Slot, node: Arc<Node>) {
        let primary = self.primary(node);
        let mut view = self.view.write();
        if view.shard(slot) == primary.shard || self.is_closed.load(Ordering::Relaxed) {
            return;
        }
        *view = Arc::new(view.with_owner(slot, primary));
        drop(view);
        self.version.send_modify(|version| *version += 1);
    }

    /// Drops nodes that have had no place for a while. Calls that are under way keep theirs until they are answered.
    fn forget_nodes(&self, view: &View) {
        self.nodes.lock().retain(|_, pooled| {
            let has_place = view.primaries().iter().any(|primary| Arc::ptr_eq(&primary.node, &pooled.node));
            pooled.maps_without = if has_place { 0 } else { pooled.maps_without + 1 };
            pooled.maps_without <= MAPS_WITHOUT_MAX
        });
    }

    /// The primary of a slot; at the very start, waits for the first attempt to learn it.
    pub(super) async fn owner(&self, slot: Slot) -> Result<Arc<Node>, StoreError> {
        if !*self.is_settled.borrow() {
            // The sender is a field of this very object: it cannot be gone.
            let _ = self.is_settled.subscribe().wait_for(|settled| *settled).await;
        }
        self.known_owner(slot)
    }

    /// The primary of a slot, as far as is known now.
    pub(super) fn known_owner(&self, slot: Slot) -> Result<Arc<Node>, StoreError> {
        self.view.read().owner(slot).map(|primary| primary.node.clone()).map_err(Clone::clone)
    }

    /// The primary of a slot, if it is another node than this one.
    pub(super) fn newer_owner(&self, slot: Slot, than: &Arc<Node>) -> Option<Arc<Node>> {
        self.known_owner(slot).ok().filter(|node| !Arc::ptr_eq(node, than))
    }

    /// The same, but waits a while for one to be learned.
    pub(super) async fn newer_owner_within(&self, slot: Slot, than: &Arc<Node>, limit: Duration) -> Option<Arc<Node>> {
        let mut changes = self.changes();
        let mut over = std::pin::pin!(self.sleep(limit));
        loop {
            if let Some(node) = self.newer_owner(slot, than) {
                return Some(node);
            }
            tokio::select! {
                () = &mut over => return None,
                learned = changes.changed() => learned.ok()?,
            }
        }
    }

    /// Sleeps on the timer of `io`: callers may be on threads without one.
    pub(super) fn sleep(&self, duration: Duration) -> Sleep {
        let _context = self.io.enter();
        tokio::time::sleep(duration)
    }

    pub(super) fn close(&self) {
        self.publish(View::none(StoreError::unavailable("the store was closed")));
        // A task that is being stopped may still have something to say.
        self.is_closed.store(true, Ordering::Relaxed);
        for (_, pooled) in self.nodes.lock().drain() {
            pooled.node.close();
        }
    }
}

/// Whether there is a connection.
pub(super) fn is_up(node: &Node) -> bool {
    matches!(node.state(), NodeState::Up { .. })
}

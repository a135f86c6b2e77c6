//! Which server has which counters, also after a failover.
//!
//! | module | holds |
//! | --- | --- |
//! | `slots` | which of the 16,384 slots a key is in |
//! | `shard` | primaries as small numbers |
//! | `view` | which primary serves which slot, at one moment |
//! | `shared` | what callers and the task in the background share |
//! | `call`, `redirect` | one call: where it goes, and where it goes on when a server sends it away |
//! | `single`, `sentinel`, `cluster` | how the primaries are found |
//! | `follow`, `pace` | when they are looked for |
//! | `sweep` | deleting everything |
//! | `health` | how it stands, for people |
//!
//! Nothing here waits for the servers at the start, and nothing has to be restarted when they change: a task in the background looks who the primaries
//! are whenever there is a reason to doubt what is known.

mod call;
mod cluster;
mod endpoint;
mod follow;
mod health;
mod pace;
mod redirect;
mod sentinel;
mod shard;
mod shared;
mod single;
mod slot_map;
mod slots;
mod sweep;
mod view;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tidegate_core::time::Ticks;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use self::cluster::Cluster;
use self::health::Kind;
use self::sentinel::Sentinels;
use self::shared::Shared;
use super::node::{CallError, Lanes, UnderWay};
use super::resp::{Command, Value};
use super::url::{self, RedisConfig};
use crate::store::StoreError;

pub use self::health::{ShardHealth, TopologyHealth};
pub use self::shard::ShardId;
pub use self::slots::{SLOTS, Slot};

/// Something that can be sent to a server, again if need be.
pub trait Calls: Sync {
    /// The command, with a script named by its hash.
    fn by_hash(&self) -> Command;

    /// The same, with the whole script: for a server that does not know it.
    fn by_text(&self) -> Command;
}

/// What becomes of a call on a thread that waits.
#[allow(missing_debug_implementations, reason = "a future that nobody can look into")]
pub enum Exchange {
    /// It did not run: the thread cannot have a connection for itself, or the call has to go elsewhere. [`Topology::call`] is the way.
    Nothing,
    /// The answer, as that of [`Topology::call`].
    Answer(Result<Value, StoreError>),
    /// It was sent, and the answer has not come in time. It may still come.
    Late(Pin<Box<dyn Future<Output = Result<Value, StoreError>> + Send>>),
}

/// The servers that an address names.
///
/// It lives on a runtime, and may be asked from any thread. When it is dropped, its connections end.
#[derive(Debug)]
pub struct Topology {
    shared: Arc<Shared>,
    task: AbortHandle,
}

impl Topology {
    /// Begins to connect. Returns at once, also when no server can be reached: it goes on trying in the background.
    pub fn start(config: &RedisConfig, io: &Handle) -> Arc<Self> {
        let shared = |kind| Arc::new(Shared::new(kind, config.login.clone(), io.clone()));
        let (shared, task) = match &config.topology {
            url::Topology::Single(address) => {
                let shared = shared(Kind::Single);
                let task = io.spawn(single::follow(shared.clone(), address.clone()));
                (shared, task)
            }
            url::Topology::Sentinel { sentinels, name, login } => {
                let shared = shared(Kind::Sentinel);
                let scout = Sentinels::new(sentinels, name, login);
                let task = io.spawn(follow::follow(shared.clone(), scout));
                (shared, task)
            }
            url::Topology::Cluster { seeds } => {
                let shared = shared(Kind::Cluster);
                let task = io.spawn(follow::follow(shared.clone(), Cluster::new(seeds)));
                (shared, task)
            }
        };
        Arc::new(Self { shared, task: task.abort_handle() })
    }

    /// Whether slots are served by different primaries.
    pub fn is_spread(&self) -> bool {
        self.shared.kind == Kind::Cluster
    }

    /// The slot of all keys with this hash tag, the bytes between the braces; slot 0 where nothing is spread.
    pub fn slot_of(&self, tag: &[u8]) -> Slot {
        if self.is_spread() { Slot::of_tag(tag) } else { Slot::ZERO }
    }

    /// The primary that serves the slot now.
    pub fn shard_of(&self, slot: Slot) -> ShardId {
        self.shared.shard_of(slot)
    }

    /// All primaries that serve something now; the unknown one while none is known.
    pub fn shards(&self) -> Vec<ShardId> {
        let view = self.shared.view();
        let known: Vec<ShardId> = view.primaries().iter().map(|primary| primary.shard).collect();
        if known.is_empty() { vec![ShardId::UNKNOWN] } else { known }
    }

    /// The address of a primary, as text.
    pub fn shard_name(&self, id: ShardId) -> Arc<str> {
        self.shared.shard_name(id)
    }

    /// Sends a call to the primary of the slot and waits for the answer, which may be an error that only the script can judge.
    ///
    /// A call that was sent away, or that was not sent because its primary is gone, goes on to where it belongs. One that may have run is never
    /// sent again. There is no deadline: whoever calls has one. When the future is dropped, a call that was not sent yet is not sent.
    ///
    /// # Errors
    /// The call did not run, or it is not known whether it did.
    pub async fn call(&self, slot: Slot, call: &impl Calls) -> Result<Value, StoreError> {
        call::call(&self.shared, slot, call).await
    }

    /// The same on a thread that waits for the answer until `deadline`, if it can have a connection for itself: nobody is woken for it then.
    pub fn exchange(&self, slot: Slot, call: &impl Calls, deadline: Ticks) -> Exchange {
        call::exchange(&self.shared, slot, call, deadline)
    }

    /// Adds a call to the lanes of an event loop, if that can have a connection for itself. What comes back is for [`judge`](Self::judge).
    pub fn push(&self, slot: Slot, call: &impl Calls, lanes: &mut Lanes) -> Option<UnderWay> {
        call::push(&self.shared, slot, call, lanes)
    }

    /// What the answer to such a call says; `None` if it did not run, and has to be sent by [`call`](Self::call).
    pub fn judge(&self, answer: Result<Value, CallError>) -> Option<Result<Value, StoreError>> {
        call::judge(&self.shared, answer)
    }

    /// Has a task wait for the answer to such a call.
    ///
    /// # Errors
    /// See [`call`](Self::call).
    pub fn await_later(&self, under_way: UnderWay) -> impl Future<Output = Result<Value, StoreError>> + Send + 'static {
        call::late(under_way.leave())
    }

    /// The same for a plain command, whose keys are all in the slot.
    ///
    /// # Errors
    /// See [`call`](Self::call).
    pub async fn command(&self, slot: Slot, command: Command) -> Result<Value, StoreError> {
        call::call(&self.shared, slot, &command).await
    }

    /// Says that the servers do not do as they should, such as when an answer is late: the primaries are looked for soon.
    pub fn suspect(&self) {
        self.shared.doubt.notify_one();
    }

    /// A number that changes whenever a slot gets another primary.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.shared.changes()
    }

    /// How it stands with the servers.
    pub fn health(&self) -> TopologyHealth {
        health::health(&self.shared)
    }

    /// Ends all connections. Calls fail from now on.
    pub fn close(&self) {
        self.task.abort();
        self.shared.close();
    }
}

impl Drop for Topology {
    fn drop(&mut self) {
        self.close();
    }
}

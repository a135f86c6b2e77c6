//! One server, and one connection to it that carries all calls and comes back by itself.
//!
//! Calls that are in flight together travel together: whatever is queued when the connection is ready goes out in one write, and replies are matched
//! to their calls by their order. When the connection breaks, each call learns whether the server can have seen it. That is the difference between a
//! charge that may be sent again and one that must not be.

mod dial;
mod greet;
mod info;
mod lane;
mod life;
mod line;
mod link;
mod queue;
mod stream;

use std::sync::Arc;

use tidegate_core::time::Ticks;
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use super::resp::{Command, Value};
use super::url::{Address, Login};
use crate::store::StoreError;
use line::{Exchanged, Line, Sent, Taken};
use queue::Queue;

pub use lane::{Lanes, UnderWay};
pub use stream::Socket;

/// Why there is no reply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// Not a byte was sent: it did not run, and may be sent again.
    #[error("not sent: {0}")]
    NotSent(#[source] StoreError),
    /// It was sent, at least in part: it may have run, and must not be sent again.
    #[error("sent, and lost: {0}")]
    Lost(#[source] StoreError),
}

impl CallError {
    /// Why, whether it was sent or not.
    pub fn into_store_error(self) -> StoreError {
        match self {
            Self::NotSent(error) | Self::Lost(error) => error,
        }
    }
}

/// How it stands with the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeState {
    /// The first attempt is under way.
    Connecting,
    /// Connected.
    Up {
        /// Since when.
        since: Instant,
        /// What the server said of itself.
        server: Arc<ServerInfo>,
    },
    /// Not connected. Unless it was closed, attempts go on.
    Down {
        /// What went wrong last.
        why: StoreError,
        /// When the connection broke, or the first attempt failed.
        since: Instant,
    },
}

/// What a server says of itself when it is connected.
///
/// A user may be forbidden to ask (`-@dangerous` contains `INFO`); then everything is `None`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServerInfo {
    /// `redis` or `valkey`.
    pub name: Option<Box<str>>,
    /// Its version, as in `7.0.15`.
    pub version: Option<Box<str>>,
    /// What it is to its replicas or its primary.
    pub role: Option<Role>,
    /// The kind of server.
    pub mode: Option<Mode>,
    /// What is forgotten when its memory is full, such as `noeviction`.
    pub maxmemory_policy: Option<Box<str>>,
}

/// What a server is to its replicas or its primary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Takes writes.
    Primary,
    /// Follows a primary.
    Replica,
    /// Watches others.
    Sentinel,
}

/// The kind of server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// A server of its own.
    Standalone,
    /// One of a cluster.
    Cluster,
    /// A sentinel.
    Sentinel,
}

/// One server.
///
/// A call that finds no connection waits only if one can be there in a moment: during the very first attempt, and for a quarter of a second after a
/// connection broke. Otherwise it fails at once with what went wrong last.
#[derive(Debug)]
pub struct Node {
    address: Address,
    login: Arc<Login>,
    queue: Arc<Queue>,
    io: Handle,
}

/// What becomes of a call on a thread that waits.
#[derive(Debug)]
pub enum Exchange {
    /// Nothing was sent: at present the thread cannot have a connection for itself.
    Nothing,
    /// The answer, or how it was lost.
    Answer(Result<Value, CallError>),
    /// It was sent, and the answer has not come in time. It may still come.
    Late(oneshot::Receiver<Result<Value, CallError>>),
}

impl Node {
    /// Begins to connect on `io`, and keeps one connection alive until it is closed or dropped.
    pub fn start(address: Address, login: Arc<Login>, io: &Handle) -> Arc<Self> {
        let queue = Arc::new(Queue::default());
        io.spawn(life::run(Arc::clone(&queue), address.clone(), Arc::clone(&login)));
        Arc::new(Self { address, login, queue, io: io.clone() })
    }

    /// Sends a command and waits for the answer, which may be [`Value::Error`].
    ///
    /// With `asking`, `ASKING` is sent right before it. When the future is dropped before the command was sent, it is not sent; when it was sent
    /// already, the answer is read and discarded.
    ///
    /// There is no deadline: the caller has one, and a connection that does not answer is given up after `stall_limit`.
    ///
    /// # Errors
    /// There is no connection, or it broke before the answer came.
    pub async fn call(&self, command: Command, asking: bool) -> Result<Value, CallError> {
        let answer = self.queue.push(command, asking)?;
        // Nobody is left to answer only if the runtime was stopped, and how far the call came is then not known.
        answer
            .await
            .unwrap_or_else(|_| Err(CallError::Lost(StoreError::unavailable("the runtime of the connection was stopped"))))
    }

    /// The same on a thread that waits for the answer until `deadline` (by [`monotonic_ns`](crate::clock::monotonic_ns)), if it can
    /// have a connection for itself.
    pub fn exchange(&self, command: &Command, deadline: Ticks) -> Exchange {
        let Some((line, epoch)) = self.take_line() else { return Exchange::Nothing };
        let (line, answer) = match line.exchange(command.as_bytes(), deadline) {
            Exchanged::Answer(line, value) => (Some(line), Exchange::Answer(Ok(value))),
            Exchanged::NotSent => (None, Exchange::Nothing),
            Exchanged::Lost(why) => (None, Exchange::Answer(Err(CallError::Lost(life::at(&self.address, why))))),
            Exchanged::Late(sent) => (None, Exchange::Late(self.await_later(sent))),
        };
        self.queue.put_line(line, epoch);
        answer
    }

    /// The line, if the thread can have it.
    fn take_line(&self) -> Option<(Line, u64)> {
        if self.login.tls.is_some() {
            return None;
        }
        match self.queue.take_line() {
            Taken::Line(line, epoch) => Some((line, epoch)),
            Taken::Make(epoch) => {
                self.io.spawn(make_line(Arc::clone(&self.queue), self.address.clone(), Arc::clone(&self.login), epoch));
                None
            }
            Taken::Nothing => None,
        }
    }

    /// Has a task wait for an answer.
    fn await_later(&self, sent: Sent) -> oneshot::Receiver<Result<Value, CallError>> {
        let (reply, answer) = oneshot::channel();
        let (address, stall_limit) = (self.address.clone(), self.login.stall_limit);
        self.io.spawn(async move {
            let answer = sent.answer(stall_limit).await.map_err(|why| CallError::Lost(life::at(&address, why)));
            // Who does not wait any more need not know.
            let _ = reply.send(answer);
        });
        answer
    }

    /// Where the server is.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// How it stands with the server.
    pub fn state(&self) -> NodeState {
        self.queue.state().borrow().clone()
    }

    /// Says when [`state`](Self::state) changes.
    pub fn watch(&self) -> watch::Receiver<NodeState> {
        self.queue.state().subscribe()
    }

    /// Waits for the outcome of the first attempt: [`NodeState::Up`] or [`NodeState::Down`].
    pub async fn settled(&self) -> NodeState {
        let mut state = self.watch();
        // The sender lives in the queue, which this node holds: waiting cannot fail.
        let settled = state.wait_for(|state| !matches!(state, NodeState::Connecting)).await.map(|state| state.clone());
        settled.unwrap_or_else(|_| self.state())
    }

    /// Gives the connection up and makes a new one at once; also ends a pause between two attempts.
    ///
    /// What is in flight is lost. An attempt that is under way goes on.
    pub fn force_reconnect(&self) {
        self.queue.reconnect();
    }

    /// Ends the connection and all attempts. Calls fail from now on, and those in flight are lost.
    pub fn close(&self) {
        self.queue.close();
    }
}

async fn make_line(queue: Arc<Queue>, address: Address, login: Arc<Login>, epoch: u64) {
    // What is wrong with the server, the connection of all others says.
    let line = dial::dial(&address, &login).await.ok().and_then(|dialled| Line::new(dialled.stream, dialled.parser));
    queue.put_line(line, epoch);
}

impl Drop for Node {
    fn drop(&mut self) {
        self.close();
    }
}

//! Hearing of a failover at once, instead of with the next look.

use std::sync::Arc;

use tokio::task::AbortHandle;

use crate::redis::node::{Node, NodeState};
use crate::redis::resp::{Command, Value};
use crate::redis::topology::shared::Shared;
use crate::redis::url::{Address, Login};

/// A connection to a sentinel that waits for news. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct Listener(AbortHandle);

impl Listener {
    pub(super) fn start(address: &Address, login: &Arc<Login>, shared: &Arc<Shared>) -> Self {
        let node = Node::start(address.clone(), login.clone(), shared.io());
        Self(shared.io().spawn(listen(node, shared.clone())).abort_handle())
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A node takes a message that nobody asked for as the end of its connection. That end is the news: whatever caused it, the primary is looked for,
/// and the node connects again. Failovers are rare enough for that, and it needs no second way to connect.
async fn listen(node: Arc<Node>, shared: Arc<Shared>) {
    let mut state = node.watch();
    loop {
        let Ok(up) = state.wait_for(|state| matches!(state, NodeState::Up { .. })).await.map(|state| state.clone()) else {
            return;
        };
        let subscribe = Command::new(&[b"SUBSCRIBE", b"+switch-master"]);
        if let Ok(Value::Error(_)) = node.call(subscribe, false).await {
            // Not allowed. The primary is looked for often enough without it.
            return;
        }
        // Compared with the very connection: the next one may be there before anybody looks.
        if state.wait_for(|state| *state != up).await.is_err() {
            return;
        }
        shared.news.notify_one();
    }
}

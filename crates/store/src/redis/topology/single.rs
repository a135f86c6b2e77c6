//! One server. It is always the primary, unless it turns out to be something else than an address of one server should name.

use std::sync::Arc;

use super::shared::Shared;
use super::view::View;
use crate::redis::node::{Mode, NodeState};
use crate::redis::url::Address;
use crate::store::StoreError;

/// Looks at what the server says of itself whenever it is connected.
pub(super) async fn follow(shared: Arc<Shared>, address: Address) {
    let node = shared.node(&address);
    let mut state = node.watch();
    loop {
        let now = state.borrow_and_update().clone();
        match mode(&now) {
            Some(Mode::Cluster) => shared.publish(View::none(is_a_cluster(&address))),
            Some(Mode::Sentinel) => shared.publish(View::none(is_a_sentinel(&address))),
            // The first calls wait until it is known what the server is: one that is a sentinel would not understand them.
            None if now == NodeState::Connecting => {}
            Some(Mode::Standalone) | None => shared.publish(View::one(shared.primary(node.clone()))),
        }
        if state.changed().await.is_err() {
            return;
        }
        shared.warnings.lock().clear();
    }
}

/// The kind of server, if there is one and it says so.
pub(super) fn mode(state: &NodeState) -> Option<Mode> {
    match state {
        NodeState::Up { server, .. } => server.mode,
        NodeState::Connecting | NodeState::Down { .. } => None,
    }
}

pub(super) fn is_a_cluster(address: &Address) -> StoreError {
    StoreError::protocol(format!("{address} is a server of a cluster; use redis+cluster://{address}"))
}

pub(super) fn is_a_sentinel(address: &Address) -> StoreError {
    StoreError::protocol(format!("{address} is a sentinel; use redis+sentinel://{address}/ and the name of the primary"))
}

//! How it stands, for people.

use std::sync::Arc;

use super::shard::ShardId;
use super::shared::Shared;
use super::view::Primary;
use crate::redis::node::{NodeState, Role, ServerInfo};

/// How the servers belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Single,
    Sentinel,
    Cluster,
}

/// How it stands with all servers. It holds no password.
#[derive(Debug, Clone, PartialEq)]
pub struct TopologyHealth {
    /// `single`, `sentinel` or `cluster`.
    pub kind: &'static str,
    /// The primaries that are known.
    pub shards: Vec<ShardHealth>,
    /// What somebody should look at, one sentence each.
    pub warnings: Vec<String>,
}

/// How it stands with one primary.
#[derive(Debug, Clone, PartialEq)]
pub struct ShardHealth {
    /// Its address.
    pub name: Arc<str>,
    /// Its number.
    pub id: ShardId,
    /// How many slots it serves; all 16,384 where nothing is spread.
    pub slots: u16,
    /// The connection.
    pub state: NodeState,
    /// Its version, if it says so.
    pub version: Option<Box<str>>,
    /// What it forgets when its memory is full, if it says so.
    pub maxmemory_policy: Option<Box<str>>,
    /// What it was to its replicas or its primary when it was connected, if it said so.
    pub role: Option<Role>,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Single => "single",
            Self::Sentinel => "sentinel",
            Self::Cluster => "cluster",
        }
    }
}

pub(super) fn health(shared: &Shared) -> TopologyHealth {
    let view = shared.view();
    let shards: Vec<_> =
        view.primaries().iter().zip(view.slot_counts()).map(|(primary, slots)| shard(shared, primary, slots)).collect();
    let mut warnings: Vec<_> = view.trouble().map(ToString::to_string).into_iter().collect();
    if !shards.is_empty() && view.slots_lacking() > 0 {
        warnings.push(format!("{} slots of the cluster have no primary", view.slots_lacking()));
    }
    warnings.extend(shards.iter().flat_map(warnings_of));
    warnings.extend(shared.warnings.lock().iter().cloned());
    TopologyHealth { kind: shared.kind.name(), shards, warnings }
}

fn shard(shared: &Shared, primary: &Primary, slots: u16) -> ShardHealth {
    let state = primary.node.state();
    let server = match &state {
        NodeState::Up { server, .. } => ServerInfo::clone(server),
        NodeState::Connecting | NodeState::Down { .. } => ServerInfo::default(),
    };
    ShardHealth {
        name: shared.shard_name(primary.shard),
        id: primary.shard,
        slots,
        state,
        version: server.version,
        maxmemory_policy: server.maxmemory_policy,
        role: server.role,
    }
}

fn warnings_of(shard: &ShardHealth) -> Vec<String> {
    let name = &shard.name;
    let mut warnings = Vec::new();
    if let Some(policy) = shard.maxmemory_policy.as_deref().filter(|policy| *policy != "noeviction") {
        warnings.push(format!(
            "{name}: maxmemory-policy is {policy}; with anything but noeviction the server may forget counters, which grants quota: set noeviction"
        ));
    }
    if shard.role == Some(Role::Replica) {
        warnings.push(format!(
            "{name} was a replica when it was connected, and replicas refuse charges: use the address of its primary"
        ));
    }
    if let NodeState::Down { why, .. } = &shard.state {
        warnings.push(why.to_string());
    }
    warnings
}

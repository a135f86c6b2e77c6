//! How the store and the way to it are doing.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidegate_store::clock::monotonic_ns;
use tidegate_store::redis::node::{NodeState, Role};
use tidegate_store::store::StoreError;

use super::{Parts, RemoteOptions};

/// How the store and the way to it are doing.
#[derive(Debug, Clone)]
pub struct Health {
    /// What it is and where, without the password.
    pub store: String,
    /// Its servers.
    pub shards: Vec<ShardHealth>,
    /// How many instances share it.
    pub instances: u32,
    /// Requests that were denied without asking.
    pub denials: u64,
    /// Requests that were admitted by units taken in advance, without asking.
    pub advanced: u64,
    /// Units that were taken in advance and not spent yet.
    pub advance_units: u64,
    /// Calls that a server answered, probes among them. A call that needs several servers counts for each.
    pub answered: u64,
    /// How long those took together.
    pub answered_ns: u64,
    /// Calls that failed, by reason: see [`StoreError::KINDS`].
    pub failed_by: [u64; StoreError::KINDS.len()],
    /// Answers that came after the budget was over.
    pub late: u64,
    /// Counters whose admissions the store was not told yet.
    pub owed: u64,
    /// How far the servers' clock is ahead of this process's.
    pub skew_ns: i64,
    /// What should be changed.
    pub warnings: Vec<String>,
}

/// How one server is doing.
#[derive(Debug, Clone)]
pub struct ShardHealth {
    /// Its address.
    pub name: Arc<str>,
    /// Whether it is connected.
    pub is_up: bool,
    /// The state of its breaker.
    pub breaker: &'static str,
    /// What is wrong with it.
    pub why: String,
    /// Its version.
    pub version: String,
    /// Whether it is a primary.
    pub role: String,
    /// What it does when its memory is full.
    pub maxmemory_policy: String,
    /// How many slots it serves.
    pub slots: u16,
}

fn role(role: Role) -> &'static str {
    match role {
        Role::Primary => "primary",
        Role::Replica => "replica",
        Role::Sentinel => "sentinel",
    }
}

impl Parts {
    pub(super) fn health(&self, options: &RemoteOptions) -> Health {
        let now = monotonic_ns();
        let mut topology = self.store.health();
        // What passes by itself is told by the state of the servers.
        if let Some(error) = self.heartbeat_error.lock().as_ref().filter(|error| !error.is_transient()) {
            topology.warnings.push(format!(
                "heartbeats fail, so nobody knows how many instances share the store, and `local` would give each the whole quota: {error}"
            ));
        }
        let shard = |shard: tidegate_store::redis::topology::ShardHealth| {
            let guard = self.breakers.read().get(&shard.id).map(Arc::clone);
            let state = guard.as_ref().map_or("closed", |guard| guard.breaker.state(now).as_str());
            let last_error = guard.filter(|_| state != "closed").and_then(|guard| guard.last_error.lock().clone());
            let why = match &shard.state {
                NodeState::Down { why, .. } => why.to_string(),
                _ => last_error.map(|error| error.to_string()).unwrap_or_default(),
            };
            ShardHealth {
                name: shard.name,
                is_up: matches!(shard.state, NodeState::Up { .. }),
                breaker: state,
                why,
                version: shard.version.map(String::from).unwrap_or_default(),
                role: shard.role.map(role).unwrap_or_default().to_owned(),
                maxmemory_policy: shard.maxmemory_policy.map(String::from).unwrap_or_default(),
                slots: shard.slots,
            }
        };
        Health {
            store: format!("{} {}", topology.kind, options.config),
            shards: topology.shards.into_iter().map(shard).collect(),
            instances: self.fallback.instances().count(),
            denials: self.denials.as_ref().map_or(0, crate::failure::deny_cache::DenyCache::hits),
            advanced: self.advances.spent(),
            advance_units: self.advances.units(),
            answered: self.traffic.answered.load(Ordering::Relaxed),
            answered_ns: self.traffic.answered_ns.load(Ordering::Relaxed),
            failed_by: std::array::from_fn(|kind| self.traffic.failed[kind].load(Ordering::Relaxed)),
            late: self.late.load(Ordering::Relaxed),
            owed: self.fallback.debts().len() as u64,
            skew_ns: self.store.skew_ns(),
            warnings: topology.warnings,
        }
    }
}

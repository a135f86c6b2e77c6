//! How those are doing on whom requests depend: the servers of the store, and the servers behind the proxy. For the log, as one JSON document.

use serde::Serialize;
use tidegate_engine::remote::ShardHealth;

use crate::app::App;
use crate::proxy::{GroupSummary, Proxy, ServerSummary};

/// Everything.
#[derive(Debug, Serialize)]
struct Vitals {
    store: Store,
    upstreams: Vec<Upstream>,
}

/// Where counters live.
#[derive(Debug, Serialize)]
pub(crate) struct Store {
    /// What it is and where, without any secret.
    name: String,
    keys: u64,
    shards: Vec<Shard>,
}

#[derive(Debug, Serialize)]
struct Shard {
    name: String,
    is_up: bool,
    breaker: &'static str,
    why: String,
}

#[derive(Debug, Serialize)]
struct Upstream {
    name: String,
    servers: Vec<Server>,
}

#[derive(Debug, Serialize)]
struct Server {
    name: String,
    state: &'static str,
    /// Why it failed last.
    why: Option<String>,
}

/// How all are doing, as JSON.
pub fn to_json(app: &App) -> String {
    let groups = app.proxy.as_ref().map(Proxy::summary).unwrap_or_default();
    let vitals = Vitals { store: store(app), upstreams: groups.into_iter().map(upstream).collect() };
    serde_json::to_string(&vitals).unwrap_or_default()
}

/// How the store is doing.
pub(crate) fn store(app: &App) -> Store {
    match app.engine.remote() {
        None => Store { name: "memory".to_owned(), keys: app.engine.stats().store.keys, shards: Vec::new() },
        Some(remote) => {
            let health = remote.health();
            Store { name: health.store, keys: 0, shards: health.shards.into_iter().map(shard).collect() }
        }
    }
}

fn shard(health: ShardHealth) -> Shard {
    Shard { name: health.name.to_string(), is_up: health.is_up, breaker: health.breaker, why: health.why }
}

fn upstream(group: GroupSummary) -> Upstream {
    Upstream { name: group.name, servers: group.servers.into_iter().map(server).collect() }
}

fn server(ServerSummary { name, state, why, .. }: ServerSummary) -> Server {
    Server { name, state: state.as_str(), why: why.as_deref().map(str::to_owned) }
}

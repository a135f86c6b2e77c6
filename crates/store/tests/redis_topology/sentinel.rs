//! A primary that sentinels watch.

use std::time::Duration;

use serde_json::json;
use tidegate_store::redis::node::NodeState;
use tidegate_store::redis::topology::{ShardId, Slot};
use tidegate_store::store::StoreError;

use super::kit::{Io, Script, count, count_eventually};
use super::traffic::{Traffic, failures, longest_gap};
use crate::servers::Servers;

/// The sentinels of the tests need two to four seconds for a failover, on a busy machine more.
const FAILOVER: Duration = Duration::from_secs(20);

fn primary(servers: &Servers) -> String {
    servers.command(&json!({"do": "primary"})).as_str().unwrap().to_owned()
}

fn scripts(count: usize) -> Vec<Script> {
    (0..count).map(|index| Script::count(&[&format!("key{index}")])).collect()
}

/// Kills or freezes the primary under load.
fn fail_over(servers: &Servers, action: &str) {
    let io = Io::start();
    let topology = io.topology(&servers.url);
    let traffic = Traffic::start(&io, &topology, &scripts(8));
    traffic.flow(&io, 200);
    let (shard, changes) = (topology.shard_of(Slot::ZERO), topology.changes());
    let version = *changes.borrow();

    let old = servers.command(&json!({"do": action}));
    let new = servers.command(&json!({"do": "wait_for_new_primary", "old": old}));
    let behind = io.eventually("the new primary is followed", FAILOVER, || {
        *topology.shard_name(topology.shard_of(Slot::ZERO)) == *new.as_str().unwrap()
    });
    traffic.flow(&io, 200);
    let calls = traffic.stop(&io);

    println!(
        "{action}: longest gap {:?}, {behind:?} after all sentinels knew, {} of {} calls failed",
        longest_gap(&calls),
        failures(&calls).len(),
        calls.len()
    );
    assert!(longest_gap(&calls) < FAILOVER);
    assert!(behind < Duration::from_secs(2), "{behind:?}");
    assert_ne!(topology.shard_of(Slot::ZERO), shard, "a new primary deserves a new trial");
    assert_ne!(*changes.borrow(), version);
    assert!(failures(&calls).iter().all(|error| error.is_transient()), "{:?}", failures(&calls));
}

#[test]
fn a_killed_primary_is_followed_by_its_replica_under_load() {
    fail_over(&Servers::start(&["sentinel"]), "kill_primary");
}

#[test]
fn a_frozen_primary_is_followed_by_its_replica_under_load() {
    fail_over(&Servers::start(&["sentinel"]), "freeze_primary");
}

#[test]
fn a_killed_primary_of_redis_6_2_is_followed() {
    if let Some(servers) = Servers::start_if_installed(&["sentinel", "--server", "redis62"]) {
        fail_over(&servers, "kill_primary");
    }
}

#[test]
fn a_failover_is_heard_of_without_a_single_call() {
    let servers = Servers::start(&["sentinel"]);
    let io = Io::start();
    let topology = io.topology(&servers.url);
    count(&io, &topology, &Script::count(&["a"])).unwrap();

    // Of a frozen primary only the sentinels can tell: its connection stays as it is.
    let old = servers.command(&json!({"do": "freeze_primary"}));
    let new = servers.command(&json!({"do": "wait_for_new_primary", "old": old}));

    // Without news, the next look would be eight to twelve seconds after the first.
    let behind = io.eventually("the new primary is followed", Duration::from_secs(2), || {
        *topology.shard_name(topology.shard_of(Slot::ZERO)) == *new.as_str().unwrap()
    });
    println!("a failover is followed {behind:?} after all sentinels knew");
    count(&io, &topology, &Script::count(&["a"])).unwrap();
}

#[test]
fn a_start_with_everything_down_heals_by_itself() {
    let servers = Servers::start(&["sentinel"]);
    let nodes = servers.description["addresses"].as_array().unwrap().clone();
    for node in &nodes {
        servers.command(&json!({"do": "kill", "node": node}));
    }
    let io = Io::start();
    let topology = io.topology(&servers.url);
    let script = Script::count(&["a"]);

    let error = count(&io, &topology, &script).unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
    assert_eq!(topology.shard_of(Slot::ZERO), ShardId::UNKNOWN);
    assert_eq!(topology.health().shards, []);
    for node in &nodes {
        servers.command(&json!({"do": "restart", "node": node}));
    }

    count_eventually(&io, &topology, &script, FAILOVER);
}

#[test]
fn one_sentinel_is_enough_to_find_the_others() {
    let servers = Servers::start(&["sentinel"]);
    let sentinels = servers.description["sentinels"].as_array().unwrap();
    let io = Io::start();
    let topology = io.topology(&format!("redis+sentinel://{}/mymaster", sentinels[0].as_str().unwrap()));
    let script = Script::count(&["a"]);
    count(&io, &topology, &script).unwrap();
    // The second look asks the ones that the first has heard of.
    topology.suspect();
    io.pause(Duration::from_secs(2));

    servers.command(&json!({"do": "kill", "node": sentinels[0]}));
    let old = servers.command(&json!({"do": "kill_primary"}));
    let new = servers.command(&json!({"do": "wait_for_new_primary", "old": old}));

    count_eventually(&io, &topology, &script, FAILOVER);
    assert_eq!(*topology.shard_name(topology.shard_of(Slot::ZERO)), *new.as_str().unwrap());
    let warnings = topology.health().warnings;
    assert!(warnings.iter().any(|warning| warning.contains("a sentinel does not help")), "{warnings:?}");
}

#[test]
fn sentinels_have_credentials_of_their_own() {
    let servers =
        Servers::start(&["sentinel", "--password", "s3cr3t", "--sentinel-user", "watcher", "--sentinel-password", "0th3r"]);
    let io = Io::start();
    let topology = io.topology(&servers.url);
    let script = Script::count(&["a"]);

    assert_eq!(count(&io, &topology, &script), Ok(1));
    let shown = format!("{topology:?} {:?}", topology.health());
    assert!(!shown.contains("s3cr3t") && !shown.contains("0th3r"), "{shown}");

    let without = io.topology(servers.url.split('?').next().unwrap());
    let error = count(&io, &without, &script).unwrap_err();
    assert!(matches!(error, StoreError::Access { .. }), "{error}");
}

#[test]
fn health_shows_the_primary() {
    let servers = Servers::start(&["sentinel"]);
    let io = Io::start();
    let topology = io.topology(&servers.url);
    count(&io, &topology, &Script::count(&["a"])).unwrap();

    let health = topology.health();

    assert_eq!((health.kind, health.warnings.len(), health.shards.len()), ("sentinel", 0, 1), "{health:?}");
    assert_eq!(*health.shards[0].name, *primary(&servers));
    assert!(matches!(health.shards[0].state, NodeState::Up { .. }));
}

#[test]
fn sentinels_and_the_primary_speak_tls_and_ask_for_certificates() {
    let Some(servers) = Servers::start_if_installed(&["sentinel", "--server", "redis70", "--tls", "--tls-auth-clients"]) else {
        return;
    };
    let io = Io::start();
    let topology = io.topology(servers.description["tls_url"].as_str().unwrap());

    assert_eq!(count(&io, &topology, &Script::count(&["a"])), Ok(1));
}

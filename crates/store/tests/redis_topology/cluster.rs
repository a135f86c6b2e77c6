//! A cluster whose primaries fail.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_store::redis::topology::{ShardId, Slot};
use tidegate_store::store::StoreError;

use super::kit::{Io, Script, count, count_eventually};
use super::traffic::{Traffic, failures, longest_gap};
use crate::servers::Servers;

const FAILOVER: Duration = Duration::from_secs(20);

fn primary_of(servers: &Servers, slot: Slot) -> String {
    servers.command(&json!({"do": "primary_of", "slot": slot.number()})).as_str().unwrap().to_owned()
}

#[test]
fn every_slot_is_served_by_its_primary() {
    let servers = Servers::start(&["cluster"]);
    let io = Io::start();
    let topology = io.topology(&servers.url);

    let mut shards = HashSet::new();
    for index in 0..50 {
        let key = format!("key{index}");
        let script = Script::count(&[&key]);
        assert_eq!(count(&io, &topology, &script), Ok(1));
        let slot = script.slot(&topology);
        shards.insert(topology.shard_of(slot));
        assert_eq!(*topology.shard_name(topology.shard_of(slot)), *primary_of(&servers, slot));
    }

    assert!(topology.is_spread());
    assert_eq!(topology.slot_of(b"user1000"), Slot::of_key(b"{user1000}.following"));
    assert_eq!(shards.len(), 3);
    let health = topology.health();
    assert_eq!((health.kind, health.warnings.len()), ("cluster", 0), "{health:?}");
    assert_eq!(health.shards.iter().map(|shard| u32::from(shard.slots)).sum::<u32>(), 16_384);
}

#[test]
fn a_script_is_sent_whole_to_each_primary_that_does_not_know_it() {
    let servers = Servers::start(&["cluster"]);
    let io = Io::start();
    let topology = io.topology(&servers.url);

    for key in ["a", "b", "c", "d", "e", "f"] {
        let script = Script::unheard_of(&[key], "flushed");
        assert_eq!(count(&io, &topology, &script), Ok(1));
        let node = primary_of(&servers, script.slot(&topology));
        servers.command(&json!({"do": "command", "node": node, "args": ["SCRIPT", "FLUSH"]}));
        assert_eq!(count(&io, &topology, &script), Ok(2));
    }
}

/// Kills or freezes one primary under load on all slots.
fn fail_over(servers: &Servers, action: &str) {
    let io = Io::start();
    let topology = io.topology(&servers.url);
    let (mut hit, mut spared): (Vec<_>, Vec<_>) =
        (0..60).map(|index| Script::count(&[&format!("key{index}")])).partition(|script| {
            let slot = script.slot(&topology);
            slot.number() < 5_000
        });
    hit.truncate(4);
    spared.truncate(4);
    let (on_hit, on_spared) = (Traffic::start(&io, &topology, &hit), Traffic::start(&io, &topology, &spared));
    on_hit.flow(&io, 100);
    on_spared.flow(&io, 100);
    let slot = hit[0].slot(&topology);
    let (shard, old) = (topology.shard_of(slot), primary_of(servers, slot));

    servers.command(&json!({"do": action, "node": old}));
    let new = servers.command(&json!({"do": "wait_for_failover", "slot": slot.number(), "old": old}));
    let behind = io.eventually("the new primary is followed", FAILOVER, || {
        *topology.shard_name(topology.shard_of(slot)) == *new.as_str().unwrap()
    });
    on_hit.flow(&io, 100);
    on_spared.flow(&io, 100);
    let (calls_hit, calls_spared) = (on_hit.stop(&io), on_spared.stop(&io));

    println!(
        "{action}: longest gap {:?}, {behind:?} after all servers knew, {} of {} calls failed; elsewhere {:?}, {} of {}",
        longest_gap(&calls_hit),
        failures(&calls_hit).len(),
        calls_hit.len(),
        longest_gap(&calls_spared),
        failures(&calls_spared).len(),
        calls_spared.len(),
    );
    assert!(longest_gap(&calls_hit) < FAILOVER);
    assert!(behind < Duration::from_secs(2), "{behind:?}");
    assert_ne!(topology.shard_of(slot), shard);
    let mut all = failures(&calls_hit);
    all.extend(failures(&calls_spared));
    assert!(all.iter().all(|error| error.is_transient()), "{all:?}");
}

#[test]
fn a_killed_primary_is_followed_by_its_replica_under_load() {
    fail_over(&Servers::start(&["cluster"]), "kill");
}

#[test]
fn a_frozen_primary_is_followed_by_its_replica_under_load() {
    fail_over(&Servers::start(&["cluster"]), "freeze");
}

#[test]
fn a_killed_primary_of_redis_6_2_is_followed() {
    if let Some(servers) = Servers::start_if_installed(&["cluster", "--server", "redis62"]) {
        fail_over(&servers, "kill");
    }
}

#[test]
fn any_server_of_the_cluster_is_a_good_address() {
    let servers = Servers::start(&["cluster"]);
    let replica = servers.description["addresses"][5].as_str().unwrap();
    let io = Io::start();
    let topology = io.topology(&format!("redis+cluster://127.0.0.1:1,{replica}"));

    for index in 0..10 {
        assert_eq!(count(&io, &topology, &Script::count(&[&format!("key{index}")])), Ok(1));
    }
}

#[test]
fn a_start_with_everything_down_heals_by_itself() {
    let servers = Servers::start(&["cluster", "--replicas", "0"]);
    let nodes: Vec<Value> = servers.description["addresses"].as_array().unwrap().clone();
    for node in &nodes {
        servers.command(&json!({"do": "kill", "node": node}));
    }
    let io = Io::start();
    let topology = io.topology(&servers.url);
    let script = Script::count(&["a"]);

    let error = count(&io, &topology, &script).unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
    assert_eq!(topology.shard_of(script.slot(&topology)), ShardId::UNKNOWN);
    for node in &nodes {
        servers.command(&json!({"do": "restart", "node": node}));
    }

    count_eventually(&io, &topology, &script, FAILOVER);
}

#[test]
fn all_servers_of_a_cluster_speak_tls() {
    let Some(servers) = Servers::start_if_installed(&["cluster", "--tls", "--tls-auth-clients"]) else { return };
    let io = Io::start();
    let topology = io.topology(servers.description["tls_url"].as_str().unwrap());

    for index in 0..10 {
        assert_eq!(count(&io, &topology, &Script::count(&[&format!("key{index}")])), Ok(1));
    }
}

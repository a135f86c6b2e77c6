//! One server.

use std::time::Duration;

use serde_json::json;
use tidegate_store::redis::node::{NodeState, Role};
use tidegate_store::redis::resp::{Command, Value};
use tidegate_store::redis::topology::{SLOTS, ShardId, Slot};
use tidegate_store::store::StoreError;

use super::kit::{Io, Script, count, count_eventually};
use crate::servers::Servers;

const SOON: Duration = Duration::from_secs(10);

#[test]
fn a_script_that_the_server_does_not_know_is_sent_whole_and_runs_once() {
    let servers = Servers::start(&["single"]);
    let io = Io::start();
    let topology = io.topology(&servers.url);
    let script = Script::count(&["a"]);

    assert_eq!(count(&io, &topology, &script), Ok(1), "the first call of a script, and the first on the connection");
    assert_eq!(count(&io, &topology, &script), Ok(2));
    servers.ask(&["SCRIPT", "FLUSH"]);
    assert_eq!(count(&io, &topology, &script), Ok(3));
}

#[test]
fn a_plain_command_needs_no_script() {
    let servers = Servers::start(&["single"]);
    let io = Io::start();
    let topology = io.topology(&servers.url);
    count(&io, &topology, &Script::count(&["a"])).unwrap();

    let answer = io.run(topology.command(Slot::ZERO, Command::new(&[b"DEL", b"a"])));

    assert_eq!(answer, Ok(Value::Int(1)));
}

#[test]
fn all_is_in_one_slot_of_one_shard() {
    let servers = Servers::start(&["single"]);
    let io = Io::start();
    let topology = io.topology(&servers.url);
    count(&io, &topology, &Script::count(&["a"])).unwrap();

    assert!(!topology.is_spread());
    assert_eq!(topology.slot_of(b"a"), Slot::ZERO);
    assert_eq!(topology.slot_of(b"b"), Slot::ZERO);
    let shard = topology.shard_of(Slot::ZERO);
    assert_ne!(shard, ShardId::UNKNOWN);
    assert_eq!(format!("redis://{}", topology.shard_name(shard)), servers.url);
}

#[test]
fn a_server_that_comes_back_is_used_again() {
    let servers = Servers::start(&["single"]);
    let io = Io::start();
    let topology = io.topology(&servers.url);
    let script = Script::count(&["a"]);
    count(&io, &topology, &script).unwrap();

    servers.command(&json!({"do": "kill"}));
    let error = count(&io, &topology, &script).unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
    servers.command(&json!({"do": "restart"}));

    count_eventually(&io, &topology, &script, SOON);
}

#[test]
fn a_start_with_the_server_down_heals_by_itself() {
    let servers = Servers::start(&["single"]);
    servers.command(&json!({"do": "kill"}));
    let io = Io::start();
    let topology = io.topology(&servers.url);
    let script = Script::count(&["a"]);

    let error = count(&io, &topology, &script).unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
    assert!(matches!(topology.health().shards[0].state, NodeState::Down { .. }));
    servers.command(&json!({"do": "restart"}));

    count_eventually(&io, &topology, &script, SOON);
}

#[test]
fn health_says_what_the_server_says() {
    let servers = Servers::start(&["single"]);
    let io = Io::start();
    let topology = io.topology(&servers.url);
    count(&io, &topology, &Script::count(&["a"])).unwrap();

    let health = topology.health();

    assert_eq!(health.kind, "single");
    assert_eq!(health.warnings, [""; 0]);
    let [shard] = &health.shards[..] else { panic!("one shard: {health:?}") };
    assert_eq!((shard.slots, shard.role, shard.maxmemory_policy.as_deref()), (SLOTS, Some(Role::Primary), Some("noeviction")));
    assert!(shard.version.as_deref().is_some_and(|version| version.starts_with('9')), "{shard:?}");
}

#[test]
fn a_server_that_may_forget_counters_is_reported() {
    let servers = Servers::start(&["single", "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"]);
    let io = Io::start();
    let topology = io.topology(&servers.url);
    count(&io, &topology, &Script::count(&["a"])).unwrap();

    let warnings = topology.health().warnings;

    assert!(warnings.len() == 1 && warnings[0].contains("maxmemory-policy is allkeys-lru"), "{warnings:?}");
    assert!(warnings[0].ends_with("set noeviction"), "{warnings:?}");
}

#[test]
fn no_password_is_in_health() {
    let servers = Servers::start(&["single", "--password", "s3cr3t"]);
    let io = Io::start();
    let topology = io.topology(&servers.url);
    count(&io, &topology, &Script::count(&["a"])).unwrap();

    assert!(!format!("{topology:?} {:?}", topology.health()).contains("s3cr3t"));
}

#[test]
fn what_the_server_refuses_has_its_kind() {
    let servers = Servers::start(&["single"]);
    let io = Io::start();
    let topology = io.topology(&servers.url);
    servers.ask(&["RPUSH", "list", "1"]);
    servers.ask(&["CONFIG", "SET", "maxmemory", "1"]);

    let error = count(&io, &topology, &Script::new("redis.call('SET', KEYS[1], 1)", &["a"])).unwrap_err();
    assert!(matches!(error, StoreError::Refused { .. }), "{error}");
    servers.ask(&["CONFIG", "SET", "maxmemory", "0"]);
    let error = count(&io, &topology, &Script::count(&["list"])).unwrap_err();
    assert!(matches!(error, StoreError::Foreign { .. }), "{error}");
}

#[test]
fn nothing_is_answered_after_the_end() {
    let servers = Servers::start(&["single"]);
    let io = Io::start();
    let topology = io.topology(&servers.url);
    let script = Script::count(&["a"]);
    count(&io, &topology, &script).unwrap();

    topology.close();

    assert!(matches!(count(&io, &topology, &script), Err(StoreError::Unavailable { .. })));
    assert_eq!(servers.ask(&["GET", "a"]), "1");
}

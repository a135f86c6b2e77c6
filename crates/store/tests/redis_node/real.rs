//! Real servers.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::json;
use tidegate_store::redis::node::{CallError, Mode, Node, Role};
use tidegate_store::redis::resp::Value;
use tidegate_store::redis::url::{Address, RedisConfig, Topology};
use tokio::runtime::Handle;

use super::peer::{answer, call, down, up};
use super::servers::Servers;

/// A node for an address of one server.
pub(crate) fn connect(url: &str) -> Arc<Node> {
    let config = RedisConfig::parse(url).unwrap_or_else(|error| panic!("{url}: {error}"));
    let Topology::Single(address) = config.topology else { panic!("{url} is not one server") };
    Node::start(address, config.login, &Handle::current())
}

/// The address with this in front of the host.
fn with_user(url: &str, user: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap();
    let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
    format!("{scheme}://{user}@{host}")
}

/// What the server knows of our connection.
async fn client(node: &Node) -> HashMap<String, String> {
    let Value::Bulk(text) = answer(node, &["CLIENT", "INFO"]).await else { panic!("no text") };
    let text = String::from_utf8(text.into()).unwrap();
    text.split_whitespace()
        .filter_map(|field| field.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

#[tokio::test]
async fn every_server_says_what_it_is() {
    for (name, product) in [("valkey", "valkey"), ("redis62", "redis"), ("redis70", "redis")] {
        let Some(servers) = Servers::start_if_installed(&["single", "--server", name, "--maxmemory-policy", "allkeys-lru"])
        else {
            continue;
        };
        let node = connect(&servers.url);

        let server = up(&node).await;
        assert_eq!(server.name.as_deref(), Some(product), "{server:?}");
        assert_eq!((server.role, server.mode), (Some(Role::Primary), Some(Mode::Standalone)), "{server:?}");
        assert_eq!(server.maxmemory_policy.as_deref(), Some("allkeys-lru"), "{server:?}");
        let described = servers.description["server"].as_str().unwrap();
        assert!(described.ends_with(server.version.as_deref().unwrap()), "{described}: {server:?}");
    }
}

#[tokio::test]
async fn names_and_databases_reach_the_server() {
    let servers = Servers::start(&["single"]);
    let node = connect(&format!("{}/5?client_name=checkout", servers.url.trim_end_matches("/0")));

    let client = client(&node).await;

    assert_eq!((client["name"].as_str(), client["db"].as_str()), ("checkout", "5"));
    let wrong = connect(&format!("{}/99", servers.url.trim_end_matches("/0")));
    let why = down(&wrong).await;
    assert!(why.kind() == "store_protocol" && why.to_string().contains("database 99"), "{why}");
}

#[tokio::test]
async fn a_socket_is_as_good_as_a_port() {
    let servers = Servers::start(&["single"]);
    let node = connect(servers.description["unix_url"].as_str().unwrap());

    assert!(matches!(node.address(), Address::Unix(_)));
    assert_eq!(answer(&node, &["INCR", "a"]).await, Value::Int(1));
}

#[tokio::test]
async fn passwords_are_needed_right_and_not_shown() {
    let servers = Servers::start(&["single", "--password", "hunter2"]);

    assert_eq!(answer(&connect(&with_user(&servers.url, ":hunter2")), &["INCR", "a"]).await, Value::Int(1));
    assert_eq!(answer(&connect(&with_user(&servers.url, "default:hunter2")), &["INCR", "a"]).await, Value::Int(2));
    for user in [":hunter3", "default:hunter3", "nobody:hunter2", ""] {
        let node = connect(&with_user(&servers.url, user));
        let why = down(&node).await;
        assert_eq!(why.kind(), "store_access", "{user}: {why}");
        assert!(!format!("{why:?}{node:?}").contains("hunter"), "{why:?} {node:?}");
    }
    let open = Servers::start(&["single"]);
    let why = down(&connect(&with_user(&open.url, ":hunter2"))).await;
    assert_eq!(why.kind(), "store_access", "{why}");
}

#[tokio::test]
async fn users_may_do_what_they_may() {
    let users = ["--acl", "user limiter on >p@ss:w/rd ~tg:* +get +set", "--acl", "user open on nopass ~* +@all"];
    let servers = Servers::start(&[&["single"][..], &users].concat());

    let node = connect(&with_user(&servers.url, "limiter:p%40ss%3Aw%2Frd"));
    assert_eq!(up(&node).await.version, None, "it may not ask, and is connected");
    assert_eq!(answer(&node, &["SET", "tg:a", "1"]).await, Value::Status("OK".into()));
    assert_eq!(answer(&node, &["SET", "other", "1"]).await.store_error().unwrap().kind(), "store_access");
    assert_eq!(answer(&connect(&with_user(&servers.url, "open:")), &["PING"]).await, Value::Status("PONG".into()));
}

#[tokio::test]
async fn a_large_pipeline_keeps_its_order() {
    let servers = Servers::start(&["single"]);
    let node = connect(&servers.url);
    up(&node).await;

    let calls: Vec<_> = (0..20_000).map(|_| call(&node, &["INCR", "a"])).collect();

    for (i, call) in (1..).zip(calls) {
        assert_eq!(call.await.unwrap(), Ok(Value::Int(i)));
    }
}

#[tokio::test]
async fn a_large_answer_is_read() {
    let servers = Servers::start(&["single"]);
    let node = connect(&servers.url);
    let text = "x".repeat(1 << 20);

    assert_eq!(answer(&node, &["SET", "a", &text]).await, Value::Status("OK".into()));
    let calls: Vec<_> = (0..20).map(|_| call(&node, &["GET", "a"])).collect();
    for call in calls {
        assert_eq!(call.await.unwrap(), Ok(Value::Bulk(text.as_bytes().into())));
    }
}

/// How many call at the same time.
const CALLERS: u64 = 64;

/// How calls ended.
#[derive(Debug, Default)]
struct Tally {
    answered: u64,
    lost: u64,
    unsent: u64,
}

/// Calls from many tasks until each has failed once.
async fn under_load(node: &Arc<Node>, servers: &Arc<Servers>, breaking: serde_json::Value) -> Tally {
    let callers: Vec<_> = (0..CALLERS)
        .map(|_| {
            let node = Arc::clone(node);
            tokio::spawn(async move {
                let mut answered = 0;
                loop {
                    match node.call(super::peer::command(&["INCR", "a"]), false).await {
                        Ok(Value::Int(_)) => answered += 1,
                        Ok(other) => panic!("{other:?}"),
                        Err(error) => return (answered, error),
                    }
                }
            })
        })
        .collect();
    for _ in 0..50 {
        answer(node, &["PING"]).await;
    }
    let servers = Arc::clone(servers);
    tokio::task::spawn_blocking(move || servers.command(&breaking)).await.unwrap();
    let mut tally = Tally::default();
    for caller in callers {
        let (answered, error) = caller.await.unwrap();
        tally.answered += answered;
        match error {
            CallError::Lost(_) => tally.lost += 1,
            CallError::NotSent(_) => tally.unsent += 1,
        }
    }
    tally
}

#[tokio::test]
async fn what_is_told_of_a_reset_connection_agrees_with_the_server() {
    let servers = Arc::new(Servers::start(&["single"]));
    let proxy = servers.command(&json!({"do": "proxy"}));
    let node = connect(proxy["url"].as_str().unwrap());
    up(&node).await;

    for _ in 0..5 {
        let before = servers.ask(&["GET", "a"]).as_str().map_or(0, |count| count.parse::<u64>().unwrap());
        let tally = under_load(&node, &servers, json!({"do": "fault", "proxy": 0, "fault": "reset"})).await;
        let ran = servers.ask(&["GET", "a"]).as_str().unwrap().parse::<u64>().unwrap() - before;

        assert!((tally.answered..=tally.answered + tally.lost).contains(&ran), "{ran} ran: {tally:?}");
        servers.command(&json!({"do": "fault", "proxy": 0, "fault": "pass_through"}));
        up(&node).await;
    }
}

#[tokio::test]
async fn a_killed_server_is_found_again_by_itself() {
    let servers = Arc::new(Servers::start(&["single"]));
    let node = connect(&servers.url);
    up(&node).await;

    let tally = under_load(&node, &servers, json!({"do": "kill"})).await;
    assert!(tally.answered > 0 && tally.lost + tally.unsent == CALLERS, "{tally:?}");
    assert_eq!(down(&node).await.kind(), "store_unavailable");

    servers.command(&json!({"do": "restart"}));
    up(&node).await;
    assert_eq!(answer(&node, &["INCR", "a"]).await, Value::Int(1));
}

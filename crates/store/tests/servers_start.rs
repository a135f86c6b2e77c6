//! The harness of the Python tests serves Rust tests as well.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::json;
use servers::Servers;

mod servers;

fn ping(address: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.write_all(b"PING\r\n").ok()?;
    let mut reply = [0; 7];
    stream.read_exact(&mut reply).ok()?;
    String::from_utf8(reply.to_vec()).ok()
}

fn address(url: &str) -> &str {
    url.strip_prefix("redis://").expect("the address of a single server")
}

#[test]
fn a_server_answers_until_it_is_dropped() {
    let servers = Servers::start(&["single"]);
    let address = address(&servers.url).to_owned();

    assert_eq!(Some("+PONG\r\n".to_owned()), ping(&address));

    drop(servers);

    assert_eq!(None, ping(&address));
}

#[test]
fn a_server_is_killed_and_comes_back_without_its_data() {
    let servers = Servers::start(&["single"]);

    assert_eq!("OK", servers.ask(&["SET", "a", "1"]));
    servers.command(&json!({"do": "kill"}));
    assert_eq!(None, ping(address(&servers.url)));
    servers.command(&json!({"do": "restart"}));
    assert_eq!(json!(null), servers.ask(&["GET", "a"]));
}

#[test]
fn a_proxy_refuses_connections_when_it_is_told() {
    let servers = Servers::start(&["single"]);
    let proxy = servers.command(&json!({"do": "proxy"}));
    let address = proxy["address"].as_str().expect("a proxy has an address");

    assert_eq!(Some("+PONG\r\n".to_owned()), ping(address));
    servers.command(&json!({"do": "fault", "proxy": 0, "fault": "refuse"}));
    assert_eq!(None, ping(address));
}

#[test]
fn a_server_that_is_not_installed_is_skipped_by_name() {
    if let Some(servers) = Servers::start_if_installed(&["single", "--server", "redis70"]) {
        assert_eq!(Some("+PONG\r\n".to_owned()), ping(address(&servers.url)));
    }
}

#[test]
#[should_panic(expected = "unknown command")]
fn an_error_of_the_server_fails_the_test() {
    Servers::start(&["single"]).ask(&["NOSUCHCOMMAND"]);
}

#[test]
fn a_cluster_is_told_to_move_a_slot() {
    let cluster = Servers::start(&["cluster", "--replicas", "0"]);
    let (source, target) = (&cluster.description["addresses"][0], &cluster.description["addresses"][1]);

    assert_eq!(source, &cluster.command(&json!({"do": "primary_of", "slot": 0})));
    cluster.command(&json!({"do": "migrate_slots", "slots": [0], "source": source, "target": target}));
    assert_eq!(target, &cluster.command(&json!({"do": "primary_of", "slot": 0})));
}

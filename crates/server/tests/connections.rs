//! How connections are taken, kept and ended.

mod serving;

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;
use tidegate_server::server::Address;
use tokio::io::AsyncWriteExt;

use serving::{Client, Door, answer, ask, connect, connect_to, rest, start, try_start};

#[tokio::test]
async fn both_versions_of_http_are_spoken_on_both_ports() {
    let server = start(&json!({}));
    let addresses = server.addresses().clone();
    for (name, address) in [("http", addresses.http), ("grpc", addresses.grpc)] {
        let mut old = connect_to(address.as_ref()).await;
        assert!(ask(&mut old, "/a").await.ends_with(&format!("\r\n\r\n{name} http/1.1 /a 127.0.0.1")));
        assert!(ask(&mut old, "/b").await.ends_with("/b 127.0.0.1"), "and the connection is kept");
        let mut new = Client::new(address.as_ref()).await;
        assert_eq!(new.ask("/c").await.expect("an answer"), (200, format!("{name} HTTP/2.0 /c 127.0.0.1")));
    }
}

#[tokio::test]
async fn a_first_line_in_pieces_is_understood() {
    let server = start(&json!({}));
    let mut stream = connect(&server).await;
    for piece in ["P", "R", "I /x HTTP", "/1.1\r\nhost: test\r\n", "\r\n"] {
        stream.write_all(piece.as_bytes()).await.expect("a server that reads");
        tokio::task::yield_now().await;
    }
    assert!(answer(&mut stream).await.ends_with("/x 127.0.0.1"));
}

#[tokio::test]
async fn connections_of_a_kind_are_spread_over_workers() {
    let server = start(&json!({"workers": 3}));
    let mut threads = BTreeMap::<String, usize>::new();
    let mut kept = Vec::new();
    for _ in 0..6 {
        let mut client = Client::new(server.addresses().grpc.as_ref()).await;
        *threads.entry(client.ask("/thread").await.expect("an answer").1).or_default() += 1;
        // One of HTTP comes with every other one of gRPC, and changes nothing.
        kept.push((client, connect(&server).await));
    }
    let even = ["tidegate-0", "tidegate-1", "tidegate-2"].map(|name| (name.to_owned(), 2));
    assert_eq!(threads, BTreeMap::from(even));
}

#[tokio::test]
async fn a_panic_costs_one_request() {
    let server = start(&json!({}));
    let mut old = connect(&server).await;
    assert!(ask(&mut old, "/panic").await.starts_with("http/1.1 500 "));
    assert!(ask(&mut old, "/x").await.starts_with("http/1.1 200 "));
    let mut new = Client::new(server.addresses().grpc.as_ref()).await;
    assert_eq!(new.ask("/panic").await.expect("an answer").0, 500);
    assert_eq!(new.ask("/x").await.expect("an answer").0, 200);
}

#[tokio::test]
async fn a_head_that_comes_too_slowly_is_ended() {
    let server = start(&json!({"limits.read_timeout": 1}));
    let mut stream = connect(&server).await;
    assert!(ask(&mut stream, "/x").await.starts_with("http/1.1 200 "));
    stream.write_all(b"GET / HTTP/1.1\r\nhost: te").await.expect("a server that reads");
    assert!(rest(&mut stream).await.starts_with("http/1.1 408 "));
}

#[tokio::test]
async fn who_says_nothing_is_not_waited_for() {
    let server = start(&json!({"limits.read_timeout": 0.2}));
    assert_eq!(rest(&mut connect(&server).await).await, "");
}

#[tokio::test]
async fn a_request_may_take_longer_than_its_head() {
    let server = start(&json!({"limits.read_timeout": 1}));
    let mut stream = connect(&server).await;
    stream.write_all(b"GET /wait/slow HTTP/1.1\r\nhost: test\r\n\r\n").await.expect("a server that reads");
    // Longer than the timeout: another connection is ended meanwhile.
    assert_eq!(rest(&mut connect(&server).await).await, "");
    assert_eq!(rest(&mut connect(&server).await).await, "");
    Door::named("slow").open();
    assert!(answer(&mut stream).await.starts_with("http/1.1 200 "));
}

#[tokio::test]
async fn idle_connections_are_ended_and_waiting_ones_are_not() {
    let server = start(&json!({"limits.idle_timeout": 1}));
    let mut waiting = Client::new(server.addresses().grpc.as_ref()).await;
    let news = tokio::spawn(async move { waiting.ask("/stream/idle").await });
    Door::named("idle").is_waited_for(1).await;
    for _ in 0..2 {
        let mut old = connect(&server).await;
        assert!(ask(&mut old, "/x").await.starts_with("http/1.1 200 "));
        assert_eq!(rest(&mut old).await, "");
        let mut new = Client::new(server.addresses().grpc.as_ref()).await;
        assert_eq!(new.ask("/x").await.expect("an answer").0, 200);
        new.connection.await.expect("no panic").expect("an end in peace");
    }
    Door::named("idle").open();
    assert_eq!(news.await.expect("no panic").expect("news"), (200, "news".to_owned()));
}

#[tokio::test]
async fn old_connections_are_asked_to_go() {
    let server = start(&json!({"limits.connection_age": 1}));
    let mut new = Client::new(server.addresses().grpc.as_ref()).await;
    let mut old = connect(&server).await;
    assert!(!ask(&mut old, "/x").await.contains("connection: close"));
    assert_eq!(new.ask("/x").await.expect("an answer").0, 200);
    new.connection.await.expect("no panic").expect("an end in peace");
    // That of HTTP/1 cannot be told before it asks.
    let mut said = String::new();
    while !said.contains("connection: close") {
        said = ask(&mut old, "/x").await;
        assert!(said.starts_with("http/1.1 200 "));
    }
    assert_eq!(rest(&mut old).await, "");
}

#[tokio::test]
async fn more_connections_than_allowed_wait_until_there_is_room() {
    let server = start(&json!({"limits.connections": 2}));
    let mut first = connect(&server).await;
    let mut second = connect(&server).await;
    assert!(ask(&mut first, "/1").await.contains("/1"));
    assert!(ask(&mut second, "/2").await.contains("/2"));
    let mut third = connect(&server).await;
    third.write_all(b"GET /3 HTTP/1.1\r\nhost: test\r\n\r\n").await.expect("a connection of the system");
    assert!(ask(&mut first, "/1").await.contains("/1"), "who is in is served");
    assert_eq!(server.connections(), 2);
    drop(second);
    assert!(answer(&mut third).await.contains("/3"));
}

#[tokio::test]
async fn heads_that_are_too_large_are_refused() {
    let server = start(&json!({"limits.head_bytes": 1_000}));
    for size in [1_000, 100_000] {
        let mut stream = connect(&server).await;
        let head = format!("GET / HTTP/1.1\r\nhost: test\r\nx: {}\r\n\r\n", "x".repeat(size));
        let (mut reads, mut writes) = stream.split();
        // The server may end the connection before it has read all.
        let (_, said) = tokio::join!(writes.write_all(head.as_bytes()), rest(&mut reads));
        assert!(said.starts_with("http/1.1 431 "), "{size}: {said}");
    }
    let mut client = Client::new(server.addresses().grpc.as_ref()).await;
    assert_eq!(client.ask(&format!("/{}", "x".repeat(1_000))).await.expect("an answer").0, 431);
    assert_eq!(client.ask("/x").await.expect("an answer").0, 200);
}

#[tokio::test]
async fn garbage_gets_an_answer() {
    let server = start(&json!({}));
    for garbage in ["\0\0\0\0", "hello\r\n\r\n", "\u{16}\u{3}\u{1}\u{2}\0", "PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n"] {
        let mut stream = connect(&server).await;
        stream.write_all(garbage.as_bytes()).await.expect("a server that reads");
        assert!(rest(&mut stream).await.starts_with("http/1.1 400 "), "{garbage:?}");
    }
    let mut stream = connect(&server).await;
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\ngarbage that is no frame of it").await.expect("a server that reads");
    let said = rest(&mut stream).await;
    assert!(said.as_bytes().windows(4).any(|bytes| bytes == [0, 0, 8, 7]), "a GOAWAY is in {said:?}");
    assert!(ask(&mut connect(&server).await, "/x").await.starts_with("http/1.1 200 "));
}

#[tokio::test]
async fn a_name_is_all_its_addresses() {
    let server = start(&json!({"http.listen": {"tcp": {"host": "localhost", "port": 0}}}));
    let Some(Address::Tcp(address)) = server.addresses().http else { panic!("an address") };
    assert!(address.ip().is_loopback());
    let mut stream = tokio::net::TcpStream::connect(("localhost", address.port())).await.expect("somebody who listens");
    assert!(ask(&mut stream, "/x").await.starts_with("http/1.1 200 "));
}

#[tokio::test]
async fn two_servers_share_a_port_if_both_want_to() {
    let first = start(&json!({"reuse_port": true}));
    let Some(Address::Tcp(address)) = first.addresses().http else { panic!("an address") };
    let listen = json!({"tcp": {"host": "127.0.0.1", "port": address.port()}});
    let second = start(&json!({"reuse_port": true, "http.listen": listen}));
    drop(first);
    assert!(ask(&mut connect(&second).await, "/x").await.starts_with("http/1.1 200 "));
    let error = try_start(&json!({"http.listen": listen})).expect_err("not this one").to_string();
    assert!(error.starts_with(&format!("http.listen: {address} is in use; ")), "{error}");
}

#[test]
fn what_keeps_a_server_from_starting_is_said() {
    for (host, expected) in [
        ("no.such.name.invalid", "grpc.listen: no address is known for \"no.such.name.invalid\""),
        ("192.0.2.1", "grpc.listen: 192.0.2.1:0 is no address of this machine; "),
    ] {
        let error = try_start(&json!({"grpc.listen": {"tcp": {"host": host, "port": 0}}})).expect_err(host).to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}

#[tokio::test]
async fn a_server_that_is_dropped_is_gone() {
    let server = start(&json!({"workers": 2}));
    let mut stream = connect(&server).await;
    assert!(ask(&mut stream, "/x").await.starts_with("http/1.1 200 "));
    let Some(Address::Tcp(address)) = server.addresses().http else { panic!("an address") };
    drop(server);
    assert_eq!(rest(&mut stream).await, "");
    assert!(std::net::TcpStream::connect_timeout(&address, Duration::from_secs(5)).is_err());
}

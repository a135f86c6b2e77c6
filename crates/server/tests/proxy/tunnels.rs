//! Connections that are no longer ones of HTTP.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::setup::{Running, Upstream, eventually, group, rule, to};

const UPGRADE: &str = "GET /echo HTTP/1.1\r\nhost: a\r\nconnection: keep-alive, Upgrade\r\nupgrade: websocket\r\n\r\n";

#[tokio::test]
async fn bytes_go_both_ways_and_the_slot_is_held_meanwhile() {
    let upstream = Upstream::start().await;
    let proxy = Running::start(&to(&group("app", &[upstream.url()], &json!({}))), &json!([rule("1 concurrent", &json!({}))]));
    let mut client = proxy.client().await;
    // What is sent before the answer has come is not lost.
    client.send(&format!("{UPGRADE}early")).await;
    let answer = client.answer().await;
    assert_eq!((answer.status(), answer.field("upgrade"), answer.field("connection")), (101, Some("websocket"), Some("upgrade")));
    let mut bytes = answer.body;
    while bytes.len() < 5 {
        client.0.read_buf(&mut bytes).await.expect("an echo");
    }
    assert_eq!(bytes, b"early");
    for word in ["one", "two"] {
        client.send(word).await;
        let mut echo = [0; 3];
        client.0.read_exact(&mut echo).await.expect("an echo");
        assert_eq!(echo, word.as_bytes());
    }
    assert_eq!(proxy.client().await.get("/").await.status(), 429, "the only slot is held");
    client.0.shutdown().await.expect("an end");
    assert_eq!(client.rest().await, "");
    let mut other = proxy.client().await;
    for _ in 0..100 {
        if other.get("/").await.status() == 200 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the slot was not given back");
}

#[tokio::test]
async fn only_web_sockets_are_tunnelled() {
    let upstream = Upstream::start().await;
    let proxy = Running::before(&group("app", &[upstream.url()], &json!({})));
    for fields in ["connection: upgrade\r\nupgrade: h2c", "upgrade: websocket", "connection: upgrade\r\nupgrade: websocket, h2c"]
    {
        let told = proxy.client().await.ask(&format!("GET / HTTP/1.1\r\nhost: a\r\n{fields}\r\n\r\n")).await.json();
        assert_eq!(told["headers"]["upgrade"], serde_json::Value::Null, "{fields}");
        assert_eq!(told["headers"]["connection"], serde_json::Value::Null, "{fields}");
    }
}

#[tokio::test]
async fn a_server_that_closes_cuts_tunnels_when_its_time_is_over() {
    let upstream = Upstream::start().await;
    let proxy = Running::before(&group("app", &[upstream.url()], &json!({})));
    let mut client = proxy.client().await;
    assert_eq!(client.ask(UPGRADE).await.status(), 101);
    assert_eq!(proxy.server.connections(), 1, "it is still one of the proxy's");
    let server = proxy.server;
    let draining = std::thread::spawn(move || server.drain(Duration::ZERO, Duration::from_millis(200)));
    eventually("it drains", || draining.is_finished()).await;
    assert_eq!(draining.join().expect("a drain"), 1);
    assert_eq!(client.rest().await, "");
}

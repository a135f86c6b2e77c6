//! Servers that are not there, take too long or break off.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::setup::{Running, Upstream, eventually, group, rule, to};

/// A server that does with its connections what a test says. It ends with the test's runtime.
pub(crate) async fn scripted<F>(act: impl Fn(usize, TcpStream) -> F + Send + 'static) -> (SocketAddr, JoinHandle<()>)
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    let task = tokio::spawn(async move {
        for number in 0.. {
            let (stream, _) = listener.accept().await.expect("a connection");
            tokio::spawn(act(number, stream));
        }
    });
    (address, task)
}

pub(crate) async fn read_head(stream: &mut TcpStream) -> String {
    let mut read = Vec::new();
    while !read.ends_with(b"\r\n\r\n") {
        if stream.read_buf(&mut read).await.unwrap_or(0) == 0 {
            break;
        }
    }
    String::from_utf8_lossy(&read).into_owned()
}

/// An address where nobody listens.
async fn nowhere() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    format!("http://{}", listener.local_addr().expect("an address"))
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_costs_no_request() {
    let upstream = Upstream::start().await;
    let proxy = Running::before(&group("app", &[nowhere().await, upstream.url(), nowhere().await], &json!({})));
    let mut client = proxy.client().await;
    for _ in 0..6 {
        // Nothing was sent, so any request may be tried elsewhere, with its body.
        let answer = client.ask("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nhello").await;
        assert_eq!(answer.json()["body"], "hello");
    }
    assert_eq!(upstream.asked(), 6);
}

#[tokio::test]
async fn a_server_that_breaks_off_costs_only_what_must_not_be_repeated() {
    // The first bytes are enough: a body may stand behind the head.
    let (address, _task) = scripted(|_, mut stream| async move { drop(stream.read(&mut [0; 1_024]).await) }).await;
    let upstream = Upstream::start().await;
    let breaks = format!("http://{address}");
    for (request, expected) in [
        ("GET / HTTP/1.1\r\nhost: a\r\n\r\n", 200),
        ("DELETE / HTTP/1.1\r\nhost: a\r\n\r\n", 200),
        ("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n", 502),
        ("PUT / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\n\r\nx", 502),
    ] {
        let before = upstream.asked();
        let proxy = Running::before(&group("app", &[breaks.clone(), upstream.url()], &json!({})));
        assert_eq!(proxy.client().await.ask(request).await.status(), expected, "{request}");
        assert_eq!(upstream.asked() - before, usize::from(expected == 200), "{request}");
    }
}

#[tokio::test]
async fn a_connection_that_does_not_come_is_waited_for_so_long_as_settings_say() {
    // Nobody accepts, and the queue is full: who connects waits.
    let full = tokio::net::TcpSocket::new_v4().expect("a socket");
    full.bind("127.0.0.1:0".parse().expect("an address")).expect("a free port");
    let listener = full.listen(1).expect("a socket that listens");
    let address = listener.local_addr().expect("an address");
    let _waiting: Vec<_> = (0..8).map(|_| tokio::spawn(TcpStream::connect(address))).collect();
    tokio::time::sleep(Duration::from_millis(50)).await;
    let by_connection = json!({"connect_timeout": 0.3, "total_timeout": 0, "retries": 0});
    let by_request = json!({"connect_timeout": 0, "total_timeout": 0.3, "retries": 5});
    for settings in [by_connection, by_request] {
        let proxy = Running::before(&group("app", &[format!("http://{address}")], &settings));
        assert_eq!(proxy.client().await.get("/").await.status(), 504, "{settings}");
    }
}

#[tokio::test]
async fn without_any_server_the_answer_is_a_problem() {
    let proxy = Running::before(&group("app", &[nowhere().await, nowhere().await], &json!({})));
    let mut client = proxy.client().await;
    let answer = client.get("/").await;
    assert_eq!((answer.status(), answer.field("content-type")), (502, Some("application/problem+json")));
    assert_eq!(client.get("/").await.status(), 502, "the connection of the client stays");
}

#[tokio::test]
async fn a_kept_connection_that_the_server_ends_is_not_the_clients_business() {
    let (address, _task) = scripted(|_, mut stream| async move {
        read_head(&mut stream).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.expect("a proxy that reads");
        // The next request on this connection is read and never answered.
        read_head(&mut stream).await;
    })
    .await;
    let proxy = Running::before(&group("app", &[format!("http://{address}")], &json!({})));
    let mut client = proxy.client().await;
    for _ in 0..5 {
        assert_eq!(client.get("/").await.status(), 200);
    }
    // A request that must not happen twice is not sent twice.
    let statuses = [
        client.ask("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n").await.status(),
        client.ask("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n").await.status(),
    ];
    assert!(statuses.contains(&502), "{statuses:?}");
}

#[tokio::test]
async fn a_server_that_takes_too_long_is_given_up() {
    let upstream = Upstream::start().await;
    for timeouts in [json!({"first_byte_timeout": 0.2}), json!({"total_timeout": 0.2})] {
        let proxy = Running::before(&group("app", &[upstream.url()], &timeouts));
        let answer = proxy.client().await.get("/wait").await;
        assert_eq!((answer.status(), answer.field("content-type")), (504, Some("application/problem+json")));
    }
}

#[tokio::test]
async fn a_client_that_stops_sending_its_body_is_told() {
    let upstream = Upstream::start().await;
    let proxy = Running::before(&group("app", &[upstream.url()], &json!({"idle_timeout": 0.3})));
    let mut client = proxy.client().await;
    client.send("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nhel").await;
    let answer = client.answer().await;
    assert_eq!((answer.status(), answer.field("connection")), (408, Some("close")));
}

#[tokio::test]
async fn a_response_that_breaks_off_does_not_look_complete() {
    let (address, _task) = scripted(|_, mut stream| async move {
        let head = read_head(&mut stream).await;
        let (framing, end) = if head.starts_with("GET /length") {
            ("content-length: 100", "")
        } else {
            ("transfer-encoding: chunked", "3\r\nbro\r\n")
        };
        let text = format!("HTTP/1.1 200 OK\r\n{framing}\r\n\r\n{end}");
        stream.write_all(text.as_bytes()).await.expect("a proxy that reads");
        if head.starts_with("GET /silent") {
            std::future::pending::<()>().await;
        }
    })
    .await;
    let proxy = Running::before(&group("app", &[format!("http://{address}")], &json!({"idle_timeout": 0.3})));
    for path in ["/length", "/chunked", "/silent"] {
        let mut client = proxy.client().await;
        client.send(&format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n")).await;
        let told = client.rest().await;
        // If it broke off at once, the client may hear nothing at all.
        assert!(told.is_empty() || told.starts_with("HTTP/1.1 200 OK"), "{told}");
        assert!(!told.ends_with("0\r\n\r\n"), "{told}");
    }
}

#[tokio::test]
async fn a_server_that_does_not_speak_http_is_a_bad_gateway() {
    let answers: [&'static [u8]; 4] = [
        b"220 mail.example.com ESMTP\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
        b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n",
        b"",
    ];
    for answer in answers {
        let (address, _task) = scripted(move |_, mut stream| async move {
            read_head(&mut stream).await;
            let _ = stream.write_all(answer).await;
        })
        .await;
        let proxy = Running::before(&group("app", &[format!("http://{address}")], &json!({})));
        assert_eq!(proxy.client().await.get("/").await.status(), 502, "{:?}", String::from_utf8_lossy(answer));
    }
}

#[tokio::test]
async fn a_client_that_goes_away_is_not_worked_for_any_longer() {
    let (sender, mut ended) = tokio::sync::mpsc::unbounded_channel();
    let (address, _task) = scripted(move |_, mut stream| {
        let sender = sender.clone();
        async move {
            read_head(&mut stream).await;
            sender.send("asked").expect("a test that waits");
            let mut more = [0; 1];
            let _ = stream.read(&mut more).await;
            sender.send("ended").expect("a test that waits");
        }
    })
    .await;
    let proxy = Running::before(&group("app", &[format!("http://{address}")], &json!({})));
    let mut client = proxy.client().await;
    client.send("GET / HTTP/1.1\r\nhost: a\r\n\r\n").await;
    assert_eq!(ended.recv().await, Some("asked"));
    drop(client);
    let end = tokio::time::timeout(Duration::from_secs(10), ended.recv()).await.expect("the connection ends");
    assert_eq!(end, Some("ended"));
}

#[tokio::test]
async fn a_client_that_does_not_take_what_it_asked_for_is_cut() {
    let upstream = Upstream::start().await;
    let rules = json!({"version": 1, "domain": "test", "rules": [rule("1 concurrent", &json!({}))]});
    let patience = json!({"limits.idle_timeout": 2});
    let proxy = Running::start_with(&to(&group("app", &[upstream.url()], &json!({}))), &rules, &patience);
    let mut client = proxy.client().await;
    client.send("GET /endless HTTP/1.1\r\nhost: a\r\n\r\n").await;
    eventually("the server is asked", || upstream.asked() == 1).await;
    eventually("the connection is cut", || proxy.server.connections() == 0).await;
    assert_eq!(proxy.client().await.get("/").await.status(), 200, "its slot is free");
}

#[tokio::test]
async fn a_client_that_waits_for_news_is_not_cut() {
    let upstream = Upstream::start().await;
    let rules = json!({"version": 1, "domain": "test", "rules": []});
    let patience = json!({"limits.idle_timeout": 1});
    let proxy = Running::start_with(&to(&group("app", &[upstream.url()], &json!({}))), &rules, &patience);
    let mut client = proxy.client().await;
    client.send("GET /wait HTTP/1.1\r\nhost: a\r\n\r\n").await;
    // Three times as long as a connection may be idle.
    tokio::time::sleep(Duration::from_secs(3)).await;
    upstream.door.notify_one();
    assert_eq!(client.answer().await.text(), "waited");
}

#[tokio::test]
async fn a_request_that_goes_in_circles_ends() {
    let upstream = Upstream::start().await;
    let proxy = Running::before(&group("app", &[upstream.url()], &json!({})));
    let via = "via: 1.1 tidegate, 1.0 other\r\n".repeat(8);
    let answer = proxy.client().await.ask(&format!("GET / HTTP/1.1\r\nhost: a\r\n{via}\r\n")).await;
    assert_eq!((answer.status(), upstream.asked()), (508, 0));
}

#[tokio::test]
async fn a_drain_loses_no_request() {
    let upstream = Upstream::start().await;
    let proxy = Running::before(&group("app", &[upstream.url()], &json!({})));
    let mut client = proxy.client().await;
    client.send("GET /wait HTTP/1.1\r\nhost: a\r\n\r\n").await;
    eventually("the server is asked", || upstream.asked() == 1).await;
    let server = proxy.server;
    let draining = std::thread::spawn(move || server.drain(Duration::ZERO, Duration::from_secs(15)));
    eventually("it drains", || proxy.app.is_draining()).await;
    upstream.door.notify_one();
    let answer = client.answer().await;
    assert_eq!((answer.status(), answer.text().as_str(), answer.field("connection")), (200, "waited", Some("close")));
    assert_eq!(draining.join().expect("a drain"), 0);
}

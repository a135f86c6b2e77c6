//! Clients and servers that stop in the middle, and what they must not hold.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::{Request, Response};
use hyper::client::conn::http2;
use hyper::server::conn::http2 as http2_server;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tidegate_server::body::Body;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::failures::{read_head, scripted};
use super::served::lengthy;
use super::setup::{Running, Upstream, group, rule, to};

const LARGE: usize = 1_024 * 1_024;
/// As much as is thrown away for a client that sends all before it reads.
const UPLOAD: usize = LARGE - 1;

/// Before one server with one slot, and with clients that may be idle for no longer than a busy machine stands still.
fn with_one_slot(server: &str, changes: &Value) -> Running {
    let rules = json!({"version": 1, "domain": "test", "rules": [rule("1 concurrent", &json!({}))]});
    let limits = json!({"limits.idle_timeout": 2, "limits.read_timeout": 2});
    Running::start_with(&to(&group("app", &[server.to_owned()], changes)), &rules, &limits)
}

/// Waits until the only slot is free.
async fn is_given_back(proxy: &Running) {
    let asking = async {
        // A connection that breaks off is an answer like any other: not yet.
        while !is_allowed(proxy).await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), asking).await.expect("the slot is given back");
}

async fn is_allowed(proxy: &Running) -> bool {
    let mut client = proxy.client().await;
    let sent = client.0.write_all(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await;
    sent.is_ok() && client.rest().await.starts_with("HTTP/1.1 200 ")
}

/// A server of HTTP/2, which answers `/large` with a lot. It counts connections, and says nothing on the first one if that is `silent`.
async fn http2_server(is_silent: bool) -> (String, Arc<AtomicUsize>) {
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    let (address, _) = scripted(move |number, stream| {
        counted.fetch_add(1, Ordering::SeqCst);
        async move {
            let service = service_fn(move |request: Request<_>| async move {
                if is_silent && number == 0 {
                    std::future::pending::<()>().await;
                }
                let _: &hyper::body::Incoming = request.body();
                let bytes = if request.uri().path() == "/large" { vec![b'x'; LARGE] } else { b"small".to_vec() };
                Ok::<_, Infallible>(Response::new(Body::full(bytes)))
            });
            let _ = http2_server::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
        }
    })
    .await;
    (format!("http://{address}"), connections)
}

#[tokio::test]
async fn a_client_of_http2_that_allows_no_bytes_holds_nothing_for_ever() {
    let proxy = with_one_slot(&lengthy(LARGE).await, &json!({}));
    let stream = TokioIo::new(TcpStream::connect(proxy.address()).await.expect("a proxy"));
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder.initial_stream_window_size(1_000).adaptive_window(false);
    let (mut requests, connection) = builder.handshake(stream).await.expect("HTTP/2");
    let connection = tokio::spawn(connection);
    let request = Request::get("http://shop.example.com/").body(Body::empty()).expect("a request");
    // Nobody reads its body.
    let response = requests.send_request(request).await.expect("a response");
    assert_eq!(proxy.client().await.get("/").await.status(), 429, "the only slot is held");
    is_given_back(&proxy).await;
    // Who is idle then is told to go, although a stream is open.
    let _ = tokio::time::timeout(Duration::from_secs(20), connection).await.expect("the connection ends");
    drop(response);
}

#[tokio::test]
async fn clients_that_do_not_read_hold_up_no_others_on_a_connection_of_http2() {
    let (server, connections) = http2_server(false).await;
    let proxy = Running::before(&group("app", &[server], &json!({"protocol": "http2"})));
    let mut idle = Vec::new();
    for _ in 0..12 {
        let mut client = proxy.client().await;
        client.send("GET /large HTTP/1.1\r\nhost: a\r\n\r\n").await;
        client.0.readable().await.expect("an answer");
        idle.push(client);
    }
    for _ in 0..3 {
        assert_eq!(proxy.client().await.get("/small").await.text(), "small");
    }
    assert_eq!(connections.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_connection_of_http2_that_is_silent_is_not_asked_again() {
    let (server, connections) = http2_server(true).await;
    let proxy = Running::before(&group("app", &[server], &json!({"protocol": "http2", "first_byte_timeout": 2})));
    let mut client = proxy.client().await;
    assert_eq!(client.get("/").await.status(), 504);
    assert_eq!(client.get("/").await.text(), "small");
    assert_eq!(connections.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_full_connection_of_http2_is_followed_by_another() {
    let upstream = Upstream::start_http2().await;
    let proxy = Running::before(&group("app", &[upstream.url()], &json!({"protocol": "http2"})));
    let stream = TokioIo::new(TcpStream::connect(proxy.address()).await.expect("a proxy"));
    let (requests, connection) = http2::handshake(TokioExecutor::new(), stream).await.expect("HTTP/2");
    tokio::spawn(connection);
    for _ in 0..100 {
        let request = Request::get("http://shop.example.com/wait").body(Body::empty()).expect("a request");
        let mut requests = requests.clone();
        tokio::spawn(async move { requests.send_request(request).await });
    }
    super::setup::eventually("all wait", || upstream.asked() == 100).await;
    assert_eq!(upstream.connections(), 1);
    assert_eq!(proxy.client().await.get("/").await.status(), 200);
    assert_eq!(upstream.connections(), 2);
}

#[tokio::test]
async fn what_a_server_says_before_it_has_read_a_body_is_heard_although_it_reads_no_more() {
    let (address, _) = scripted(|_, mut stream| async move {
        let mut bytes = [0; 1_024];
        let _ = stream.read(&mut bytes).await;
        let _ = stream.write_all(b"HTTP/1.1 413 Content Too Large\r\nconnection: close\r\ncontent-length: 3\r\n\r\nno!").await;
    })
    .await;
    let proxy = Running::before(&group("app", &[format!("http://{address}")], &json!({})));
    for _ in 0..5 {
        let mut client = proxy.client().await;
        client.send(&format!("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: {UPLOAD}\r\n\r\n")).await;
        let (mut reading, mut writing) = client.0.into_split();
        let sending = tokio::spawn(async move {
            let sent = writing.write_all(&vec![b'x'; UPLOAD]).await;
            // Who is dropped has ended, and waits for no answer.
            (sent, writing)
        });
        let mut begun = [0; 12];
        reading.read_exact(&mut begun).await.expect("an answer");
        assert_eq!(&begun, b"HTTP/1.1 413");
        sending.abort();
    }
}

#[tokio::test]
async fn a_server_that_takes_nothing_of_a_body_is_late_and_not_its_client() {
    let (address, _) = scripted(|_, stream| async move {
        std::future::pending::<()>().await;
        drop(stream);
    })
    .await;
    let changes = json!({"idle_timeout": 0.3, "first_byte_timeout": 0.3});
    let proxy = Running::before(&group("app", &[format!("http://{address}")], &changes));
    let client = proxy.client().await;
    let (mut reading, mut writing) = client.0.into_split();
    let length = 32 * LARGE;
    let sending = tokio::spawn(async move {
        let head = format!("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: {length}\r\n\r\n");
        writing.write_all(head.as_bytes()).await.expect("a proxy that reads");
        writing.write_all(&vec![b'x'; length]).await
    });
    let mut begun = [0; 12];
    reading.read_exact(&mut begun).await.expect("an answer");
    assert_eq!(&begun, b"HTTP/1.1 504");
    sending.abort();
}

#[tokio::test]
async fn a_tunnel_whose_server_has_ended_is_not_held_open_by_its_client() {
    let (address, _) = scripted(|number, mut stream| async move {
        read_head(&mut stream).await;
        let answer: &[u8] = if number == 0 {
            b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n"
        } else {
            b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        };
        stream.write_all(answer).await.expect("a proxy that reads");
    })
    .await;
    let proxy = with_one_slot(&format!("http://{address}"), &json!({"idle_timeout": 0.2}));
    let mut client = proxy.client().await;
    let answer = client.ask("GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n").await;
    assert_eq!(answer.status(), 101);
    is_given_back(&proxy).await;
    drop(client);
}

#[tokio::test]
async fn a_tunnel_whose_client_breaks_off_ends_at_once() {
    let upstream = Upstream::start().await;
    let proxy = with_one_slot(&upstream.url(), &json!({"idle_timeout": 0}));
    let mut client = proxy.client().await;
    let answer = client.ask("GET /echo HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n").await;
    assert_eq!(answer.status(), 101);
    socket2::SockRef::from(&client.0).set_linger(Some(Duration::ZERO)).expect("a socket");
    drop(client);
    is_given_back(&proxy).await;
}

#[tokio::test]
async fn a_slot_goes_back_when_the_server_breaks_off() {
    let (address, _) = scripted(|number, mut stream| async move {
        read_head(&mut stream).await;
        let length = if number == 0 { 10 } else { 2 };
        let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\nok");
        stream.write_all(answer.as_bytes()).await.expect("a proxy that reads");
    })
    .await;
    let proxy = with_one_slot(&format!("http://{address}"), &json!({}));
    let mut client = proxy.client().await;
    client.send("GET / HTTP/1.1\r\nhost: a\r\n\r\n").await;
    assert!(client.rest().await.ends_with("ok"), "what came of it");
    is_given_back(&proxy).await;
}

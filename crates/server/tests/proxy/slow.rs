//! Clients and servers that take their time, and who is given up for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tidegate_server::body::Body;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::failures::{read_head, scripted};
use super::served::{lengthy, read, serving};
use super::setup::{Running, eventually, group, rule, to};

/// More than all buffers on the way hold.
const LARGE: usize = 16 * 1_024 * 1_024;
const UPLOAD: usize = 100_000;

/// Before one server with one slot, whose clients may be idle for as long as they like.
fn with_one_slot(server: &str, changes: &Value) -> Running {
    let rules = json!({"version": 1, "domain": "test", "rules": [rule("1 concurrent", &json!({}))]});
    Running::start_with(&to(&group("app", &[server.to_owned()], changes)), &rules, &json!({"limits.idle_timeout": 3_600}))
}

/// Waits until another client is answered like that.
async fn until(proxy: &Running, status: u16) {
    let asking = async {
        while proxy.client().await.get("/").await.status() != status {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), asking).await.unwrap_or_else(|_| panic!("nobody was answered with {status}"));
}

#[tokio::test]
async fn a_server_that_has_read_a_body_and_says_nothing_is_late() {
    let (address, _) =
        scripted(|_, mut stream| async move { while stream.read(&mut [0; 1_024]).await.is_ok_and(|read| read > 0) {} }).await;
    for idle_timeout in [0, 3_600] {
        let changes = json!({"idle_timeout": idle_timeout, "first_byte_timeout": 0.3});
        let proxy = Running::before(&group("app", &[format!("http://{address}")], &changes));
        let mut client = proxy.client().await;
        client.send("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n1").await;
        // Until now it was the client who was waited for.
        tokio::time::sleep(Duration::from_millis(400)).await;
        assert_eq!(client.ask("2").await.status(), 504, "idle_timeout {idle_timeout}");
    }
}

#[tokio::test]
async fn a_response_that_its_client_does_not_take_ends_with_the_total_timeout() {
    let proxy = with_one_slot(&lengthy(LARGE).await, &json!({"total_timeout": 0.5}));
    let mut client = proxy.client().await;
    client.send("GET / HTTP/1.1\r\nhost: a\r\n\r\n").await;
    until(&proxy, 429).await;
    until(&proxy, 200).await;
    assert!(client.rest().await.len() < LARGE, "it does not look complete");
}

#[tokio::test]
async fn so_does_one_over_http2() {
    let proxy = with_one_slot(&lengthy(LARGE).await, &json!({"total_timeout": 0.5}));
    let stream = TokioIo::new(TcpStream::connect(proxy.address()).await.expect("a proxy"));
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder.initial_stream_window_size(1_000).adaptive_window(false);
    let (mut requests, connection) = builder.handshake(stream).await.expect("HTTP/2");
    tokio::spawn(connection);
    let request = Request::get("http://shop.example.com/").body(Body::empty()).expect("a request");
    // Nobody reads its body.
    let _response = requests.send_request(request).await.expect("a response");
    until(&proxy, 200).await;
    let request = Request::get("http://shop.example.com/").body(Body::empty()).expect("a request");
    assert_eq!(requests.send_request(request).await.expect("the connection stays").status(), 200);
}

#[tokio::test]
async fn an_upload_goes_on_behind_a_response_that_came_early() {
    let uploads = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&uploads);
    let (address, _) = scripted(move |_, mut stream| {
        let counted = Arc::clone(&counted);
        async move {
            while !read_head(&mut stream).await.is_empty() {
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.expect("a proxy that reads");
                counted.fetch_add(stream.read_exact(&mut [0; 5]).await.unwrap_or(0), Ordering::SeqCst);
            }
        }
    })
    .await;
    let rules = json!({"version": 1, "domain": "test", "rules": []});
    let settings = to(&group("app", &[format!("http://{address}")], &json!({})));
    let proxy = Running::start_with(&settings, &rules, &json!({"limits.read_timeout": 0.5}));
    let mut client = proxy.client().await;
    let head = "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\n";
    assert_eq!(client.ask(head).await.text(), "ok");
    for piece in ["1", "2", "3", "4", "5"] {
        // All of it takes longer than the head of a request may.
        tokio::time::sleep(Duration::from_millis(300)).await;
        client.send(piece).await;
    }
    eventually("all of it has come", || uploads.load(Ordering::SeqCst) == 5).await;
    assert_eq!(client.ask(head).await.text(), "ok", "the client was told nothing else");
}

#[tokio::test]
async fn uploads_of_a_gateway_that_no_server_reads_hold_up_no_others() {
    let server = serving(false, |request| async move {
        if request.uri().path() == "/never" {
            std::future::pending::<()>().await;
        }
        Response::new(Body::full(read(request.into_body()).await.bytes.to_string()))
    })
    .await;
    let mut settings = to(&group("app", &[server], &json!({})));
    settings["trusted_proxies"] = json!(["127.0.0.0/8"]);
    let proxy = Running::start(&settings, &json!([]));
    let gateway = proxy.http2_client().await;
    // More than the system takes for a server that does not read, so that the rest waits in the proxy.
    let body = Bytes::from(vec![b'x'; LARGE]);
    let upload = |path: &str, body: Bytes| {
        let mut gateway = gateway.clone();
        let request = Request::post(format!("http://a{path}")).header("content-length", body.len());
        let request = request.body(Body::full(body)).expect("a request");
        async move { gateway.send_request(request).await.map(|response| response.status().as_u16()) }
    };
    let _stuck: Vec<_> = (0..8).map(|_| tokio::spawn(upload("/never", body.clone()))).collect();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let answered = tokio::time::timeout(Duration::from_secs(15), upload("/read", body.slice(..UPLOAD))).await;
    assert_eq!(answered.expect("an answer in time").ok(), Some(200));
}

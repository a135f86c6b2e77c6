//! Connections of HTTP/1 to servers: those that requests drive themselves, and when hyper takes them over.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;

use super::failures::{read_head, scripted};
use super::setup::{Running, eventually, group};

/// A path; what a server answers there, in the pieces in which it sends it; and what the client gets: the status, the body, and a field.
type Case = (&'static str, &'static [&'static str], u16, &'static str, Option<(&'static str, &'static str)>);

const ANSWERS: [Case; 12] = [
    ("/plain", &["HTTP/1.1 200 OK\r\ncontent-length: 5\r\nx-a: 1\r\n\r\nhello"], 200, "hello", Some(("x-a", "1"))),
    ("/empty", &["HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"], 404, "", None),
    ("/parts", &["HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n", "he", "llo"], 200, "hello", None),
    ("/head-in-parts", &["HTTP/1.1 200 OK\r\ncontent-le", "ngth: 5\r\n\r\nhe", "llo"], 200, "hello", None),
    (
        "/chunks",
        &["HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhe\r\n", "3\r\nllo\r\n0\r\n\r\n"],
        200,
        "hello",
        None,
    ),
    (
        "/hints",
        &["HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n", "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"],
        200,
        "ok",
        None,
    ),
    ("/hint", &["HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"], 200, "ok", None),
    ("/nothing", &["HTTP/1.1 204 No Content\r\nx-a: 2\r\n\r\n"], 204, "", Some(("x-a", "2"))),
    ("/same", &["HTTP/1.1 304 Not Modified\r\netag: x\r\n\r\n"], 304, "", None),
    ("/reason", &["HTTP/1.1 200 Fine\r\ncontent-length: 2\r\n\r\nok"], 200, "ok", None),
    ("/twice", &["HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\nok!"], 502, "", None),
    ("/garbage", &["what?\r\n\r\n"], 502, "", None),
];

async fn answer(mut stream: TcpStream) {
    loop {
        let head = read_head(&mut stream).await;
        let Some(path) = head.split(' ').nth(1) else { return };
        for piece in ANSWERS.iter().find(|answer| answer.0 == path).map_or(&[][..], |answer| answer.1) {
            stream.write_all(piece.as_bytes()).await.expect("a proxy that reads");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

#[tokio::test]
async fn every_form_of_a_response_passes_on_a_new_connection_and_on_a_kept_one() {
    let (address, _task) = scripted(|_, stream| answer(stream)).await;
    let proxy = Running::before(&group("app", &[format!("http://{address}")], &json!({"retries": 0})));
    for (path, _, status, body, field) in ANSWERS {
        let fresh = Running::before(&group("app", &[format!("http://{address}")], &json!({"retries": 0})));
        for (proxy, kind) in [(&fresh, "new"), (&proxy, "kept"), (&proxy, "kept again")] {
            let mut client = proxy.client().await;
            let answer = client.get(path).await;
            assert_eq!(answer.status(), status, "{path} {kind}");
            if status != 502 {
                let told = (answer.text(), field.and_then(|(name, _)| answer.field(name)));
                let text = if answer.field("transfer-encoding").is_some() { unchunked(&told.0) } else { told.0 };
                assert_eq!((text.as_str(), told.1), (body, field.map(|(_, value)| value)), "{path} {kind}");
            }
            // Whatever it was, the next one is not mistaken for a part of it.
            assert_eq!(client.get("/plain").await.text(), "hello", "after {path} {kind}");
        }
    }
}

/// The content of chunks that are not longer than nine bytes.
fn unchunked(text: &str) -> String {
    text.split("\r\n").skip(1).step_by(2).collect()
}

#[tokio::test]
async fn plain_responses_and_others_share_kept_connections() {
    // hyper tells a little later that it has read everything, and nobody hears how much later. On a busy machine that may be too late once, but not always.
    for pause in [20, 20, 20, 100, 100, 500] {
        let connections = Arc::new(AtomicUsize::new(0));
        let came = Arc::clone(&connections);
        let (address, _task) = scripted(move |_, stream| {
            came.fetch_add(1, Ordering::SeqCst);
            answer(stream)
        })
        .await;
        let proxy = Running::before(&group("app", &[format!("http://{address}")], &json!({})));
        let mut client = proxy.client().await;
        for path in ["/plain", "/plain", "/parts", "/chunks", "/plain", "/chunks", "/nothing", "/plain"] {
            let status = client.get(path).await.status();
            assert!(status == 200 || status == 204, "{path}");
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
        if connections.load(Ordering::SeqCst) == 1 {
            return;
        }
    }
    panic!("a connection that could have been shared was not");
}

#[tokio::test]
async fn a_plain_response_that_breaks_off_does_not_look_complete() {
    let door = Arc::new(Notify::new());
    let opened = Arc::clone(&door);
    let (address, _task) = scripted(move |_, mut stream| {
        let opened = Arc::clone(&opened);
        async move {
            read_head(&mut stream).await;
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhello").await.expect("a proxy that reads");
            opened.notified().await;
        }
    })
    .await;
    let proxy = Running::before(&group("app", &[format!("http://{address}")], &json!({})));
    let mut client = proxy.client().await;
    client.send("GET / HTTP/1.1\r\nhost: a\r\n\r\n").await;
    let mut said = Vec::new();
    while !said.ends_with(b"hello") {
        assert!(client.0.read_buf(&mut said).await.expect("an answer") > 0, "{}", String::from_utf8_lossy(&said));
    }
    assert!(String::from_utf8_lossy(&said).contains("content-length: 10\r\n"));
    door.notify_one();
    assert_eq!(client.rest().await, "");
}

#[tokio::test]
async fn a_kept_connection_that_the_server_ends_is_ended_soon() {
    let ended = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&ended);
    let (address, _task) = scripted(move |_, mut stream| {
        let counted = Arc::clone(&counted);
        async move {
            read_head(&mut stream).await;
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.expect("a proxy that reads");
            stream.shutdown().await.expect("a connection");
            // The end of the proxy's side comes without any other request.
            assert_eq!(read_head(&mut stream).await, "");
            counted.fetch_add(1, Ordering::SeqCst);
        }
    })
    .await;
    let proxy = Running::before(&group("app", &[format!("http://{address}")], &json!({})));
    assert_eq!(proxy.client().await.get("/").await.text(), "ok");
    eventually("the proxy ends it too", || ended.load(Ordering::SeqCst) == 1).await;
}

#[tokio::test]
async fn what_a_server_says_unasked_is_nobodys_answer_also_to_a_client_that_asks_a_lot() {
    // How much a task may do before others get their turn is not ours to know: some number of requests uses it up.
    for count in 100..140 {
        let stray = Arc::new(Notify::new());
        let said = Arc::clone(&stray);
        let (address, _) = scripted(move |number, mut stream| {
            let said = Arc::clone(&said);
            async move {
                read_head(&mut stream).await;
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ntrue").await.expect("a proxy that reads");
                if number == 0 {
                    said.notified().await;
                    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nstray").await;
                    said.notify_one();
                }
                read_head(&mut stream).await;
            }
        })
        .await;
        let mut settings = super::setup::to(&group("app", &[format!("http://{address}")], &json!({})));
        settings["routes"][0]["path"] = json!("/a");
        let proxy = Running::start(&settings, &json!([]));
        assert_eq!(proxy.client().await.get("/a").await.text(), "true");
        stray.notify_one();
        tokio::task::yield_now().await;
        stray.notified().await;
        let mut client = proxy.client().await;
        client.send(&("GET / HTTP/1.1\r\nhost: a\r\n\r\n".repeat(count) + "GET /a HTTP/1.1\r\nhost: a\r\n\r\n")).await;
        let mut answers = Vec::new();
        while !answers.ends_with(b"true") && !answers.ends_with(b"stray") {
            assert!(client.0.read_buf(&mut answers).await.expect("answers") > 0, "the proxy ended the connection");
        }
        assert!(answers.ends_with(b"true"), "after {count}");
    }
}

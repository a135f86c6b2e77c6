//! Bodies of requests that break off, that nobody asks for, or that nobody wants.

use bytes::Bytes;
use http::{Request, Response};
use serde_json::{Value, json};
use tidegate_server::body::{Body, BrokenOff};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::failures::scripted;
use super::served::{Asking, Came, VERSIONS, pieces, read, read_and_tell, serving};
use super::setup::{PATIENCE, Running, Upstream, group, rule, to};

/// How an upload of ten bytes ends after the first five.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    AsItShould,
    /// The connection ends, or the stream is reset.
    BreaksOff,
    /// It says that this was all, which it was not.
    TooEarly,
}

/// A server that tells when something of a body has come, and what came of it in the end.
async fn listening(is_http2: bool) -> (String, mpsc::UnboundedReceiver<()>, mpsc::UnboundedReceiver<Came>) {
    let (begins, begun) = mpsc::unbounded_channel();
    let (ends, ended) = mpsc::unbounded_channel();
    let server = serving(is_http2, move |request| {
        let (begins, ends) = (begins.clone(), ends.clone());
        // On a task of its own, which is not dropped with its connection.
        let reading = tokio::spawn(async move {
            let tell = |_| begins.send(()).expect("a test that listens");
            let _ = ends.send(read_and_tell(request.into_body(), tell).await);
        });
        async move {
            let _ = reading.await;
            Response::new(Body::empty())
        }
    })
    .await;
    (server, begun, ended)
}

#[tokio::test]
async fn an_upload_that_breaks_off_never_looks_complete() {
    for (protocol, is_server_http2) in VERSIONS {
        let (server, mut begun, mut ended) = listening(is_server_http2).await;
        let proxy = Running::before(&group("app", &[server], &json!({"protocol": protocol})));
        for is_client_http2 in [false, true] {
            for (length, end) in [
                (None, End::AsItShould),
                (None, End::BreaksOff),
                (Some("10"), End::AsItShould),
                (Some("10"), End::BreaksOff),
                (Some("10"), End::TooEarly),
            ] {
                let case = format!("{protocol}, client {is_client_http2}, {length:?}, {end:?}");
                let mut client = Asking::connect(&proxy, is_client_http2).await;
                let (sender, body) = pieces();
                let head = Request::post("/");
                let head = if let Some(length) = length { head.header("content-length", length) } else { head };
                let sending = tokio::spawn(async move { client.send_with(head, body).await });
                sender.send(Ok(Bytes::from("hello"))).await.expect("a client that sends");
                timeout(PATIENCE, begun.recv()).await.expect(&case).expect("a server");
                match end {
                    End::AsItShould => sender.send(Ok(Bytes::from("world"))).await.expect("a client that sends"),
                    End::BreaksOff => sender.send(Err(BrokenOff)).await.expect("a client that sends"),
                    End::TooEarly => {}
                }
                drop(sender);
                let told = timeout(PATIENCE, ended.recv()).await.expect(&case).expect("a server");
                let (bytes, is_whole) = if end == End::AsItShould { (10, true) } else { (5, false) };
                assert_eq!((told.bytes, told.is_whole), (bytes, is_whole), "{case}");
                sending.abort();
                // The second piece was told, too.
                while begun.try_recv().is_ok() {}
            }
        }
    }
}

/// A server of HTTP/1 that says nothing before it has the body.
async fn silent() -> String {
    let (address, _) = scripted(|_, mut stream| async move {
        let mut heard = Vec::new();
        while !heard.ends_with(b"hello") {
            if stream.read_buf(&mut heard).await.unwrap_or(0) == 0 {
                return;
            }
        }
        let told = json!({"body": "hello"}).to_string();
        let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{told}", told.len());
        stream.write_all(answer.as_bytes()).await.expect("a proxy that reads");
    })
    .await;
    format!("http://{address}")
}

#[tokio::test]
async fn who_expects_to_be_told_to_go_on_is_told_although_the_server_says_nothing() {
    let upstream = Upstream::start_http2().await;
    for (protocol, server) in [("http1", silent().await), ("http2", upstream.url())] {
        let proxy = Running::before(&group("app", &[server], &json!({"protocol": protocol})));
        let mut client = proxy.client().await;
        client.send("POST / HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 5\r\n\r\n").await;
        assert_eq!(client.answer().await.head, "http/1.1 100 continue", "{protocol}");
        let answer = client.ask("hello").await;
        assert_eq!((answer.status(), &answer.json()["body"]), (200, &json!("hello")), "{protocol}");
    }
}

fn never(method: &str) -> Value {
    let test = json!([{"attribute": "method", "test": {"exact": [method]}, "not": false, "ignore_case": false}]);
    rule("0/minute", &json!({"match": test}))
}

#[tokio::test]
async fn a_denied_upload_over_http2_is_told_at_once_and_the_connection_goes_on() {
    let upstream = Upstream::start().await;
    let proxy = Running::start(&to(&group("app", &[upstream.url()], &json!({}))), &json!([never("POST")]));
    let mut client = Asking::connect(&proxy, true).await;
    let piece = Bytes::from(vec![b'x'; 64 * 1_024]);
    // Longer than what is thrown away, and together longer than what a connection may send ahead.
    for round in 1..=4 {
        let (sender, body) = pieces();
        sender.send(Ok(piece.clone())).await.expect("a body");
        let denied = timeout(PATIENCE, client.send("POST", "/", body)).await.expect("an answer before the end of the body");
        assert_eq!(denied.expect("an answer").status(), 429);
        let piece = piece.clone();
        let sending = tokio::spawn(async move {
            for _ in 0..64 {
                // It ends when the proxy wants no more.
                if sender.send(Ok(piece.clone())).await.is_err() {
                    break;
                }
            }
        });
        let next = timeout(PATIENCE, client.get("/")).await.expect("an answer beside it");
        assert_eq!((next.status().as_u16(), upstream.asked()), (200, round));
        timeout(PATIENCE, sending).await.expect("nobody sends for ever").expect("no panic");
    }
    let allowed = timeout(PATIENCE, client.send("PUT", "/", Body::full(vec![b'x'; 1_000_000]))).await.expect("an answer in time");
    let told: Value = serde_json::from_str(&read(allowed.expect("an answer").into_body()).await.text).expect("JSON");
    assert_eq!(told["bytes"], 1_000_000);
}

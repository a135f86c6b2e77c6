//! How long heads may be: those of requests, and those of responses.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{Request, Response};
use serde_json::json;
use tidegate_server::body::Body;
use tokio::io::AsyncWriteExt;

use super::failures::{read_head, scripted};
use super::served::{Asking, serving};
use super::setup::{Running, Upstream, group, to};

/// A server of HTTP/1 that answers with this head.
async fn saying(head: String) -> String {
    let (address, _) = scripted(move |_, mut stream| {
        let head = head.clone();
        async move {
            read_head(&mut stream).await;
            // Nobody has to read all of it.
            let _ = stream.write_all(format!("{head}\r\nok").as_bytes()).await;
            read_head(&mut stream).await;
        }
    })
    .await;
    format!("http://{address}")
}

/// The head of a response with so many fields.
fn of_fields(count: usize) -> String {
    let mut head = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n".to_owned();
    for number in 1..count {
        write!(head, "x-{number}: {number}\r\n").expect("a string");
    }
    head
}

/// The head of a response with so many bytes, its end included.
fn of_bytes(count: usize) -> String {
    let head = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nx: ";
    format!("{head}{}\r\n", "x".repeat(count - head.len() - 4))
}

#[tokio::test]
async fn a_head_of_a_response_may_be_long_but_not_too_long() {
    for (what, head, status) in [
        ("1,024 short fields", of_fields(1_024), 200),
        ("1,025 short fields", of_fields(1_025), 502),
        ("60,000 bytes", of_bytes(60_000), 200),
        ("65,535 bytes", of_bytes(65_535), 200),
        ("65,536 bytes", of_bytes(65_536), 502),
        ("1,000,000 bytes", of_bytes(1_000_000), 502),
    ] {
        let other = Upstream::start().await;
        let proxy = Running::before(&group("app", &[saying(head).await, other.url()], &json!({})));
        let answer = proxy.client().await.get("/").await;
        assert_eq!((answer.status(), other.asked()), (status, 0), "{what}");
        if status == 502 {
            let why = "the head of the upstream's response is too long or wrong";
            assert_eq!(answer.json()["detail"], why, "{what}");
        }
    }
}

#[tokio::test]
async fn a_head_of_a_response_over_http2_may_be_long_but_not_too_long() {
    for (length, status) in [(60_000, 200), (70_000, 502)] {
        let server = serving(true, move |_| async move {
            let mut response = Response::new(Body::full("ok"));
            response.headers_mut().insert("x", "x".repeat(length).parse().expect("a value"));
            response
        })
        .await;
        let other = Upstream::start_http2().await;
        let proxy = Running::before(&group("app", &[server, other.url()], &json!({"protocol": "http2"})));
        let answer = proxy.client().await.get("/").await;
        assert_eq!((answer.status(), other.asked()), (status, 0), "{length}: nobody else is asked");
    }
}

/// Over HTTP/2 only bytes are scarce, and each field takes 32 more than it has. Whether it is HTTP/2, how many short fields a request has with that of its host, how long its target is, and the status that answers it.
const REQUESTS: [(bool, usize, usize, u16); 11] = [
    (false, 100, 1, 200),
    (false, 101, 1, 431),
    (false, 700, 1, 431),
    (false, 1, 8_000, 200),
    (false, 1, 20_000, 431),
    (false, 1, 60_000, 431),
    (true, 100, 1, 200),
    (true, 300, 1, 200),
    (true, 700, 1, 431),
    (true, 1, 8_000, 200),
    (true, 1, 20_000, 431),
];

#[tokio::test]
async fn a_head_of_a_request_may_be_long_but_not_too_long() {
    // One that has no limits itself.
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let (address, _) = scripted(move |_, mut stream| {
        let counted = Arc::clone(&counted);
        async move {
            while !read_head(&mut stream).await.is_empty() {
                counted.fetch_add(1, Ordering::SeqCst);
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.expect("a proxy that reads");
            }
        }
    })
    .await;
    let asked = || asked.load(Ordering::SeqCst);
    let proxy = Running::before(&group("app", &[format!("http://{address}")], &json!({})));
    for (is_http2, fields, length, status) in REQUESTS {
        let case = format!("HTTP/2: {is_http2}, {fields} fields, a target of {length} bytes");
        let before = asked();
        let mut client = Asking::connect(&proxy, is_http2).await;
        let mut head = Request::get(format!("/{}", "x".repeat(length - 1)));
        for number in 1..fields {
            head = head.header(format!("x-{number}"), "1");
        }
        let answer = client.send_with(head, Body::empty()).await.expect(&case);
        assert_eq!(answer.status(), status, "{case}");
        assert_eq!(asked() - before, usize::from(status == 200), "{case}");
        if is_http2 {
            assert_eq!(client.get("/").await.status(), 200, "the next one on the connection: {case}");
        }
    }
}

#[tokio::test]
async fn a_target_that_is_too_long_for_any_program_is_refused_whatever_settings_say() {
    let upstream = Upstream::start().await;
    let rules = json!({"version": 1, "domain": "test", "rules": []});
    let settings = to(&group("app", &[upstream.url()], &json!({})));
    let proxy = Running::start_with(&settings, &rules, &json!({"limits.head_bytes": 200_000}));
    let target = |length: usize| format!("GET /{} HTTP/1.1\r\nhost: a\r\n\r\n", "x".repeat(length - 1));
    assert_eq!(proxy.client().await.ask(&target(60_000)).await.status(), 200);
    assert_eq!(proxy.client().await.ask(&target(65_535)).await.status(), 414);
    assert_eq!(upstream.asked(), 1);
}

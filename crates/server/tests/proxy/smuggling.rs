//! Requests that two programs could understand in two ways. None of them may reach a server in a form that says something else than this proxy read.

use serde_json::json;

use super::setup::{Running, Upstream, group};

/// What becomes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It is answered by an error, and no server hears of it.
    Refused,
    /// The server hears one request with this body, and the connection ends behind it.
    One(&'static str),
}

#[tokio::test]
async fn nothing_is_smuggled() {
    use Fate::{One, Refused};
    let upstream = Upstream::start().await;
    let proxy = Running::before(&group("app", &[upstream.url()], &json!({})));
    let hidden = "GET /hidden HTTP/1.1\r\nhost: a\r\n\r\n";
    let chunk = format!("0\r\n\r\n{hidden}");
    let table: Vec<(&str, String, Fate)> = vec![
        (
            "two different lengths",
            format!("content-length: 3\r\ncontent-length: {}\r\n\r\nabc{hidden}", 3 + hidden.len()),
            Refused,
        ),
        ("two lengths in one field", format!("content-length: 3, 4\r\n\r\nabc{hidden}"), Refused),
        ("a signed length", format!("content-length: +3\r\n\r\nabc{hidden}"), Refused),
        ("a negative length", "content-length: -1\r\n\r\n".to_owned(), Refused),
        ("a length with letters", "content-length: 0x3\r\n\r\nabc".to_owned(), Refused),
        ("a length beyond all numbers", "content-length: 99999999999999999999\r\n\r\n".to_owned(), Refused),
        ("an empty length", "content-length: \r\n\r\n".to_owned(), Refused),
        // The coding says more than the length (RFC 9112, 6.1), and the connection ends behind it.
        ("a length and then a coding", format!("content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n{chunk}"), One("")),
        ("a coding and then a length", format!("transfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n{chunk}"), One("")),
        ("a coding that is none", format!("transfer-encoding: xchunked\r\n\r\n{chunk}"), Refused),
        ("a coding before the last one", format!("transfer-encoding: gzip, chunked\r\n\r\n{chunk}"), Refused),
        ("two codings", format!("transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n{chunk}"), Refused),
        ("a coding that is not the last one", format!("transfer-encoding: chunked, identity\r\n\r\n{chunk}"), Refused),
        ("space before the colon", format!("transfer-encoding : chunked\r\n\r\n{chunk}"), Refused),
        ("space before the colon of a length", format!("content-length : 5\r\n\r\n{chunk}"), Refused),
        ("a folded field", format!("x-field: a\r\n transfer-encoding: chunked\r\n\r\n{chunk}"), Refused),
        ("a bare carriage return", "x-field: a\rtransfer-encoding: chunked\r\n\r\n".to_owned(), Refused),
        ("a zero byte", "x-field: a\0b\r\n\r\n".to_owned(), Refused),
        ("no name", ": value\r\n\r\n".to_owned(), Refused),
        ("two hosts", "host: b\r\n\r\n".to_owned(), Refused),
        ("a chunk with a wrong size", "transfer-encoding: chunked\r\n\r\n0x3\r\nabc\r\n0\r\n\r\n".to_owned(), Refused),
        ("a chunk with a negative size", "transfer-encoding: chunked\r\n\r\n-3\r\nabc\r\n0\r\n\r\n".to_owned(), Refused),
        ("a chunk that is too long", "transfer-encoding: chunked\r\n\r\n2\r\nabc\r\n0\r\n\r\n".to_owned(), Refused),
        ("a chunk beyond all numbers", "transfer-encoding: chunked\r\n\r\nfffffffffffffffff\r\nabc\r\n".to_owned(), Refused),
    ];
    for (what, rest, fate) in table {
        let before = upstream.asked();
        let mut client = proxy.client().await;
        client.send(&format!("POST /seen HTTP/1.1\r\nhost: a\r\n{rest}")).await;
        let told = client.rest().await;
        let statuses: Vec<&str> = told.split("HTTP/1.1 ").skip(1).map(|answer| answer.get(..3).unwrap_or_default()).collect();
        match fate {
            Refused => {
                // A body that turns out to be wrong may have reached a server in part, but never as a whole request, and nothing follows it.
                assert!(matches!(statuses[..], ["400" | "501"]), "{what}: {told}");
                assert!(!told.contains("/hidden"), "{what}: {told}");
            }
            One(body) => {
                assert_eq!(statuses, ["200"], "{what}: {told}");
                assert!(told.contains(&format!("\"body\":\"{body}\"")), "{what}: {told}");
                assert!(!told.contains("content-length\":"), "{what}: the server hears one length only: {told}");
                assert_eq!(upstream.asked(), before + 1, "{what}");
            }
        }
    }
}

#[tokio::test]
async fn targets_and_methods_that_lead_elsewhere_are_refused() {
    let upstream = Upstream::start().await;
    let proxy = Running::before(&group("app", &[upstream.url()], &json!({})));
    for (request, status) in [
        ("CONNECT example.com:443 HTTP/1.1\r\nhost: example.com:443\r\n\r\n", "405"),
        ("TRACE / HTTP/1.1\r\nhost: a\r\n\r\n", "405"),
        ("GET / HTTP/1.1\r\n\r\n", "400"),
        ("GET / HTTP/1.1\r\nhost: a b\r\n\r\n", "400"),
        ("GET / HTTP/1.1\r\nhost: user@a\r\n\r\n", "400"),
        ("GET * HTTP/1.1\r\nhost: a\r\n\r\n", "400"),
        ("GET /public/../admin HTTP/1.1\r\nhost: a\r\n\r\n", "400"),
        ("GET /public/%2E%2e/admin HTTP/1.1\r\nhost: a\r\n\r\n", "400"),
        ("GET /public/.%2e HTTP/1.1\r\nhost: a\r\n\r\n", "400"),
        ("GET /./ HTTP/1.1\r\nhost: a\r\n\r\n", "400"),
        ("GET  / HTTP/1.1\r\nhost: a\r\n\r\n", "400"),
        ("GET / HTTP/1.2\r\nhost: a\r\n\r\n", "400"),
        ("GE(T / HTTP/1.1\r\nhost: a\r\n\r\n", "400"),
    ] {
        let mut client = proxy.client().await;
        client.send(request).await;
        let answer = client.answer().await;
        assert_eq!(answer.status().to_string(), status, "{request:?}");
    }
    assert_eq!(upstream.asked(), 0);
}

#[tokio::test]
async fn the_target_says_more_than_the_field() {
    let upstream = Upstream::start().await;
    let proxy = Running::before(&group("app", &[upstream.url()], &json!({})));
    let told = proxy.client().await.ask("GET http://shop.example.com/a HTTP/1.1\r\nhost: other\r\n\r\n").await.json();
    assert_eq!((&told["uri"], &told["headers"]["host"]), (&json!("/a"), &json!("shop.example.com")));
    let told = proxy.client().await.ask("GET / HTTP/1.0\r\n\r\n").await.json();
    assert_eq!(told["headers"]["host"], upstream.address.to_string(), "one who knows no hosts");
    let told = proxy.client().await.get("/.well-known/..a/...?../").await.json();
    assert_eq!(told["uri"], "/.well-known/..a/...?../", "dots that mean nothing");
}

//! Requests that two programs could understand in two ways. None of them may reach a server in a form that says something else than this proxy read.

use serde_json::json;

use super::setup::{Running, Upstream, group};

#[tokio::test]
async fn nothing_is_smuggled() {
    let upstream = Upstream::start().await;
    let proxy = Running::before(&group("app", &[upstream.url()], &json!({})));
    let hidden = "GET /hidden HTTP/1.1\r\nhost: a\r\n\r\n";
    let chunk = format!("0\r\n\r\n{hidden}");
    let table: Vec<(&str, String)> = vec![
        ("two different lengths", format!("content-length: 3\r\ncontent-length: {}\r\n\r\nabc{hidden}", 3 + hidden.len())),
        ("two lengths in one field", format!("content-length: 3, 4\r\n\r\nabc{hidden}")),
        ("a signed length", format!("content-length: +3\r\n\r\nabc{hidden}")),
        ("a negative length", "content-length: -1\r\n\r\n".to_owned()),
        ("a length with letters", "content-length: 0x3\r\n\r\nabc".to_owned()),
        ("a length beyond all numbers", "content-length: 99999999999999999999\r\n\r\n".to_owned()),
        ("an empty length", "content-length: \r\n\r\n".to_owned()),
        ("a length and then a coding", format!("content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n{chunk}")),
        ("a coding and then a length", format!("transfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n{chunk}")),
        ("a coding and a length of nothing", format!("transfer-encoding: chunked\r\ncontent-length: 0\r\n\r\n{chunk}")),
        ("a coding and a length that is none", format!("transfer-encoding: chunked\r\ncontent-length: x\r\n\r\n{chunk}")),
        ("both, with bare line feeds", format!("transfer-encoding:chunked\nContent-Length:5\n\n{chunk}")),
        ("a coding that is none", format!("transfer-encoding: xchunked\r\n\r\n{chunk}")),
        ("a coding before the last one", format!("transfer-encoding: gzip, chunked\r\n\r\n{chunk}")),
        ("two codings", format!("transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n{chunk}")),
        ("a coding that is not the last one", format!("transfer-encoding: chunked, identity\r\n\r\n{chunk}")),
        ("space before the colon", format!("transfer-encoding : chunked\r\n\r\n{chunk}")),
        ("space before the colon of a length", format!("content-length : 5\r\n\r\n{chunk}")),
        ("a folded field", format!("x-field: a\r\n transfer-encoding: chunked\r\n\r\n{chunk}")),
        ("a bare carriage return", "x-field: a\rtransfer-encoding: chunked\r\n\r\n".to_owned()),
        ("a zero byte", "x-field: a\0b\r\n\r\n".to_owned()),
        ("no name", ": value\r\n\r\n".to_owned()),
        ("two hosts", "host: b\r\n\r\n".to_owned()),
        ("a chunk with a wrong size", "transfer-encoding: chunked\r\n\r\n0x3\r\nabc\r\n0\r\n\r\n".to_owned()),
        ("a chunk with a negative size", "transfer-encoding: chunked\r\n\r\n-3\r\nabc\r\n0\r\n\r\n".to_owned()),
        ("a chunk that is too long", "transfer-encoding: chunked\r\n\r\n2\r\nabc\r\n0\r\n\r\n".to_owned()),
        ("a chunk beyond all numbers", "transfer-encoding: chunked\r\n\r\nfffffffffffffffff\r\nabc\r\n".to_owned()),
    ];
    for (what, rest) in table {
        let mut client = proxy.client().await;
        client.send(&format!("POST /seen HTTP/1.1\r\nhost: a\r\n{rest}")).await;
        let told = client.rest().await;
        // A body that turns out to be wrong may have reached a server in part, but never as a whole request, and nothing follows it.
        assert!(matches!(statuses(&told)[..], ["400" | "501"]), "{what}: {told}");
        assert!(!told.contains("/hidden"), "{what}: {told}");
    }
}

#[tokio::test]
async fn a_length_beside_a_coding_is_refused_wherever_it_comes() {
    let upstream = Upstream::start().await;
    let proxy = Running::before(&group("app", &[upstream.url()], &json!({})));
    let plain = "POST /plain HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\nabc";
    let chunks = "POST /chunks HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\na: b\r\n\r\n";
    let both = "POST /both HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    let mut client = proxy.client().await;
    client.send(&[plain, chunks, plain, chunks, both, plain].concat()).await;
    let told = client.rest().await;
    assert_eq!(statuses(&told), ["200", "200", "200", "200", "400"], "all at once: {told}");
    assert!(told.contains("application/problem+json") && told.contains("not both"), "{told}");
    assert_eq!(upstream.asked(), 4);

    let mut client = proxy.client().await;
    for request in [chunks, plain] {
        assert_eq!(client.ask(request).await.status(), 200);
    }
    let (begun, rest) = both.split_at(both.find("gth: 3").unwrap_or_default());
    client.send(begun).await;
    tokio::task::yield_now().await;
    client.send(rest).await;
    let told = client.rest().await;
    assert_eq!(statuses(&told), ["400"], "in two pieces: {told}");
    assert_eq!(upstream.asked(), 6, "no server hears of it");
}

/// The statuses of all answers.
fn statuses(told: &str) -> Vec<&str> {
    told.split("HTTP/1.1 ").skip(1).map(|answer| answer.get(..3).unwrap_or_default()).collect()
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

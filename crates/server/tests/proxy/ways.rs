//! Plain requests over HTTP/1 take a short way from their client, and nobody can tell: whatever is sent, the client hears the same as on the long one, and
//! so does the server.
//!
//! The same bytes go to two proxies. To one of them as the first on their connection, so that whatever is plain is read without hyper; to the other one
//! behind a request that hyper has to read, which reads all that follow too. The server answers with the bytes that it heard.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};

use super::failures::scripted;
use super::setup::{Running, group, rule, to};

/// No route leads to its host, so nothing is counted; and it asks for trailers, so hyper reads it.
const FIRST: &str = "GET /first HTTP/1.1\r\nhost: elsewhere\r\nte: trailers\r\n\r\n";

/// The proxy ends the connection behind it.
const LAST: &str = "GET /last HTTP/1.1\r\nhost: a.test\r\nconnection: close\r\n\r\n";

/// A server that tells each request back, in a form that the path says.
async fn tell_back(mut stream: TcpStream) {
    let mut read = Vec::new();
    while let Some(heard) = next(&mut stream, &mut read).await {
        let path = heard.split(' ').nth(1).unwrap_or_default();
        let is_head = heard.starts_with("HEAD ");
        let times = [("huge", 20_000), ("long", 400)].iter().find(|(word, _)| path.contains(word)).map_or(1, |(_, times)| *times);
        let body = heard.repeat(times);
        let (fields, body) = match path {
            _ if path.contains("chunks") => ("transfer-encoding: chunked", format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len())),
            _ if path.contains("nothing") => ("x-none: 1", String::new()),
            _ if path.contains("ends") => ("connection: close", body),
            _ => ("connection: keep-alive", body),
        };
        let line = if path.contains("nothing") { "204 No Content" } else { "200 OK" };
        let length = if fields.starts_with("connection") { format!("content-length: {}\r\n", body.len()) } else { String::new() };
        let date = if path.contains("date") { "date: Thu, 01 Jan 1970 00:00:00 GMT\r\n" } else { "" };
        let body = if is_head { "" } else { &body };
        let answer = format!("HTTP/1.1 {line}\r\n{fields}\r\n{date}{length}x-a: 1\r\nx-a: 2\r\n\r\n{body}");
        if stream.write_all(answer.as_bytes()).await.is_err() || path.contains("ends") {
            return;
        }
    }
}

/// The next request, with its body.
async fn next(stream: &mut TcpStream, read: &mut Vec<u8>) -> Option<String> {
    loop {
        let text = String::from_utf8_lossy(read).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
            let is_chunked = head.contains("transfer-encoding: chunked");
            let end = if is_chunked { body.find("0\r\n\r\n").map(|end| end + 5) } else { Some(length.unwrap_or(0)) };
            if let Some(end) = end.filter(|&end| end <= body.len()) {
                let whole = head.len() + 4 + end;
                read.drain(..whole);
                return Some(text[..whole].to_owned());
            }
        }
        if stream.read_buf(read).await.unwrap_or(0) == 0 {
            return None;
        }
    }
}

/// Two proxies before one server.
struct Ways {
    short: (Running, PathBuf),
    long: (Running, PathBuf),
}

impl Ways {
    async fn start() -> Self {
        let (address, _) = scripted(|_, stream| tell_back(stream)).await;
        let start = || {
            static NUMBER: AtomicUsize = AtomicUsize::new(0);
            let name = format!("tidegate-ways-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::SeqCst));
            let log = std::env::temp_dir().join(name);
            let mut settings = to(&group("app", &[format!("http://{address}")], &json!({})));
            settings["request_id"] = Value::Null;
            settings["access_log"] = json!({"to": {"file": {"path": log}}, "format": "json", "query": true});
            settings["routes"][0]["hosts"] = json!(["*.test"]);
            (Running::start(&settings, &json!([rule("8/second", &json!({}))])), log)
        };
        Self { short: start(), long: start() }
    }

    /// What comes back for these bytes, on both ways.
    async fn ask(&self, bytes: &[u8]) -> [String; 2] {
        let mut short = self.short.0.client().await;
        let mut long = self.long.0.client().await;
        assert_eq!(long.ask(FIRST).await.status(), 404);
        let mut told = [String::new(), String::new()];
        for (client, told) in [&mut short, &mut long].into_iter().zip(&mut told) {
            // Who has heard that it is wrong may hear no more.
            let _ = client.0.write_all(&[bytes, LAST.as_bytes()].concat()).await;
            *told = without_dates(&client.rest().await);
        }
        for (proxy, _) in [&self.short, &self.long] {
            proxy.clock.advance(250_000_000);
        }
        told
    }

    /// The lines of both access logs, without times and what only one of them was asked. The proxies have stopped then: all is written.
    fn lines(&self) -> [Vec<Value>; 2] {
        self.short.0.server.stop();
        self.long.0.server.stop();
        let counted = |proxy: &Running| {
            let page = proxy.app.metrics.render(&proxy.app);
            let mut lines = page.lines().filter(|line| line.starts_with("ratelimit_checks_total"));
            lines.by_ref().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(counted(&self.short.0), counted(&self.long.0));
        let lines = |log: &PathBuf| -> Vec<Value> {
            let text = std::fs::read_to_string(log).unwrap_or_default();
            let entries = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
            let mut entries: Vec<Value> = entries.filter(|entry| entry["path"] != "/first").collect();
            for entry in &mut entries {
                for name in ["time", "decision_ms", "head_ms", "duration_ms"] {
                    entry.as_object_mut().expect("an object").remove(name);
                }
            }
            entries
        };
        [lines(&self.short.1), lines(&self.long.1)]
    }
}

impl Drop for Ways {
    fn drop(&mut self) {
        for (_, log) in [&self.short, &self.long] {
            let _ = std::fs::remove_file(log);
        }
    }
}

/// Answers without the time that it is: a second may have passed between them.
fn without_dates(told: &str) -> String {
    let is_now = |line: &str| line.starts_with("date: ") && line.ends_with(" GMT\r\n") && !line.contains("1970");
    told.split_inclusive("\r\n").map(|line| if is_now(line) { "date: now\r\n" } else { line }).collect()
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

const HOST: &str = "host: a.test\r\n";

#[test]
fn both_ways_answer_alike() {
    let get = |target: &str, fields: &str| format!("GET {target} HTTP/1.1\r\n{HOST}{fields}\r\n");
    let table = [
        get("/", ""),
        get("/a?b=c&d=%20", "x-api-key: 1\r\nX-Api-Key: 2\r\naccept: */*\r\ncookie: a=b\r\ncookie: c=d\r\n"),
        get("/date", "connection: Keep-Alive\r\nkeep-alive: 5\r\nproxy-connection: x\r\n"),
        get("/", "connection: x-one\r\nx-one: 1\r\n"),
        get("/", "x-forwarded-for: 1.2.3.4\r\nforwarded: for=1.2.3.4\r\nvia: 1.1 a\r\nx_forwarded_for: 5.6.7.8\r\n"),
        get("/chunks", "") + &get("/", ""),
        get("/nothing", "") + &get("/", ""),
        get("/ends", "") + &get("/", ""),
        get("/long", "") + &get("/long", ""),
        get("/huge", "") + &get("/", ""),
        get("/long/chunks", "te: trailers\r\n"),
        get("/", "connection: close\r\n"),
        get("/../a", ""),
        get("//a", ""),
        get("/\u{e4}", ""),
        get("/#a", ""),
        get("/", "x: \u{e4}\r\n"),
        get("/", "host: b.test\r\n"),
        get("/", "content-length: 0\r\n"),
        get("/", "content-length: 3\r\n") + "abc",
        get("/", "transfer-encoding: chunked\r\n") + "3\r\nabc\r\n0\r\n\r\n",
        get("/", "content-length: 3\r\ntransfer-encoding: chunked\r\n") + "3\r\nabc\r\n0\r\n\r\n",
        get("/", "upgrade: websocket\r\nconnection: upgrade\r\n"),
        get("/", &format!("x: {}\r\n", "y".repeat(9_000))),
        get("/", &"x: y\r\n".repeat(70)),
        get("/", &"x: y\r\n".repeat(101)),
        get("/", "").replace("GET", "HEAD"),
        get("/", "").replace("GET", "POST"),
        get("/", "").replace("GET", "OPTIONS").replace(" / ", " * "),
        get("/", "").replace("GET", "TRACE"),
        get("/", "").replace("GET", "get"),
        get("/", "").replace("HTTP/1.1", "HTTP/1.0"),
        get("/", "").replace("\r\n", "\n"),
        get("http://b.test/", ""),
        get("a.test:80", "").replace("GET", "CONNECT"),
        format!("\r\n\r\n{}", get("/", "")),
        "GET / HTTP/1.1\r\n\r\n".to_owned(),
        "GET / HTTP/1.1\r\nhost: b\r\n\r\n".to_owned(),
        "GET / HTTP/1.1\r\nhost: a b\r\n\r\n".to_owned(),
        "GET / HTTP/1.1\r\nhost: a.test\r\n x: y\r\n\r\n".to_owned(),
        "what?\r\n\r\n".to_owned(),
        get("/", "").repeat(30),
    ];
    runtime().block_on(async {
        let ways = Ways::start().await;
        for case in &table {
            let [short, long] = ways.ask(case.as_bytes()).await;
            assert_eq!(short, long, "{case:?}");
            assert!(short.starts_with("HTTP/1."), "{case:?}: {short}");
        }
        let [short, long] = ways.lines();
        assert_eq!(short, long);
    });
}

/// One of these, the first more often than any other.
fn often<T: Clone + std::fmt::Debug + 'static>(first: T, others: &[T]) -> impl Strategy<Value = T> + use<T> {
    prop_oneof![2 => Just(first), 1 => prop::sample::select(others.to_vec())]
}

/// A request, plain or not, or something like it.
fn request() -> impl Strategy<Value = String> {
    let method = often("GET", &["POST", "DELETE", "HEAD", "OPTIONS", "PATCH", "CONNECT", "TRACE", "get", "G(T", ""]);
    let target =
        often("/", &["/a/b?c=d", "/chunks", "/nothing", "/long", "/date", "*", "a", "http://b.test/", "/a b", "/%2e./", ""]);
    let version = often("HTTP/1.1", &["HTTP/1.0", "HTTP/1.2", "HTTP/2.0", ""]);
    let end = often("\r\n", &["\n", "\r", "\r\r\n"]);
    let field = often(
        "x-a: 1",
        &[
            "host: a.test",
            "Host:b.test",
            "host: elsewhere",
            "connection: keep-alive",
            "connection: keep-alive, x-a",
            "connection: close",
            "connection: x-a",
            "keep-alive: timeout=5",
            "via: 1.1 tidegate",
            "accept: ",
            "x-b:\ty ",
            "x-c : 1",
            " folded",
            "x-d: \x00",
            "x-e: \u{fc}",
            ": 1",
            "no colon",
            "content-length: 0",
            "content-length: 2",
            "content-length: +2",
            "content-length: 2, 2",
            "transfer-encoding: chunked",
            "transfer-encoding: identity",
            "te: trailers",
            "trailer: x-a",
            "upgrade: websocket",
            "expect: 100-continue",
        ],
    );
    let fields = prop::collection::vec(field, 0..5);
    let body = often("", &["ab", "0\r\n\r\n", "2\r\nab\r\n0\r\n\r\n", "\r\n"]);
    (method, target, version, end, fields, body, prop::bool::weighted(0.9)).prop_map(
        |(method, target, version, end, fields, body, has_host)| {
            let host = if has_host { vec!["host: a.test"] } else { vec![] };
            let lines =
                [vec![format!("{method} {target} {version}")], host.iter().chain(&fields).map(ToString::to_string).collect()];
            let lines: Vec<String> = lines.concat();
            format!("{}{end}{end}{body}", lines.join(end))
        },
    )
}

#[test]
fn both_ways_answer_alike_whatever_comes() {
    let runtime = runtime();
    let ways = runtime.block_on(Ways::start());
    let config = Config { cases: 300, failure_persistence: None, ..Config::default() };
    let requests = prop::collection::vec(request(), 1..4).prop_map(|requests| requests.concat());
    let tested = TestRunner::new(config).run(&requests, |bytes| {
        let [short, long] = runtime.block_on(ways.ask(bytes.as_bytes()));
        prop_assert_eq!(short, long);
        Ok(())
    });
    tested.unwrap_or_else(|error| panic!("{error}"));
    let [short, long] = ways.lines();
    assert_eq!(short, long);
}

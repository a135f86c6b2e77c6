//! Checks over real connections take a short way, and nobody can tell: whatever is sent is answered as it is on the long one.

mod serving;

use std::sync::Arc;

use serde_json::{Value, json};
use tidegate_server::app::App;
use tidegate_server::server::Server;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use serving::{answer, app_with, connect, rest};

const CHECK: &str = "POST /api/v1/rate-limit/check HTTP/1.1\r\nhost: test\r\n";

/// A service that allows everybody ten requests.
fn start(changes: &Value) -> Server {
    Server::start(app(changes)).expect("a server that starts")
}

fn app(changes: &Value) -> Arc<App> {
    let rule = json!({
        "name": "all", "per": ["client"], "quotas": [{"text": "10/hour"}], "cost": {"units": 1}, "mode": "enforce", "rollout": 10_000,
        "priority": 0, "stop": false, "headers": true,
    });
    app_with(&json!([rule]), changes)
}

fn check(fields: &str, body: &str) -> String {
    format!("{CHECK}content-length: {}\r\n{fields}\r\n{body}", body.len())
}

/// Sends some bytes on a connection of their own and reads the first answer: its status and its body.
async fn first(server: &Server, bytes: &str) -> (String, Value) {
    let mut stream = connect(server).await;
    stream.write_all(bytes.as_bytes()).await.expect("a server that reads");
    read(&mut stream).await
}

async fn read(stream: &mut TcpStream) -> (String, Value) {
    let text = answer(stream).await;
    let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
    let status = head.split(' ').nth(1).expect("a status").to_owned();
    (status, serde_json::from_str(body).unwrap_or(Value::Null))
}

#[tokio::test]
async fn both_ways_answer_alike() {
    let server = start(&json!({}));
    let bodies = ["{\"client_id\": \"a\"}", "{\"client_id\": \"a\", \"cost\": 10}", "{\"client_id\": \"a\", \"cost\": 11}", "{}"];
    for (number, body) in bodies.iter().enumerate() {
        let mut answers = Vec::new();
        for (client, fields) in
            [("x", ""), ("y", "x-request-id: 7\r\nconnection: keep-alive\r\n"), ("z", "connection: upgrade\r\n")]
        {
            let body = body.replace("\"a\"", &format!("\"{client}{number}\""));
            let mut stream = connect(&server).await;
            stream.write_all(check(fields, &body).as_bytes()).await.expect("a server that reads");
            let text = answer(&mut stream).await;
            let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
            let mut names: Vec<&str> = head.lines().skip(1).filter_map(|line| line.split(':').next()).collect();
            names.sort_unstable();
            let mut body: Value = serde_json::from_str(body).expect("JSON");
            // A second may have passed between them.
            body["reset_at"] = Value::Null;
            body["quotas"] = Value::Null;
            body["reset_after"] = Value::Null;
            answers.push((head.lines().next().map(str::to_owned), names.join(" "), body));
        }
        assert_eq!(answers[0], answers[1], "{body}");
        assert_eq!(answers[0], answers[2], "{body}");
        assert_eq!(answers[0].1, "cache-control content-length content-type date");
    }
}

#[tokio::test]
async fn whatever_is_special_is_answered_as_always() {
    let server = start(&json!({"limits.body_bytes": 100}));
    let body = "{\"client_id\": \"b\"}";
    let length = body.len();
    let chunked = format!("{CHECK}transfer-encoding: chunked\r\n\r\n{length:x}\r\n{body}\r\n0\r\n\r\n");
    let table = [
        (chunked, "200"),
        // Chunks win over a length, as RFC 9112 has it.
        (
            format!("{CHECK}content-length: {length}\r\ntransfer-encoding: chunked\r\n\r\n{length:x}\r\n{body}\r\n0\r\n\r\n"),
            "200",
        ),
        (format!("{CHECK}content-length: {length}\r\ncontent-length: 3\r\n\r\n{body}"), "400"),
        (format!("{CHECK}content-length: +{length}\r\n\r\n{body}"), "400"),
        (format!("{CHECK}content-length : {length}\r\n\r\n{body}"), "400"),
        (check("content-type: text/plain\r\n", body), "415"),
        (check("content-type: application/json; charset=utf-8\r\n", body), "200"),
        (check("", "{\"client\": 1}"), "400"),
        (check("", "{\"cost\": -1}"), "400"),
        (check("", &format!("{{\"client_id\": \"{}\"}}", "x".repeat(100))), "413"),
        (check("", body).replace("/check", "/check?x=1"), "200"),
        (check("", body).replace("/check", "/checks"), "404"),
        (check("", body).replace("POST", "PUT"), "405"),
        (check("", body).replace("HTTP/1.1", "HTTP/1.0"), "200"),
        (check("", body).replacen("POST", "\r\nPOST", 1), "200"),
        (check(&"x: y\r\n".repeat(90), body), "200"),
        (format!("{CHECK}\r\n"), "400"),
    ];
    for (bytes, expected) in table {
        assert_eq!(first(&server, &bytes).await.0, expected, "{bytes}");
    }
}

#[tokio::test]
async fn a_request_to_continue_is_answered_twice() {
    let server = start(&json!({}));
    let mut stream = connect(&server).await;
    let (head, body) = (format!("{CHECK}content-length: 2\r\nexpect: 100-continue\r\n\r\n"), "{}");
    stream.write_all(head.as_bytes()).await.expect("a server that reads");
    assert!(answer(&mut stream).await.starts_with("http/1.1 100 "));
    stream.write_all(body.as_bytes()).await.expect("a server that reads");
    assert_eq!(read(&mut stream).await.0, "200");
}

#[tokio::test]
async fn requests_in_one_piece_and_in_many_are_counted_once_each() {
    let server = start(&json!({}));
    let request = check("", "{\"client_id\": \"c\"}");
    let mut stream = connect(&server).await;
    // Three at once, and the beginning of a fourth.
    let (begin, end) = request.split_at(50);
    stream.write_all(format!("{request}{request}{request}{begin}").as_bytes()).await.expect("a server that reads");
    let mut said = String::new();
    while said.matches("\"remaining\":7,\"reset_at\"").count() == 0 {
        said += &answer(&mut stream).await;
    }
    assert_eq!(said.matches("http/1.1 200 ok").count(), 3);
    stream.write_all(end.as_bytes()).await.expect("a server that reads");
    assert_eq!(read(&mut stream).await.1["remaining"], 6);
    stream.write_all(request.as_bytes()).await.expect("a server that reads");
    assert_eq!(read(&mut stream).await.1["remaining"], 5);
}

#[tokio::test]
async fn a_connection_can_change_its_way_and_ends_in_peace() {
    let server = start(&json!({}));
    let mut stream = connect(&server).await;
    let request = check("", "{\"client_id\": \"d\"}");
    for remaining in [9, 8] {
        stream.write_all(request.as_bytes()).await.expect("a server that reads");
        assert_eq!(read(&mut stream).await.1["remaining"], remaining);
    }
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: test\r\n\r\n").await.expect("a server that reads");
    assert_eq!(read(&mut stream).await.1["status"], "ok");
    stream.write_all(check("connection: close\r\n", "{\"client_id\": \"d\"}").as_bytes()).await.expect("a server that reads");
    let said = rest(&mut stream).await;
    assert!(said.contains("\"remaining\":7,") && said.contains("connection: close"), "{said}");
}

#[tokio::test]
async fn the_token_is_asked_for() {
    let server = start(&json!({"http.token": "secret"}));
    let body = "{\"client_id\": \"e\"}";
    for (fields, expected) in [
        ("", "401"),
        ("authorization: Bearer wrong\r\n", "401"),
        ("authorization: Bearer secret\r\n", "200"),
        ("X-Tidegate-Token: secret\r\n", "200"),
        ("authorization: Bearer secret\r\nauthorization: Bearer wrong\r\n", "200"),
        ("authorization: Bearer wrong\r\nauthorization: Bearer secret\r\n", "401"),
    ] {
        assert_eq!(first(&server, &check(fields, body)).await.0, expected, "{fields}");
    }
}

#[tokio::test]
async fn idle_and_old_connections_are_ended() {
    let server = start(&json!({"limits.idle_timeout": 0.2}));
    let mut stream = connect(&server).await;
    stream.write_all(check("", "{}").as_bytes()).await.expect("a server that reads");
    assert_eq!(read(&mut stream).await.0, "200");
    assert_eq!(rest(&mut stream).await, "");

    let server = start(&json!({"limits.connection_age": 0.2}));
    let mut stream = connect(&server).await;
    let mut said = String::new();
    while !said.contains("connection: close") {
        stream.write_all(check("", "{}").as_bytes()).await.expect("a server that reads");
        said = answer(&mut stream).await;
        assert!(said.starts_with("http/1.1 200 "));
    }
    assert_eq!(rest(&mut stream).await, "");
}

#[tokio::test]
async fn a_server_that_drains_says_so_with_its_last_answer() {
    let app = app(&json!({}));
    let server = Server::start(Arc::clone(&app)).expect("a server that starts");
    let mut stream = connect(&server).await;
    stream.write_all(check("", "{}").as_bytes()).await.expect("a server that reads");
    assert!(!answer(&mut stream).await.contains("connection: close"));
    app.begin_drain();
    stream.write_all(check("", "{}").as_bytes()).await.expect("a server that reads");
    assert!(rest(&mut stream).await.contains("connection: close"));
}

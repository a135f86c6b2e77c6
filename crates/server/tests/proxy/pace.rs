//! How fast bodies go: as fast as the slower side, however slow that is, until the time for all of it is over.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::Incoming;
use serde_json::json;
use tidegate_server::body::{Body, BrokenOff};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::served::{Asking, VERSIONS, pieces, read, read_slowly, serving};
use super::setup::{PATIENCE, Running, group, to};

/// One piece after the other, as steadily as the machine lets it.
async fn drip(sender: mpsc::Sender<Result<Bytes, BrokenOff>>, count: usize) {
    for _ in 0..count {
        sleep(Duration::from_millis(100)).await;
        if sender.send(Ok(Bytes::from("x"))).await.is_err() {
            return;
        }
    }
}

/// A body that comes so slowly.
fn dripping(count: usize) -> Body {
    let (sender, body) = pieces();
    tokio::spawn(drip(sender, count));
    body
}

/// Answers slowly, with so many bytes; a request with a body is answered with its length.
async fn answer_slowly(request: Request<Incoming>, count: usize) -> Response<Body> {
    let says_length = request.uri().path().ends_with("/length");
    if request.method() == "POST" {
        let body = read(request.into_body()).await;
        return Response::new(Body::full(if body.is_whole { body.bytes.to_string() } else { "broken".to_owned() }));
    }
    let mut response = Response::new(dripping(count));
    if says_length {
        response.headers_mut().insert("content-length", count.into());
    }
    response
}

#[tokio::test]
async fn what_is_slow_and_steady_is_not_cut() {
    const COUNT: usize = 25;
    let patience = json!({"limits.idle_timeout": 1, "limits.read_timeout": 1});
    let rules = json!({"version": 1, "domain": "test", "rules": []});
    let mut cases = JoinSet::new();
    for (protocol, is_server_http2) in VERSIONS {
        let server = serving(is_server_http2, |request| answer_slowly(request, COUNT)).await;
        let settings = group("app", &[server], &json!({"protocol": protocol, "idle_timeout": 1, "first_byte_timeout": 1}));
        let proxy = Arc::new(Running::start_with(&to(&settings), &rules, &patience));
        for (is_client_http2, path) in [(false, "/length"), (false, "/"), (true, "/length"), (true, "/")] {
            let case = format!("{protocol}, client {is_client_http2}, {path}");
            let (down, down_case) = (Arc::clone(&proxy), case.clone());
            cases.spawn(async move {
                let mut client = Asking::connect(&down, is_client_http2).await;
                let body = read(client.get(path).await.into_body()).await;
                assert_eq!((body.bytes, body.is_whole), (COUNT, true), "down: {down_case}");
            });
            let up = Arc::clone(&proxy);
            cases.spawn(async move {
                let mut client = Asking::connect(&up, is_client_http2).await;
                let head = Request::post(path);
                let head = if path == "/length" { head.header("content-length", COUNT) } else { head };
                let response = client.send_with(head, dripping(COUNT)).await.expect("a response");
                assert_eq!(read(response.into_body()).await.text, COUNT.to_string(), "up: {case}");
            });
        }
    }
    while let Some(case) = cases.join_next().await {
        case.expect("no panic");
    }
}

#[tokio::test]
async fn a_response_that_takes_too_long_as_a_whole_does_not_look_complete() {
    const COUNT: usize = 1_000;
    let mut cases = JoinSet::new();
    for (protocol, is_server_http2) in VERSIONS {
        let server = serving(is_server_http2, |request| answer_slowly(request, COUNT)).await;
        let proxy = Arc::new(Running::before(&group("app", &[server], &json!({"protocol": protocol, "total_timeout": 2}))));
        for (is_client_http2, path) in [(false, "/length"), (false, "/"), (true, "/length"), (true, "/")] {
            let case = format!("{protocol}, client {is_client_http2}, {path}");
            let proxy = Arc::clone(&proxy);
            cases.spawn(async move {
                let mut client = Asking::connect(&proxy, is_client_http2).await;
                let response = client.get(path).await;
                assert_eq!(response.status(), 200, "{case}");
                let body = timeout(PATIENCE, read(response.into_body())).await.expect("an end long before the last byte");
                assert!(!body.is_whole && body.bytes < COUNT, "{case}: {body:?}");
            });
        }
    }
    while let Some(case) = cases.join_next().await {
        case.expect("no panic");
    }
}

const PIECE: usize = 64 * 1_024;
const PIECES: usize = 1_024;
/// What sockets and windows on the way may hold: systems give them as much as seems to help. It is far less than all.
const HELD_MAX: usize = 24 * 1_024 * 1_024;

/// Sends a long body, and counts what was taken of it.
fn counted() -> (Arc<AtomicUsize>, Body) {
    let taken = Arc::new(AtomicUsize::new(0));
    let counting = Arc::clone(&taken);
    let (sender, body) = pieces();
    tokio::spawn(async move {
        let piece = Bytes::from(vec![b'x'; PIECE]);
        while counting.load(Ordering::SeqCst) < PIECE * PIECES && sender.send(Ok(piece.clone())).await.is_ok() {
            counting.fetch_add(PIECE, Ordering::SeqCst);
        }
    });
    (taken, body)
}

/// What is taken when no more has been for a while.
async fn standing_still(taken: &AtomicUsize) -> usize {
    let mut seen = 0;
    loop {
        sleep(Duration::from_millis(500)).await;
        let now = taken.load(Ordering::SeqCst);
        if now == seen && now > 0 {
            return now;
        }
        seen = now;
    }
}

/// A server that answers with a long body, and tells how to know what was taken of it.
async fn sending(is_http2: bool) -> (String, mpsc::UnboundedReceiver<Arc<AtomicUsize>>) {
    let (sender, bodies) = mpsc::unbounded_channel();
    let server = serving(is_http2, move |request| {
        let (taken, body) = counted();
        let _ = sender.send(taken);
        let mut response = Response::new(body);
        if request.uri().path() == "/length" {
            response.headers_mut().insert("content-length", (PIECE * PIECES).into());
        }
        async { response }
    })
    .await;
    (server, bodies)
}

#[tokio::test]
async fn the_time_for_a_whole_response_is_over_also_if_it_is_the_client_who_is_slow() {
    let mut cases = JoinSet::new();
    for (protocol, is_server_http2) in VERSIONS {
        let (server, _) = sending(is_server_http2).await;
        let proxy = Arc::new(Running::before(&group("app", &[server], &json!({"protocol": protocol, "total_timeout": 2}))));
        for (is_client_http2, path) in [(false, "/length"), (false, "/"), (true, "/")] {
            let proxy = Arc::clone(&proxy);
            cases.spawn(async move {
                let response = Asking::connect(&proxy, is_client_http2).await.get(path).await;
                assert_eq!(response.status(), 200, "{protocol}, client {is_client_http2}, {path}");
                // The server has more all the time, so it is never waited for.
                let body = timeout(PATIENCE, read_slowly(response.into_body())).await.expect("an end long before the last byte");
                assert!(!body.is_whole, "{protocol}, client {is_client_http2}, {path}: {} bytes", body.bytes);
            });
        }
    }
    while let Some(case) = cases.join_next().await {
        case.expect("no panic");
    }
}

#[tokio::test]
async fn a_response_is_taken_from_a_server_only_as_fast_as_its_client_reads() {
    for (protocol, is_server_http2) in VERSIONS {
        for (is_client_http2, path) in [(false, "/length"), (false, "/"), (true, "/")] {
            let case = format!("{protocol}, client {is_client_http2}, {path}");
            let (server, mut bodies) = sending(is_server_http2).await;
            let proxy = Running::before(&group("app", &[server], &json!({"protocol": protocol})));
            let response = Asking::connect(&proxy, is_client_http2).await.get(path).await;
            let taken = bodies.recv().await.expect("a server that was asked");
            let stuck = timeout(PATIENCE, standing_still(&taken)).await.expect("a response that stands still");
            assert!(stuck <= HELD_MAX, "{case}: {stuck} bytes");
            let body = read(response.into_body()).await;
            assert_eq!((body.bytes, body.is_whole), (PIECE * PIECES, true), "{case}");
        }
    }
}

#[tokio::test]
async fn an_upload_is_taken_from_a_client_only_as_fast_as_its_server_reads() {
    for (protocol, is_server_http2) in VERSIONS {
        for (is_client_http2, says_length) in [(false, true), (false, false), (true, false)] {
            let case = format!("{protocol}, client {is_client_http2}, {says_length}");
            let door = Arc::new(Notify::new());
            let opened = Arc::clone(&door);
            let server = serving(is_server_http2, move |request| {
                let opened = Arc::clone(&opened);
                async move {
                    opened.notified().await;
                    answer_slowly(request, 0).await
                }
            })
            .await;
            let proxy = Running::before(&group("app", &[server], &json!({"protocol": protocol})));
            let mut client = Asking::connect(&proxy, is_client_http2).await;
            let (taken, body) = counted();
            let head = Request::post("/");
            let head = if says_length { head.header("content-length", PIECE * PIECES) } else { head };
            let sending = tokio::spawn(async move { client.send_with(head, body).await });
            let stuck = timeout(PATIENCE, standing_still(&taken)).await.expect("an upload that stands still");
            assert!(stuck <= HELD_MAX, "{case}: {stuck} bytes");
            door.notify_one();
            let response = sending.await.expect("no panic").expect("a response");
            assert_eq!(read(response.into_body()).await.text, (PIECE * PIECES).to_string(), "{case}");
        }
    }
}

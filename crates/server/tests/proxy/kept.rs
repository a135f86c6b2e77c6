//! Connections to servers that nobody uses: how many are kept, and for how long.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tidegate_server::body::Body;
use tokio::sync::Barrier;

use super::failures::scripted;
use super::setup::{Running, eventually, group};

/// Requests that are under way at a time.
const TOGETHER: usize = 4;

/// A server that counts connections: those that came, and those that have ended.
struct Counting {
    came: Arc<AtomicUsize>,
    ended: Arc<AtomicUsize>,
    url: String,
}

impl Counting {
    async fn start() -> Self {
        let (came, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let barrier = Arc::new(Barrier::new(TOGETHER));
        let (counted, counted_ended) = (Arc::clone(&came), Arc::clone(&ended));
        let (address, _) = scripted(move |_, stream| {
            counted.fetch_add(1, Ordering::SeqCst);
            let (ended, barrier) = (Arc::clone(&counted_ended), Arc::clone(&barrier));
            async move {
                let service = service_fn(move |request| answer(request, Arc::clone(&barrier)));
                let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
                ended.fetch_add(1, Ordering::SeqCst);
            }
        })
        .await;
        Self { came, ended, url: format!("http://{address}") }
    }

    /// A proxy before it.
    fn proxy(&self, changes: &Value) -> Running {
        Running::before(&group("app", std::slice::from_ref(&self.url), changes))
    }

    /// Connections that came, and those that have ended.
    fn counts(&self) -> (usize, usize) {
        (self.came.load(Ordering::SeqCst), self.ended.load(Ordering::SeqCst))
    }
}

/// Answers `/together` when so many ask for it, and anything else at once.
async fn answer(request: Request<Incoming>, barrier: Arc<Barrier>) -> Result<Response<Body>, Infallible> {
    if request.uri().path() == "/together" {
        barrier.wait().await;
    }
    Ok(Response::new(Body::full("ok")))
}

/// As many requests at a time as the server waits for.
async fn ask_together(proxy: &Running) {
    let mut clients = Vec::new();
    for _ in 0..TOGETHER {
        let mut client = proxy.client().await;
        client.send("GET /together HTTP/1.1\r\nhost: a\r\n\r\n").await;
        clients.push(client);
    }
    for client in &mut clients {
        assert_eq!(client.answer().await.status(), 200);
    }
}

#[tokio::test]
async fn a_connection_that_nobody_uses_is_ended_when_its_time_is_over() {
    let server = Counting::start().await;
    let proxy = server.proxy(&json!({"keep_alive": 1}));
    let mut client = proxy.client().await;
    assert_eq!(client.get("/").await.status(), 200);
    // Nobody asks for anything meanwhile.
    eventually("the connection is ended", || server.counts() == (1, 1)).await;
    assert_eq!(client.get("/").await.status(), 200);
    assert_eq!(server.counts().0, 2);
}

#[tokio::test]
async fn a_connection_is_kept_for_the_next_request_unless_none_is() {
    for (changes, connections) in [
        (json!({"keep_alive": 60}), 1),
        (json!({"keep_alive": 0}), 5),
        (json!({"keep_alive": 60, "idle_connections": 0}), 5),
        (json!({"keep_alive": 60, "idle_connections": 1}), 1),
    ] {
        let server = Counting::start().await;
        let proxy = server.proxy(&changes);
        let mut client = proxy.client().await;
        for _ in 0..5 {
            assert_eq!(client.get("/").await.status(), 200);
        }
        assert_eq!(server.counts().0, connections, "{changes}");
        // What is not kept is not left open either.
        let ended = if connections == 1 { 0 } else { connections };
        eventually("the others are ended", || server.counts().1 == ended).await;
    }
}

#[tokio::test]
async fn no_more_connections_are_kept_than_settings_say() {
    for idle_max in [1, 2, TOGETHER] {
        let server = Counting::start().await;
        let proxy = server.proxy(&json!({"keep_alive": 60, "idle_connections": idle_max}));
        for round in 0..3 {
            ask_together(&proxy).await;
            let came = TOGETHER + round * (TOGETHER - idle_max);
            eventually("the others are ended", || server.counts() == (came, came - idle_max)).await;
        }
    }
}

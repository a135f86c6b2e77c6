//! Requests that share a connection of HTTP/2, and what passes between both versions of HTTP.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response};
use hyper::body::Incoming;
use serde_json::{Value, json};
use tidegate_server::body::Body;
use tokio::sync::Notify;

use super::enforcing::is_free;
use super::served::{Asking, VERSIONS, pieces, read, serving};
use super::setup::{Running, Upstream, eventually, group, rule, to};

/// What a server shared of its requests.
#[derive(Debug, Default)]
struct Known {
    asked: AtomicUsize,
    ended: AtomicUsize,
    door: Notify,
}

impl Known {
    fn counts(&self) -> (usize, usize) {
        (self.asked.load(Ordering::SeqCst), self.ended.load(Ordering::SeqCst))
    }
}

/// Counts a request as ended when it is dropped.
struct Asked(Arc<Known>);

impl Drop for Asked {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::SeqCst);
    }
}

/// Answers `/never`, begins to answer `/begun`, and anything else with two pieces, the second one when the door is opened.
async fn answer(request: Request<Incoming>, known: Arc<Known>) -> Response<Body> {
    known.asked.fetch_add(1, Ordering::SeqCst);
    let asked = Asked(Arc::clone(&known));
    if request.uri().path() == "/never" {
        pending::<()>().await;
    }
    let (sender, body) = pieces();
    let is_endless = request.uri().path() == "/begun";
    tokio::spawn(async move {
        let _asked = asked;
        let _ = sender.send(Ok(Bytes::from("first"))).await;
        if is_endless {
            return sender.closed().await;
        }
        known.door.notified().await;
        let _ = sender.send(Ok(Bytes::from("last"))).await;
    });
    Response::new(body)
}

fn get(path: &str) -> Request<Body> {
    Request::get(format!("http://shop.example.com{path}")).body(Body::empty()).expect("a request")
}

#[tokio::test]
async fn a_request_that_a_client_takes_back_ends_and_no_other() {
    for (protocol, is_http2) in VERSIONS {
        let known = Arc::<Known>::default();
        let shared = Arc::clone(&known);
        let server = serving(is_http2, move |request| answer(request, Arc::clone(&shared))).await;
        let settings = to(&group("app", &[server], &json!({"protocol": protocol})));
        let proxy = Running::start(&settings, &json!([rule("2 concurrent", &json!({}))]));
        let mut client = proxy.http2_client().await;
        let other = client.send_request(get("/other")).await.expect("a response");

        // Before there is a response ...
        let mut same = client.clone();
        let waiting = tokio::spawn(async move { same.send_request(get("/never")).await });
        eventually("the server is asked", || known.counts() == (2, 0)).await;
        assert!(!is_free(&proxy), "{protocol}: both slots are held");
        waiting.abort();
        eventually("the server's request ends", || known.counts() == (2, 1)).await;
        eventually("its slot is free", || is_free(&proxy)).await;

        // ... and in the middle of it.
        let begun = client.send_request(get("/begun")).await.expect("a response");
        assert!(!is_free(&proxy), "{protocol}: both slots are held again");
        drop(begun);
        eventually("the server's request ends", || known.counts() == (3, 2)).await;
        eventually("its slot is free", || is_free(&proxy)).await;

        known.door.notify_one();
        let body = read(other.into_body()).await;
        assert_eq!((body.text.as_str(), body.is_whole), ("firstlast", true), "{protocol}");
    }
}

#[tokio::test]
async fn trailers_pass_between_all_versions_in_both_directions() {
    for (protocol, upstream) in [("http1", Upstream::start().await), ("http2", Upstream::start_http2().await)] {
        let proxy = Running::before(&group("app", &[upstream.url()], &json!({"protocol": protocol})));
        for is_http2 in [false, true] {
            let case = format!("{protocol}, client {is_http2}");
            let mut client = Asking::connect(&proxy, is_http2).await;
            let asks = |head: http::request::Builder| {
                let head = head.header("te", "trailers").header("trailer", "x-sum");
                if is_http2 { head } else { head.header("connection", "te") }
            };
            let mut trailers = HeaderMap::new();
            trailers.insert("x-sum", HeaderValue::from_static("7"));
            let body = Body::full("content").with_trailers(trailers);
            let response = client.send_with(asks(Request::post("/")), body).await.expect("a response");
            let told: Value = serde_json::from_str(&read(response.into_body()).await.text).expect("JSON");
            assert_eq!((&told["body"], &told["trailers"]), (&json!("content"), &json!({"x-sum": "7"})), "{case}");

            let response = client.send_with(asks(Request::get("/trailers")), Body::empty()).await.expect("a response");
            let body = read(response.into_body()).await;
            assert_eq!((body.text.as_str(), body.is_whole), ("content", true), "{case}");
            assert_eq!(body.trailers.get("x-sum").map(HeaderValue::as_bytes), Some(&b"42"[..]), "{case}");
        }
    }
}

//! How long slots of concurrency quotas are held.

use std::time::Duration;

use http::Request;
use serde_json::json;
use tidegate_server::body::Body;

use super::enforcing::is_free;
use super::setup::{Running, Upstream, eventually, group, rule, to};

#[tokio::test]
async fn a_slot_is_renewed_as_long_as_its_response_lasts() {
    let upstream = Upstream::start().await;
    let settings = to(&group("app", &[upstream.url()], &json!({})));
    let proxy = Running::start(&settings, &json!([rule("1 concurrent ttl 1s", &json!({}))]));
    let (mut first, mut second) = (proxy.client().await, proxy.client().await);
    first.send("GET /stream HTTP/1.1\r\nhost: a\r\n\r\n").await;
    eventually("the server is asked", || upstream.asked() == 1).await;
    // More than three times as long as a slot lasts that nobody renews.
    for step in 0..4 {
        proxy.clock.advance(800_000_000);
        tokio::time::sleep(Duration::from_millis(800)).await;
        assert_eq!(second.get("/").await.status(), 429, "after step {step}");
    }
    upstream.door.notify_one();
    assert_eq!(first.answer().await.status(), 200);
    eventually("the slot is free", || is_free(&proxy)).await;
    assert_eq!(second.get("/").await.status(), 200);
}

#[tokio::test]
async fn who_leaves_while_it_is_delayed_holds_nothing_and_asks_no_server() {
    let upstream = Upstream::start().await;
    let path = json!([{"attribute": "path", "test": {"exact": ["/slow"]}, "not": false, "ignore_case": false}]);
    let bucket = rule("1/minute leaky_bucket queue 60m", &json!({"name": "bucket", "match": path}));
    let proxy = Running::start(
        &to(&group("app", &[upstream.url()], &json!({}))),
        &json!([bucket, rule("1 concurrent", &json!({"name": "slots"}))]),
    );
    assert_eq!(proxy.client().await.get("/slow").await.status(), 200, "the first one is not delayed");
    eventually("its slot is free", || is_free(&proxy)).await;
    // As it comes, and as hyper reads it.
    for fields in ["", "te: trailers\r\nconnection: te\r\n"] {
        let mut client = proxy.client().await;
        client.send(&format!("GET /slow HTTP/1.1\r\nhost: a\r\n{fields}\r\n")).await;
        eventually("it holds the slot", || !is_free(&proxy)).await;
        drop(client);
        eventually("the slot is free", || is_free(&proxy)).await;
    }
    let mut client = proxy.http2_client().await;
    let request = Request::get("http://a/slow").body(Body::empty()).expect("a request");
    let asking = client.send_request(request);
    let asking = tokio::spawn(asking);
    eventually("it holds the slot", || !is_free(&proxy)).await;
    asking.abort();
    eventually("the slot is free", || is_free(&proxy)).await;
    assert_eq!(upstream.asked(), 1);
}

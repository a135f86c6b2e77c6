//! What the rules decide, and what a request holds until its response has ended.

use std::time::{Duration, Instant};

use http::Request;
use http_body::Body as _;
use serde_json::{Value, json};
use tidegate_engine::engine::CheckOptions;
use tidegate_server::body::Body;

use super::setup::{Running, Upstream, eventually, group, rule, to};

async fn limited(rules: &Value) -> (Upstream, Running) {
    let upstream = Upstream::start().await;
    let proxy = Running::start(&to(&group("app", &[upstream.url()], &json!({}))), rules);
    (upstream, proxy)
}

#[tokio::test]
async fn who_is_denied_is_told_at_once_and_no_server_hears_of_it() {
    let (upstream, proxy) = limited(&json!([rule("2/minute", &json!({}))])).await;
    let mut client = proxy.client().await;
    let allowed = client.get("/").await;
    assert_eq!((allowed.status(), allowed.field("ratelimit")), (200, Some("\"rule\";r=1;t=60")));
    assert_eq!(allowed.field("ratelimit-policy"), Some("\"rule\";q=2;w=60"));
    assert_eq!(client.get("/").await.status(), 200);

    let denied = client.get("/").await;
    assert_eq!((denied.status(), denied.field("retry-after")), (429, Some("60")));
    assert_eq!(denied.field("content-type"), Some("application/problem+json"));
    assert_eq!(denied.json()["violated-policies"], json!(["rule"]));
    assert_eq!(upstream.asked(), 2);
    proxy.clock.advance(60_000_000_000);
    assert_eq!(client.get("/").await.status(), 200, "what it was told is true");
}

#[tokio::test]
async fn a_denied_call_of_grpc_is_told_so_in_its_words() {
    let never = rule("0/minute", &json!({"name": "never", "match": method("PUT")}));
    let (upstream, proxy) = limited(&json!([rule("1/minute", &json!({})), never])).await;
    let mut client = proxy.http2_client().await;
    let mut call = async |method: &str, kind: &str| {
        let request = Request::builder().method(method).uri("http://a/hello.Greeter/Hi").header("content-type", kind);
        client.send_request(request.body(Body::full("hello")).expect("a request")).await.expect("a response")
    };
    assert_eq!(call("POST", "application/grpc").await.status(), 200);
    for kind in ["application/grpc", "application/grpc+proto", "Application/gRPC; a=b"] {
        let denied = call("POST", kind).await;
        let told = |name: &str| denied.headers().get(name).and_then(|value| value.to_str().ok());
        assert_eq!((denied.status().as_u16(), told("content-type")), (200, Some("application/grpc")));
        assert_eq!((told("grpc-status"), told("grpc-message")), (Some("8"), Some("try again in 60 s")));
        assert_eq!((told("grpc-retry-pushback-ms"), told("retry-after")), (Some("60000"), Some("60")));
        assert_eq!(told("ratelimit"), Some("\"rule\";r=0;t=60"));
        assert!(denied.body().is_end_stream(), "its fields are its trailers");
    }
    // What can never be admitted is not to be tried again.
    assert_eq!(call("PUT", "application/grpc").await.headers()["grpc-retry-pushback-ms"], "-1");
    // Others understand HTTP.
    for kind in ["application/grpc-web", "application/grpc-web+proto", "application/json", "application/grp"] {
        assert_eq!(call("POST", kind).await.status(), 429, "{kind}");
    }
    assert_eq!(upstream.asked(), 1);
}

fn method(name: &str) -> Value {
    json!([{"attribute": "method", "test": {"exact": [name]}, "not": false, "ignore_case": false}])
}

#[tokio::test]
async fn the_body_of_a_denied_request_does_not_break_the_connection() {
    let (upstream, proxy) = limited(&json!([rule("0/minute", &json!({"match": method("POST")}))])).await;
    let mut client = proxy.client().await;
    let body = "x".repeat(300_000);
    let denied = client.ask(&format!("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 300000\r\n\r\n{body}")).await;
    assert_eq!((denied.status(), denied.field("connection")), (429, None));
    assert_eq!(client.get("/").await.status(), 200, "the next request on the same connection");
    assert_eq!(upstream.asked(), 1);
    // Who would send more than is worth reading is told that the connection ends.
    let denied = client.ask("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3000000000\r\n\r\n").await;
    assert_eq!((denied.status(), denied.field("connection")), (429, Some("close")));
    // Who asks first is not told to go on.
    let mut client = proxy.client().await;
    client.send("POST / HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 5\r\n\r\n").await;
    let told = client.rest().await;
    assert!(told.starts_with("HTTP/1.1 429 "), "{told}");
}

#[tokio::test]
async fn a_client_is_its_key_or_else_its_address() {
    let upstream = Upstream::start().await;
    let document = json!({
        "version": 1, "domain": "test", "rules": [rule("1/minute", &json!({"per": ["client"]}))],
        "identity": [{"header": "x-api-key", "attribute": "api_key"}, {"ip": {"trusted_proxies": ["127.0.0.0/8"], "ipv6_prefix": 64}}],
    });
    let proxy = Running::start_with(&to(&group("app", &[upstream.url()], &json!({}))), &document, &json!({}));
    let mut client = proxy.client().await;
    let mut status = async |fields: &str| client.ask(&format!("GET / HTTP/1.1\r\nhost: a\r\n{fields}\r\n")).await.status();
    assert_eq!((status("x-api-key: a\r\n").await, status("x-api-key: a\r\n").await), (200, 429));
    assert_eq!(status("x-api-key: b\r\n").await, 200);
    assert_eq!((status("").await, status("").await), (200, 429));
    let forwarded = "x-forwarded-for: 192.0.2.1\r\n";
    assert_eq!((status(forwarded).await, status(forwarded).await), (200, 429));
    // Some servers read both signs as the same, and would take it for the key that it is.
    assert_eq!((status("x_api_key: a\r\n").await, status("x_api_key: c\r\n").await), (429, 200));
    assert_eq!((status("x-api_key: c\r\n").await, status("X-API-Key: c\r\n").await), (429, 429));
    // Of two that look alike no server hears, so they say nothing here either.
    assert_eq!((status("x_api_key: d\r\nx-api_key: e\r\n").await, status("x-api-key: d\r\nx_api_key: a\r\n").await), (429, 200));
    // A key that no server hears of opens nothing, so that nobody is counted by it.
    assert_eq!(status("x-api-key: f\r\nconnection: X-API-Key\r\n").await, 429);
    // Of two keys some servers take the first and some the last, so it is neither.
    assert_eq!(status("x-api-key: f\r\nx-api-key: g\r\n").await, 400);
    assert_eq!(status("x_api_key: f\r\nx_api_key: g\r\n").await, 400);
    assert_eq!((status("x-api-key: f\r\nx-api-key: f\r\n").await, status("x-api-key: f\r\n").await), (200, 429));
    // Behind a body it is too late to say who one is.
    let upload = "POST / HTTP/1.1\r\nhost: a\r\nx-forwarded-for: 192.0.2.2\r\ntransfer-encoding: chunked\r\ntrailer: x-api-key\r\n\r\n\
                  1\r\na\r\n0\r\nx-api-key: h\r\n\r\n";
    assert_eq!(client.ask(upload).await.json()["trailers"], json!({}));
}

#[tokio::test]
async fn a_request_costs_what_its_fields_say() {
    let cost = json!({"cost": {"attribute": "header:content-length", "default": 1, "max": 100}});
    let (_upstream, proxy) = limited(&json!([rule("10/minute", &cost)])).await;
    let mut client = proxy.client().await;
    let asked = "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 6\r\n\r\n123456";
    assert_eq!(client.ask(asked).await.field("ratelimit"), Some("\"rule\";r=4;t=60"));
    assert_eq!(client.ask(asked).await.status(), 429);
    assert_eq!(client.get("/").await.field("ratelimit"), Some("\"rule\";r=3;t=60"));
}

#[tokio::test]
async fn any_field_can_say_what_a_request_costs() {
    let cost = json!({"cost": {"attribute": "header:x-megabytes", "default": 2, "max": 5}});
    let (upstream, proxy) = limited(&json!([rule("20/minute", &cost)])).await;
    let mut client = proxy.client().await;
    let mut left = async |fields: &str| {
        let answer = client.ask(&format!("GET / HTTP/1.1\r\nhost: a\r\n{fields}\r\n")).await;
        answer.field("ratelimit").map(str::to_owned)
    };
    let told = |left: u32, seconds: u32| Some(format!("\"rule\";r={left};t={seconds}"));
    assert_eq!(left("x-megabytes: 4\r\n").await, told(16, 60));
    assert_eq!(left("").await, told(14, 60), "the default");
    assert_eq!(left("x-megabytes: many\r\n").await, told(12, 60), "the default for what is no number");
    assert_eq!(left("x-megabytes: 1000\r\n").await, told(7, 60), "no more than the most");
    assert_eq!(left("X-Megabytes: 5\r\n").await, told(2, 60));
    let denied = client.ask("GET / HTTP/1.1\r\nhost: a\r\nx-megabytes: 3\r\n\r\n").await;
    assert_eq!((denied.status(), upstream.asked()), (429, 5));
}

#[tokio::test]
async fn a_server_says_what_a_request_really_cost() {
    let upstream = Upstream::start().await;
    let mut settings = to(&group("app", &[upstream.url()], &json!({})));
    settings["cost_header"] = json!("x-cost");
    let proxy = Running::start(&settings, &json!([rule("10/minute max_debt 10", &json!({}))]));
    let mut client = proxy.client().await;
    let answer = client.get("/cost").await;
    assert_eq!((answer.field("ratelimit"), answer.field("x-cost")), (Some("\"rule\";r=6;t=60"), None));
    assert_eq!(client.get("/").await.field("ratelimit"), Some("\"rule\";r=5;t=60"));
}

#[tokio::test]
async fn a_client_that_says_its_request_costs_nothing_pays_what_it_really_cost() {
    let upstream = Upstream::start().await;
    let mut settings = to(&group("app", &[upstream.url()], &json!({})));
    settings["cost_header"] = json!("x-cost");
    let by_field = json!({"name": "tokens", "cost": {"attribute": "header:x-tokens", "default": 1, "max": null}});
    let requests = rule("100/minute", &json!({"name": "requests"}));
    let tokens = rule("10/minute max_debt 10", &by_field);
    for (rules, expected) in
        [(json!([tokens]), [Some("\"tokens\";r=6;t=60"); 2]), (json!([tokens, requests]), [Some("\"tokens\";r=6;t=60"); 2])]
    {
        let proxy = Running::start(&settings, &rules);
        let mut client = proxy.client().await;
        let answer = client.ask("GET /cost HTTP/1.1\r\nhost: a\r\nx-tokens: 0\r\n\r\n").await;
        let told = client.ask("GET / HTTP/1.1\r\nhost: a\r\nx-tokens: 0\r\n\r\n").await;
        assert_eq!([answer.field("ratelimit"), told.field("ratelimit")], expected, "{rules}");
    }
}

#[tokio::test]
async fn a_slot_is_held_until_the_response_has_ended() {
    let (upstream, proxy) = limited(&json!([rule("1 concurrent", &json!({}))])).await;
    let (mut first, mut second) = (proxy.client().await, proxy.client().await);
    first.send("GET /stream HTTP/1.1\r\nhost: a\r\n\r\n").await;
    eventually("the server is asked", || upstream.asked() == 1).await;
    assert_eq!(second.get("/").await.status(), 429);
    upstream.door.notify_one();
    assert_eq!(first.answer().await.status(), 200);
    // It goes back when the last byte has been passed on.
    for _ in 0..50 {
        let answer = second.get("/").await;
        if answer.status() == 200 {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    panic!("the slot was not given back");
}

#[tokio::test]
async fn a_slot_goes_back_when_somebody_breaks_off() {
    let (upstream, proxy) = limited(&json!([rule("1 concurrent", &json!({}))])).await;
    for round in 1..=3 {
        let mut client = proxy.client().await;
        client.send("GET /wait HTTP/1.1\r\nhost: a\r\n\r\n").await;
        eventually("the server is asked", || upstream.asked() == round).await;
        assert!(!is_free(&proxy));
        drop(client);
        eventually("the slot is free", || is_free(&proxy)).await;
    }
}

/// Whether the only slot could be taken.
pub(crate) fn is_free(proxy: &Running) -> bool {
    struct Nothing;
    impl tidegate_engine::engine::Facts for Nothing {
        fn state<'a>(&'a self, _: &mut tidegate_core::rules::Request<'a>) {}
    }
    let engine = &proxy.app.engine;
    let decision = engine.check_request(&Nothing, None, CheckOptions::default()).expect("a decision");
    decision.is_allowed() && engine.release_decision(&decision).expect("its own decision")
}

#[tokio::test]
#[allow(clippy::disallowed_methods, reason = "how long it takes is what is tested")]
async fn a_leaky_bucket_delays() {
    let (upstream, proxy) = limited(&json!([rule("20/second leaky_bucket queue 1s", &json!({}))])).await;
    let begun = Instant::now();
    let mut clients = Vec::new();
    for _ in 0..3 {
        let mut client = proxy.client().await;
        client.send("GET / HTTP/1.1\r\nhost: a\r\n\r\n").await;
        clients.push(client);
    }
    for client in &mut clients {
        assert_eq!(client.answer().await.status(), 200);
    }
    assert_eq!(upstream.asked(), 3);
    // By the clock of the store they came at once: one starts now, and the others 50 and 100 ms later.
    assert!(begun.elapsed() >= Duration::from_millis(100));
}

#[tokio::test]
async fn a_parameter_that_is_counted_is_neither_hidden_nor_said_twice() {
    let (upstream, proxy) = limited(&json!([rule("1/minute", &json!({"per": ["query:key"]}))])).await;
    let mut client = proxy.client().await;
    assert_eq!(client.get(&format!("/?{}key=a", "x&".repeat(2_000))).await.status(), 200);
    assert_eq!(client.get("/?key=a&key=a").await.status(), 429, "the same twice is the same");
    for query in ["key=a&key=b", "key=b&key=a", "key=&key=a", "key=a&key="] {
        let refused = client.get(&format!("/?{query}")).await;
        assert_eq!(refused.status(), 400, "{query}");
        assert!(refused.json()["detail"].as_str().is_some_and(|text| text.contains("query:key")), "{query}");
    }
    assert_eq!(client.get("/?key=b&page=1&page=2").await.status(), 200, "what no rule asks for may come twice");
    assert_eq!(upstream.asked(), 2);
}

//! Load balancers that say in the PROXY protocol whom a connection is from.

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use super::setup::{Running, Upstream, eventually, group, rule, to};

const REQUEST: &str = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";

/// A proxy that expects to be told by these.
fn told_by(upstream: &Upstream, networks: &Value, rules: &Value) -> Running {
    let mut settings = to(&group("app", &[upstream.url()], &json!({})));
    settings["proxy_protocol"] = networks.clone();
    let identity = json!([{"ip": {"trusted_proxies": [], "ipv6_prefix": 64}}]);
    Running::start_with(&settings, &json!({"version": 1, "domain": "test", "identity": identity, "rules": rules}), &json!({}))
}

#[tokio::test]
async fn clients_are_who_the_load_balancer_says() {
    let upstream = Upstream::start().await;
    let rules = json!([rule("1/hour", &json!({"per": ["client"]}))]);
    let proxy = told_by(&upstream, &json!(["127.0.0.0/8"]), &rules);
    let four = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x08\xc6\x33\x64\x01\0\x50\x01\xbb";
    for (header, from) in [
        (&b"PROXY TCP4 192.0.2.7 198.51.100.1 1 443\r\n"[..], "192.0.2.7"),
        (four, "192.0.2.8"),
        (b"PROXY UNKNOWN\r\n", "127.0.0.1"),
    ] {
        for status in [200, 429] {
            let mut client = proxy.client().await;
            client.0.write_all(header).await.expect("a proxy that reads");
            let answer = client.ask(REQUEST).await;
            assert_eq!(answer.status(), status, "{from}");
            if status == 200 {
                assert_eq!(answer.json()["headers"]["x-forwarded-for"], from);
            }
        }
    }
}

#[tokio::test]
async fn who_has_to_say_it_and_does_not_is_refused() {
    let upstream = Upstream::start().await;
    let proxy = told_by(&upstream, &json!(["127.0.0.0/8"]), &json!([]));
    for bytes in [REQUEST, "PROXY TCP4 nobody\r\nGET / HTTP/1.1\r\nhost: a\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"] {
        let mut client = proxy.client().await;
        client.send(bytes).await;
        assert_eq!(client.rest().await, "", "{bytes:?}");
    }
    // Who only looks whether anybody listens has done nothing wrong.
    drop(proxy.client().await);
    eventually("all have gone", || proxy.server.connections() == 0).await;
    let page = proxy.app.metrics.render(&proxy.app);
    assert!(page.contains("ratelimit_connection_failures_total{port=\"proxy\",reason=\"protocol\"} 3\n"), "{page}");
    assert_eq!(upstream.asked(), 0);
}

#[tokio::test]
async fn from_others_it_is_garbage() {
    let upstream = Upstream::start().await;
    let proxy = told_by(&upstream, &json!(["192.0.2.0/24"]), &json!([]));
    assert_eq!(proxy.client().await.ask(REQUEST).await.status(), 200);
    let mut client = proxy.client().await;
    client.send(&format!("PROXY TCP4 192.0.2.7 198.51.100.1 1 443\r\n{REQUEST}")).await;
    assert_eq!(client.answer().await.status(), 400);
    assert_eq!(upstream.asked(), 1);
}

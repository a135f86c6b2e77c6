//! Sub-requests of gateways.

use http::{Request, StatusCode};
use serde_json::{Value, json};
use tidegate_server::body::Body;

use crate::app::{Service, Setup, exact};

const FORWARD_AUTH: &str = "/api/v1/rate-limit/forward-auth";

/// A service that counts by address.
fn by_address(trusted_proxies: &[&str]) -> Service {
    let identity = json!([{"ip": {"trusted_proxies": trusted_proxies, "ipv6_prefix": 64}}]);
    Setup { identity, ..Setup::default() }.start()
}

#[tokio::test]
async fn allowed_is_exactly_200_without_a_body() {
    let service = by_address(&[]);
    let answer = service.ask("GET", FORWARD_AUTH, &[]).await;
    assert_eq!((answer.status, answer.body.len()), (StatusCode::OK, 0));
    assert_eq!(answer.header("x-ratelimit-decision"), Some("allow"));
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    assert_eq!(answer.header("ratelimit-policy"), Some(r#""rule";q=2;w=60"#));
    assert_eq!(answer.header("ratelimit"), Some(r#""rule";r=1;t=60"#));
    assert_eq!((answer.header("retry-after"), answer.header("x-ratelimit-limit")), (None, None));
}

#[tokio::test]
async fn denied_is_a_small_problem_with_the_status_that_the_gateway_understands() {
    for (query, status) in [("", 429), ("?deny_status=403", 403), ("?deny_status=503", 503)] {
        let service = by_address(&[]);
        let path = format!("{FORWARD_AUTH}{query}");
        for _ in 0..2 {
            assert_eq!(service.ask("GET", &path, &[]).await.status, StatusCode::OK);
        }
        let answer = service.ask("GET", &path, &[]).await;
        assert_eq!(answer.status.as_u16(), status);
        let expected = json!({
            "type": "https://iana.org/assignments/http-problem-types#quota-exceeded", "title": "Quota Exceeded",
            "status": status, "detail": "try again in 60 s", "violated-policies": ["rule"],
        });
        assert_eq!(answer.json(), expected);
        assert!(answer.body.len() < 1_024);
        let headers =
            ["content-type", "cache-control", "retry-after", "x-ratelimit-decision", "ratelimit"].map(|name| answer.header(name));
        let expected = ["application/problem+json", "no-store", "60", "deny", r#""rule";r=0;t=60"#];
        assert_eq!(headers, expected.map(Some));
        let head = service.ask("HEAD", &path, &[]).await;
        assert_eq!((head.status.as_u16(), head.body.len(), head.header("retry-after")), (status, 0, Some("60")));
    }
}

#[tokio::test]
async fn a_denial_stays_small_whatever_the_rules() {
    let rules: Vec<Value> = (0..100)
        .map(|number| json!({"name": format!("{}{number:03}", "r".repeat(60)), "per": [], "quotas": "0/minute"}))
        .collect();
    let answer = Service::new(&rules).ask("GET", FORWARD_AUTH, &[]).await;
    assert_eq!(answer.status, StatusCode::TOO_MANY_REQUESTS);
    assert!(answer.body.len() < 1_024, "{}", answer.body.len());
    assert!(answer.json()["violated-policies"].as_array().is_some_and(|names| names.len() > 5));
    assert_eq!(answer.json()["detail"], "this request is never admitted");
}

#[tokio::test]
async fn statuses_that_gateways_misunderstand_are_refused() {
    let service = by_address(&[]);
    for status in ["401", "407", "200", "204", "302", "999", "x", ""] {
        let answer = service.ask("GET", &format!("{FORWARD_AUTH}?deny_status={status}"), &[]).await;
        assert_eq!((answer.status, answer.header("x-ratelimit-decision")), (StatusCode::BAD_REQUEST, Some("error")), "{status}");
    }
}

#[tokio::test]
async fn the_original_request_is_what_the_gateway_says() {
    type Headers = &'static [(&'static str, &'static str)];
    let table: [(&str, &str, &str, &str, Headers); 12] = [
        ("method", "PUT", "GET", "", &[("x-forwarded-method", "PUT"), ("x-original-method", "POST")]),
        ("method", "POST", "GET", "", &[("x-original-method", "POST")]),
        ("method", "DELETE", "DELETE", "", &[]),
        ("path", "/a/b", "GET", "", &[("x-forwarded-uri", "/a/b?c=d"), ("x-original-uri", "/x")]),
        ("path", "/a/b", "GET", "", &[("x-original-uri", "/a/b")]),
        ("path", "/a/b", "GET", "/a/b?deny_status=403", &[]),
        ("path", "/", "GET", "?deny_status=403", &[]),
        ("query:c", "d", "GET", "/a?c=d", &[]),
        ("host", "example.com", "GET", "", &[("x-forwarded-host", "example.com"), ("host", "tidegate:8080")]),
        ("host", "example.com", "GET", "", &[("host", "example.com:8080")]),
        ("scheme", "https", "GET", "", &[("x-forwarded-proto", "https")]),
        ("header:accept", "a, b", "GET", "", &[("accept", "a"), ("accept", "b")]),
    ];
    for (name, value, method, suffix, headers) in table {
        let service = Service::new(&[json!({"match": exact(name, value), "per": [], "quotas": "0/minute"})]);
        let answer = service.ask(method, &format!("{FORWARD_AUTH}{suffix}"), headers).await;
        let expected = if suffix.starts_with('?') { 403 } else { 429 };
        assert_eq!(answer.status.as_u16(), expected, "{name} {suffix} {headers:?}");
    }
    // Servers differ in which of two they take.
    let service = Service::new(&[json!({"match": exact("header:x-plan", "a"), "per": [], "quotas": "0/minute"})]);
    assert_eq!(service.ask("GET", FORWARD_AUTH, &[("x-plan", "a"), ("x-plan", "b")]).await.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn who_is_no_trusted_gateway_is_not_believed() {
    let told = [("x-forwarded-method", "POST"), ("x-forwarded-for", "198.51.100.7"), ("x-forwarded-uri", "/a")];
    let service = Service::new(&[json!({"match": exact("method", "POST"), "per": [], "quotas": "0/minute"})]);
    assert_eq!(service.ask_from("203.0.113.9", "GET", FORWARD_AUTH, &told).await.status, StatusCode::OK);
    for trusted in ["127.0.0.1", "10.1.2.3", "::ffff:10.1.2.3", "unix"] {
        let answer = service.ask_from(trusted, "GET", FORWARD_AUTH, &told).await;
        assert_eq!(answer.status, StatusCode::TOO_MANY_REQUESTS, "{trusted}");
    }
}

/// The address that a chain of proxies leads to, as a rule sees it.
async fn is_counted_as(service: &Service, peer: &str, chain: &[&str], address: &str) -> bool {
    let headers: Vec<(&str, &str)> = chain.iter().map(|hops| ("x-forwarded-for", *hops)).collect();
    for _ in 0..2 {
        service.ask_from(peer, "GET", FORWARD_AUTH, &headers).await;
    }
    !service.check(&json!({"ip_address": address})).await["allowed"].as_bool().expect("a bool")
}

#[tokio::test]
async fn the_client_is_the_hop_that_the_gateway_wrote_or_one_before_it_that_the_rules_trust() {
    let table: [(&str, &[&str], &[&str], &str); 10] = [
        ("127.0.0.1", &["198.51.100.7"], &[], "198.51.100.7"),
        ("127.0.0.1", &["1.1.1.1, 198.51.100.7"], &[], "198.51.100.7"),
        ("127.0.0.1", &["1.1.1.1", "198.51.100.7:4711"], &[], "198.51.100.7"),
        ("127.0.0.1", &["1.1.1.1, 192.0.2.5"], &["192.0.2.0/24"], "1.1.1.1"),
        ("127.0.0.1", &["1.1.1.1, 198.51.100.7, 192.0.2.5"], &["192.0.2.0/24"], "198.51.100.7"),
        ("127.0.0.1", &["1.1.1.1, garbage"], &[], "127.0.0.1"),
        ("127.0.0.1", &[], &[], "127.0.0.1"),
        ("unix", &["198.51.100.7"], &[], "198.51.100.7"),
        ("203.0.113.9", &["198.51.100.7"], &[], "203.0.113.9"),
        ("203.0.113.9", &["198.51.100.7"], &["203.0.113.0/24"], "198.51.100.7"),
    ];
    for (peer, chain, trusted_proxies, address) in table {
        let service = by_address(trusted_proxies);
        assert!(is_counted_as(&service, peer, chain, address).await, "{peer} {chain:?} {trusted_proxies:?}");
    }
}

#[tokio::test]
async fn a_body_is_not_waited_for() {
    let service = by_address(&[]);
    let (sender, receiver) = tokio::sync::mpsc::channel(1);
    let request = Request::post(FORWARD_AUTH).body(Body::stream(receiver)).expect("a request");
    assert_eq!(service.send("127.0.0.1", request).await.status, StatusCode::OK);
    drop(sender);
}

#[tokio::test]
async fn shadows_and_outages_are_told_in_one_word() {
    let shadow = Service::new(&[json!({"mode": "shadow", "per": [], "quotas": "0/minute"})]);
    let answer = shadow.ask("GET", FORWARD_AUTH, &[]).await;
    assert_eq!((answer.status, answer.header("x-ratelimit-decision")), (StatusCode::OK, Some("shadow")));

    for (policy, status) in [("allow", StatusCode::OK), ("deny", StatusCode::FORBIDDEN)] {
        let rules = vec![json!({"per": ["ip"], "on_store_error": policy})];
        let full = Setup { rules, keys_max: 1, ..Setup::default() }.start();
        full.check(&json!({"ip_address": "192.0.2.1", "cost": 2})).await;
        let answer = full.ask("GET", &format!("{FORWARD_AUTH}?deny_status=403"), &[]).await;
        assert_eq!((answer.status, answer.header("x-ratelimit-decision")), (status, Some("error")), "{policy}");
        if policy == "deny" {
            let kind = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity";
            assert_eq!((&answer.json()["type"], answer.header("retry-after")), (&json!(kind), Some("60")));
        }
    }
}

#[tokio::test]
async fn fields_are_those_of_the_settings() {
    let headers = json!({"standard": false, "retry_after": false, "x_ratelimit": "epoch"});
    let settings = json!({"headers": headers, "deny_status": 403});
    let service = Setup { rules: vec![json!({"per": [], "quotas": "1/minute"})], settings, ..Setup::default() }.start();
    for status in [200, 403] {
        service.advance(10);
        let answer = service.ask("GET", FORWARD_AUTH, &[]).await;
        assert_eq!(answer.status.as_u16(), status);
        assert_eq!(["ratelimit", "ratelimit-policy", "retry-after"].map(|name| answer.header(name)), [None; 3]);
        let told = ["limit", "remaining", "reset"].map(|name| answer.header(&format!("x-ratelimit-{name}")).map(str::to_owned));
        assert_eq!(told, ["1", "0", "1767225670"].map(|value| Some(value.to_owned())));
    }
}

#[tokio::test]
async fn a_rule_that_tells_nothing_is_not_named() {
    let service = Service::new(&[json!({"per": [], "quotas": "0/minute", "headers": false})]);
    let answer = service.ask("GET", FORWARD_AUTH, &[]).await;
    assert_eq!((answer.status, &answer.json()["violated-policies"]), (StatusCode::TOO_MANY_REQUESTS, &json!([])));
    assert_eq!(answer.header("ratelimit"), None);
}

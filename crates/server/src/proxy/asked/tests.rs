use serde_json::json;
use tokio::time::Instant;

use super::super::group::tests::group;
use super::*;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const HOST_SAID: (&str, &str) = ("host", "shop.example");

/// What a server is told, as bytes and as a map: both say the same, in the same order.
fn told(fields: &[(&'static str, &'static str)], is_trusted: bool, protocol: &str) -> Vec<String> {
    told_from(Some("192.0.2.7"), fields, is_trusted, protocol)
}

fn told_from(address: Option<&str>, fields: &[(&'static str, &'static str)], is_trusted: bool, protocol: &str) -> Vec<String> {
    let mut request = Request::get("/a?b");
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    let head = request.body(()).expect("a request").into_parts().0;
    let (host, group) = ("shop.example".parse().expect("a host"), group(&json!({"protocol": protocol})));
    let origin = Origin { address, is_trusted, host: Some(&host), scheme: "https" };
    let path = head.uri.path_and_query().expect("a path").clone();
    let mut asked =
        Asked { wants: Wants::of(&head), head: &head, body: RequestBody::empty(), path, origin, request_id: Some(&REQUEST_ID) };
    let server = group.choose(&[], Instant::now()).expect("a server");
    let bytes = String::from_utf8(asked.written(&server, &group.settings)).expect("text");
    let lines = bytes.strip_prefix("GET /a?b HTTP/1.1\r\n").and_then(|rest| rest.strip_suffix("\r\n\r\n")).expect("a head");
    let lines: Vec<String> = lines.split("\r\n").map(str::to_owned).collect();
    let request = asked.request(&server, &group.settings);
    let fields = request.headers().iter().map(|(name, value)| format!("{name}: {}", value.to_str().expect("text")));
    assert_eq!(lines, fields.collect::<Vec<_>>());
    lines
}

#[test]
fn who_is_not_believed_is_replaced() {
    let said = [
        HOST_SAID,
        ("x-forwarded-for", "198.51.100.1"),
        ("x_forwarded-for", "198.51.100.2"),
        ("forwarded", "for=198.51.100.3"),
        ("x-forwarded-proto", "ftp"),
        ("x-forwarded-host", "other.example"),
        ("x-forward", "kept"),
    ];
    let expected = [
        "host: shop.example",
        "x-forward: kept",
        "x-forwarded-for: 192.0.2.7",
        "forwarded: for=192.0.2.7;host=\"shop.example\";proto=https",
        "via: 1.1 tidegate",
        "x-forwarded-proto: https",
        "x-forwarded-host: shop.example",
    ];
    assert_eq!(told(&said, false, "http1"), expected);
}

#[test]
fn a_length_that_was_said_twice_is_told_once() {
    let said = [HOST_SAID, ("content-length", "5"), ("content-length", "5"), ("x-a", "1"), ("x-a", "2")];
    let told = told(&said, false, "http1");
    assert_eq!(told.iter().filter(|field| field.starts_with("content-length")).count(), 1);
    assert_eq!(told.iter().filter(|field| field.starts_with("x-a")).count(), 2);
}

#[test]
fn who_is_believed_is_followed_by_us() {
    let said = [
        HOST_SAID,
        ("x-forwarded-for", "198.51.100.1"),
        ("x-forwarded-for", "198.51.100.2"),
        ("forwarded", "for=198.51.100.3"),
        ("x-forwarded-proto", "ftp"),
        ("x-forwarded-host", "other.example"),
        ("via", "1.0 a"),
        ("x_forwarded_for", "198.51.100.4"),
    ];
    let expected = [
        "host: shop.example",
        "x-forwarded-proto: ftp",
        "x-forwarded-host: other.example",
        "x-forwarded-for: 198.51.100.1, 198.51.100.2, 192.0.2.7",
        "forwarded: for=198.51.100.3, for=192.0.2.7;host=\"shop.example\";proto=https",
        "via: 1.0 a, 1.1 tidegate",
    ];
    assert_eq!(told(&said, true, "http1"), expected);
}

#[test]
fn who_is_believed_is_not_contradicted_in_another_language() {
    let proto = [HOST_SAID, ("x-forwarded-proto", "ftp")];
    let expected = [
        "host: shop.example",
        "x-forwarded-proto: ftp",
        "x-forwarded-for: 192.0.2.7",
        "via: 1.1 tidegate",
        "x-forwarded-host: shop.example",
    ];
    assert_eq!(told(&proto, true, "http1"), expected);
    let forwarded = [HOST_SAID, ("forwarded", "for=198.51.100.3;proto=ftp")];
    let expected = [
        "host: shop.example",
        "forwarded: for=198.51.100.3;proto=ftp, for=192.0.2.7;host=\"shop.example\";proto=https",
        "via: 1.1 tidegate",
    ];
    assert_eq!(told(&forwarded, true, "http1"), expected);
    assert_eq!(told(&forwarded, false, "http1").len(), 6, "who is not believed has said nothing");
}

#[test]
fn nobody_else_says_what_frameworks_take_for_our_word() {
    let said = [
        HOST_SAID,
        ("x-forwarded-port", "1"),
        ("x-forwarded-prefix", "/evil"),
        ("x-real-ip", "198.51.100.1"),
        ("x_real_ip", "198.51.100.1"),
        ("proxy", "http://198.51.100.1"),
        ("x-request-id", "ours"),
        ("x_request-id", "theirs"),
        ("x_kept", "1"),
    ];
    let fields = told(&said, false, "http1");
    assert_eq!(fields[1..3], ["x-request-id: ours", "x_kept: 1"]);
    assert!(fields[3].starts_with("x-forwarded-for: "), "{fields:?}");
    let trusted = told(&said, true, "http1");
    assert!(trusted.iter().any(|field| field == "x-forwarded-port: 1"));
    assert!(trusted.iter().all(|field| !field.starts_with("proxy")));
}

#[test]
fn a_client_cannot_hide_the_name_of_its_request() {
    let fields = told(
        &[HOST_SAID, ("connection", "x-request-id, x-private"), ("x-request-id", "ours"), ("x-private", "1")],
        false,
        "http1",
    );
    assert_eq!(fields[1], "x-request-id: ours");
    assert!(fields.iter().all(|field| !field.starts_with("x-private")));
}

#[test]
fn a_socket_in_the_file_system_adds_no_address_to_those_that_were_said() {
    let said =
        [HOST_SAID, ("x-forwarded-for", "198.51.100.1"), ("x-forwarded-proto", "ftp"), ("x-forwarded-host", "other.example")];
    let expected = [
        "host: shop.example",
        "x-forwarded-for: 198.51.100.1",
        "x-forwarded-proto: ftp",
        "x-forwarded-host: other.example",
        "via: 1.1 tidegate",
    ];
    assert_eq!(told_from(None, &said, true, "http1"), expected);
    assert!(told_from(None, &said, false, "http1").iter().all(|field| !field.starts_with("x-forwarded-for")));
}

#[test]
fn what_is_for_one_connection_ends_here_also_in_lists_that_go_on() {
    let said = [
        HOST_SAID,
        ("connection", "keep-alive, X-Private, Via, x-forwarded-for, host"),
        ("keep-alive", "timeout=5"),
        ("te", "trailers"),
        ("expect", "100-continue"),
        ("x-private", "1"),
        ("via", "1.0 a"),
        ("x-forwarded-for", "198.51.100.1"),
    ];
    let expected = [
        "host: shop.example",
        "x-forwarded-for: 192.0.2.7",
        "forwarded: for=192.0.2.7;host=\"shop.example\";proto=https",
        "via: 1.1 tidegate",
        "x-forwarded-proto: https",
        "x-forwarded-host: shop.example",
        "te: trailers",
    ];
    assert_eq!(told(&said, true, "http1"), expected);
}

#[test]
fn cookies_are_one_field_over_http1_and_may_be_several_over_http2() {
    let said = [HOST_SAID, ("cookie", "a=1"), ("accept", "*/*"), ("cookie", "b=2")];
    let cookies = |protocol: &str| -> Vec<String> {
        told(&said, false, protocol).into_iter().filter(|field| field.starts_with("cookie: ")).collect()
    };
    assert_eq!(cookies("http1"), ["cookie: a=1; b=2"]);
    assert_eq!(cookies("http2"), ["cookie: a=1", "cookie: b=2"]);
    let named = [&said[..], &[("connection", "cookie")]].concat();
    assert!(told(&named, false, "http1").iter().all(|field| !field.starts_with("cookie")));
}

//! Calls that are no questions: other protocols, broken messages, methods that do not exist.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, StatusCode, Version};
use serde_json::json;
use tidegate_server::body::Body;

use crate::service::{SHOULD_RATE_LIMIT, Service, Setup, framed, question, request};

fn service() -> Service {
    Setup { rules: vec![json!({})], ..Setup::default() }.start()
}

fn body() -> Body {
    Body::full(framed(&question("rules", &["a=b"])))
}

#[tokio::test]
async fn who_does_not_speak_grpc_is_told_so() {
    let ours = || request(SHOULD_RATE_LIMIT, body());
    let change = |change: &dyn Fn(&mut Request<Body>)| {
        let mut request = ours();
        change(&mut request);
        request
    };
    let table = [
        (change(&|request| *request.version_mut() = Version::HTTP_11), StatusCode::HTTP_VERSION_NOT_SUPPORTED),
        (change(&|request| *request.method_mut() = Method::GET), StatusCode::METHOD_NOT_ALLOWED),
        (change(&|request| request.headers_mut().clear()), StatusCode::UNSUPPORTED_MEDIA_TYPE),
    ];
    for (request, expected) in table {
        let answer = service().send(request).await;
        assert_eq!(answer.status, expected);
        assert!(answer.body.starts_with(b"this port speaks gRPC"));
    }
    assert_eq!(service().send(ours()).await.code(), "0");
}

#[tokio::test]
async fn calls_that_do_not_exist_are_unimplemented() {
    for path in [
        "/",
        "/envoy.service.ratelimit.v3.RateLimitService/Other",
        "/envoy.service.ratelimit.v2.RateLimitService/ShouldRateLimit",
    ] {
        let answer = service().send(request(path, body())).await;
        assert_eq!((answer.status, answer.code(), answer.message()), (StatusCode::OK, "12", "there is no such call"), "{path}");
        assert_eq!((answer.body.len(), answer.trailers.len()), (0, 0), "trailers only");
    }
}

#[tokio::test]
async fn broken_messages_get_a_code_that_says_so() {
    let table: [(&[u8], &str); 8] = [
        (b"", "3"),
        (b"\0\0", "3"),
        (b"\0\0\0\0\x09abc", "3"),
        (b"\0\0\0\0\x03abc", "3"),
        (b"\0\0\0\0\x04\x0a\x02\xff\xfe", "3"),
        (b"\x01\0\0\0\x01a", "12"),
        (b"\0\0\x01\x86\xa1", "8"),
        (b"\0\xff\xff\xff\xff", "8"),
    ];
    for (bytes, expected) in table {
        let answer = service().send(request(SHOULD_RATE_LIMIT, Body::full(bytes))).await;
        assert_eq!((answer.status, answer.code()), (StatusCode::OK, expected), "{bytes:?}: {}", answer.message());
    }
    let compressed = service().send(request(SHOULD_RATE_LIMIT, Body::full(&b"\x01\0\0\0\x01a"[..]))).await;
    assert_eq!(compressed.headers["grpc-accept-encoding"], "identity");
}

#[tokio::test]
async fn a_message_may_come_in_pieces() {
    let (sender, receiver) = tokio::sync::mpsc::channel(1);
    let bytes = framed(&question("rules", &["a=b"]));
    tokio::spawn(async move {
        for byte in bytes {
            sender.send(Bytes::copy_from_slice(&[byte])).await.expect("somebody reads");
        }
    });

    assert_eq!(service().send(request(SHOULD_RATE_LIMIT, Body::stream(receiver))).await.code(), "0");
}

#[tokio::test(start_paused = true)]
async fn a_message_that_never_ends_is_not_waited_for() {
    let (sender, receiver) = tokio::sync::mpsc::channel(1);
    sender.send(Bytes::from_static(b"\0\0\0")).await.expect("room");
    let begun = tokio::time::Instant::now();

    let answer = service().send(request(SHOULD_RATE_LIMIT, Body::stream(receiver))).await;

    assert_eq!((answer.code(), answer.message()), ("4", "the request did not come in time"));
    assert_eq!(begun.elapsed().as_secs(), Duration::from_secs(5).as_secs());
    drop(sender);
}

#[tokio::test]
async fn a_timeout_that_makes_no_sense_is_refused() {
    for (timeout, expected) in [("20m", "0"), ("1S", "0"), ("soon", "3"), ("999999999S", "3")] {
        let mut request = request(SHOULD_RATE_LIMIT, body());
        request.headers_mut().insert("grpc-timeout", timeout.parse().expect("a value"));
        assert_eq!(service().send(request).await.code(), expected, "{timeout}");
    }
}

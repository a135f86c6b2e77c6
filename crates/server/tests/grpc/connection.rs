//! The same over a connection, so that what goes over the wire is what clients read.

use std::sync::Arc;

use http::{Request, Response};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use serde_json::json;
use tidegate_server::app::Peer;
use tidegate_server::body::Body;
use tidegate_server::grpc::proto::RateLimitResponse;

use crate::service::{OK, OVER_LIMIT, SHOULD_RATE_LIMIT, Service, Setup, framed, question};

type Sender = hyper::client::conn::http2::SendRequest<Body>;

/// A client of the service.
async fn connect(service: &Service) -> Sender {
    let (ours, theirs) = tokio::io::duplex(65_536);
    let app = Arc::clone(&service.app);
    tokio::spawn(async move {
        let serve = service_fn(move |request| {
            let app = Arc::clone(&app);
            async move { Ok::<_, std::convert::Infallible>(tidegate_server::grpc::serve(app, Peer { address: None }, request).await) }
        });
        hyper::server::conn::http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(ours), serve).await
    });
    let (sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(theirs)).await.expect("a connection");
    tokio::spawn(connection);
    sender
}

async fn ask(sender: &mut Sender, body: Body) -> Response<Incoming> {
    let request = Request::post(format!("http://service{SHOULD_RATE_LIMIT}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers");
    sender.send_request(request.body(body).expect("a request")).await.expect("an answer")
}

#[tokio::test]
async fn a_call_is_a_message_and_trailers_and_a_failure_is_trailers_only() {
    let service = Setup { rules: vec![json!({"quotas": "1/minute"})], ..Setup::default() }.start();
    let mut sender = connect(&service).await;
    for expected in [OK, OVER_LIMIT] {
        let response = ask(&mut sender, Body::full(framed(&question("rules", &["a=b"])))).await;
        assert_eq!(response.headers()["content-type"], "application/grpc");
        assert!(!response.headers().contains_key("grpc-status") && !response.headers().contains_key("content-length"));
        let mut body = response.into_body();
        let mut frames = Vec::new();
        while let Some(frame) = std::future::poll_fn(|context| std::pin::Pin::new(&mut body).poll_frame(context)).await {
            frames.push(frame.expect("a frame"));
        }
        let [data, trailers] = &frames[..] else { panic!("{frames:?}") };
        let answer = RateLimitResponse::decode(&data.data_ref().expect("data")[5..]).expect("an answer");
        assert_eq!(answer.overall_code, expected);
        assert_eq!(trailers.trailers_ref().expect("trailers")["grpc-status"], "0");
    }

    let refused = ask(&mut sender, Body::full(&b"\0\0\0\0\x01a"[..])).await;

    assert_eq!(refused.headers()["grpc-status"], "3");
    assert!(refused.body().is_end_stream());
}

/// hyper and tokio copy the future of a call several times before it runs: at 4,000 bytes that took an eighth of all time.
#[tokio::test]
async fn a_call_is_small_before_it_runs() {
    let service = Setup::default().start();
    let request = crate::service::request(SHOULD_RATE_LIMIT, Body::empty());

    let call = tidegate_server::grpc::serve(Arc::clone(&service.app), Peer { address: None }, request);

    assert!(std::mem::size_of_val(&call) <= 2_048, "{} bytes", std::mem::size_of_val(&call));
}

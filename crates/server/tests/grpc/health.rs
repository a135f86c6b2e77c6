//! `grpc.health.v1`.

use std::future::poll_fn;
use std::pin::Pin;

use http_body::Body as _;
use prost::Message;
use serde_json::json;
use tidegate_server::body::Body;
use tidegate_server::grpc::proto::health::health_check_response::ServingStatus;
use tidegate_server::grpc::proto::health::{HealthCheckRequest, HealthCheckResponse};

use crate::service::{Service, Setup, framed, request};

const CHECK: &str = "/grpc.health.v1.Health/Check";
const WATCH: &str = "/grpc.health.v1.Health/Watch";

fn service() -> Service {
    Setup { rules: vec![json!({})], ..Setup::default() }.start()
}

fn named(service: &str) -> HealthCheckRequest {
    HealthCheckRequest { service: service.to_owned() }
}

async fn next(body: &mut Body) -> Option<ServingStatus> {
    let frame = poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await?.expect("a body of ours");
    let data = frame.into_data().ok()?;
    Some(HealthCheckResponse::decode(&data[5..]).expect("a status").status())
}

#[tokio::test]
async fn the_service_is_known_by_three_names() {
    let service = service();
    for name in ["", "envoy.service.ratelimit.v3.RateLimitService", "ratelimit"] {
        let answer: HealthCheckResponse = service.call(CHECK, &named(name)).await.decoded();
        assert_eq!(answer.status(), ServingStatus::Serving, "{name:?}");
    }
    assert_eq!(service.call(CHECK, &named("other")).await.code(), "5");
}

#[tokio::test]
async fn a_service_that_is_about_to_stop_does_not_serve() {
    let service = service();
    service.app.begin_drain();

    let answer: HealthCheckResponse = service.call(CHECK, &named("")).await.decoded();

    assert_eq!(answer.status(), ServingStatus::NotServing);
}

#[tokio::test]
async fn who_watches_is_told_of_changes_until_the_end() {
    let service = service();
    let (_, mut body) = service.begin(request(WATCH, Body::full(framed(&named("ratelimit"))))).await;
    assert_eq!(next(&mut body).await, Some(ServingStatus::Serving));

    service.app.begin_drain();
    assert_eq!(next(&mut body).await, Some(ServingStatus::NotServing));

    service.app.begin_close();
    let end = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await.expect("trailers").expect("a body of ours");
    assert_eq!(end.into_trailers().expect("trailers")["grpc-status"], "14");
}

#[tokio::test]
async fn who_watches_an_unknown_service_waits() {
    let service = service();
    let (_, mut body) = service.begin(request(WATCH, Body::full(framed(&named("other"))))).await;
    assert_eq!(next(&mut body).await, Some(ServingStatus::ServiceUnknown));

    service.app.begin_drain();
    service.app.begin_close();

    assert_eq!(next(&mut body).await, None, "its status did not change before the end");
}

#[tokio::test]
async fn broken_questions_are_refused() {
    for path in [CHECK, WATCH] {
        let answer = service().send(request(path, Body::full(&b"\0\0\0\0\x02\x0a\xff"[..]))).await;
        assert_eq!(answer.code(), "3", "{path}");
    }
}

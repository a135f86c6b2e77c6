//! Whether the service is well, as `grpc.health.v1` asks.

use bytes::Bytes;
use prost::Message;
use tokio::sync::mpsc::{self, Sender};
use tokio::sync::watch;

use super::failure::{Code, Failure};
use super::proto::health::health_check_response::ServingStatus;
use super::proto::health::{HealthCheckRequest, HealthCheckResponse};
use super::{rate_limit, wire};
use crate::app::{App, Phase};
use crate::body::Body;

pub(super) const CHECK: &str = "/grpc.health.v1.Health/Check";
pub(super) const WATCH: &str = "/grpc.health.v1.Health/Watch";

/// Everything, the service by its name, and the name that the reference service has.
const NAMES: [&str; 3] = ["", rate_limit::SERVICE, "ratelimit"];

/// Answers once.
pub(super) fn check(app: &App, message: &[u8]) -> Result<Bytes, Failure> {
    if !is_known(message)? {
        return Err(Failure::new(Code::NotFound, "there is no such service"));
    }
    Ok(told(status(true, *app.phase().borrow())))
}

/// Answers now and whenever it changes. The stream ends when the service does.
pub(super) fn watch(app: &App, message: &[u8]) -> Result<Body, Failure> {
    let is_known = is_known(message)?;
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(tell(is_known, app.phase(), sender));
    let end = Failure::new(Code::Unavailable, "the service is about to stop");
    Ok(Body::stream(receiver).with_trailers(end.trailers()))
}

async fn tell(is_known: bool, mut phase: watch::Receiver<Phase>, sender: Sender<Bytes>) {
    let mut last = None;
    loop {
        let now = *phase.borrow_and_update();
        let status = status(is_known, now);
        if last.replace(status) != Some(status) && sender.send(told(status)).await.is_err() {
            return;
        }
        if now == Phase::Closing {
            return;
        }
        tokio::select! {
            changed = phase.changed() => if changed.is_err() { return },
            () = sender.closed() => return,
        }
    }
}

fn is_known(message: &[u8]) -> Result<bool, Failure> {
    let request = HealthCheckRequest::decode(message).map_err(|_| Failure::invalid("the message is no HealthCheckRequest"))?;
    Ok(NAMES.contains(&&*request.service))
}

fn status(is_known: bool, phase: Phase) -> ServingStatus {
    match phase {
        _ if !is_known => ServingStatus::ServiceUnknown,
        Phase::Serving => ServingStatus::Serving,
        Phase::Draining | Phase::Closing => ServingStatus::NotServing,
    }
}

fn told(status: ServingStatus) -> Bytes {
    wire::framed(&HealthCheckResponse { status: status.into() })
}

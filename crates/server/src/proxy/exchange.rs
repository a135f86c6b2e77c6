//! One request to one server, up to the head of its response.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Poll, ready};

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use tokio::time::Instant;

use super::alarm::Alarm;
use super::or_never;
use super::pool::{Lent, Sender};
use super::request_body::{Progress, RequestBody};
use super::settings::GroupSettings;

/// Why there is no response.
#[derive(Debug)]
pub(super) enum Failure {
    /// There is no server, or none that takes connections.
    Unreachable,
    /// A connection took too long.
    ConnectLate,
    /// The connection had ended before anything was sent: the request as it was.
    Unsent(Box<Request<RequestBody>>),
    /// The server broke off, or did not speak HTTP.
    Broken,
    /// The server took too long.
    Late,
    /// The client broke off while it sent its body, or the body was wrong.
    ClientBroken,
    /// The client took too long to send its body.
    ClientLate,
}

/// Sends a request, and waits for the head of the response. The body of the request may still be under way then.
pub(super) async fn exchange(
    lent: &mut Lent,
    request: Request<RequestBody>,
    group: &GroupSettings,
    deadline: Instant,
) -> Result<Response<Incoming>, Failure> {
    let progress = Arc::clone(request.body().progress());
    let sent = match &mut lent.sender {
        Sender::Http1(sender) => watched(sender.try_send_request(request), &mut lent.alarm, &progress, group, deadline).await,
        Sender::Http2(sender) => watched(sender.try_send_request(request), &mut lent.alarm, &progress, group, deadline).await,
    };
    match sent? {
        Ok(response) => Ok(response),
        Err(_) if progress.is_broken() => Err(Failure::ClientBroken),
        Err(mut error) => Err(error.take_message().map_or(Failure::Broken, |request| Failure::Unsent(Box::new(request)))),
    }
}

type Sent = Result<Response<Incoming>, TrySendError<Request<RequestBody>>>;

/// Waits, and gives up when nothing has moved for too long.
async fn watched(
    sending: impl Future<Output = Sent>,
    alarm: &mut Alarm,
    progress: &Progress,
    group: &GroupSettings,
    deadline: Instant,
) -> Result<Sent, Failure> {
    let mut sending = pin!(sending);
    let patience = || if progress.is_sent() { group.first_byte_timeout } else { group.idle_timeout };
    let next = || (Instant::now() + or_never(patience())).min(deadline);
    let mut at = next();
    let mut steps = progress.steps();
    std::future::poll_fn(|context| {
        loop {
            if let Poll::Ready(sent) = sending.as_mut().poll(context) {
                return Poll::Ready(Ok(sent));
            }
            ready!(alarm.poll_at(at, context));
            let is_over = Instant::now() >= deadline;
            if is_over || std::mem::replace(&mut steps, progress.steps()) == progress.steps() {
                let is_ours = is_over || progress.is_sent();
                return Poll::Ready(Err(if is_ours { Failure::Late } else { Failure::ClientLate }));
            }
            at = next();
        }
    })
    .await
}

//! One request to one server, up to the head of its response.
//!
//! On a [line](super::line) it is sent by its own task, and otherwise by hyper.

use std::error::Error as _;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Poll, ready};

use http::Response;
use tokio::time::Instant;

use super::alarm::Alarm;
use super::asked::Asked;
use super::line::{Told, Untold};
use super::or_never;
use super::pool::{Lent, Sender};
use super::request_body::Progress;
use super::response_body::Content;
use super::settings::GroupSettings;

/// Why there is no response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failure {
    /// There is no server, or none that takes connections.
    Unreachable,
    /// A connection took too long.
    ConnectLate,
    /// The connection had ended before anything was sent: the request is as it was.
    Unsent,
    /// The server broke off, or did not speak HTTP.
    Broken,
    /// The head of the response is longer than any that is read, or over HTTP/2 none at all.
    TooLong,
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
    asked: &mut Asked<'_>,
    group: &GroupSettings,
    deadline: Instant,
) -> Result<Response<Content>, Failure> {
    let mut is_sent = false;
    if let Sender::Line(line) = &mut lent.sender {
        let head = asked.written(&lent.server, group);
        let told = watched(line.ask(head), &mut lent.alarm, asked.body.progress(), group, deadline).await?;
        let begun = match told {
            Ok(Told::Plain(response)) => return Ok(response.map(Content::Line)),
            Ok(Told::Other(begun)) => begun,
            Err(Untold::Unsent) => return Err(Failure::Unsent),
            Err(Untold::Broken) => return Err(Failure::Broken),
        };
        Box::pin(lent.leave_asked(begun)).await.map_err(|_| Failure::Broken)?;
        is_sent = true;
    }
    // What is rare lies elsewhere, so that what is not has less to move.
    Box::pin(exchange_driven(lent, asked, is_sent, group, deadline)).await
}

/// The same by hyper, on a connection that it drives. `is_sent` if the request was sent before, and only its response is to be read.
async fn exchange_driven(
    lent: &mut Lent,
    asked: &mut Asked<'_>,
    is_sent: bool,
    group: &GroupSettings,
    deadline: Instant,
) -> Result<Response<Content>, Failure> {
    let request = asked.request(&lent.server, group);
    let progress = Arc::clone(request.body().progress());
    let sent = match &mut lent.sender {
        Sender::Line(_) => return Err(Failure::Broken),
        Sender::Http1(sender) => watched(sender.try_send_request(request), &mut lent.alarm, &progress, group, deadline).await,
        Sender::Http2(sender, _) => watched(sender.try_send_request(request), &mut lent.alarm, &progress, group, deadline).await,
    };
    match sent? {
        Ok(response) => Ok(response.map(Content::Incoming)),
        Err(_) if progress.is_broken() => Err(Failure::ClientBroken),
        Err(error) if error.error().is_parse_too_large() || is_not_taken(error.error()) => Err(Failure::TooLong),
        Err(mut error) => match error.take_message() {
            Some(request) if !is_sent => {
                asked.body = request.into_body();
                Err(Failure::Unsent)
            }
            // Whatever hyper has not sent, the line had.
            _ => Err(Failure::Broken),
        },
    }
}

/// Whether a response over HTTP/2 came that we did not take: it was too long, or wrong. The server may have done what it was asked for.
fn is_not_taken(error: &hyper::Error) -> bool {
    let cause = error.source().and_then(|cause| cause.downcast_ref::<h2::Error>());
    cause.is_some_and(|cause| cause.is_reset() && cause.is_library())
}

/// Waits, and gives up when nothing has moved for too long.
async fn watched<T>(
    sending: impl Future<Output = T>,
    alarm: &mut Alarm,
    progress: &Progress,
    group: &GroupSettings,
    deadline: Instant,
) -> Result<T, Failure> {
    let mut sending = pin!(sending);
    let (first_byte, idle) = (or_never(group.first_byte_timeout), or_never(group.idle_timeout));
    let begun = Instant::now();
    // Of the body: how far it was at the last look that saw it move, and when that was.
    let mut moved = (progress.steps(), begun);
    // Nobody is woken when the last of a body has been sent, so while it is under way that is looked at as often as the sooner of both asks for.
    let look_at = |moved_at: Instant, now: Instant| {
        if progress.is_sent() {
            progress.sent_at().unwrap_or(begun) + first_byte
        } else {
            (moved_at + idle).min(now + first_byte)
        }
    };
    let mut at = look_at(begun, begun).min(deadline);
    std::future::poll_fn(|context| {
        loop {
            if let Poll::Ready(sent) = sending.as_mut().poll(context) {
                return Poll::Ready(Ok(sent));
            }
            ready!(alarm.poll_at(at, context));
            let now = Instant::now();
            let steps = progress.steps();
            if std::mem::replace(&mut moved.0, steps) != steps {
                moved.1 = now;
            }
            at = look_at(moved.1, now).min(deadline);
            if at <= now {
                // A server that takes nothing of a body is late, and not the client.
                let is_ours = now >= deadline || progress.is_sent() || !progress.is_awaited();
                return Poll::Ready(Err(if is_ours { Failure::Late } else { Failure::ClientLate }));
            }
        }
    })
    .await
}

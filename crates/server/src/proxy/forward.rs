//! A request that was allowed: servers are tried until one answers.

use std::sync::Arc;
use std::time::Duration;

use http::header::{CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderValue, Response, StatusCode, Version};
use smallvec::SmallVec;
use tokio::time::Instant;

use super::asked::Asked;
use super::counts::Outcome;
use super::dial::DialError;
use super::exchange::{Failure, exchange};
use super::group::Group;
use super::head::{self, Wants};
use super::line;
use super::or_never;
use super::pool::{self, Asks, Lent};
use super::refuse::{self, ending};
use super::response_body::{Content, Held, ResponseBody};
use super::server::Chosen;
use super::slot::Slot;
use super::tunnel::Tunnel;
use crate::access_log::Entry;
use crate::body::Body;
use crate::http::Problem;

/// Forwards a request, and answers what a server answers or why none does.
pub(super) async fn forward(
    group: &Group,
    asked: &mut Asked<'_>,
    slot: Option<Slot>,
    entry: &mut Option<Box<Entry>>,
) -> Response<Body> {
    let deadline = Instant::now() + or_never(group.settings.total_timeout);
    let version = asked.head.version;
    let wants = asked.wants;
    let progress = Arc::clone(asked.body.progress());
    if let Some(entry) = entry {
        entry.receives(&progress);
    }
    let (response, lent) = match sent(group, asked, deadline, entry).await {
        Ok(sent) => sent,
        Err((problem, is_unread)) => return without_server(problem, is_unread, asked),
    };
    let is_refused = wants.go_ahead && progress.is_untouched();
    let mut response = respond(response, Held { lent: Some(lent), slot, progress }, group, wants, deadline);
    head::add_via(response.headers_mut(), version);
    // A body that nobody asked for never comes, or it does: no other request can follow it.
    if is_refused { ending(response, version) } else { response }
}

/// Sends a request to one server after the other, until one answers.
///
/// It is sent elsewhere if nothing of it was sent, or if the server broke off before it answered and the request may be repeated: its method is idempotent, and
/// it has no body, which is gone once it was read. Who took too long is not asked again: the server may be at work on it still.
async fn sent(
    group: &Group,
    asked: &mut Asked<'_>,
    deadline: Instant,
    entry: &mut Option<Box<Entry>>,
) -> Result<(Response<Content>, Lent), (Problem, bool)> {
    let may_repeat = asked.body.is_empty() && asked.head.method.is_idempotent() && !asked.wants.upgrade;
    let is_for_line = line::is_for(&asked.head.method, &asked.body, asked.wants);
    let mut is_unread = !asked.body.is_empty();
    let progress = Arc::clone(asked.body.progress());
    let mut tried: SmallVec<[u64; 4]> = SmallVec::new();
    // To be asked once more, on a new connection.
    let mut again: Option<Chosen> = None;
    let mut why = Failure::Unreachable;
    while tried.len() <= group.settings.retries {
        let asked_at = Instant::now();
        let must_be_new = again.is_some();
        let Some(server) = again.take().or_else(|| group.choose(&tried, asked_at)) else { break };
        if !must_be_new && !tried.is_empty() {
            group.counts.retried();
        }
        if let Some(entry) = entry {
            entry.asks(&server.name);
        }
        let id = server.id;
        let asks = Asks { is_for_line, must_be_new };
        let mut lent = match pool::lend(group, server, asks, asked_at, deadline).await {
            Ok(lent) => lent,
            Err(error) => {
                why = if error == DialError::Late { Failure::ConnectLate } else { Failure::Unreachable };
                tried.push(id);
                if Instant::now() >= deadline {
                    break;
                }
                continue;
            }
        };
        // The server may have ended a kept connection at this very moment, which says nothing about the server.
        let may_be_stale = lent.is_reused && !must_be_new;
        match exchange(&mut lent, asked, &group.settings, deadline).await {
            Ok(response) => {
                group.answered(&lent.server, response.status(), asked_at);
                return Ok((response, lent));
            }
            Err(failure) if failure == Failure::Unsent || (failure == Failure::Broken && may_repeat) => {
                if failure == Failure::Unsent {
                    lent.doubt();
                }
                if may_be_stale {
                    again = Some(lent.server);
                    continue;
                }
                group.failed(&lent.server, Outcome::Broken);
                tried.push(id);
                if failure == Failure::Broken {
                    why = failure;
                }
            }
            Err(failure) => {
                if failure == Failure::Late {
                    lent.doubt();
                }
                group.failed(&lent.server, outcome_of(failure, progress.is_awaited()));
                is_unread &= matches!(failure, Failure::ClientLate | Failure::Late | Failure::Broken | Failure::TooLong);
                return Err((problem_of(failure), is_unread));
            }
        }
    }
    Err((problem_of(why), is_unread))
}

fn outcome_of(failure: Failure, is_client_awaited: bool) -> Outcome {
    match failure {
        // The total time was over while the client still sent: no server is left out for that.
        Failure::Late if is_client_awaited => Outcome::Client,
        Failure::TooLong => Outcome::ServerError,
        Failure::Unreachable | Failure::ConnectLate => Outcome::Unreachable,
        Failure::Unsent | Failure::Broken => Outcome::Broken,
        Failure::Late => Outcome::Late,
        Failure::ClientBroken | Failure::ClientLate => Outcome::Client,
    }
}

fn problem_of(failure: Failure) -> Problem {
    match failure {
        Failure::Unreachable => Problem::new(StatusCode::BAD_GATEWAY, "no upstream can be reached"),
        Failure::ConnectLate => Problem::new(StatusCode::GATEWAY_TIMEOUT, "no upstream can be reached in time"),
        Failure::Unsent | Failure::Broken => Problem::new(StatusCode::BAD_GATEWAY, "the upstream broke off before it answered"),
        Failure::TooLong => Problem::new(StatusCode::BAD_GATEWAY, "the head of the upstream's response is too long or wrong"),
        Failure::Late => Problem::new(StatusCode::GATEWAY_TIMEOUT, "the upstream took too long to answer"),
        Failure::ClientBroken => Problem::bad_request("the body of the request broke off, or is malformed"),
        Failure::ClientLate => Problem::new(StatusCode::REQUEST_TIMEOUT, "the body of the request took too long"),
    }
}

/// An answer to a request that no server has answered. Behind a body that is under way still no other request can follow on a connection of HTTP/1; one
/// that no server has seen is thrown away.
fn without_server(problem: Problem, is_unread: bool, asked: &mut Asked<'_>) -> Response<Body> {
    let response = problem.into_response();
    match asked.body.take() {
        Some(body) => refuse::with(response, asked.wants, asked.head, Some(body)),
        None if is_unread => ending(response, asked.head.version),
        None => response,
    }
}

/// What a server answered, as the client gets it.
fn respond(mut response: Response<Content>, held: Held, group: &Group, wants: Wants, deadline: Instant) -> Response<Body> {
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        return switch(response, held, wants, group.settings.idle_timeout);
    }
    let is_chunked = response.headers().contains_key(TRANSFER_ENCODING);
    head::strip(response.headers_mut());
    if is_chunked {
        // Two lengths are one too many.
        response.headers_mut().remove(CONTENT_LENGTH);
    }
    *response.version_mut() = Version::HTTP_11;
    let idle_timeout = group.settings.idle_timeout;
    let deadline = (!group.settings.total_timeout.is_zero()).then_some(deadline);
    response.map(|body| Body::foreign(ResponseBody::new(body, held, idle_timeout, deadline)))
}

/// The connections of client and server are no longer ones of HTTP.
fn switch(mut response: Response<Content>, mut held: Held, wants: Wants, patience: Duration) -> Response<Body> {
    if !wants.upgrade {
        return Problem::new(StatusCode::BAD_GATEWAY, "the upstream switched to a protocol that nobody asked for")
            .into_response();
    }
    let server = hyper::upgrade::on(&mut response);
    let protocol = response.headers().get(UPGRADE).cloned();
    head::strip(response.headers_mut());
    let mut switched = Response::new(Body::empty());
    *switched.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    *switched.headers_mut() = std::mem::take(response.headers_mut());
    switched.headers_mut().insert(CONNECTION, HeaderValue::from_static("upgrade"));
    switched.headers_mut().insert(UPGRADE, protocol.unwrap_or(HeaderValue::from_static("websocket")));
    // To balance and to reload, it is a request under way as long as it lives.
    let under_way = held.lent.take().map(|lent| lent.server);
    switched.extensions_mut().insert(Tunnel::new(server, held.slot.take(), under_way, or_never(patience)));
    switched
}

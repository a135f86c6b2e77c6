//! A request that was allowed: servers are tried until one answers.

use std::sync::Arc;

use http::header::{CONNECTION, CONTENT_LENGTH, EXPECT, HOST, TE, TRANSFER_ENCODING, UPGRADE};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, Version};
use smallvec::SmallVec;
use tokio::time::Instant;

use super::counts::Outcome;
use super::dial::DialError;
use super::exchange::{Failure, exchange};
use super::group::Group;
use super::head::{self, Origin, Wants};
use super::line;
use super::or_never;
use super::pool::{self, Asks, Lent};
use super::refuse::ending;
use super::request_body::RequestBody;
use super::response_body::{Content, Held, ResponseBody};
use super::server::{Chosen, Server};
use super::settings::{HostPolicy, UpstreamProtocol};
use super::slot::Slot;
use super::tunnel::Tunnel;
use crate::access_log::Entry;
use crate::body::Body;
use crate::http::Problem;

/// A request on its way.
#[derive(Debug)]
pub(super) struct Asked<'a> {
    pub(super) head: Parts,
    pub(super) body: RequestBody,
    /// Path and query as the server is asked for them.
    pub(super) path: PathAndQuery,
    pub(super) wants: Wants,
    pub(super) origin: Origin<'a>,
}

/// Forwards a request, and answers what a server answers or why none does.
pub(super) async fn forward(
    group: &Group,
    asked: Asked<'_>,
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
        Err(problem) => return closing_if_unread(problem, version),
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
    asked: Asked<'_>,
    deadline: Instant,
    entry: &mut Option<Box<Entry>>,
) -> Result<(Response<Content>, Lent), (Problem, bool)> {
    let may_repeat = asked.body.is_empty() && asked.head.method.is_idempotent() && !asked.wants.upgrade;
    let is_for_line = line::is_for(&asked.head.method, &asked.body, asked.wants);
    let mut is_unread = !asked.body.is_empty();
    let progress = Arc::clone(asked.body.progress());
    let mut outgoing = Outgoing::new(asked, group);
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
        let request = outgoing.request(&lent.server, group);
        match exchange(&mut lent, request, may_repeat, &group.settings, deadline).await {
            Ok(response) => {
                group.answered(&lent.server, response.status(), asked_at);
                return Ok((response, lent));
            }
            Err(Failure::Unsent(request)) => {
                outgoing.take_back(*request);
                if may_be_stale {
                    again = Some(lent.server);
                } else {
                    group.failed(&lent.server, Outcome::Broken);
                    tried.push(id);
                }
            }
            Err(Failure::Broken(Some(request))) => {
                outgoing.take_back(*request);
                if may_be_stale {
                    again = Some(lent.server);
                } else {
                    group.failed(&lent.server, Outcome::Broken);
                    tried.push(id);
                    why = Failure::Broken(None);
                }
            }
            Err(failure) => {
                group.failed(&lent.server, outcome_of(&failure, progress.is_sent()));
                is_unread &= matches!(failure, Failure::ClientLate | Failure::Late | Failure::Broken(_));
                return Err((problem_of(&failure), is_unread));
            }
        }
    }
    Err((problem_of(&why), is_unread))
}

fn outcome_of(failure: &Failure, is_sent: bool) -> Outcome {
    match failure {
        // The total time was over while the client still sent: no server is left out for that.
        Failure::Late if !is_sent => Outcome::Client,
        Failure::Unreachable | Failure::ConnectLate => Outcome::Unreachable,
        Failure::Unsent(_) | Failure::Broken(_) => Outcome::Broken,
        Failure::Late => Outcome::Late,
        Failure::ClientBroken | Failure::ClientLate => Outcome::Client,
    }
}

fn problem_of(failure: &Failure) -> Problem {
    match failure {
        Failure::Unreachable => Problem::new(StatusCode::BAD_GATEWAY, "no upstream can be reached"),
        Failure::ConnectLate => Problem::new(StatusCode::GATEWAY_TIMEOUT, "no upstream can be reached in time"),
        Failure::Unsent(_) | Failure::Broken(_) => {
            Problem::new(StatusCode::BAD_GATEWAY, "the upstream broke off before it answered")
        }
        Failure::Late => Problem::new(StatusCode::GATEWAY_TIMEOUT, "the upstream took too long to answer"),
        Failure::ClientBroken => Problem::bad_request("the body of the request broke off, or is malformed"),
        Failure::ClientLate => Problem::new(StatusCode::REQUEST_TIMEOUT, "the body of the request took too long"),
    }
}

/// An answer to a request whose body nobody will read: no other request can follow on a connection of HTTP/1.
fn closing_if_unread((problem, is_unread): (Problem, bool), version: Version) -> Response<Body> {
    let response = problem.into_response();
    if is_unread { ending(response, version) } else { response }
}

/// What a server answered, as the client gets it.
fn respond(mut response: Response<Content>, held: Held, group: &Group, wants: Wants, deadline: Instant) -> Response<Body> {
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        return switch(response, held, wants);
    }
    let is_chunked = response.headers().contains_key(TRANSFER_ENCODING);
    head::strip(response.headers_mut());
    if is_chunked {
        // Two lengths are one too many.
        response.headers_mut().remove(CONTENT_LENGTH);
    }
    *response.version_mut() = Version::HTTP_11;
    let idle_timeout = group.settings.idle_timeout;
    response.map(|body| Body::foreign(ResponseBody::new(body, held, idle_timeout, deadline)))
}

/// The connections of client and server are no longer ones of HTTP.
fn switch(mut response: Response<Content>, mut held: Held, wants: Wants) -> Response<Body> {
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
    switched.extensions_mut().insert(Tunnel::new(server, held.slot.take(), under_way));
    switched
}

/// A request as servers get it.
#[derive(Debug)]
pub(super) struct Outgoing {
    method: Method,
    path: PathAndQuery,
    /// Without `Host`.
    headers: HeaderMap,
    /// The one that the client said, if it did.
    host: Option<HeaderValue>,
    body: Option<RequestBody>,
    wants: Wants,
}

impl Outgoing {
    pub(super) fn new(asked: Asked<'_>, group: &Group) -> Self {
        let Asked { head, body, path, wants, origin } = asked;
        let Parts { method, uri, mut headers, version, .. } = head;
        let said = headers.remove(HOST).filter(|host| !host.is_empty());
        let host = match uri.authority() {
            // The target of the request says more than its fields.
            Some(authority) => HeaderValue::try_from(authority.as_str()).ok(),
            None => said,
        };
        head::strip(&mut headers);
        head::tell_origin(&mut headers, origin, host.as_ref());
        head::add_via(&mut headers, version);
        if group.settings.protocol == UpstreamProtocol::Http1 {
            head::join_cookies(&mut headers);
            if wants.upgrade {
                headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
                headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
            }
            if !body.is_empty() && !headers.contains_key(CONTENT_LENGTH) {
                headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
            }
        } else {
            // hyper does not say when a server of HTTP/2 asks to go on.
            headers.remove(EXPECT);
        }
        if body.is_empty() {
            headers.remove(EXPECT);
        }
        if wants.trailers {
            headers.insert(TE, HeaderValue::from_static("trailers"));
        }
        Self { method, path, headers, host, body: Some(body), wants }
    }

    /// Takes back what was not sent after all, or is sent once more.
    fn take_back(&mut self, request: Request<RequestBody>) {
        let (head, body) = request.into_parts();
        self.headers = head.headers;
        self.headers.remove(HOST);
        self.body = Some(body);
    }

    /// The request for one server. Fields and body go with it, the rest stays.
    pub(super) fn request(&mut self, server: &Server, group: &Group) -> Request<RequestBody> {
        let authority = &server.url.authority;
        let said = self.host.as_ref().filter(|_| group.settings.host == HostPolicy::Preserve);
        let host = said.cloned().or_else(|| HeaderValue::try_from(authority.as_str()).ok());
        let mut headers = std::mem::take(&mut self.headers);
        let mut request = Request::new(self.body.take().unwrap_or_else(RequestBody::empty));
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = match group.settings.protocol {
            UpstreamProtocol::Http1 => {
                headers.extend(host.map(|host| (HOST, host)));
                Uri::from(self.path.clone())
            }
            UpstreamProtocol::Http2 => {
                let scheme = if server.url.is_tls { "https" } else { "http" };
                let host = host.as_ref().map_or(authority.as_str().as_bytes(), HeaderValue::as_bytes);
                let uri = Uri::builder().scheme(scheme).authority(host).path_and_query(self.path.clone());
                uri.build().unwrap_or_default()
            }
        };
        if headers.contains_key(EXPECT) && self.wants.go_ahead {
            let go_on = request.body_mut().hold_back();
            hyper::ext::on_informational(&mut request, move |response| {
                if response.status() == StatusCode::CONTINUE {
                    go_on();
                }
            });
        }
        *request.headers_mut() = headers;
        request
    }
}

//! One request, from its head to the end of its response.

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::SystemTime;

use bytes::Bytes;
use http::header::USER_AGENT;
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderValue, Method, Response, Uri, Version};
use http_body::{Body as _, Frame, SizeHint};
use tidegate_engine::decision::Decision;
use tidegate_store::clock::monotonic_ns;
use tidegate_store::store::StoreError;
use tokio::time::Instant;

use super::AccessLog;
use crate::app::Peer;
use crate::body::{Body, BrokenOff, Foreign};
use crate::proxy::{Progress, Tunnel};

/// What is known about a request. Its line is written when it is dropped: at the end of the response, or when the client has gone.
#[derive(Debug)]
pub(crate) struct Entry {
    log: Arc<AccessLog>,
    pub(super) at: SystemTime,
    begun_ns: u64,
    pub(super) peer: Peer,
    /// The client, if the peer is a proxy that is believed.
    pub(super) client: Option<IpAddr>,
    pub(super) method: Method,
    pub(super) uri: Uri,
    pub(super) version: Version,
    pub(super) host: Option<Authority>,
    pub(super) user_agent: Option<HeaderValue>,
    pub(super) request_id: Option<HeaderValue>,
    pub(super) decided: Option<Decided>,
    /// The last server that was asked.
    pub(super) upstream: Option<String>,
    pub(super) tries: u32,
    /// `None` if the client went before there was one.
    pub(super) status: Option<u16>,
    /// How far the body of the request came.
    received: Option<Arc<Progress>>,
    pub(super) sent: u64,
    /// Whether all of the response was passed on.
    is_whole: bool,
    /// When the head of the response was there.
    answered_ns: Option<u64>,
    tunnelled: u64,
}

/// What the rules said.
#[derive(Debug)]
pub(super) struct Decided {
    pub(super) is_allowed: bool,
    /// The rule that decided, or is nearest to its limit.
    pub(super) rule: Option<Arc<str>>,
    pub(super) degraded: Option<&'static str>,
    /// What a `leaky_bucket` asked to wait.
    pub(super) delay_ns: u64,
    at_ns: u64,
}

impl Entry {
    /// Begins with the head of a request.
    #[allow(
        clippy::disallowed_methods,
        reason = "lines are compared with those of other programs, which go by the clock on the wall"
    )]
    pub(crate) fn new(
        log: &Arc<AccessLog>,
        (peer, client): (Peer, Option<IpAddr>),
        head: &Parts,
        request_id: Option<HeaderValue>,
    ) -> Box<Self> {
        Box::new(Self {
            log: Arc::clone(log),
            at: SystemTime::now(),
            begun_ns: monotonic_ns(),
            peer,
            client,
            method: head.method.clone(),
            uri: head.uri.clone(),
            version: head.version,
            host: None,
            user_agent: head.headers.get(USER_AGENT).cloned(),
            request_id,
            decided: None,
            upstream: None,
            tries: 0,
            status: None,
            received: None,
            sent: 0,
            is_whole: false,
            answered_ns: None,
            tunnelled: 0,
        })
    }

    /// Takes in the host that the request is for.
    pub(crate) fn is_for(&mut self, host: Option<&Authority>) {
        self.host = host.cloned();
    }

    /// Takes in a decision.
    pub(crate) fn decided(&mut self, decision: &Decision) {
        self.decided = Some(Decided {
            is_allowed: decision.is_allowed(),
            rule: decision.binding().and_then(|(planned, _)| planned.rule.clone()),
            degraded: decision.degraded().map(StoreError::kind),
            delay_ns: decision.verdict().delay(),
            at_ns: monotonic_ns(),
        });
    }

    /// Takes in how far the body of the request has come.
    pub(crate) fn receives(&mut self, progress: &Arc<Progress>) {
        self.received = Some(Arc::clone(progress));
    }

    /// Takes in that a server is asked.
    pub(crate) fn asks(&mut self, server: &str) {
        self.upstream = Some(server.to_owned());
        self.tries += 1;
    }

    /// Takes in what passed through a tunnel.
    pub(crate) fn tunnelled(&mut self, received: u64, sent: u64) {
        (self.tunnelled, self.sent, self.is_whole) = (received, sent, true);
    }

    /// The bytes of the request's body that were read.
    pub(super) fn received(&self) -> u64 {
        self.tunnelled + self.received.as_ref().map_or(0, |progress| progress.bytes())
    }

    /// Whether all of the response was passed on, to a client that had not broken off what it sent.
    pub(super) fn is_complete(&self) -> bool {
        self.is_whole && !self.received.as_ref().is_some_and(|progress| progress.is_broken())
    }

    /// From the head of the request to now, to the decision, and to the head of the response.
    pub(super) fn timings_ns(&self) -> (u64, Option<u64>, Option<u64>) {
        let since = |at_ns: u64| at_ns.saturating_sub(self.begun_ns);
        (since(monotonic_ns()), self.decided.as_ref().map(|decided| since(decided.at_ns)), self.answered_ns.map(since))
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.log.clone().write(self);
    }
}

/// Lets an entry follow a response to its end.
pub(crate) fn follow(mut entry: Box<Entry>, mut response: Response<Body>) -> Response<Body> {
    entry.status = Some(response.status().as_u16());
    entry.answered_ns = Some(monotonic_ns());
    if let Some(tunnel) = response.extensions_mut().get::<Tunnel>() {
        tunnel.note_in(entry);
        return response;
    }
    response.map(|body| {
        if body.is_end_stream() {
            entry.is_whole = true;
            return body;
        }
        Body::foreign(Followed { body, entry })
    })
}

/// A body that is followed to its end.
#[derive(Debug)]
struct Followed {
    body: Body,
    entry: Box<Entry>,
}

impl Foreign for Followed {
    fn deadline(&self) -> Option<Instant> {
        self.body.deadline()
    }
}

impl http_body::Body for Followed {
    type Data = Bytes;
    type Error = BrokenOff;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        let frame = std::task::ready!(Pin::new(&mut self.body).poll_frame(context));
        if let Some(Ok(frame)) = &frame {
            self.entry.sent += frame.data_ref().map_or(0, |data| data.len() as u64);
        }
        // Whoever knows the length does not ask for what comes after the last byte.
        self.entry.is_whole = frame.is_none() || (matches!(frame, Some(Ok(_))) && self.body.is_end_stream());
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

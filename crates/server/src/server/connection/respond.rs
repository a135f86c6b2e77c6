//! Plain responses as bytes: those that HTTP/1.1 has one form for, and that say nothing about their connection.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes};
use http::header::{CONNECTION, CONTENT_LENGTH, DATE, TRAILER, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderName, Response, StatusCode, Version};
use http_body::{Body as _, Frame};
use tokio::io::AsyncWrite;

use super::super::activity::{Counted, Running};
use super::super::stream::Io;
use crate::body::{Body, BrokenOff};
use crate::http::extend_date;
use crate::metrics::ConnectionFailure;
use crate::proxy::take_back;

/// Room for the head of a usual response, and for a short body behind it.
const RESPONSE_BYTES: usize = 1_024;

/// Fields that say how a response is sent, which is not up to those who wrote them.
static OF_THE_CONNECTION: [HeaderName; 4] = [CONNECTION, TRANSFER_ENCODING, TRAILER, UPGRADE];

/// A plain response that is being sent.
pub(super) struct Responding {
    /// What is to be written next.
    bytes: Bytes,
    /// Where the rest of the body comes from, until all of it has come. It holds what the request holds.
    body: Option<Counted>,
    /// How much of the body has not come yet.
    left: u64,
}

/// A response that somebody else has to send.
pub(super) struct Other(pub(super) Box<Response<Body>>);

impl Responding {
    /// Begins to send the response to a request that is no `HEAD`.
    pub(super) fn new(response: Response<Body>, running: Running, context: &mut Context<'_>) -> Result<Self, Other> {
        let Some(length) = plain_length(&response) else { return Err(Other(Box::new(response))) };
        let mut bytes = head(&response, length);
        let (fields, body) = response.into_parts();
        take_back(fields.headers);
        let mut this = Self { bytes: Bytes::new(), body: Some(running.counted(body)), left: length };
        if length == 0 {
            this.body = None;
        } else if let Poll::Ready(part) = this.poll_part(context) {
            // What is there already leaves in one piece with the head.
            bytes.extend_from_slice(&part);
        }
        this.bytes = bytes.into();
        Ok(this)
    }

    /// Sends it, as fast as it comes and the client takes it.
    pub(super) fn poll(&mut self, io: &mut Io, context: &mut Context<'_>) -> Poll<Result<(), ConnectionFailure>> {
        let broken = |_| ConnectionFailure::Io;
        loop {
            while !self.bytes.is_empty() {
                match ready!(Pin::new(&mut *io).poll_write(context, &self.bytes)).map_err(broken)? {
                    0 => return Poll::Ready(Err(ConnectionFailure::Io)),
                    count => self.bytes.advance(count),
                }
            }
            if self.left > 0 && self.body.is_none() {
                // Only the end of the connection tells the client.
                return Poll::Ready(Err(ConnectionFailure::Protocol));
            }
            ready!(Pin::new(&mut *io).poll_flush(context)).map_err(broken)?;
            if self.left == 0 {
                return Poll::Ready(Ok(()));
            }
            self.bytes = ready!(self.poll_part(context));
        }
    }

    /// The next part of the body. With the last one, or if it broke off, what the request holds is given back.
    fn poll_part(&mut self, context: &mut Context<'_>) -> Poll<Bytes> {
        let Some(body) = &mut self.body else { return Poll::Ready(Bytes::new()) };
        let frame = ready!(Pin::new(body).poll_frame(context));
        let part = data(frame).filter(|part| part.len() as u64 <= self.left);
        self.left -= part.as_ref().map_or(0, |part| part.len() as u64);
        if part.is_none() || self.left == 0 {
            self.body = None;
        }
        Poll::Ready(part.unwrap_or_default())
    }
}

/// The bytes of a frame; `None` if the body broke off, or has ended.
fn data(frame: Option<Result<Frame<Bytes>, BrokenOff>>) -> Option<Bytes> {
    // Trailers have no place behind a length.
    Some(frame?.ok()?.into_data().unwrap_or_default())
}

/// The length of the body of a plain response; `None` if it is another one.
fn plain_length(response: &Response<Body>) -> Option<u64> {
    let (status, headers) = (response.status(), response.headers());
    let has_body = !status.is_informational() && status != StatusCode::NO_CONTENT && status != StatusCode::NOT_MODIFIED;
    let is_of_connection = |name: &HeaderName| OF_THE_CONNECTION.contains(name);
    // Extensions are for who sends it: another reason, or where its connection leads.
    let is_plain = has_body
        && response.version() == Version::HTTP_11
        && response.extensions().is_empty()
        && !headers.keys().any(is_of_connection);
    let length = response.body().size_hint().exact().filter(|_| is_plain)?;
    let mut said = headers.get_all(CONTENT_LENGTH).iter();
    let is_same = said.next().is_none_or(|said| said.as_bytes() == length.to_string().as_bytes());
    (is_same && said.next().is_none()).then_some(length)
}

/// The head of a plain response, as it is sent.
fn head(response: &Response<Body>, length: u64) -> Vec<u8> {
    let mut head = Vec::with_capacity(RESPONSE_BYTES);
    let status = response.status();
    let reason = status.canonical_reason().unwrap_or("<none>");
    for part in ["HTTP/1.1 ", status.as_str(), " ", reason, "\r\n"] {
        head.extend_from_slice(part.as_bytes());
    }
    for (name, value) in response.headers() {
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            head.extend_from_slice(part);
        }
    }
    if !response.headers().contains_key(CONTENT_LENGTH) {
        for part in ["content-length: ", &length.to_string(), "\r\n"] {
            head.extend_from_slice(part.as_bytes());
        }
    }
    if !response.headers().contains_key(DATE) {
        head.extend_from_slice(b"date: ");
        extend_date(&mut head);
        head.extend_from_slice(b"\r\n");
    }
    head.extend_from_slice(b"\r\n");
    head
}

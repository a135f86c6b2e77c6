//! The body of a response on its way to the client.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::Instant;

use super::line::Rest;
use super::or_never;
use super::pool::{Lent, Sender};
use super::request_body::Progress;
use super::slot::Slot;
use crate::body::{BrokenOff, Foreign};

/// Where the body of a response comes from.
#[derive(Debug)]
pub(super) enum Content {
    Incoming(Incoming),
    /// From the line that is held.
    Line(Rest),
}

/// The body of a response on its way to the client. It is read only as fast as the client takes it.
///
/// It holds what the request holds: the connection goes back when the response has ended as it should, and the slots whenever it has ended.
#[derive(Debug)]
pub(super) struct ResponseBody {
    content: Content,
    held: Option<Held>,
    idle_timeout: Duration,
    /// When all of it has to have come, if that is limited.
    deadline: Option<Instant>,
    /// Until when the server is waited for, if it is.
    waits_until: Option<Instant>,
}

/// What a request holds until its response has ended.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) lent: Option<Lent>,
    pub(super) slot: Option<Slot>,
    /// Of the request's body.
    pub(super) progress: Arc<Progress>,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.progress.answered();
    }
}

impl ResponseBody {
    pub(super) fn new(content: Content, held: Held, idle_timeout: Duration, deadline: Option<Instant>) -> Self {
        let mut body = Self { content, held: Some(held), idle_timeout, deadline, waits_until: None };
        if body.is_end_stream() {
            body.end();
        }
        body
    }

    /// The response has ended as it should.
    fn end(&mut self) {
        let Some(mut held) = self.held.take() else { return };
        if let Some(lent) = held.lent.take() {
            lent.give_back();
        }
    }

    /// The response broke off. Without its connection, nothing of it can be taken for the next one.
    fn break_off(&mut self) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        self.held = None;
        Poll::Ready(Some(Err(BrokenOff)))
    }

    fn poll_content(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        let rest = match &mut self.content {
            Content::Incoming(incoming) => {
                return Pin::new(incoming).poll_frame(context).map(|frame| frame.map(|frame| frame.map_err(|_| BrokenOff)));
            }
            Content::Line(rest) => rest,
        };
        let lent = self.held.as_mut().and_then(|held| held.lent.as_mut());
        let Some(Sender::Line(line)) = lent.map(|lent| &mut lent.sender) else {
            // It went back with the last byte, or it broke off before.
            return Poll::Ready((rest.len() > 0).then_some(Err(BrokenOff)));
        };
        line.poll_part(rest, context).map(|part| Some(part.map(Frame::data).map_err(|_| BrokenOff)))
    }

    /// Whether the server has been waited for too long.
    fn is_late(&mut self, context: &mut Context<'_>) -> bool {
        let (idle_timeout, deadline) = (self.idle_timeout, self.deadline);
        let at = *self.waits_until.get_or_insert_with(|| {
            let at = Instant::now() + or_never(idle_timeout);
            deadline.map_or(at, |deadline| at.min(deadline))
        });
        let lent = self.held.as_mut().and_then(|held| held.lent.as_mut());
        lent.is_some_and(|lent| lent.alarm.poll_at(at, context).is_ready())
    }
}

impl Foreign for ResponseBody {
    fn deadline(&self) -> Option<Instant> {
        self.held.as_ref().and(self.deadline)
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = BrokenOff;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        // Also where it is the client who is slow. The clock is read for those only who set a limit.
        if self.held.is_some() && self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return self.break_off();
        }
        match self.poll_content(context) {
            Poll::Pending if self.is_late(context) => self.break_off(),
            Poll::Pending => Poll::Pending,
            Poll::Ready(Some(Err(BrokenOff))) => self.break_off(),
            Poll::Ready(frame) => {
                self.waits_until = None;
                // Whoever knows the length does not ask for what comes after the last byte.
                if frame.is_none() || self.is_end_stream() {
                    self.end();
                }
                Poll::Ready(frame)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Incoming(incoming) => incoming.is_end_stream(),
            Content::Line(rest) => rest.len() == 0,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Incoming(incoming) => incoming.size_hint(),
            Content::Line(rest) => SizeHint::with_exact(rest.len()),
        }
    }
}

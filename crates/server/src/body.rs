//! The one body type of all responses.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Frame, SizeHint};
use tokio::sync::mpsc::Receiver;
use tokio::time::Instant;

/// A body: nothing, some bytes, messages that come one by one, or what somebody else sends; trailers at the end if the protocol has them.
#[derive(Debug)]
pub struct Body {
    content: Content,
    trailers: Option<Box<HeaderMap>>,
}

#[derive(Debug)]
enum Content {
    Done,
    Bytes(Bytes),
    Stream(Receiver<Bytes>),
    Foreign(Pin<Box<dyn Foreign>>),
}

/// A body that comes from elsewhere, and may break off.
pub trait Foreign: http_body::Body<Data = Bytes, Error = BrokenOff> + fmt::Debug + Send {
    /// When all of it has to have gone, if that is limited. It breaks off by itself when it is asked for more; who does not take it is not asked.
    fn deadline(&self) -> Option<Instant> {
        None
    }
}

/// A body ended before its end. Whoever reads it learns that from its connection: it must not look complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the body broke off")]
pub struct BrokenOff;

impl Body {
    /// Nothing.
    pub fn empty() -> Self {
        Self { content: Content::Done, trailers: None }
    }

    /// Some bytes.
    pub fn full(bytes: impl Into<Bytes>) -> Self {
        Self { content: Content::Bytes(bytes.into()), trailers: None }
    }

    /// Bytes that come one by one, until the sender is dropped.
    pub fn stream(bytes: Receiver<Bytes>) -> Self {
        Self { content: Content::Stream(bytes), trailers: None }
    }

    /// What somebody else sends, trailers included.
    pub fn foreign(body: impl Foreign + 'static) -> Self {
        Self { content: Content::Foreign(Box::pin(body)), trailers: None }
    }

    /// The same body, followed by trailers.
    #[must_use]
    pub fn with_trailers(mut self, trailers: HeaderMap) -> Self {
        self.trailers = Some(Box::new(trailers));
        self
    }

    /// When all of it has to have gone, if that is limited.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match &self.content {
            Content::Foreign(body) => body.deadline(),
            Content::Done | Content::Bytes(_) | Content::Stream(_) => None,
        }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = BrokenOff;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        let bytes = match &mut self.content {
            Content::Done => None,
            Content::Foreign(body) => return body.as_mut().poll_frame(context),
            Content::Stream(stream) => std::task::ready!(stream.poll_recv(context)),
            Content::Bytes(bytes) => {
                let bytes = std::mem::take(bytes);
                self.content = Content::Done;
                Some(bytes)
            }
        };
        if let Some(bytes) = bytes {
            return Poll::Ready(Some(Ok(Frame::data(bytes))));
        }
        self.content = Content::Done;
        Poll::Ready(self.trailers.take().map(|trailers| Ok(Frame::trailers(*trailers))))
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Foreign(body) => body.is_end_stream(),
            content => matches!(content, Content::Done) && self.trailers.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Done => SizeHint::with_exact(0),
            Content::Foreign(body) => body.size_hint(),
            // An exact size becomes a `Content-Length`, which responses with trailers do without.
            Content::Bytes(bytes) if self.trailers.is_none() => SizeHint::with_exact(bytes.len() as u64),
            Content::Bytes(_) | Content::Stream(_) => SizeHint::default(),
        }
    }
}

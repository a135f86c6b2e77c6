//! A connection of HTTP/1 on the short way: a request without a body is written, and its response read, by the task of the request itself.
//!
//! hyper drives a connection by a task of its own. From there to the one that answers the client a response goes through channels and wakes four times,
//! which costs more than all that is done to it here. So a request without a body goes out by itself, and comes back by itself if the response is *plain*:
//! its head came as a whole, and says how long the body is. Nothing else is understood here, and nothing is refused. Any other response is left to hyper,
//! which is told of the request as if nobody had sent it (`retold`), and keeps the connection from then on.

mod response;
mod retold;

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker, ready};

use bytes::buf::BufMut;
use bytes::{Bytes, BytesMut};
use http::{Method, Response};
use hyper::client::conn::http1::SendRequest;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::task::coop::unconstrained;

use self::retold::Retold;
use super::dial::{self, Stream};
use super::head::Wants;
use super::request_body::RequestBody;

/// What is read at once before the length of a response is known. A head that is longer is left to hyper.
const FIRST_BYTES: usize = 8_192;

/// The most of a body that is read at once.
const READ_BYTES: u64 = 32 * 1_024;

/// A connection that nobody drives but who uses it.
pub(super) struct Line(Box<dyn Stream>);

/// What came back.
#[derive(Debug)]
pub(super) enum Told {
    /// A plain response.
    Plain(Response<Rest>),
    /// The beginning of another one.
    Other(Bytes),
}

/// What is to come of a plain response.
#[derive(Debug)]
pub(super) struct Rest {
    /// What came with the head.
    first: Bytes,
    /// How much follows.
    left: u64,
}

/// Why nothing came back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Untold {
    /// Nothing was sent.
    Unsent,
    /// The server broke off.
    Broken,
}

/// Whether a request can be sent on a line: its response can be plain, and the connection stays one of HTTP.
pub(super) fn is_for(method: &Method, body: &RequestBody, wants: Wants) -> bool {
    body.is_empty() && *method != Method::HEAD && !wants.upgrade
}

impl Line {
    pub(super) fn new(stream: Box<dyn Stream>) -> Self {
        Self(stream)
    }

    /// Whether it can take a request: the server has not ended it, and has said nothing that nobody asked for.
    pub(super) fn is_ready(&mut self) -> bool {
        let mut space = [MaybeUninit::uninit(); 1];
        let mut buffer = ReadBuf::uninit(&mut space);
        // A task that has done much is told that there is nothing to read, so that others get their turn. Here that would be taken for the truth.
        let read = unconstrained(poll_fn(|context| Pin::new(&mut self.0).poll_read(context, &mut buffer)));
        pin!(read).poll(&mut Context::from_waker(Waker::noop())).is_pending()
    }

    /// Takes its connection, and leaves one without.
    pub(super) fn take(&mut self) -> Self {
        Self(std::mem::replace(&mut self.0, Box::new(tokio::io::empty())))
    }

    /// Leaves it to hyper, before anything was sent.
    pub(super) async fn leave(self) -> io::Result<SendRequest<RequestBody>> {
        dial::driven(self.0).await
    }

    /// Leaves it to hyper behind a request that was sent and is sent again in vain, with what has come back.
    pub(super) async fn leave_asked(self, begun: Bytes) -> io::Result<SendRequest<RequestBody>> {
        dial::driven(Box::new(Retold::new(self.0, begun))).await
    }

    /// Sends a request, as it was [written](super::asked::Asked::written), and reads what comes back first.
    pub(super) async fn ask(&mut self, head: Vec<u8>) -> Result<Told, Untold> {
        let mut sent = 0;
        while sent < head.len() {
            match poll_fn(|context| Pin::new(&mut self.0).poll_write(context, &head[sent..])).await {
                Ok(count @ 1..) => sent += count,
                Ok(0) | Err(_) => return Err(if sent == 0 { Untold::Unsent } else { Untold::Broken }),
            }
        }
        poll_fn(|context| Pin::new(&mut self.0).poll_flush(context)).await.map_err(|_| Untold::Broken)?;
        let bytes = poll_fn(|context| self.poll_first(context)).await.map_err(|_| Untold::Broken)?;
        if bytes.is_empty() {
            return Err(Untold::Broken);
        }
        Ok(response::read(&bytes).map_or(Told::Other(bytes), Told::Plain))
    }

    /// Reads what comes first: into the stack, because a line that waits holds no buffer.
    fn poll_first(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        let mut space = [MaybeUninit::uninit(); FIRST_BYTES];
        let mut buffer = ReadBuf::uninit(&mut space);
        ready!(Pin::new(&mut self.0).poll_read(context, &mut buffer))?;
        Poll::Ready(Ok(Bytes::copy_from_slice(buffer.filled())))
    }

    /// The next part of a body; an error if it broke off. Not to be asked once the [rest](Rest) has ended.
    pub(super) fn poll_part(&mut self, rest: &mut Rest, context: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        if !rest.first.is_empty() {
            return Poll::Ready(Ok(std::mem::take(&mut rest.first)));
        }
        let room = usize::try_from(rest.left.min(READ_BYTES)).unwrap_or_default();
        let mut part = BytesMut::with_capacity(room).limit(room);
        let count = ready!(pin!(self.0.read_buf(&mut part)).poll(context))?;
        if count == 0 {
            return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
        }
        rest.left -= count as u64;
        Poll::Ready(Ok(part.into_inner().freeze()))
    }
}

impl Rest {
    /// How many bytes are to come.
    pub(super) fn len(&self) -> u64 {
        self.first.len() as u64 + self.left
    }
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Line").finish_non_exhaustive()
    }
}

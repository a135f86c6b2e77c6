//! The bytes of a connection: TCP or a unix socket, with TLS or without.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use super::activity::Activity;
use super::framing::Framing;

/// A connection as it was accepted.
pub(super) enum Plain {
    Tcp(TcpStream),
    #[cfg(unix)]
    Unix(tokio::net::UnixStream),
}

/// The same, known to no runtime: on the way from one thread to another.
pub(super) enum Loose {
    Tcp(std::net::TcpStream),
    #[cfg(unix)]
    Unix(std::os::unix::net::UnixStream),
}

/// A connection, with TLS or without.
pub(super) enum Stream {
    Plain(Plain),
    Tls(Box<TlsStream<Plain>>),
}

/// A connection whose first bytes were looked at, and whose activity is noted.
pub(super) struct Io {
    stream: Stream,
    /// What was read before, and is to be read again.
    ahead: Bytes,
    activity: Arc<Activity>,
    /// Where requests begin and end, if that matters.
    framing: Option<Framing>,
}

/// The first bytes of a connection, as many as it takes to tell HTTP/2 from HTTP/1.
#[derive(Debug, Default)]
pub(super) struct First {
    bytes: [u8; 24],
    filled: u8,
}

/// What a client of HTTP/2 says first.
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

impl Plain {
    /// Takes it out of the runtime of the caller.
    pub(super) fn loosen(self) -> io::Result<Loose> {
        match self {
            Self::Tcp(stream) => stream.into_std().map(Loose::Tcp),
            #[cfg(unix)]
            Self::Unix(stream) => stream.into_std().map(Loose::Unix),
        }
    }
}

impl Loose {
    /// Makes it known to the runtime of the caller.
    pub(super) fn fasten(self) -> io::Result<Plain> {
        match self {
            Self::Tcp(stream) => TcpStream::from_std(stream).map(Plain::Tcp),
            #[cfg(unix)]
            Self::Unix(stream) => tokio::net::UnixStream::from_std(stream).map(Plain::Unix),
        }
    }
}

impl First {
    /// Reads until it is clear which version of HTTP the other side speaks: true is HTTP/2. `None` if it said nothing.
    pub(super) async fn is_http2(&mut self, stream: &mut Stream) -> io::Result<Option<bool>> {
        use tokio::io::AsyncReadExt;
        loop {
            let filled = usize::from(self.filled);
            let read = stream.read(&mut self.bytes[filled..]).await?;
            if read == 0 {
                // Half of a preface is for HTTP/1 to complain about.
                return Ok((filled > 0).then_some(false));
            }
            #[allow(clippy::cast_possible_truncation, reason = "at most 24")]
            (self.filled = (filled + read) as u8);
            if self.bytes[..filled + read] != PREFACE[..filled + read] {
                return Ok(Some(false));
            }
            if filled + read == PREFACE.len() {
                return Ok(Some(true));
            }
        }
    }

    fn filled(&self) -> &[u8] {
        &self.bytes[..usize::from(self.filled)]
    }
}

impl Io {
    pub(super) fn new(stream: Stream, first: &First, activity: Arc<Activity>) -> Self {
        Self { stream, ahead: Bytes::copy_from_slice(first.filled()), activity, framing: None }
    }

    /// Follows requests from here on: what is read next, also if it is read again, is the beginning of one.
    pub(super) fn following(self) -> Self {
        Self { framing: Some(Framing::default()), ..self }
    }

    /// Follows no more, because what comes are no requests.
    pub(super) fn not_following(self) -> Self {
        Self { framing: None, ..self }
    }

    /// Whether there is something to be read again.
    pub(super) fn has_ahead(&self) -> bool {
        !self.ahead.is_empty()
    }

    /// Lets these bytes, which were read last, be read again.
    pub(super) fn put_back(&mut self, bytes: &[u8]) {
        self.ahead = if self.ahead.is_empty() { Bytes::copy_from_slice(bytes) } else { [bytes, &self.ahead].concat().into() };
    }
}

/// Hands a call to whatever is inside.
macro_rules! inside {
    ($kind:ident, $pinned:expr, $inside:ident => $call:expr) => {
        match $pinned.get_mut() {
            $kind::Tcp(inner) => {
                let $inside = Pin::new(inner);
                $call
            }
            #[cfg(unix)]
            $kind::Unix(inner) => {
                let $inside = Pin::new(inner);
                $call
            }
        }
    };
}

impl AsyncRead for Plain {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        inside!(Plain, self, inner => inner.poll_read(context, buffer))
    }
}

impl AsyncWrite for Plain {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        inside!(Plain, self, inner => inner.poll_write(context, bytes))
    }

    fn poll_write_vectored(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        inside!(Plain, self, inner => inner.poll_write_vectored(context, bytes))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        inside!(Plain, self, inner => inner.poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        inside!(Plain, self, inner => inner.poll_shutdown(context))
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(context, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(context, bytes),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(context),
            Self::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}

impl AsyncRead for Io {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let this = &mut *self;
        let ahead = this.ahead.len().min(buffer.remaining());
        buffer.put_slice(&this.ahead.split_to(ahead));
        let read =
            if buffer.remaining() > 0 { Pin::new(&mut this.stream).poll_read(context, buffer) } else { Poll::Ready(Ok(())) };
        if buffer.filled().len() > before {
            this.activity.note_bytes();
            if let Some(framing) = &mut this.framing {
                this.activity.note_clear(framing.follow(&buffer.filled()[before..]));
            }
        }
        // What was there is read, whether more comes or not.
        if ahead > 0 { Poll::Ready(Ok(())) } else { read }
    }
}

impl AsyncWrite for Io {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.activity.note_write(written.is_ready());
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.activity.note_write(written.is_ready());
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        // TLS takes bytes before the client does, and says only here that it does not. A socket has nothing to say.
        if let Stream::Tls(_) = &self.stream {
            self.activity.note_write(flushed.is_ready());
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

//! The three kinds of connections as one.

use std::io;
#[cfg(unix)]
use std::io::{Read, Write};
#[cfg(unix)]
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// A connection.
#[derive(Debug)]
pub(super) enum Stream {
    Tcp(TcpStream),
    #[cfg(unix)]
    Unix(tokio::net::UnixStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// A connection on which bytes travel as they are, for a thread that waits for it itself.
#[cfg(unix)]
#[derive(Debug)]
pub(super) enum Wire {
    Tcp(std::net::TcpStream),
    Unix(std::os::unix::net::UnixStream),
}

#[cfg(not(unix))]
#[derive(Debug)]
pub(super) enum Wire {}

/// What an event loop can watch of a connection.
#[cfg(unix)]
pub type Socket<'a> = BorrowedFd<'a>;
/// What an event loop could watch of a connection.
#[cfg(not(unix))]
pub type Socket<'a> = &'a std::convert::Infallible;

/// What a thread waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    /// Something came.
    In,
    /// There is room for something to go.
    Out,
}

#[cfg(unix)]
impl Wire {
    /// Waits for at most so long; `false` if nothing happened. It may be that nothing happened although it is `true`.
    pub(super) fn wait(&self, direction: Direction, limit: Duration) -> io::Result<bool> {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};

        let flags = if direction == Direction::In { PollFlags::IN } else { PollFlags::OUT };
        let limit = Timespec::try_from(limit).map_err(|_| io::ErrorKind::InvalidInput)?;
        match poll(&mut [PollFd::from_borrowed_fd(self.socket(), flags)], Some(&limit)) {
            Ok(ready) => Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn socket(&self) -> Socket<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
        }
    }

    pub(super) fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(into),
            Self::Unix(stream) => stream.read(into),
        }
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }
}

#[cfg(not(unix))]
impl Wire {
    pub(super) fn wait(&self, _direction: Direction, _limit: Duration) -> io::Result<bool> {
        match *self {}
    }

    pub(super) fn socket(&self) -> Socket<'_> {
        match *self {}
    }

    pub(super) fn read(&mut self, _into: &mut [u8]) -> io::Result<usize> {
        match *self {}
    }

    pub(super) fn write(&mut self, _bytes: &[u8]) -> io::Result<usize> {
        match *self {}
    }
}

impl Stream {
    /// Takes it from the runtime; `None` if its bytes do not travel as they are, or threads cannot wait for it here.
    #[cfg(unix)]
    pub(super) fn into_wire(self) -> Option<Wire> {
        match self {
            Self::Tcp(stream) => stream.into_std().ok().map(Wire::Tcp),
            Self::Unix(stream) => stream.into_std().ok().map(Wire::Unix),
            Self::Tls(_) => None,
        }
    }

    /// Gives it back to the runtime of the task that calls this.
    #[cfg(unix)]
    pub(super) fn from_wire(wire: Wire) -> io::Result<Self> {
        match wire {
            Wire::Tcp(stream) => TcpStream::from_std(stream).map(Self::Tcp),
            Wire::Unix(stream) => tokio::net::UnixStream::from_std(stream).map(Self::Unix),
        }
    }

    #[cfg(not(unix))]
    pub(super) fn into_wire(self) -> Option<Wire> {
        None
    }

    #[cfg(not(unix))]
    pub(super) fn from_wire(wire: Wire) -> io::Result<Self> {
        match wire {}
    }
}

/// The same call on whichever it is.
macro_rules! on_stream {
    ($stream:expr, $method:ident($($argument:expr),*)) => {
        match $stream.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).$method($($argument),*),
            #[cfg(unix)]
            Self::Unix(stream) => Pin::new(stream).$method($($argument),*),
            Self::Tls(stream) => Pin::new(stream).$method($($argument),*),
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        on_stream!(self, poll_read(context, buffer))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        on_stream!(self, poll_write(context, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_stream!(self, poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_stream!(self, poll_shutdown(context))
    }
}

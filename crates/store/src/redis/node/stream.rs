//! The three kinds of connections as one.

use std::io;
#[cfg(unix)]
use std::io::Write;
#[cfg(unix)]
use std::os::fd::AsFd;
use std::pin::Pin;
use std::task::{Context, Poll};

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

/// A second handle of a connection on which bytes travel as they are, for threads that write to it themselves.
#[cfg(unix)]
#[derive(Debug)]
pub(super) enum Wire {
    Tcp(std::net::TcpStream),
    Unix(std::os::unix::net::UnixStream),
}

#[cfg(not(unix))]
#[derive(Debug)]
pub(super) enum Wire {}

#[cfg(unix)]
impl Wire {
    /// Writes what fits now.
    pub(super) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => (&*stream).write(bytes),
            Self::Unix(stream) => (&*stream).write(bytes),
        }
    }
}

impl Stream {
    /// Another handle of it; `None` if there is none to be had, or its bytes do not travel as they are.
    #[cfg(unix)]
    pub(super) fn wire(&self) -> Option<Wire> {
        match self {
            Self::Tcp(stream) => Some(Wire::Tcp(stream.as_fd().try_clone_to_owned().ok()?.into())),
            Self::Unix(stream) => Some(Wire::Unix(stream.as_fd().try_clone_to_owned().ok()?.into())),
            Self::Tls(_) => None,
        }
    }
}

#[cfg(not(unix))]
impl Wire {
    pub(super) fn write(&self, _bytes: &[u8]) -> io::Result<usize> {
        match *self {}
    }
}

#[cfg(not(unix))]
impl Stream {
    pub(super) fn wire(&self) -> Option<Wire> {
        None
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

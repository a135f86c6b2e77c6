//! A connection to a server that may answer before it has read all that it is sent, and then read no more.
//!
//! That is how servers refuse what is too long for them. hyper gives up at the first byte that cannot be written, and with that the answer, which has
//! come already. So what cannot be written any more is dropped here, and what the server has to say, or that it says nothing, is found by reading.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::dial::Stream;

/// A connection to a server that is heard out.
pub(super) struct Heard {
    stream: Box<dyn Stream>,
    /// Whether the server reads no more.
    is_deaf: bool,
}

impl Heard {
    pub(super) fn new(stream: Box<dyn Stream>) -> Self {
        Self { stream, is_deaf: false }
    }

    /// What became of a write; `dropped` is what is said if nobody reads it.
    fn written<T>(&mut self, written: io::Result<T>, dropped: T) -> T {
        self.is_deaf |= written.is_err();
        written.unwrap_or(dropped)
    }
}

impl AsyncRead for Heard {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Heard {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.is_deaf {
            return Poll::Ready(Ok(bytes.len()));
        }
        let written = ready!(Pin::new(&mut self.stream).poll_write(context, bytes));
        Poll::Ready(Ok(self.written(written, bytes.len())))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let length = slices.iter().map(|slice| slice.len()).sum();
        if self.is_deaf {
            return Poll::Ready(Ok(length));
        }
        let written = ready!(Pin::new(&mut self.stream).poll_write_vectored(context, slices));
        Poll::Ready(Ok(self.written(written, length)))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.is_deaf {
            return Poll::Ready(Ok(()));
        }
        let flushed = ready!(Pin::new(&mut self.stream).poll_flush(context));
        self.is_deaf |= flushed.is_err();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

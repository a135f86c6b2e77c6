//! A connection on which a request was sent, for hyper, which sends it again: what it sends first goes nowhere, and what it reads first has come already.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::Stream;

/// The connection.
pub(super) struct Retold {
    stream: Box<dyn Stream>,
    /// What has come back, and is to be read.
    begun: Bytes,
    told: To,
}

/// Where hyper's words go.
enum To {
    /// Nowhere: they are the head of the request, until it is flushed. What answers it is held back as long, because hyper takes what comes before it has
    /// asked for a mistake.
    Nobody {
        /// Whether there were any.
        has_heard: bool,
        reader: Option<Waker>,
    },
    Server,
}

impl Retold {
    pub(super) fn new(stream: Box<dyn Stream>, begun: Bytes) -> Self {
        Self { stream, begun, told: To::Nobody { has_heard: false, reader: None } }
    }
}

impl AsyncRead for Retold {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if let To::Nobody { reader, .. } = &mut self.told {
            *reader = Some(context.waker().clone());
            return Poll::Pending;
        }
        if self.begun.is_empty() {
            return Pin::new(&mut self.stream).poll_read(context, buffer);
        }
        let count = self.begun.len().min(buffer.remaining());
        buffer.put_slice(&self.begun.split_to(count));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Retold {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if let To::Nobody { has_heard, .. } = &mut self.told {
            *has_heard = true;
            return Poll::Ready(Ok(bytes.len()));
        }
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let To::Nobody { has_heard: true, reader } = &mut self.told {
            if let Some(reader) = reader.take() {
                reader.wake();
            }
            self.told = To::Server;
        }
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

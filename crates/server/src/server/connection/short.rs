//! The short way: requests that came as a whole are answered straight from their bytes, as long as the handler of the port can. The first one that it
//! cannot answer, and all that follow on the same connection, are left to hyper. So is a response that cannot be written here: hyper reads its request once
//! more, and finds that it is answered already.
//!
//! A connection that waits holds no buffer.

use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::Response;
use tidegate_engine::together::Coming;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::super::activity::{Activity, Running};
use super::super::answer::{Handler, polled};
use super::super::stream::Io;
use super::respond::{Other, Responding};
use crate::app::Peer;
use crate::body::Body;
use crate::metrics::{ConnectionFailure, Port};

/// What is read at once. A request that is longer is left to hyper.
const READ_BYTES: usize = 8_192;

/// What is said when a handler panicked.
const BROKEN: &[u8] = b"HTTP/1.1 500 Internal Server Error\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// What became of bytes that could be a request.
pub enum Shortcut {
    /// They are none, or none that can be answered in this way. Nothing was done.
    None,
    /// The request is the first `taken` of them, and this is the answer.
    Answered {
        /// How long the request is.
        taken: usize,
        /// A whole answer, with its head.
        answer: Vec<u8>,
    },
    /// The same, but the answer takes time.
    Coming {
        /// How long the request is.
        taken: usize,
        /// A whole answer, with its head.
        answer: Coming<Vec<u8>>,
    },
    /// The same, but the answer may be any.
    Forwarded {
        /// The bytes of the request.
        request: Bytes,
        /// The answer.
        response: Coming<Response<Body>>,
    },
}

impl std::fmt::Debug for Shortcut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::Answered { .. } => "Answered",
            Self::Coming { .. } => "Coming",
            Self::Forwarded { .. } => "Forwarded",
        })
    }
}

/// A connection on the short way.
pub(super) struct Short<H> {
    io: Io,
    activity: Arc<Activity>,
    port: Port,
    peer: Peer,
    step: Step,
    /// Whether it ends with the answer that is under way.
    is_last: bool,
    handler: PhantomData<fn() -> H>,
}

/// What is done next.
enum Step {
    Read,
    Wait {
        answer: Coming<Vec<u8>>,
        /// Held, so that the connection does not seem idle.
        _running: Running,
    },
    Write(Vec<u8>, usize),
    /// The same as to wait and to write, for an answer that may be any.
    Forward {
        request: Bytes,
        response: Coming<Response<Body>>,
        running: Running,
    },
    Respond(Responding),
    Close,
}

/// How the short way ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// With the connection.
    Closed,
    /// With a request that is to be read again by somebody else.
    Left,
}

impl<H: Handler> Short<H> {
    pub(super) fn new(io: Io, activity: Arc<Activity>, port: Port, peer: Peer) -> Self {
        Self { io, activity, port, peer, step: Step::Read, is_last: false, handler: PhantomData }
    }

    /// The connection, with what was read in vain.
    pub(super) fn into_io(self) -> Io {
        self.io
    }

    /// Answers what is under way, and ends.
    pub(super) fn finish(&mut self) {
        self.is_last = true;
    }

    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Ended, ConnectionFailure>> {
        let broken = |_| ConnectionFailure::Io;
        loop {
            match &mut self.step {
                Step::Read if self.is_last => self.step = Step::Close,
                Step::Read => {
                    let mut space = [MaybeUninit::uninit(); READ_BYTES];
                    let mut buffer = ReadBuf::uninit(&mut space);
                    ready!(Pin::new(&mut self.io).poll_read(context, &mut buffer)).map_err(broken)?;
                    if buffer.filled().is_empty() {
                        self.step = Step::Close;
                    } else if !self.take(buffer.filled()) {
                        self.io.put_back(buffer.filled());
                        return Poll::Ready(Ok(Ended::Left));
                    }
                }
                Step::Wait { answer, .. } => {
                    let polled = catch_unwind(AssertUnwindSafe(|| answer.as_mut().poll(context)));
                    self.step = match polled {
                        Ok(Poll::Ready(answer)) => Step::Write(answer, 0),
                        Ok(Poll::Pending) => {
                            ready!(self.poll_gone(context))?;
                            Step::Close
                        }
                        Err(_) => self.broken(),
                    };
                }
                Step::Write(answer, written) => {
                    while *written < answer.len() {
                        let count = ready!(Pin::new(&mut self.io).poll_write(context, &answer[*written..])).map_err(broken)?;
                        if count == 0 {
                            return Poll::Ready(Err(ConnectionFailure::Io));
                        }
                        *written += count;
                    }
                    ready!(Pin::new(&mut self.io).poll_flush(context)).map_err(broken)?;
                    self.step = Step::Read;
                }
                Step::Forward { response, .. } => match polled::<H>(response.as_mut(), context, &self.activity.app, self.port) {
                    Poll::Ready(response) => {
                        if !self.responds(response, context) {
                            return Poll::Ready(Ok(Ended::Left));
                        }
                    }
                    Poll::Pending => {
                        ready!(self.poll_gone(context))?;
                        return Poll::Ready(Err(ConnectionFailure::Io));
                    }
                },
                Step::Respond(responding) => match responding.poll(&mut self.io, context) {
                    Poll::Ready(sent) => {
                        sent?;
                        self.step = Step::Read;
                    }
                    Poll::Pending => {
                        ready!(self.poll_gone(context))?;
                        return Poll::Ready(Err(ConnectionFailure::Io));
                    }
                },
                Step::Close => {
                    // Who is gone already needs not be told.
                    let _ = ready!(Pin::new(&mut self.io).poll_shutdown(context));
                    return Poll::Ready(Ok(Ended::Closed));
                }
            }
        }
    }

    /// Waits until the other side has gone, who then waits for no answer. What it sends meanwhile is read later.
    fn poll_gone(&mut self, context: &mut Context<'_>) -> Poll<Result<(), ConnectionFailure>> {
        if self.io.has_ahead() {
            return Poll::Pending;
        }
        let mut space = [MaybeUninit::uninit(); READ_BYTES];
        let mut buffer = ReadBuf::uninit(&mut space);
        ready!(Pin::new(&mut self.io).poll_read(context, &mut buffer)).map_err(|_| ConnectionFailure::Io)?;
        if buffer.filled().is_empty() {
            return Poll::Ready(Ok(()));
        }
        self.io.put_back(buffer.filled());
        Poll::Pending
    }

    /// Takes a request from the beginning of these bytes; `false` if it is none for this way.
    fn take(&mut self, bytes: &[u8]) -> bool {
        // Who is to be told that this answer is the last one is told so by hyper.
        if self.activity.is_last() {
            return false;
        }
        let app = &self.activity.app;
        // What a handler that panicked leaves behind is dropped and not looked at again, except for the engine, whose locks end with the panic.
        let taken = match catch_unwind(AssertUnwindSafe(|| H::shortcut(app, self.peer, bytes))) {
            Ok(Shortcut::None) => return false,
            Ok(Shortcut::Answered { taken, answer }) => {
                self.activity.step();
                self.step = Step::Write(answer, 0);
                taken
            }
            Ok(Shortcut::Coming { taken, answer }) => {
                self.step = Step::Wait { answer, _running: Running::new(&self.activity, H::HAS_TIMEOUTS) };
                taken
            }
            Ok(Shortcut::Forwarded { request, response }) => {
                let taken = request.len();
                let running = Running::new(&self.activity, H::HAS_TIMEOUTS);
                self.step = Step::Forward { request, response, running };
                taken
            }
            Err(_) => {
                self.step = self.broken();
                bytes.len()
            }
        };
        if taken < bytes.len() {
            self.io.put_back(&bytes[taken..]);
        }
        true
    }

    /// Sends what answers the request under way. `false` if that cannot be done here: then its request is to be read again, and finds it.
    fn responds(&mut self, response: Response<Body>, context: &mut Context<'_>) -> bool {
        let Step::Forward { request, running, .. } = std::mem::replace(&mut self.step, Step::Read) else { return true };
        if self.is_last {
            self.activity.end_soon();
        }
        // Who is to be told that this answer is the last one is told so by hyper.
        let begun =
            if self.activity.is_last() { Err(Other(Box::new(response))) } else { Responding::new(response, running, context) };
        match begun {
            Ok(responding) => {
                self.step = Step::Respond(responding);
                true
            }
            Err(Other(response)) => {
                self.activity.answer_next(response);
                self.io.put_back(&request);
                false
            }
        }
    }

    /// What is done after a panic.
    fn broken(&mut self) -> Step {
        self.activity.app.metrics.failed(self.port, ConnectionFailure::Panic);
        self.is_last = true;
        Step::Write(BROKEN.to_vec(), 0)
    }
}

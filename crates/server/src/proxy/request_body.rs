//! The body of a request on its way to a server.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::{Timeout, timeout};

/// How long a client that expects `100 Continue` is kept waiting for a server that says nothing.
const CONTINUE_WITHIN: Duration = Duration::from_secs(1);

/// The body of a request on its way to a server. It is read only as fast as the server takes it.
#[derive(Debug)]
pub(super) struct RequestBody {
    /// `None` if there is none.
    incoming: Option<Incoming>,
    progress: Arc<Progress>,
    gate: Option<Gate>,
}

/// How far the body of a request has come.
#[derive(Debug)]
pub(super) struct Progress {
    /// Frames that were passed on; it wraps around.
    steps: AtomicU32,
    end: AtomicU8,
}

const UNDER_WAY: u8 = 0;
const SENT: u8 = 1;
const BROKEN: u8 = 2;

/// Holds a body back until the server asks for it, or has said nothing for too long.
type Gate = Pin<Box<Timeout<oneshot::Receiver<()>>>>;

impl Progress {
    /// A number that changes with every piece of the body.
    pub(super) fn steps(&self) -> u32 {
        self.steps.load(Ordering::Relaxed)
    }

    /// Whether everything was passed on.
    pub(super) fn is_sent(&self) -> bool {
        self.end.load(Ordering::Relaxed) == SENT
    }

    /// Whether the client broke off, or made a mistake.
    pub(super) fn is_broken(&self) -> bool {
        self.end.load(Ordering::Relaxed) == BROKEN
    }
}

impl RequestBody {
    pub(super) fn new(incoming: Incoming) -> Self {
        let is_empty = incoming.is_end_stream();
        let progress = Progress { steps: AtomicU32::new(0), end: AtomicU8::new(if is_empty { SENT } else { UNDER_WAY }) };
        Self { incoming: (!is_empty).then_some(incoming), progress: Arc::new(progress), gate: None }
    }

    /// One without content, for a request that is sent again.
    pub(super) fn empty() -> Self {
        Self { incoming: None, progress: Arc::new(Progress { steps: AtomicU32::new(0), end: AtomicU8::new(SENT) }), gate: None }
    }

    /// How far it has come.
    pub(super) fn progress(&self) -> &Arc<Progress> {
        &self.progress
    }

    /// Whether there is no content.
    pub(super) fn is_empty(&self) -> bool {
        self.incoming.is_none()
    }

    /// Holds it back until the server asks for it: only reading it tells the client to go on. Answers how the server asks.
    pub(super) fn hold_back(&mut self) -> impl Fn() + Send + Sync + 'static {
        let (sender, receiver) = oneshot::channel();
        self.gate = Some(Box::pin(timeout(CONTINUE_WITHIN, receiver)));
        let sender = Mutex::new(Some(sender));
        move || {
            if let Some(sender) = sender.lock().take() {
                // Nobody waits for it any more if the body was given up.
                let _ = sender.send(());
            }
        }
    }

    fn ended(&mut self, end: u8) {
        self.progress.end.store(end, Ordering::Relaxed);
        self.incoming = None;
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        if let Some(gate) = &mut self.gate {
            // Asked for, too late, or nobody left who could ask: in any case it is time.
            let _ = std::task::ready!(gate.as_mut().poll(context));
            self.gate = None;
        }
        let Some(incoming) = &mut self.incoming else { return Poll::Ready(None) };
        let frame = std::task::ready!(Pin::new(&mut *incoming).poll_frame(context));
        let is_end = incoming.is_end_stream();
        self.progress.steps.fetch_add(1, Ordering::Relaxed);
        match &frame {
            Some(Err(_)) => self.ended(BROKEN),
            None => self.ended(SENT),
            Some(Ok(_)) if is_end => self.ended(SENT),
            Some(Ok(_)) => {}
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

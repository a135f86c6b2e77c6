//! The body of a request on its way to a server.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::Extensions;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use parking_lot::Mutex;
use tidegate_engine::plan::Plan;
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, timeout};

use super::head;
use super::refuse::throw_away;
use crate::body::BrokenOff;
use crate::server::Receiving;

/// How long a client that expects `100 Continue` is kept waiting for a server that says nothing.
const CONTINUE_WITHIN: Duration = Duration::from_secs(1);

/// The body of a request on its way to a server. It is read only as fast as the server takes it.
pub(super) struct RequestBody {
    /// `None` if there is none.
    incoming: Option<Incoming>,
    /// Held as long as it is read, also behind the response.
    receiving: Option<Receiving>,
    /// What has decided on the head.
    plan: Option<Arc<Plan>>,
    progress: Arc<Progress>,
    gate: Option<Gate>,
}

/// How far the body of a request has come.
#[derive(Debug)]
pub(crate) struct Progress {
    /// Frames that were passed on; it wraps around.
    steps: AtomicU32,
    bytes: AtomicU64,
    end: AtomicU8,
    /// When the last of it was passed on, if there was any.
    sent_at: OnceLock<Instant>,
    /// Whether the client was asked for more, and has not sent it yet.
    is_awaited: AtomicBool,
    /// Told when the response has ended.
    answered: Notify,
}

const UNDER_WAY: u8 = 0;
const SENT: u8 = 1;
const BROKEN: u8 = 2;
const UNWANTED: u8 = 3;

/// Holds a body back until the server asks for it, or has said nothing for too long: true. False if it has answered without asking, and all of the
/// response has come.
type Gate = Pin<Box<dyn Future<Output = bool> + Send>>;

impl Progress {
    fn at(end: u8) -> Arc<Self> {
        Arc::new(Self {
            steps: AtomicU32::new(0),
            bytes: AtomicU64::new(0),
            end: AtomicU8::new(end),
            sent_at: OnceLock::new(),
            is_awaited: AtomicBool::new(false),
            answered: Notify::new(),
        })
    }

    /// A number that changes with every piece of the body.
    pub(super) fn steps(&self) -> u32 {
        self.steps.load(Ordering::Relaxed)
    }

    /// The bytes of the body so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Whether everything was passed on.
    pub(super) fn is_sent(&self) -> bool {
        self.end.load(Ordering::Acquire) == SENT
    }

    /// When the last of it was passed on; `None` if there was none, or is more to come.
    pub(super) fn sent_at(&self) -> Option<Instant> {
        self.sent_at.get().copied()
    }

    /// Whether it is the client that is waited for, and not the server, which takes nothing.
    pub(super) fn is_awaited(&self) -> bool {
        self.is_awaited.load(Ordering::Relaxed)
    }

    /// Whether nothing of it has been asked for yet.
    pub(super) fn is_untouched(&self) -> bool {
        self.steps() == 0 && !self.is_sent()
    }

    /// Notes how it ended.
    fn ended(&self, end: u8) {
        if end == SENT {
            self.sent_at.get_or_init(Instant::now);
        }
        self.end.store(end, Ordering::Release);
    }

    /// Notes that the response has ended: a body that was not asked for until then never will be.
    pub(super) fn answered(&self) {
        self.answered.notify_one();
    }

    /// Whether the client broke off, or made a mistake.
    pub(crate) fn is_broken(&self) -> bool {
        self.end.load(Ordering::Relaxed) == BROKEN
    }
}

impl RequestBody {
    /// One that comes from a client, if there is one, behind a head with these extensions.
    pub(super) fn new(incoming: Option<Incoming>, extensions: &Extensions) -> Self {
        let incoming = incoming.filter(|incoming| !incoming.is_end_stream());
        let progress = Progress::at(if incoming.is_none() { SENT } else { UNDER_WAY });
        let receiving = incoming.as_ref().and_then(|_| extensions.get::<Receiving>().cloned());
        Self { incoming, receiving, plan: None, progress, gate: None }
    }

    /// The same, when rules have decided on its head.
    pub(super) fn heard(mut self, plan: &Arc<Plan>) -> Self {
        self.plan = self.incoming.is_some().then(|| Arc::clone(plan));
        self
    }

    /// One without content, for a request that is sent again.
    pub(super) fn empty() -> Self {
        Self::new(None, &Extensions::new())
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
        let progress = Arc::clone(&self.progress);
        self.gate = Some(Box::pin(async move {
            let is_refused = matches!(timeout(CONTINUE_WITHIN, receiver).await, Ok(Err(_)));
            if is_refused {
                // To break off now would also break off the response.
                progress.answered.notified().await;
            }
            !is_refused
        }));
        let sender = Mutex::new(Some(sender));
        move || {
            if let Some(sender) = sender.lock().take() {
                // Nobody waits for it any more if the body was given up.
                let _ = sender.send(());
            }
        }
    }

    /// What has not been read, and will not be.
    pub(super) fn take(&mut self) -> Option<Incoming> {
        self.incoming.take()
    }

    fn ended(&mut self, end: u8) {
        self.progress.ended(end);
        (self.incoming, self.receiving) = (None, None);
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BrokenOff;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        let this = self.get_mut();
        if let Some(gate) = &mut this.gate {
            let is_wanted = std::task::ready!(gate.as_mut().poll(context));
            this.gate = None;
            if !is_wanted {
                this.ended(UNWANTED);
                return Poll::Ready(Some(Err(BrokenOff)));
            }
        }
        let Some(incoming) = &mut this.incoming else { return Poll::Ready(None) };
        let frame = Pin::new(&mut *incoming).poll_frame(context);
        this.progress.is_awaited.store(frame.is_pending(), Ordering::Relaxed);
        let mut frame = std::task::ready!(frame);
        if let Some(trailers) = frame.as_mut().and_then(|frame| frame.as_mut().ok()).and_then(Frame::trailers_mut) {
            let rules = this.plan.as_ref().and_then(|plan| plan.rules());
            head::strip_trailers(trailers, |name| rules.is_some_and(|rules| rules.set.asks_for_header(name)));
        }
        let is_end = incoming.is_end_stream();
        let is_complete = has_all(incoming);
        this.progress.steps.fetch_add(1, Ordering::Relaxed);
        if let Some(Ok(frame)) = &frame {
            this.progress.bytes.fetch_add(frame.data_ref().map_or(0, Bytes::len) as u64, Ordering::Relaxed);
        }
        match &frame {
            Some(Err(_)) => this.ended(BROKEN),
            None => this.ended(SENT),
            Some(Ok(_)) if is_end => this.ended(SENT),
            // Trailers may follow.
            Some(Ok(_)) if is_complete => this.progress.ended(SENT),
            Some(Ok(_)) => {}
        }
        Poll::Ready(frame.map(|frame| frame.map_err(|_| BrokenOff)))
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

/// Whether as many bytes came as were announced.
fn has_all(incoming: &Incoming) -> bool {
    incoming.size_hint().exact() == Some(0)
}

/// Whoever sends to a server with a length does not ask for what comes after the last byte. Over HTTP/2 that is the end of the client's stream, on its way
/// in a frame of its own: if nobody waited for it, the stream would be reset, and clients that are about to end it take that for a failure.
/// A server may also answer before it has read all, and read no more: a client that is cut while it sends may not see the answer. Who waits to be told to
/// send its body is not told so here.
impl Drop for RequestBody {
    fn drop(&mut self) {
        let is_begun = self.progress.steps() > 0;
        if let Some(incoming) = self.incoming.take().filter(|incoming| is_begun || has_all(incoming))
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(throw_away(incoming, self.receiving.take()));
        }
    }
}

impl fmt::Debug for RequestBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestBody").field("progress", &self.progress).finish_non_exhaustive()
    }
}

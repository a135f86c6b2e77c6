//! What a connection is doing, so that who does nothing can be told to go.
//!
//! All of it happens on one thread; it is atomic because the tasks of HTTP/2 could be anywhere, and an uncontended atomic costs next to nothing.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};

use crate::app::App;
use crate::body::Body;

/// What a connection is doing.
#[derive(Debug)]
pub(super) struct Activity {
    /// What all handlers share: here, so that a request holds one reference and not two.
    pub(super) app: Arc<App>,
    /// Requests begun and ended; it wraps around.
    steps: AtomicU32,
    /// Requests under way, with their answers.
    running: AtomicU32,
    /// Answers without an end in sight: who waits for news is not idle.
    streaming: AtomicU32,
    /// Whether bytes came that belong to no request yet.
    has_bytes: AtomicBool,
    /// Whether the next answer over HTTP/1 is the last one.
    is_last: AtomicBool,
}

/// A request under way.
#[derive(Debug)]
pub(super) struct Running {
    activity: Arc<Activity>,
    is_streaming: bool,
}

/// The body of an answer; its end is the end of the request.
#[derive(Debug)]
pub(super) struct Counted {
    body: Body,
    _running: Running,
}

impl Activity {
    pub(super) fn new(app: Arc<App>) -> Arc<Self> {
        Arc::new(Self {
            app,
            steps: AtomicU32::new(0),
            running: AtomicU32::new(0),
            streaming: AtomicU32::new(0),
            has_bytes: AtomicBool::new(false),
            is_last: AtomicBool::new(false),
        })
    }

    /// Notes that bytes came.
    pub(super) fn note_bytes(&self) {
        self.has_bytes.store(true, Ordering::Relaxed);
    }

    /// Whether the head of a request came in part.
    pub(super) fn is_reading_head(&self) -> bool {
        self.has_bytes.load(Ordering::Relaxed) && !self.is_running()
    }

    /// Whether a request is under way.
    pub(super) fn is_running(&self) -> bool {
        self.running.load(Ordering::Relaxed) > 0
    }

    /// A number that changes with every request that begins or ends.
    pub(super) fn steps(&self) -> u32 {
        self.steps.load(Ordering::Relaxed)
    }

    /// Whether an answer is under way that has no end in sight.
    pub(super) fn is_streaming(&self) -> bool {
        self.streaming.load(Ordering::Relaxed) > 0
    }

    /// Lets the next answer over HTTP/1 be the last one.
    pub(super) fn end_soon(&self) {
        self.is_last.store(true, Ordering::Relaxed);
    }

    /// Whether the next answer over HTTP/1 is the last one.
    pub(super) fn is_last(&self) -> bool {
        self.is_last.load(Ordering::Relaxed) || self.app.is_draining()
    }

    /// Notes that a request began or ended.
    pub(super) fn step(&self) {
        self.steps.fetch_add(1, Ordering::Relaxed);
        self.has_bytes.store(false, Ordering::Relaxed);
    }
}

impl Running {
    /// Notes that a request began.
    pub(super) fn new(activity: &Arc<Activity>) -> Self {
        activity.running.fetch_add(1, Ordering::Relaxed);
        activity.step();
        Self { activity: Arc::clone(activity), is_streaming: false }
    }

    pub(super) fn activity(&self) -> &Activity {
        &self.activity
    }

    /// The body of the answer.
    pub(super) fn counted(mut self, body: Body) -> Counted {
        if http_body::Body::size_hint(&body).exact().is_none() {
            self.is_streaming = true;
            self.activity.streaming.fetch_add(1, Ordering::Relaxed);
        }
        Counted { body, _running: self }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.is_streaming {
            self.activity.streaming.fetch_sub(1, Ordering::Relaxed);
        }
        self.activity.running.fetch_sub(1, Ordering::Relaxed);
        self.activity.step();
    }
}

impl http_body::Body for Counted {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

//! What a connection is doing, so that who does nothing can be told to go.
//!
//! All of it happens on one thread; it is atomic because the tasks of HTTP/2 could be anywhere, and an uncontended atomic costs next to nothing.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body::{Body as _, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::awake;
use crate::app::App;
use crate::body::{Body, BrokenOff};
use crate::proxy::Tunnel;

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
    /// Requests that have timeouts of their own: how long they take says nothing about the client.
    forwarding: AtomicU32,
    /// Requests begun over HTTP/1, and how many heads are known to leave no doubt about where their requests end.
    begun: AtomicU64,
    clear: AtomicU64,
    /// Bodies of requests over HTTP/1 that are still read: one may outlive its answer.
    receiving: AtomicU32,
    /// Whether bytes came that belong to no request yet; while a body is read, whether some came.
    has_bytes: AtomicBool,
    /// Whether the next answer over HTTP/1 is the last one.
    is_last: AtomicBool,
    /// Whether there are bytes that the client does not take, and how often it took some; that wraps around.
    is_blocked: AtomicBool,
    takes: AtomicU32,
    /// Where the bytes of a connection of HTTP/1 go once it is no longer one of HTTP.
    tunnel: Mutex<Option<Tunnel>>,
    /// What answers the next request over HTTP/1, if that is known already.
    ahead: Mutex<Option<Box<Response<Body>>>>,
    /// HTTP/2: answers under way that a client may leave untaken, by a number of their own.
    offered: Mutex<BTreeMap<u64, Arc<Offered>>>,
    offers: AtomicU64,
    /// Whether there is a deadline, and the earliest of answers over HTTP/1 and over HTTP/2.
    is_limited: AtomicBool,
    deadlines: Mutex<Deadlines>,
}

/// When answers under way have to have ended.
#[derive(Debug, Default)]
struct Deadlines {
    own: Option<Instant>,
    offered: Option<Instant>,
}

/// A request under way.
#[derive(Debug)]
pub(super) struct Running {
    activity: Arc<Activity>,
    is_streaming: bool,
    is_forwarding: bool,
    is_limited: bool,
}

/// The body of a request over HTTP/1 that is still read, by whomever: then what comes is no head. It is held as long as anybody reads.
#[derive(Debug, Clone)]
pub(crate) struct Receiving(#[allow(dead_code, reason = "it is held, not read")] Arc<Received>);

#[derive(Debug)]
struct Received(Arc<Activity>);

/// The body of an answer; its end is the end of the request.
#[derive(Debug)]
pub(super) struct Counted(Counting);

#[derive(Debug)]
enum Counting {
    /// Whoever sends it asks for more as soon as the client takes more.
    Own { body: Body, _running: Running },
    /// Whoever sends it may never ask again.
    Offered { offered: Arc<Offered>, activity: Arc<Activity>, number: u64 },
}

/// The body of an answer over HTTP/2. A client that allows no bytes of it is waited for by nobody who asks for the body, and so by none of its timeouts: it
/// is taken away from those who do not take it.
#[derive(Debug)]
struct Offered {
    body: Mutex<Option<(Body, Running)>>,
    /// When all of it has to have gone.
    deadline: Option<Instant>,
    /// How often a part was asked for, which wraps around; and whether the last one has not come yet, so that it is not the client who is waited for.
    asked: AtomicU32,
    is_awaited: AtomicBool,
    /// What was asked at a look, and since when that is so.
    seen: Mutex<Option<(u32, Instant)>>,
}

impl Activity {
    pub(super) fn new(app: Arc<App>) -> Arc<Self> {
        Arc::new(Self {
            app,
            steps: AtomicU32::new(0),
            running: AtomicU32::new(0),
            streaming: AtomicU32::new(0),
            forwarding: AtomicU32::new(0),
            begun: AtomicU64::new(0),
            clear: AtomicU64::new(0),
            receiving: AtomicU32::new(0),
            has_bytes: AtomicBool::new(false),
            is_last: AtomicBool::new(false),
            is_blocked: AtomicBool::new(false),
            takes: AtomicU32::new(0),
            tunnel: Mutex::new(None),
            ahead: Mutex::new(None),
            offered: Mutex::default(),
            offers: AtomicU64::new(0),
            is_limited: AtomicBool::new(false),
            deadlines: Mutex::default(),
        })
    }

    /// Notes that bytes came.
    pub(super) fn note_bytes(&self) {
        self.has_bytes.store(true, Ordering::Relaxed);
    }

    /// Notes how many heads leave no doubt about where their requests end.
    pub(super) fn note_clear(&self, heads: u64) {
        self.clear.store(heads, Ordering::Relaxed);
    }

    /// Counts a request over HTTP/1, and tells whether its head is known to be clear.
    pub(super) fn begins_clearly(&self) -> bool {
        let before = self.begun.fetch_add(1, Ordering::Relaxed);
        before < self.clear.load(Ordering::Relaxed)
    }

    /// Notes whether the client took bytes, or would not.
    pub(super) fn note_write(&self, is_taken: bool) {
        self.is_blocked.store(!is_taken, Ordering::Relaxed);
        if is_taken {
            self.takes.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// While there are bytes that the client does not take: a number that changes when it does.
    pub(super) fn blocked_at(&self) -> Option<u32> {
        self.is_blocked.load(Ordering::Relaxed).then(|| self.takes.load(Ordering::Relaxed))
    }

    /// Whether the head of a request came in part.
    pub(super) fn is_reading_head(&self) -> bool {
        self.has_bytes.load(Ordering::Relaxed) && !self.is_running() && !self.is_receiving()
    }

    /// Whether the body of a request is read.
    fn is_receiving(&self) -> bool {
        self.receiving.load(Ordering::Relaxed) > 0
    }

    /// Whether some of a body came since the last look.
    pub(super) fn has_received(&self) -> bool {
        self.is_receiving() && self.has_bytes.swap(false, Ordering::Relaxed)
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

    /// Whether a request is under way that has timeouts of its own.
    pub(super) fn is_forwarding(&self) -> bool {
        self.forwarding.load(Ordering::Relaxed) > 0
    }

    /// Notes where the bytes go once the answer under way is sent.
    pub(super) fn leads_to(&self, tunnel: Tunnel) {
        *self.tunnel.lock() = Some(tunnel);
    }

    /// Where the bytes go now.
    pub(super) fn take_tunnel(&self) -> Option<Tunnel> {
        self.tunnel.lock().take()
    }

    /// Notes what answers the next request over HTTP/1.
    pub(super) fn answer_next(&self, response: Box<Response<Body>>) {
        *self.ahead.lock() = Some(response);
    }

    /// What answers this request, if that is known already.
    pub(super) fn take_ahead(&self) -> Option<Box<Response<Body>>> {
        self.ahead.lock().take()
    }

    /// Breaks off answers over HTTP/2 of which the client has taken nothing for so long. What they hold is given back.
    pub(super) fn break_off_untaken(&self, after: Duration, now: Instant) {
        let untaken: Vec<_> = self.offered.lock().values().filter(|offered| offered.is_untaken(after, now)).cloned().collect();
        // Not under the lock: the end of an answer takes it, too.
        for offered in untaken {
            drop(offered.body.lock().take());
        }
    }

    /// When the first of the answers under way has to have ended, if any has to.
    pub(super) fn deadline(&self) -> Option<Instant> {
        if !self.is_limited.load(Ordering::Relaxed) {
            return None;
        }
        let deadlines = self.deadlines.lock();
        deadlines.own.into_iter().chain(deadlines.offered).min()
    }

    /// Breaks off answers that should have ended. True if one over HTTP/1 should, with which its connection ends.
    pub(super) fn break_off_late(&self, now: Instant) -> bool {
        if self.deadline().is_none_or(|deadline| now < deadline) {
            return false;
        }
        let late: Vec<_> = self.offered.lock().values().filter(|offered| offered.is_late(now)).cloned().collect();
        for offered in late {
            drop(offered.body.lock().take());
        }
        self.limit_offered(now);
        self.deadlines.lock().own.is_some_and(|deadline| deadline <= now)
    }

    /// Finds out anew which answer over HTTP/2 has to end first.
    fn limit_offered(&self, now: Instant) {
        let next = self.offered.lock().values().filter_map(|offered| offered.deadline.filter(|deadline| now < *deadline)).min();
        self.limit(|deadlines| deadlines.offered = next);
    }

    fn limit(&self, change: impl FnOnce(&mut Deadlines)) {
        let mut deadlines = self.deadlines.lock();
        change(&mut deadlines);
        self.is_limited.store(deadlines.own.is_some() || deadlines.offered.is_some(), Ordering::Relaxed);
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
        awake::beat();
        self.steps.fetch_add(1, Ordering::Relaxed);
        self.has_bytes.store(false, Ordering::Relaxed);
    }
}

impl Running {
    /// Notes that a request began.
    pub(super) fn new(activity: &Arc<Activity>, is_forwarding: bool) -> Self {
        activity.running.fetch_add(1, Ordering::Relaxed);
        if is_forwarding {
            activity.forwarding.fetch_add(1, Ordering::Relaxed);
        }
        activity.step();
        Self { activity: Arc::clone(activity), is_streaming: false, is_forwarding, is_limited: false }
    }

    pub(super) fn activity(&self) -> &Activity {
        &self.activity
    }

    /// The body of the answer.
    pub(super) fn counted(self, body: Body) -> Counted {
        let mut running = self.noted(&body);
        if let Some(deadline) = body.deadline() {
            running.is_limited = true;
            running.activity.limit(|deadlines| deadlines.own = Some(deadline));
        }
        Counted(Counting::Own { body, _running: running })
    }

    /// Notes whether the answer has an end in sight.
    fn noted(mut self, body: &Body) -> Self {
        if body.size_hint().exact().is_none() {
            self.is_streaming = true;
            self.activity.streaming.fetch_add(1, Ordering::Relaxed);
        }
        self
    }

    /// The body of the answer to a request over HTTP/2 that holds something others wait for.
    pub(super) fn offered(self, body: Body) -> Counted {
        if body.is_end_stream() {
            return self.counted(body);
        }
        let running = self.noted(&body);
        let activity = Arc::clone(&running.activity);
        let number = activity.offers.fetch_add(1, Ordering::Relaxed);
        let deadline = body.deadline();
        let offered = Arc::new(Offered {
            body: Mutex::new(Some((body, running))),
            deadline,
            asked: AtomicU32::new(0),
            is_awaited: AtomicBool::new(false),
            seen: Mutex::new(None),
        });
        activity.offered.lock().insert(number, Arc::clone(&offered));
        if let Some(deadline) = deadline {
            activity.limit(|deadlines| deadlines.offered = deadlines.offered.into_iter().chain([deadline]).min());
        }
        Counted(Counting::Offered { offered, activity, number })
    }
}

impl Offered {
    /// Whether the client has taken nothing for so long; the first look only takes down what there is.
    fn is_untaken(&self, after: Duration, now: Instant) -> bool {
        let asked = self.asked.load(Ordering::Relaxed);
        let mut seen = self.seen.lock();
        if self.is_awaited.load(Ordering::Relaxed) {
            *seen = None;
            return false;
        }
        let (_, since) = *match &mut *seen {
            Some(seen) if seen.0 == asked => seen,
            seen => seen.insert((asked, now)),
        };
        now.saturating_duration_since(since) >= after
    }

    /// Whether it should have ended.
    fn is_late(&self, now: Instant) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= now)
    }

    fn poll_frame(&self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        let mut body = self.body.lock();
        let Some((body, _)) = &mut *body else { return Poll::Ready(Some(Err(BrokenOff))) };
        let frame = Pin::new(body).poll_frame(context);
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.is_awaited.store(frame.is_pending(), Ordering::Relaxed);
        frame
    }
}

impl Receiving {
    /// Notes that the body of a request began.
    pub(super) fn new(activity: &Arc<Activity>) -> Self {
        activity.receiving.fetch_add(1, Ordering::Relaxed);
        Self(Arc::new(Received(Arc::clone(activity))))
    }
}

impl Drop for Received {
    fn drop(&mut self) {
        self.0.receiving.fetch_sub(1, Ordering::Relaxed);
        self.0.step();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.is_streaming {
            self.activity.streaming.fetch_sub(1, Ordering::Relaxed);
        }
        if self.is_forwarding {
            self.activity.forwarding.fetch_sub(1, Ordering::Relaxed);
        }
        if self.is_limited {
            self.activity.limit(|deadlines| deadlines.own = None);
        }
        self.activity.running.fetch_sub(1, Ordering::Relaxed);
        self.activity.step();
    }
}

impl http_body::Body for Counted {
    type Data = Bytes;
    type Error = BrokenOff;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        match &mut self.0 {
            Counting::Own { body, .. } => Pin::new(body).poll_frame(context),
            Counting::Offered { offered, .. } => offered.poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Counting::Own { body, .. } => body.is_end_stream(),
            Counting::Offered { offered, .. } => offered.body.lock().as_ref().is_some_and(|(body, _)| body.is_end_stream()),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Counting::Own { body, .. } => body.size_hint(),
            Counting::Offered { offered, .. } => {
                offered.body.lock().as_ref().map_or_else(SizeHint::default, |(body, _)| body.size_hint())
            }
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if let Counting::Offered { offered, activity, number } = &self.0 {
            activity.offered.lock().remove(number);
            if offered.deadline.is_some() {
                activity.limit_offered(Instant::now());
            }
        }
    }
}

//! Connections to servers, kept for the next request.
//!
//! Each worker has its own: the connection then lives on the thread of those who use it, and no two workers wait for each other.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use hyper::client::conn::{http1, http2};
use parking_lot::Mutex;
use tokio::time::{Instant, timeout_at};

use super::alarm::Alarm;
use super::counts::Outcome;
use super::dial::{self, DialError};
use super::group::Group;
use super::line::Line;
use super::or_never;
use super::request_body::RequestBody;
use super::server::{Chosen, Server};
use super::settings::UpstreamProtocol;
use crate::metrics::thread_number;

/// HTTP/2: the most requests at a time on one connection. Few servers allow less, and who asks for more than one allows waits for the others there.
const STREAMS_MAX: usize = 100;

/// The connections to one server: those that nobody uses, and those that many do.
#[derive(Debug)]
pub(super) struct Pool {
    workers: Box<[Kept]>,
    /// Whether nobody is to use the server any more: then nothing is kept.
    is_closed: AtomicBool,
}

/// What a worker keeps for one server.
#[derive(Debug, Default)]
struct Kept {
    /// HTTP/1: those that nobody uses; the latest are at the back.
    idle: Mutex<VecDeque<Idle>>,
    /// HTTP/2: those that everybody uses. There is one, unless it is full.
    shared: Mutex<Vec<Shared>>,
    /// HTTP/2: who connects, so that many requests at a time make one connection and not many.
    connecting: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct Idle {
    sender: Sender,
    alarm: Alarm,
    since: Instant,
}

/// A connection of HTTP/2, for several requests at a time.
#[derive(Debug, Clone)]
struct Shared {
    sender: http2::SendRequest<RequestBody>,
    /// Requests on it.
    used: Arc<AtomicUsize>,
}

/// A request on a connection of HTTP/2.
#[derive(Debug)]
pub(super) struct Use(Arc<AtomicUsize>);

/// The way into a connection.
#[derive(Debug)]
pub(super) enum Sender {
    /// HTTP/1, for requests that drive it themselves.
    Line(Line),
    /// HTTP/1, driven by hyper.
    Http1(http1::SendRequest<RequestBody>),
    Http2(http2::SendRequest<RequestBody>, Use),
}

/// What a request asks of a connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asks {
    /// Whether it can be sent on a line.
    pub(super) is_for_line: bool,
    pub(super) must_be_new: bool,
}

/// A connection that a request uses.
pub(super) struct Lent {
    pub(super) server: Chosen,
    worker: usize,
    keep_alive: Duration,
    idle_max: usize,
    pub(super) sender: Sender,
    /// For what is waited for on it.
    pub(super) alarm: Alarm,
    /// Whether it was used before: the server may have ended it at this very moment.
    pub(super) is_reused: bool,
}

impl Pool {
    pub(super) fn new(workers: usize) -> Self {
        let workers = (0..workers.max(1).next_power_of_two()).map(|_| Kept::default()).collect();
        Self { workers, is_closed: AtomicBool::new(false) }
    }

    /// Ends those connections that nobody uses and that are too old, or that the server has ended: nobody drives a line to notice that.
    pub(super) fn sweep(&self, keep_alive: Duration, now: Instant) {
        for kept in &self.workers {
            let is_kept = |idle: &mut Idle| {
                now.saturating_duration_since(idle.since) < keep_alive && idle.sender.readiness() != Readiness::Closed
            };
            kept.idle.lock().retain_mut(is_kept);
            kept.sweep_shared();
        }
    }

    /// Ends all connections that nobody uses, and keeps none from now on. Requests under way are not touched.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        for kept in &self.workers {
            kept.idle.lock().clear();
            kept.shared.lock().clear();
        }
    }
}

/// A connection to a server: one that is kept, or a new one.
pub(super) async fn lend(
    group: &Group,
    server: Chosen,
    Asks { is_for_line, must_be_new }: Asks,
    now: Instant,
    deadline: Instant,
) -> Result<Lent, DialError> {
    let worker = thread_number() & (server.pool.workers.len() - 1);
    let kept = match server.protocol {
        UpstreamProtocol::Http1 => {
            let kept = &server.pool.workers[worker];
            let idle = if must_be_new { None } else { kept.take_idle(is_for_line, group.settings.keep_alive, now) };
            idle.map(|Idle { sender, alarm, .. }| (sender, alarm))
        }
        UpstreamProtocol::Http2 => {
            let shared = if must_be_new { None } else { server.pool.workers[worker].shared() };
            shared.map(|sender| (sender, Alarm::default()))
        }
    };
    let found = match (kept, server.protocol) {
        (Some((sender, alarm)), _) => Ok((sender, alarm, true)),
        (None, UpstreamProtocol::Http1) => {
            // What is rare lies elsewhere, so that what is not has less to move.
            let dialled = Box::pin(within(now, deadline, group, &server, dial::http1(&server, group))).await;
            dialled.map(|line| (Sender::Line(line), Alarm::default(), false))
        }
        (None, UpstreamProtocol::Http2) => {
            let connecting = connect_shared(&server.pool, worker, &server, group);
            let connected = Box::pin(within(now, deadline, group, &server, connecting)).await;
            connected.map(|(sender, is_reused)| (sender, Alarm::default(), is_reused))
        }
    };
    let settings = &group.settings;
    let found = match found {
        Ok((Sender::Line(line), alarm, is_reused)) if !is_for_line => {
            let driven = Box::pin(line.leave()).await.map_err(|_| DialError::Refused);
            driven.map(|sender| (Sender::Http1(sender), alarm, is_reused))
        }
        found => found,
    };
    match found {
        Ok((sender, alarm, is_reused)) => {
            if !is_reused {
                server.counts.connected();
            }
            let (keep_alive, idle_max) = (settings.keep_alive, settings.idle_connections);
            Ok(Lent { server, worker, keep_alive, idle_max, sender, alarm, is_reused })
        }
        Err(error) => {
            server.counts.unconnected(error);
            server.note(Outcome::Unreachable, settings, Instant::now());
            Err(error)
        }
    }
}

async fn connect_shared(pool: &Pool, worker: usize, server: &Server, group: &Group) -> io::Result<(Sender, bool)> {
    let kept = &pool.workers[worker];
    let _connecting = kept.connecting.lock().await;
    // Whoever was first may have made it.
    if let Some(sender) = kept.shared() {
        return Ok((sender, true));
    }
    let shared = Shared { sender: dial::http2(server, group).await?, used: Arc::default() };
    let sender = shared.used();
    if !pool.is_closed.load(Ordering::SeqCst) {
        kept.shared.lock().push(shared);
    }
    Ok((sender, false))
}

async fn within<T>(
    now: Instant,
    deadline: Instant,
    group: &Group,
    server: &Server,
    dialling: impl Future<Output = io::Result<T>>,
) -> Result<T, DialError> {
    let at = deadline.min(now + or_never(group.settings.connect_timeout));
    match timeout_at(at, dialling).await {
        Ok(Ok(made)) => Ok(made),
        Ok(Err(error)) => {
            server.blame(&error.to_string());
            Err(DialError::of(&error))
        }
        Err(_) => {
            server.blame("a connection took too long");
            Err(DialError::Late)
        }
    }
}

impl Pool {
    fn keep(&self, worker: usize, idle: Idle, keep_alive: Duration, idle_max: usize) {
        let kept = &self.workers[worker];
        kept.keep(idle, keep_alive, idle_max);
        // Looked at afterwards: who closes meanwhile has seen it, or is seen.
        if self.is_closed.load(Ordering::SeqCst) {
            kept.idle.lock().clear();
        }
    }
}

impl Kept {
    /// The latest that can take a request: a line for those who can use one, so that the others find what hyper drives; and else what there is.
    fn take_idle(&self, is_for_line: bool, keep_alive: Duration, now: Instant) -> Option<Idle> {
        let mut idle = self.idle.lock();
        let is_fit = |sender: &Sender| matches!(sender, Sender::Line(_)) == is_for_line;
        take_latest(&mut idle, is_fit, keep_alive, now).or_else(|| take_latest(&mut idle, |_| true, keep_alive, now))
    }
    fn keep(&self, kept: Idle, keep_alive: Duration, idle_max: usize) {
        let is_old = |idle: &Idle| kept.since.saturating_duration_since(idle.since) >= keep_alive;
        let mut idle = self.idle.lock();
        while idle.len() >= idle_max.max(1) || idle.front().is_some_and(is_old) {
            idle.pop_front();
        }
        if idle_max > 0 {
            idle.push_back(kept);
        }
    }

    /// A connection of HTTP/2 that has room.
    fn shared(&self) -> Option<Sender> {
        let mut shared = self.shared.lock();
        shared.retain(|shared| !shared.sender.is_closed());
        shared.iter().find(|shared| shared.used.load(Ordering::Relaxed) < STREAMS_MAX).map(Shared::used)
    }

    /// Ends those that nobody needs any more: one is enough until it is full.
    fn sweep_shared(&self) {
        let mut is_first = true;
        let is_needed = |shared: &Shared| std::mem::take(&mut is_first) || shared.used.load(Ordering::Relaxed) > 0;
        self.shared.lock().retain(is_needed);
    }

    /// Lets nobody else use a connection of HTTP/2. Those who do are not touched.
    fn forget(&self, Use(used): &Use) {
        self.shared.lock().retain(|shared| !Arc::ptr_eq(&shared.used, used));
    }
}

impl Shared {
    /// A way in, for one request.
    fn used(&self) -> Sender {
        self.used.fetch_add(1, Ordering::Relaxed);
        Sender::Http2(self.sender.clone(), Use(Arc::clone(&self.used)))
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The latest that fits and can take a request. One whose task has not noticed yet that its last response has ended stays for the next who asks.
fn take_latest(idle: &mut VecDeque<Idle>, is_fit: impl Fn(&Sender) -> bool, keep_alive: Duration, now: Instant) -> Option<Idle> {
    let mut at = idle.len();
    while let Some(before) = at.checked_sub(1) {
        at = before;
        if now.saturating_duration_since(idle[at].since) >= keep_alive {
            // All others are older.
            idle.drain(..=at);
            return None;
        }
        if !is_fit(&idle[at].sender) {
            continue;
        }
        match idle[at].sender.readiness() {
            Readiness::Ready => return idle.remove(at),
            Readiness::Busy => {}
            Readiness::Closed => drop(idle.remove(at)),
        }
    }
    None
}

/// Whether a connection that nobody uses can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Readiness {
    Ready,
    Busy,
    Closed,
}

impl Sender {
    fn readiness(&mut self) -> Readiness {
        let (is_ready, is_closed) = match self {
            Self::Line(line) => (line.is_ready(), true),
            Self::Http1(sender) => (sender.is_ready(), sender.is_closed()),
            Self::Http2(sender, _) => (sender.is_ready(), sender.is_closed()),
        };
        match (is_ready, is_closed) {
            (true, _) => Readiness::Ready,
            (false, true) => Readiness::Closed,
            (false, false) => Readiness::Busy,
        }
    }
}

impl Lent {
    /// Leaves the line to hyper, which is to read what has begun to come back on it.
    pub(super) async fn leave_asked(&mut self, begun: Bytes) -> io::Result<()> {
        let Sender::Line(line) = &mut self.sender else { return Ok(()) };
        self.sender = Sender::Http1(line.take().leave_asked(begun).await?);
        Ok(())
    }

    /// Lets no other request use it: its server took too long, and may never have heard of this one.
    pub(super) fn doubt(&self) {
        if let Sender::Http2(_, used) = &self.sender {
            self.server.pool.workers[self.worker].forget(used);
        }
    }

    /// Gives it back after a request that ended as it should. Who only drops it ends a connection of HTTP/1.
    pub(super) fn give_back(self) {
        let Self { server, worker, keep_alive, idle_max, sender, alarm, .. } = self;
        if let Sender::Http2(..) = sender {
            // It was never taken.
            return;
        }
        server.pool.keep(worker, Idle { sender, alarm, since: Instant::now() }, keep_alive, idle_max);
    }
}

impl fmt::Debug for Lent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lent").field("server", &self.server.name).field("is_reused", &self.is_reused).finish_non_exhaustive()
    }
}

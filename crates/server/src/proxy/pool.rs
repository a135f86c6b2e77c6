//! Connections to servers, kept for the next request.
//!
//! Each worker has its own: the connection then lives on the thread of those who use it, and no two workers wait for each other.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper::client::conn::{http1, http2};
use parking_lot::Mutex;
use tokio::time::{Instant, timeout_at};

use super::alarm::Alarm;
use super::counts::Outcome;
use super::dial::{self, DialError};
use super::group::Group;
use super::or_never;
use super::request_body::RequestBody;
use super::server::{Chosen, Server};
use super::settings::UpstreamProtocol;
use crate::metrics::thread_number;

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
    /// HTTP/2: the one that everybody uses.
    shared: Mutex<Option<http2::SendRequest<RequestBody>>>,
    /// HTTP/2: who connects, so that many requests at a time make one connection and not many.
    connecting: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct Idle {
    sender: http1::SendRequest<RequestBody>,
    alarm: Alarm,
    since: Instant,
}

/// The way into a connection.
#[derive(Debug)]
pub(super) enum Sender {
    Http1(http1::SendRequest<RequestBody>),
    Http2(http2::SendRequest<RequestBody>),
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

    /// Ends all connections that nobody uses, and keeps none from now on. Requests under way are not touched.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        for kept in &self.workers {
            kept.idle.lock().clear();
            kept.shared.lock().take();
        }
    }
}

/// A connection to a server: one that is kept, or a new one.
pub(super) async fn lend(
    group: &Group,
    server: Chosen,
    must_be_new: bool,
    now: Instant,
    deadline: Instant,
) -> Result<Lent, DialError> {
    let worker = thread_number() & (server.pool.workers.len() - 1);
    let kept = match server.protocol {
        UpstreamProtocol::Http1 => {
            let idle = server.pool.workers[worker].take_idle(group.settings.keep_alive, now).filter(|_| !must_be_new);
            idle.map(|Idle { sender, alarm, .. }| (Sender::Http1(sender), alarm))
        }
        UpstreamProtocol::Http2 => {
            let shared = server.pool.workers[worker].shared();
            shared.map(|sender| (Sender::Http2(sender), Alarm::default()))
        }
    };
    let found = match (kept, server.protocol) {
        (Some((sender, alarm)), _) => Ok((sender, alarm, true)),
        (None, UpstreamProtocol::Http1) => {
            let dialled = within(now, deadline, group, dial::http1(&server, group)).await;
            dialled.map(|sender| (Sender::Http1(sender), Alarm::default(), false))
        }
        (None, UpstreamProtocol::Http2) => {
            let connected = within(now, deadline, group, connect_shared(&server.pool, worker, &server, group)).await;
            connected.map(|(sender, is_reused)| (sender, Alarm::default(), is_reused))
        }
    };
    let settings = &group.settings;
    match found {
        Ok((sender, alarm, is_reused)) => {
            if !is_reused {
                server.counts.connected();
            }
            let (keep_alive, idle_max) = (settings.keep_alive, settings.idle_connections);
            Ok(Lent { server, worker, keep_alive, idle_max, sender, alarm, is_reused })
        }
        Err(error) => {
            server.counts.unconnected(error == DialError::Late);
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
        return Ok((Sender::Http2(sender), true));
    }
    let sender = dial::http2(server, group).await?;
    if !pool.is_closed.load(Ordering::SeqCst) {
        *kept.shared.lock() = Some(sender.clone());
    }
    Ok((Sender::Http2(sender), false))
}

async fn within<T>(
    now: Instant,
    deadline: Instant,
    group: &Group,
    dialling: impl Future<Output = io::Result<T>>,
) -> Result<T, DialError> {
    let at = deadline.min(now + or_never(group.settings.connect_timeout));
    match timeout_at(at, dialling).await {
        Ok(Ok(made)) => Ok(made),
        Ok(Err(_)) => Err(DialError::Refused),
        Err(_) => Err(DialError::Late),
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
    /// The latest that can take a request. One whose task has not noticed yet that its last response has ended stays for the next who asks.
    fn take_idle(&self, keep_alive: Duration, now: Instant) -> Option<Idle> {
        let mut idle = self.idle.lock();
        let mut at = idle.len();
        while let Some(before) = at.checked_sub(1) {
            at = before;
            if now.saturating_duration_since(idle[at].since) >= keep_alive {
                // All others are older.
                idle.drain(..=at);
                return None;
            }
            if idle[at].sender.is_ready() {
                return idle.remove(at);
            }
            if idle[at].sender.is_closed() {
                idle.remove(at);
            }
        }
        None
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

    fn shared(&self) -> Option<http2::SendRequest<RequestBody>> {
        let mut shared = self.shared.lock();
        if shared.as_ref().is_some_and(http2::SendRequest::is_closed) {
            *shared = None;
        }
        shared.clone()
    }
}

impl Lent {
    /// Gives it back after a request that ended as it should. Who only drops it ends a connection of HTTP/1.
    pub(super) fn give_back(self) {
        // The one of HTTP/2 was never taken.
        let Self { server, worker, keep_alive, idle_max, sender: Sender::Http1(sender), alarm, .. } = self else { return };
        server.pool.keep(worker, Idle { sender, alarm, since: Instant::now() }, keep_alive, idle_max);
    }
}

impl fmt::Debug for Lent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lent").field("server", &self.server.name).field("is_reused", &self.is_reused).finish_non_exhaustive()
    }
}

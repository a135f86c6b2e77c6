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
pub(super) async fn lend(group: &Group, server: Chosen, must_be_new: bool, deadline: Instant) -> Result<Lent, DialError> {
    let worker = thread_number() & (server.pool.workers.len() - 1);
    let at = deadline.min(Instant::now() + or_never(group.settings.connect_timeout));
    let found = match server.protocol {
        UpstreamProtocol::Http1 => {
            let kept = server.pool.workers[worker].take_idle(group.settings.keep_alive).filter(|_| !must_be_new);
            match kept {
                Some(sender) => Ok((Sender::Http1(sender), true)),
                None => within(at, dial::http1(&server, group)).await.map(|sender| (Sender::Http1(sender), false)),
            }
        }
        UpstreamProtocol::Http2 => match server.pool.workers[worker].shared() {
            Some(sender) => Ok((Sender::Http2(sender), true)),
            None => within(at, connect_shared(&server.pool, worker, &server, group)).await,
        },
    };
    let settings = &group.settings;
    match found {
        Ok((sender, is_reused)) => {
            if !is_reused {
                server.counts.connected();
            }
            Ok(Lent { server, worker, keep_alive: settings.keep_alive, idle_max: settings.idle_connections, sender, is_reused })
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

async fn within<T>(at: Instant, dialling: impl Future<Output = io::Result<T>>) -> Result<T, DialError> {
    match timeout_at(at, dialling).await {
        Ok(Ok(made)) => Ok(made),
        Ok(Err(_)) => Err(DialError::Refused),
        Err(_) => Err(DialError::Late),
    }
}

impl Pool {
    fn keep(&self, worker: usize, sender: http1::SendRequest<RequestBody>, keep_alive: Duration, idle_max: usize) {
        let kept = &self.workers[worker];
        kept.keep(sender, keep_alive, idle_max);
        // Looked at afterwards: who closes meanwhile has seen it, or is seen.
        if self.is_closed.load(Ordering::SeqCst) {
            kept.idle.lock().clear();
        }
    }
}

impl Kept {
    fn take_idle(&self, keep_alive: Duration) -> Option<http1::SendRequest<RequestBody>> {
        let mut idle = self.idle.lock();
        while let Some(Idle { sender, since }) = idle.pop_back() {
            if since.elapsed() >= keep_alive {
                // All others are older.
                idle.clear();
                return None;
            }
            if sender.is_ready() {
                return Some(sender);
            }
        }
        None
    }

    fn keep(&self, sender: http1::SendRequest<RequestBody>, keep_alive: Duration, idle_max: usize) {
        let mut idle = self.idle.lock();
        while idle.len() >= idle_max.max(1) || idle.front().is_some_and(|oldest| oldest.since.elapsed() >= keep_alive) {
            idle.pop_front();
        }
        if idle_max > 0 {
            idle.push_back(Idle { sender, since: Instant::now() });
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
        let Self { server, worker, keep_alive, idle_max, sender: Sender::Http1(mut sender), .. } = self else { return };
        if sender.is_ready() {
            return server.pool.keep(worker, sender, keep_alive, idle_max);
        }
        // Its task has not noticed yet that the response has ended. To the server it is no longer under way.
        let server = server.done();
        tokio::spawn(async move {
            if sender.ready().await.is_ok() {
                server.pool.keep(worker, sender, keep_alive, idle_max);
            }
        });
    }
}

impl fmt::Debug for Lent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lent").field("server", &self.server.name).field("is_reused", &self.is_reused).finish_non_exhaustive()
    }
}

//! Connections to servers, kept for the next request.
//!
//! Each worker has its own: the connection then lives on the thread of those who use it, and no two workers wait for each other.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use hyper::client::conn::{http1, http2};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::dial::{self, DialError};
use super::group::{Chosen, Group};
use super::request_body::RequestBody;
use super::settings::UpstreamProtocol;
use crate::metrics::thread_number;

/// All connections that nobody uses, and those that many do.
#[derive(Debug)]
pub(super) struct Pool {
    workers: Box<[Box<[Kept]>]>,
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
    pool: Arc<Pool>,
    worker: usize,
    server: usize,
    keep_alive: Duration,
    idle_max: usize,
    pub(super) sender: Sender,
    /// Whether it was used before: the server may have ended it at this very moment.
    pub(super) is_reused: bool,
}

impl Pool {
    pub(super) fn new(workers: usize, servers: usize) -> Self {
        let kept = |_| (0..servers).map(|_| Kept::default()).collect();
        Self { workers: (0..workers.max(1).next_power_of_two()).map(kept).collect() }
    }

    /// A connection to a server: one that is kept, or a new one.
    pub(super) async fn lend(self: &Arc<Self>, group: &Group, server: Chosen<'_>, must_be_new: bool) -> Result<Lent, DialError> {
        let settings = &group.settings;
        let worker = thread_number() & (self.workers.len() - 1);
        let lent = |sender, is_reused| Lent {
            pool: Arc::clone(self),
            worker,
            server: server.number,
            keep_alive: settings.keep_alive,
            idle_max: settings.idle_connections,
            sender,
            is_reused,
        };
        let kept = &self.workers[worker][server.number];
        match settings.protocol {
            UpstreamProtocol::Http1 => {
                if let Some(sender) = kept.take_idle(settings.keep_alive).filter(|_| !must_be_new) {
                    return Ok(lent(Sender::Http1(sender), true));
                }
                Ok(lent(Sender::Http1(dial::http1(server.url, group).await?), false))
            }
            UpstreamProtocol::Http2 => {
                if let Some(sender) = kept.shared() {
                    return Ok(lent(Sender::Http2(sender), true));
                }
                let _connecting = kept.connecting.lock().await;
                // Whoever was first may have made it.
                if let Some(sender) = kept.shared() {
                    return Ok(lent(Sender::Http2(sender), true));
                }
                let sender = dial::http2(server.url, group).await?;
                *kept.shared.lock() = Some(sender.clone());
                Ok(lent(Sender::Http2(sender), false))
            }
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
        let Self { pool, worker, server, keep_alive, idle_max, sender, .. } = self;
        // The one of HTTP/2 was never taken.
        let Sender::Http1(mut sender) = sender else { return };
        if sender.is_ready() {
            return pool.workers[worker][server].keep(sender, keep_alive, idle_max);
        }
        // Its task has not noticed yet that the response has ended.
        tokio::spawn(async move {
            if sender.ready().await.is_ok() {
                pool.workers[worker][server].keep(sender, keep_alive, idle_max);
            }
        });
    }
}

impl fmt::Debug for Lent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lent").field("server", &self.server).field("is_reused", &self.is_reused).finish_non_exhaustive()
    }
}

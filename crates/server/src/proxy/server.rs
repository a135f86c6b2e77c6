//! One server: where it is, how it is, and what it has under way.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::counts::{Outcome, ServerCounts, ServerSummary};
use super::health::{Health, State, WHOLE};
use super::pool::Pool;
use super::settings::{GroupSettings, ServerUrl, UpstreamProtocol};

/// The most characters of why one failed.
const WHY_MAX: usize = 300;

/// One server of a group. It outlives reloads that keep it, with what is known of it and with its connections.
#[derive(Debug)]
pub(super) struct Server {
    /// No two servers have the same.
    pub(super) id: u64,
    pub(super) url: ServerUrl,
    pub(super) address: SocketAddr,
    pub(super) protocol: UpstreamProtocol,
    /// For metrics and logs: what was written, and the address if that is a name.
    pub(super) name: String,
    pub(super) pool: Pool,
    pub(super) counts: ServerCounts,
    health: Mutex<Health>,
    /// Why it failed last, for people.
    why: Mutex<Option<Arc<str>>>,
    /// Whether it gets its whole share until it fails: then requests need not look at its health.
    is_settled: AtomicBool,
    in_flight: AtomicU32,
}

impl Server {
    /// A server of which nothing is known, for so many workers.
    pub(super) fn new(url: &ServerUrl, ip: IpAddr, protocol: UpstreamProtocol, workers: usize, joined: Option<Instant>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let is_name = url.host.parse::<IpAddr>().is_err();
        Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            address: SocketAddr::new(ip, url.port),
            protocol,
            name: if is_name { format!("{}@{ip}", url.authority) } else { url.authority.to_string() },
            url: url.clone(),
            pool: Pool::new(workers),
            counts: ServerCounts::default(),
            health: Mutex::new(Health::new(joined)),
            why: Mutex::default(),
            is_settled: AtomicBool::new(joined.is_none()),
            in_flight: AtomicU32::new(0),
        }
    }

    /// Whether it is this one, as far as connections to it can tell.
    pub(super) fn is(&self, url: &ServerUrl, ip: IpAddr, protocol: UpstreamProtocol) -> bool {
        self.url == *url && self.address.ip() == ip && self.protocol == protocol
    }

    /// How many requests it has under way.
    pub(super) fn in_flight(&self) -> u32 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// How much it gets of its weight, in per cent; 0 is nothing.
    pub(super) fn share(&self, slow_start: Duration, now: Instant) -> u32 {
        if self.is_settled.load(Ordering::Relaxed) {
            return WHOLE;
        }
        let health = self.health.lock();
        self.is_settled.store(health.is_settled(slow_start, now), Ordering::Relaxed);
        health.share(slow_start, now)
    }

    /// What it is.
    pub(super) fn state(&self, now: Instant) -> State {
        self.health.lock().state(now)
    }

    /// Notes what became of a request.
    pub(super) fn note(&self, outcome: Outcome, group: &GroupSettings, now: Instant) {
        self.counts.request(outcome);
        let is_failure = match outcome {
            Outcome::Unreachable | Outcome::Broken | Outcome::Late => true,
            Outcome::ServerError => group.ejection.counts_5xx,
            Outcome::Informational | Outcome::Success | Outcome::Redirection | Outcome::ClientError => false,
            // It says nothing about the server.
            Outcome::Client => return,
        };
        if is_failure {
            if let Some(why) = outcome.blame() {
                self.blame(why);
            }
            let mut health = self.health.lock();
            self.is_settled.store(false, Ordering::Relaxed);
            if health.failed(&group.ejection, now) {
                self.counts.ejected();
            }
        } else if !self.is_settled.load(Ordering::Relaxed) {
            self.health.lock().succeeded();
        }
    }

    /// Notes why it failed, for people.
    pub(super) fn blame(&self, why: &str) {
        let mut last = self.why.lock();
        if last.as_deref() != Some(why) {
            *last = Some(why.chars().take(WHY_MAX).collect::<String>().into());
        }
    }

    /// Notes how a check went: whether it passed, or why not.
    pub(super) fn note_check(&self, result: Result<(), String>, group: &GroupSettings, now: Instant) {
        let Some(check) = &group.check else { return };
        let is_right = result.is_ok();
        if let Err(why) = result {
            self.blame(&why);
        }
        self.counts.checked(is_right);
        let mut health = self.health.lock();
        health.checked(is_right, check, now);
        self.is_settled.store(health.is_settled(group.slow_start, now), Ordering::Relaxed);
    }

    /// Goes by other settings from now on.
    pub(super) fn adapt(&self, group: &GroupSettings) {
        if group.check.is_none() {
            self.health.lock().forget_checks();
        }
        // It is found out again.
        self.is_settled.store(false, Ordering::Relaxed);
    }

    pub(super) fn summary(&self, now: Instant) -> ServerSummary {
        self.counts.summary(self.name.clone(), self.state(now), self.why.lock().clone(), self.in_flight())
    }
}

/// A server that was chosen for a request, which is counted as under way until this is dropped.
#[derive(Debug)]
pub(super) struct Chosen(Arc<Server>);

impl Chosen {
    pub(super) fn new(server: &Arc<Server>) -> Self {
        server.in_flight.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(server))
    }
}

impl std::ops::Deref for Chosen {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.0
    }
}

impl Drop for Chosen {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

//! Servers that are alike, and which of them is next.

use std::net::IpAddr;
use std::sync::Arc;

use arc_swap::ArcSwap;
use http::StatusCode;
use parking_lot::Mutex;
use smallvec::SmallVec;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;

use super::balance::{Candidate, pick};
use super::counts::{GroupCounts, GroupSummary, Outcome};
use super::health::{State, WHOLE, is_panic};
use super::resolve::{Found, is_name};
use super::server::{Chosen, Server};
use super::settings::{GroupSettings, ServerUrl};
use super::tls::Tls;

/// A group of servers.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) settings: GroupSettings,
    pub(super) counts: Arc<GroupCounts>,
    tls: Tls,
    members: ArcSwap<Members>,
    workers: usize,
}

/// The servers that there are now: names can lead to others later.
#[derive(Debug)]
struct Members {
    servers: Vec<Member>,
    /// Whose turn it is.
    credits: Mutex<Vec<i64>>,
}

#[derive(Debug)]
struct Member {
    server: Arc<Server>,
    weight: u32,
}

impl Group {
    /// A group by these settings. Servers that the one before it has too stay as they are.
    pub(super) fn new(settings: GroupSettings, workers: usize, before: Option<&Self>, found: &Found, is_start: bool) -> Self {
        let counts = before.map_or_else(|| Arc::new(GroupCounts::new()), |before| Arc::clone(&before.counts));
        let none = Members { servers: Vec::new(), credits: Mutex::default() };
        let group = Self { settings, counts, tls: Tls::default(), members: ArcSwap::from_pointee(none), workers };
        let joined = (!is_start).then(Instant::now);
        group.members.store(Arc::new(group.members_at(found, &before.map(Self::servers).unwrap_or_default(), joined)));
        group
    }

    /// Lets servers that others had before go by the settings of this group.
    pub(super) fn adopt(&self) {
        for server in self.servers() {
            server.adapt(&self.settings);
        }
    }

    /// Takes the addresses of its names before it serves.
    pub(super) fn settle(&self, found: &Found) {
        self.members.store(Arc::new(self.members_at(found, &self.servers(), None)));
    }

    /// Goes to where names lead now. Servers that are there no more get nothing new; what they have under way ends in peace.
    pub(super) fn follow(&self, found: &Found) {
        let before = self.servers();
        let members = self.members_at(found, &before, Some(Instant::now()));
        let is_same = members.servers.len() == before.len()
            && members.servers.iter().zip(&before).all(|(member, server)| member.server.id == server.id);
        if is_same {
            return;
        }
        self.members.store(Arc::new(members));
        retire(&before, &self.servers());
    }

    /// The servers that there are now.
    pub(super) fn servers(&self) -> Vec<Arc<Server>> {
        self.members.load().servers.iter().map(|member| Arc::clone(&member.server)).collect()
    }

    /// The names that lead to servers.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.settings.servers.iter().map(|server| server.url.host.as_str()).filter(|host| is_name(host))
    }

    /// How a connection to a server is secured: `None` if it is not, an error if nobody can say whom to trust.
    pub(super) fn connector(&self, server: &ServerUrl) -> Result<Option<&TlsConnector>, &str> {
        if !server.is_tls {
            return Ok(None);
        }
        self.tls.connector(&self.settings).map(Some)
    }

    /// That what TLS needs is there.
    pub(super) fn check_tls(&self) -> Result<(), String> {
        let wrong = |why: &str| format!("upstreams.{}: {why}", self.settings.name);
        self.settings.servers.iter().try_for_each(|server| self.connector(&server.url).map(drop).map_err(wrong))
    }

    /// The next server that has not been tried; `None` if all have.
    pub(super) fn choose(&self, tried: &[u64], now: Instant) -> Option<Chosen> {
        let members = self.members.load();
        let shares: SmallVec<[u32; 16]> =
            members.servers.iter().map(|member| member.server.share(self.settings.slow_start, now)).collect();
        let available = shares.iter().filter(|&&share| share > 0).count();
        let is_panic = is_panic(available, shares.len(), self.settings.panic_below);
        // Requests are counted under the lock too: two who choose at once do not take the same one for the least busy.
        let mut credits = members.credits.lock();
        let untried = |member: &Member| !tried.contains(&member.server.id);
        let candidates = |uses_all: bool| -> SmallVec<[Candidate; 16]> {
            let all = members.servers.iter().zip(&shares).enumerate();
            let usable = all.filter(|(_, (member, share))| untried(member) && (uses_all || **share > 0));
            let candidate = |(index, (member, share)): (usize, (&Member, &u32))| Candidate {
                index,
                weight: member.weight * if uses_all { WHOLE } else { *share },
                in_flight: member.server.in_flight(),
            };
            usable.map(candidate).collect()
        };
        let chosen = pick(self.settings.balance, &mut credits, &candidates(is_panic));
        // Who failed at all that are well has nothing to lose with the others.
        let chosen = chosen.or_else(|| pick(self.settings.balance, &mut credits, &candidates(true)));
        chosen.map(|index| Chosen::new(&members.servers[index].server))
    }

    /// Notes that a server answered.
    pub(super) fn answered(&self, server: &Server, status: StatusCode, asked: Instant) {
        let now = Instant::now();
        self.counts.answered(now - asked);
        server.note(Outcome::of(status), &self.settings, now);
    }

    /// Notes that it did not.
    pub(super) fn failed(&self, server: &Server, outcome: Outcome) {
        server.note(outcome, &self.settings, Instant::now());
    }

    pub(super) fn summary(&self, now: Instant) -> GroupSummary {
        let servers = self.servers().iter().map(|server| server.summary(now)).collect();
        self.counts.summary(&self.settings.name, servers)
    }

    /// What is wrong with the group, if no server of it is well.
    pub(super) fn problem(&self, now: Instant) -> Option<String> {
        let servers = self.servers();
        let is_up = |server: &Arc<Server>| server.state(now) == State::Up;
        let name = &self.settings.name;
        match servers.len() {
            0 => Some(format!("{name}: no name of a server leads to an address")),
            count if !servers.iter().any(is_up) => Some(format!("{name}: none of its {count} servers is well; all are tried")),
            _ => None,
        }
    }

    fn members_at(&self, found: &Found, before: &[Arc<Server>], joined: Option<Instant>) -> Members {
        let mut servers = Vec::new();
        for server in &self.settings.servers {
            let (url, protocol) = (&server.url, self.settings.protocol);
            let literal = url.host.parse::<IpAddr>().map(|address| vec![address]);
            for &ip in literal.as_ref().ok().or_else(|| found.get(&url.host)).into_iter().flatten() {
                let kept = before.iter().find(|server| server.is(url, ip, protocol)).cloned();
                let new = || Arc::new(Server::new(url, ip, protocol, self.workers, joined));
                servers.push(Member { server: kept.unwrap_or_else(new), weight: server.weight });
            }
        }
        let credits = Mutex::new(vec![0; servers.len()]);
        Members { servers, credits }
    }
}

/// Lets go of servers that are no longer among those in force.
pub(super) fn retire(before: &[Arc<Server>], now: &[Arc<Server>]) {
    for server in before.iter().filter(|server| now.iter().all(|other| other.id != server.id)) {
        server.pool.close();
    }
}

#[cfg(test)]
#[path = "group/tests.rs"]
pub(super) mod tests;

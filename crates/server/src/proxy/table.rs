//! Everything that a reload replaces: routes, groups, and what else the section `proxy` says.

use std::net::IpAddr;
use std::sync::Arc;

use http::{HeaderMap, HeaderName};
use tidegate_core::rules::address::{self, Network};

use super::group::{Group, retire};
use super::head::FORWARDED_FOR;
use super::resolve::Found;
use super::route::Routes;
use super::settings::{GroupSettings, ProxySettings};
use crate::app::Peer;
use crate::http::all;

/// What is in force. A request sees one table from its beginning to its end.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) routes: Routes,
    pub(super) groups: Vec<Arc<Group>>,
    trusted_proxies: Vec<Network>,
    pub(super) cost_header: Option<HeaderName>,
    pub(super) request_id: Option<HeaderName>,
}

impl Table {
    /// A table by these settings. What is known of servers that the one before it has too is kept.
    pub(super) fn new(settings: &ProxySettings, workers: usize, before: Option<&Self>, found: &Found) -> Self {
        let group = |settings: &GroupSettings| {
            let same = before.and_then(|before| before.groups.iter().find(|group| group.settings.name == settings.name));
            Arc::new(Group::new(settings.clone(), workers, same.map(Arc::as_ref), found, before.is_none()))
        };
        let names: Vec<&str> = settings.upstreams.iter().map(|group| group.name.as_str()).collect();
        Self {
            routes: Routes::new(&settings.routes, &names),
            groups: settings.upstreams.iter().map(group).collect(),
            trusted_proxies: settings.trusted_proxies.clone(),
            cost_header: settings.cost_header.as_ref().and_then(|name| HeaderName::try_from(name).ok()),
            request_id: settings.request_id.as_ref().and_then(|name| HeaderName::try_from(name).ok()),
        }
    }

    /// That what TLS with servers needs is there.
    pub(super) fn check_tls(&self) -> Result<(), String> {
        self.groups.iter().try_for_each(|group| group.check_tls())
    }

    /// Whether a peer is believed that a request came from elsewhere. Who may open a socket in the file system is.
    pub(super) fn is_trusted(&self, peer: Peer) -> bool {
        peer.address.is_none_or(|address| self.trusted_proxies.iter().any(|network| network.contains(address.to_canonical())))
    }

    /// The address that a peer names who is believed, if it is another one than its own: that of the client behind all who are.
    pub(super) fn named_by(&self, peer: Peer, headers: &HeaderMap) -> Option<IpAddr> {
        let chain = self.is_trusted(peer).then(|| all(headers, &FORWARDED_FOR)).flatten()?;
        let Some(own) = peer.address.map(|address| address.to_canonical()) else {
            // A socket in the file system is nowhere: the way begins with whom it names.
            let (rest, last) = chain.rsplit_once(',').map_or((None, &*chain), |(rest, last)| (Some(rest), last));
            return Some(address::client(address::parse(last)?, rest, &self.trusted_proxies));
        };
        Some(address::client(own, Some(&chain), &self.trusted_proxies)).filter(|client| *client != own)
    }

    /// Takes over from another table: what servers both have goes by this one, and those that only the other one had get nothing new.
    pub(super) fn succeed(&self, before: &Self) {
        self.groups.iter().for_each(|group| group.adopt());
        let servers = |table: &Self| table.groups.iter().flat_map(|group| group.servers()).collect::<Vec<_>>();
        retire(&servers(before), &servers(self));
    }
}

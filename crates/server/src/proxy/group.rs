//! Servers that are alike, and which of them is next.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio_rustls::TlsConnector;

use super::settings::{GroupSettings, ServerUrl};
use super::tls::Tls;

/// A group of servers. Weights, least requests, health checks and ejection will choose here, and nowhere else.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) settings: GroupSettings,
    tls: Tls,
    /// The number of the first server, among those of all groups.
    first: usize,
    next: AtomicUsize,
}

/// A server that was chosen.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chosen<'a> {
    /// Its number, among those of all groups.
    pub(super) number: usize,
    pub(super) url: &'a ServerUrl,
}

impl Group {
    pub(super) fn new(settings: GroupSettings, first: usize) -> Self {
        Self { settings, tls: Tls::default(), first, next: AtomicUsize::new(0) }
    }

    /// How a connection to a server is secured: `None` if it is not, an error if nobody can say whom to trust.
    pub(super) fn connector(&self, server: &ServerUrl) -> Result<Option<&TlsConnector>, &str> {
        if !server.is_tls {
            return Ok(None);
        }
        self.tls.connector(self.settings.tls_ca.as_ref(), self.settings.protocol).map(Some)
    }

    /// That what TLS needs is there.
    pub(super) fn check_tls(&self) -> Result<(), String> {
        let wrong = |why: &str| format!("upstreams.{}: {why}", self.settings.name);
        self.settings.servers.iter().try_for_each(|server| self.connector(server).map(drop).map_err(wrong))
    }

    /// The next server in turn that has not been tried; `None` if all have.
    pub(super) fn choose(&self, tried: &[usize]) -> Option<Chosen<'_>> {
        let servers = &self.settings.servers;
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        let in_turn = (0..servers.len()).map(|step| turn.wrapping_add(step) % servers.len());
        let chosen = |index: usize| Chosen { number: self.first + index, url: &servers[index] };
        in_turn.map(chosen).find(|chosen| !tried.contains(&chosen.number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_take_turns_and_none_is_tried_twice() {
        let settings = serde_json::json!({
            "name": "app", "servers": ["http://a", "http://b", "http://c"], "protocol": "http1", "host": "preserve", "tls_ca": null,
            "connect_timeout": 1, "first_byte_timeout": 1, "idle_timeout": 1, "total_timeout": 0,
            "keep_alive": 1, "idle_connections": 1, "retries": 1,
        });
        let group = Group::new(serde_json::from_value(settings).expect("settings of a group"), 10);
        let chosen = |tried: &[usize]| group.choose(tried).map(|chosen| chosen.number);
        assert_eq!([chosen(&[]), chosen(&[]), chosen(&[]), chosen(&[])], [Some(10), Some(11), Some(12), Some(10)]);
        assert_eq!(chosen(&[11]), Some(12));
        assert_eq!(chosen(&[12, 10]), Some(11));
        assert_eq!(chosen(&[12, 10, 11]), None);
    }
}

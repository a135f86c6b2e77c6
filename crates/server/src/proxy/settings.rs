//! What is forwarded, and where: the section `proxy` of the settings document.
//!
//! Python checks it (`python/tidegate/proxy/`); what reaches this place is complete. Times are in seconds, and 0 is no limit.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use http::uri::{Authority, Uri};
use serde::{Deserialize, Deserializer};
use tidegate_core::rules::address::Network;

use super::balance::Balance;
use crate::access_log::AccessLogSettings;
use crate::app::Peer;
use crate::settings::{Listener, networks, seconds};

/// The section.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProxySettings {
    /// Where clients come in.
    pub listener: Listener,
    /// The servers behind it, in groups.
    pub upstreams: Vec<GroupSettings>,
    /// Which requests go to which group. Who fits none is answered 404.
    pub routes: Vec<RouteSettings>,
    /// Whose `Forwarded` and `X-Forwarded-*` are passed on; those of others are replaced.
    #[serde(deserialize_with = "networks")]
    pub trusted_proxies: Vec<Network>,
    /// Who begins each connection with the PROXY protocol.
    #[serde(deserialize_with = "networks")]
    pub proxy_protocol: Vec<Network>,
    /// The header in which upstreams say what a request really cost; `None` is that they do not.
    pub cost_header: Option<String>,
    /// The header with the id of a request; `None` is that there is none.
    pub request_id: Option<String>,
    /// Where a line for each request goes; `None` is nowhere.
    pub access_log: Option<AccessLogSettings>,
}

impl ProxySettings {
    /// Whether a peer begins its connections with the PROXY protocol. With a socket in the file system, everybody does who may open it.
    pub(crate) fn is_introduced(&self, peer: Peer) -> bool {
        let is_one = |address: IpAddr| self.proxy_protocol.iter().any(|network| network.contains(address.to_canonical()));
        !self.proxy_protocol.is_empty() && peer.address.is_none_or(is_one)
    }
}

/// Servers that are alike.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupSettings {
    /// What routes call it.
    pub name: String,
    /// The servers.
    pub servers: Vec<ServerSettings>,
    /// How one of them is chosen.
    pub balance: Balance,
    /// What is spoken with them.
    pub protocol: UpstreamProtocol,
    /// Which `Host` they are told.
    pub host: HostPolicy,
    /// Who signs the certificates of those that speak TLS, in PEM; `None` is whom the system trusts.
    pub tls_ca: Option<PathBuf>,
    /// The chain that is shown to them, in PEM; `None` is none.
    pub tls_cert: Option<PathBuf>,
    /// Its private key, in PEM.
    pub tls_key: Option<PathBuf>,
    /// How long a connection may take, with its handshakes.
    #[serde(deserialize_with = "seconds")]
    pub connect_timeout: Duration,
    /// How long the head of a response may take, once the request was sent.
    #[serde(deserialize_with = "seconds")]
    pub first_byte_timeout: Duration,
    /// How long nothing may move on either side.
    #[serde(deserialize_with = "seconds")]
    pub idle_timeout: Duration,
    /// How long a request may take from its head to the end of its response.
    #[serde(deserialize_with = "seconds")]
    pub total_timeout: Duration,
    /// How long a connection is kept that nobody uses. It must be shorter than the servers keep theirs.
    #[serde(deserialize_with = "seconds")]
    pub keep_alive: Duration,
    /// HTTP/1: how many unused connections to one server each worker keeps.
    pub idle_connections: usize,
    /// How many other servers are tried when one cannot be reached.
    pub retries: usize,
    /// How often names of servers are looked up; 0 is once.
    #[serde(deserialize_with = "seconds")]
    pub resolve_interval: Duration,
    /// How servers are asked whether they are well; `None` is not at all.
    pub check: Option<CheckSettings>,
    /// When a server that fails gets nothing for a while.
    pub ejection: EjectionSettings,
    /// If a smaller share of the servers than this is well, all are used.
    pub panic_below: f64,
    /// How long it takes until a server that comes back gets its whole share.
    #[serde(deserialize_with = "seconds")]
    pub slow_start: Duration,
}

/// A server, or several behind one name.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerSettings {
    /// Where it is.
    pub url: ServerUrl,
    /// How many requests it gets, beside others; at least 1.
    pub weight: u32,
}

/// How servers are asked whether they are well.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckSettings {
    /// What is asked for.
    pub path: String,
    /// How often.
    #[serde(deserialize_with = "seconds")]
    pub interval: Duration,
    /// How long it may take, with the connection.
    #[serde(deserialize_with = "seconds")]
    pub timeout: Duration,
    /// How many in a row bring a server back.
    pub healthy: u32,
    /// How many in a row take it away.
    pub unhealthy: u32,
    /// The statuses of a server that is well, from one to another.
    pub status: Vec<(u16, u16)>,
}

/// When a server that fails gets nothing for a while.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EjectionSettings {
    /// After how many failures in a row; 0 is never.
    pub after: u32,
    /// For how long; each time twice as long as the time before ...
    #[serde(deserialize_with = "seconds")]
    pub time: Duration,
    /// ... but no longer than this.
    #[serde(deserialize_with = "seconds")]
    pub time_max: Duration,
    /// Whether an answer with a status from 500 on is a failure too.
    pub counts_5xx: bool,
}

/// What is spoken with a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UpstreamProtocol {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2, without asking first.
    Http2,
}

/// Which `Host` a server is told.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostPolicy {
    /// The one that the client said.
    Preserve,
    /// The server's own.
    Rewrite,
}

/// Which requests go where.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouteSettings {
    /// Names of hosts, such as `api.example.com` or `*.example.com`; none is any.
    pub hosts: Vec<String>,
    /// How the path begins, in whole segments: `/api` is `/api` and `/api/orders`, not `/apis`.
    pub path: String,
    /// The name of a group.
    pub upstream: String,
    /// What stands in place of `path` for the servers; `None` leaves it.
    pub rewrite: Option<String>,
}

/// The address of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerUrl {
    /// Whether it speaks TLS.
    pub is_tls: bool,
    /// Its name or address, without brackets.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Both, as in `Host`.
    pub authority: Authority,
}

impl ServerUrl {
    /// Reads `http://host:port`.
    pub fn parse(text: &str) -> Option<Self> {
        let uri = text.parse::<Uri>().ok()?;
        let is_tls = match uri.scheme_str()? {
            "http" => false,
            "https" => true,
            _ => return None,
        };
        let authority = uri.authority().filter(|authority| !authority.as_str().contains('@'))?.clone();
        let is_bare = uri.path() == "/" && uri.query().is_none() && !text.ends_with('/');
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = authority.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        (is_bare && !host.is_empty() && port > 0).then_some(Self { is_tls, host, port, authority })
    }
}

impl<'de> Deserialize<'de> for ServerUrl {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom(format_args!("{text:?} is no address of a server")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_scheme_a_host_and_a_port() {
        let read = |text| ServerUrl::parse(text).map(|url| (url.is_tls, url.host, url.port));
        let table = [
            ("http://10.0.0.1:8000", Some((false, "10.0.0.1", 8000))),
            ("http://app", Some((false, "app", 80))),
            ("https://app.example.com", Some((true, "app.example.com", 443))),
            ("http://[::1]:8000", Some((false, "::1", 8000))),
            ("http://app/", None),
            ("http://app/path", None),
            ("http://user@app", None),
            ("http://app?query", None),
            ("http://app:0", None),
            ("ftp://app", None),
            ("app:8000", None),
            ("", None),
        ];
        for (text, expected) in table {
            assert_eq!(read(text), expected.map(|(is_tls, host, port)| (is_tls, host.to_owned(), port)), "{text}");
        }
    }
}

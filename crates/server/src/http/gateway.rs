//! What a gateway says about the original request, and which of it is believed.
//!
//! | fact | from a trusted gateway, the first that is there | otherwise |
//! | --- | --- | --- |
//! | method | `X-Forwarded-Method`, `X-Original-Method` | that of the sub-request |
//! | path and query | `X-Forwarded-Uri`, `X-Original-URI` | what is behind the prefix |
//! | host | `X-Forwarded-Host` | `Host` |
//! | scheme | `X-Forwarded-Proto` | none |
//! | address | the last of `X-Forwarded-For`, which the gateway wrote itself | the peer's |
//!
//! The rest of `X-Forwarded-For` was written by those before the gateway. Whether they are believed says `trusted_proxies` of the rules' identity.

use std::borrow::Cow;
use std::net::IpAddr;

use http::header::AsHeaderName;
use http::request::Parts;
use http::{HeaderMap, HeaderValue};
use tidegate_core::rules::{Request, address};
use tidegate_engine::engine::Facts;

use super::route::FORWARD_AUTH;
use super::text::each_parameter;
use super::token::TOKEN_HEADER;
use crate::app::{App, Peer};

const FORWARDED_FOR: &str = "x-forwarded-for";

/// The original request.
#[derive(Debug)]
pub(super) struct Original<'a> {
    headers: &'a HeaderMap,
    method: Cow<'a, str>,
    uri: Cow<'a, str>,
    host: Option<Cow<'a, str>>,
    scheme: Option<Cow<'a, str>>,
    address: Option<IpAddr>,
    /// What is left of the chain of proxies.
    forwarded_for: Option<String>,
}

impl<'a> Original<'a> {
    pub(super) fn of(app: &App, peer: Peer, head: &'a Parts) -> Self {
        let headers = &head.headers;
        let told = |names: &[&str]| {
            let is_trusted = is_trusted(app, peer);
            names.iter().filter(|_| is_trusted).find_map(|name| headers.get(*name)).map(text).filter(|value| !value.is_empty())
        };
        let chain = all(headers, FORWARDED_FOR);
        let (address, forwarded_for) = match chain {
            Some(chain) if is_trusted(app, peer) => last_hop(peer, &chain),
            chain => (peer.address, chain.map(Cow::into_owned)),
        };
        let host = told(&["x-forwarded-host"]).or_else(|| headers.get("host").map(text));
        Self {
            headers,
            method: told(&["x-forwarded-method", "x-original-method"]).unwrap_or(Cow::Borrowed(head.method.as_str())),
            uri: told(&["x-forwarded-uri", "x-original-uri"]).unwrap_or_else(|| behind_prefix(head)),
            host: host.or_else(|| head.uri.authority().map(|authority| Cow::Borrowed(authority.as_str()))),
            scheme: told(&["x-forwarded-proto"]),
            address,
            forwarded_for,
        }
    }
}

impl Facts for Original<'_> {
    fn state<'a>(&'a self, request: &mut Request<'a>) {
        let (path, query) = self.uri.split_once('?').unwrap_or((&self.uri, ""));
        for name in self.headers.keys().map(http::HeaderName::as_str) {
            // The first was walked, the other is nobody's business.
            if name != FORWARDED_FOR && name != TOKEN_HEADER {
                request.add_header(name, each(self.headers, name));
            }
        }
        if let Some(chain) = &self.forwarded_for {
            request.set_header(FORWARDED_FOR, chain.as_str());
        }
        request.set("method", &*self.method);
        request.set("path", path);
        each_parameter(query, |name, value| request.add_query(&name, value));
        for (name, value) in [("host", &self.host), ("scheme", &self.scheme)] {
            if let Some(value) = value {
                request.set(name, &**value);
            }
        }
        if let Some(address) = self.address {
            request.set("ip", address::text(address));
        }
    }
}

/// Whether a peer is believed that a request came from elsewhere. Who may open a socket in the file system is.
fn is_trusted(app: &App, peer: Peer) -> bool {
    let Some(address) = peer.address else { return true };
    let address = address.to_canonical();
    app.settings.trusted_gateways.iter().any(|network| network.contains(address))
}

/// The hop that the gateway itself wrote, and those before it. If it is no address, the gateway is all that is known.
fn last_hop(peer: Peer, chain: &str) -> (Option<IpAddr>, Option<String>) {
    let (rest, last) = chain.rsplit_once(',').map_or((None, chain), |(rest, last)| (Some(rest), last));
    match address::parse(last) {
        Some(address) => (Some(address), rest.map(str::to_owned)),
        None => (peer.address, None),
    }
}

/// The path and the query behind our own.
fn behind_prefix(head: &Parts) -> Cow<'_, str> {
    let whole = head.uri.path_and_query().map_or(FORWARD_AUTH, http::uri::PathAndQuery::as_str);
    match whole.strip_prefix(FORWARD_AUTH) {
        Some(behind) if behind.starts_with('/') => Cow::Borrowed(behind),
        _ => Cow::Borrowed("/"),
    }
}

/// All values of a header, as if they had come in one.
pub(crate) fn all(headers: &HeaderMap, name: impl AsHeaderName) -> Option<Cow<'_, str>> {
    let mut values = each(headers, name);
    let first = values.next()?;
    Some(values.fold(first, |joined, value| Cow::Owned([&*joined, ", ", &*value].concat())))
}

/// The values of a header.
pub(crate) fn each(headers: &HeaderMap, name: impl AsHeaderName) -> impl Iterator<Item = Cow<'_, str>> {
    headers.get_all(name).iter().map(text)
}

/// A value with bytes that are no text is still somebody's.
fn text(value: &HeaderValue) -> Cow<'_, str> {
    String::from_utf8_lossy(value.as_bytes())
}

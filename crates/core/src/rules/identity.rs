//! Who the client is: the first of several places that names somebody.

use std::borrow::Cow;
use std::net::IpAddr;

use super::address::{self, Network};
use super::request::{Names, Request, Slot};
use super::spec::{IpSpec, SourceSpec};

/// Bits of an IPv6 address that make one client, where nothing else is said: the smallest network that one customer gets.
pub const IPV6_PREFIX_DEFAULT: u8 = 64;

/// Reads claims of tokens that it has verified.
pub trait Claims {
    /// A claim of the token in this header value; `None` unless the token is valid now.
    fn claim(&self, header: &str, name: &str) -> Option<String>;
}

/// Nobody verifies anything.
#[derive(Debug, Clone, Copy)]
pub struct NoClaims;

impl Claims for NoClaims {
    fn claim(&self, _header: &str, _name: &str) -> Option<String> {
        None
    }
}

/// Where clients are named, in order.
#[derive(Debug)]
pub struct Identity {
    sources: Vec<Source>,
    /// With several sources a client's name says where it is from: nobody can pose as an address by sending it as a key.
    is_tagged: bool,
    token: Option<Slot>,
    ipv6_prefix: u8,
}

#[derive(Debug)]
struct Source {
    tag: Box<str>,
    attribute: Slot,
    place: Place,
}

#[derive(Debug)]
enum Place {
    Fact(Slot),
    Claim(Box<str>),
    Address { trusted: Vec<Network>, forwarded_for: Slot },
}

impl Identity {
    /// Compiles the sources; `token` is the header with the token, where there is one.
    ///
    /// # Errors
    /// The text that is no network.
    pub(super) fn new(specs: &[SourceSpec], token: Option<&str>, names: &mut Names) -> Result<Self, String> {
        let token = token.map(|header| names.slot(&format!("header:{header}")));
        let sources = specs.iter().map(|spec| source(spec, names)).collect::<Result<Vec<_>, _>>()?;
        let prefixes = specs.iter().find_map(|spec| match spec {
            SourceSpec::Ip { ip } => Some(ip.ipv6_prefix),
            _ => None,
        });
        let ipv6_prefix = prefixes.unwrap_or(IPV6_PREFIX_DEFAULT);
        Ok(Self { is_tagged: sources.len() > 1, sources, token, ipv6_prefix })
    }

    /// Finds out what the sources say, and states it as facts: the attribute of each, and `client`.
    pub fn resolve(&self, request: &mut Request<'_>, claims: &dyn Claims) {
        let mut client = None;
        for source in &self.sources {
            let found = match &source.place {
                Place::Fact(slot) => request.get(*slot).map(str::to_owned),
                Place::Claim(name) => {
                    self.token.and_then(|token| request.get(token)).and_then(|header| claims.claim(header, name))
                }
                Place::Address { trusted, forwarded_for } => request.address().map(|peer| {
                    let address = address::client(peer, request.get(*forwarded_for), trusted);
                    request.set_address(address);
                    self.network(address).to_string()
                }),
            };
            let Some(found) = found else { continue };
            if client.is_none() {
                client = Some(if self.is_tagged { format!("{}:{found}", source.tag) } else { found.clone() });
            }
            if source.attribute != Slot::IP {
                request.put(source.attribute, Cow::Owned(found));
            }
        }
        if let Some(client) = client {
            request.put(Slot::CLIENT, Cow::Owned(client));
        }
    }

    /// The part of an address that counts as one client.
    pub fn network(&self, address: IpAddr) -> IpAddr {
        if address.is_ipv6() { address::mask(address, self.ipv6_prefix) } else { address }
    }
}

fn source(spec: &SourceSpec, names: &mut Names) -> Result<Source, String> {
    let (attribute, place) = match spec {
        SourceSpec::Header { header, attribute } => (attribute.as_str(), Place::Fact(names.slot(&format!("header:{header}")))),
        SourceSpec::Claim { claim, attribute } => (attribute.as_str(), Place::Claim(claim.as_str().into())),
        SourceSpec::Attribute { attribute } => (attribute.as_str(), Place::Fact(names.slot(attribute))),
        SourceSpec::Ip { ip: IpSpec { trusted_proxies, .. } } => {
            let network = |text: &String| Network::parse(text).ok_or_else(|| text.clone());
            let trusted = trusted_proxies.iter().map(network).collect::<Result<_, _>>()?;
            ("ip", Place::Address { trusted, forwarded_for: names.slot("header:x-forwarded-for") })
        }
    };
    Ok(Source { tag: attribute.into(), attribute: names.slot(attribute), place })
}

//! Who the client is: the first of several places that names somebody.

use std::borrow::Cow;
use std::net::IpAddr;

use foldhash::HashSet;

use super::address::{self, Network};
use super::glob::Glob;
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
    /// Whether a rule asks for the address itself.
    wants_address: bool,
}

#[derive(Debug)]
struct Source {
    tag: Box<str>,
    /// Where it is stated as an attribute, if any rule asks for it.
    attribute: Option<Slot>,
    place: Place,
}

#[derive(Debug)]
enum Place {
    Fact(Slot),
    /// A fact that must be one of these.
    OneOf(Slot, Valid),
    Claim(Box<str>),
    Address {
        trusted: Vec<Network>,
        forwarded_for: Slot,
    },
}

impl Identity {
    /// Compiles the sources; `token` is the header with the token, where there is one. The rules have been compiled: what they ask for is
    /// known.
    ///
    /// # Errors
    /// The text that is no network.
    pub(super) fn new(specs: &[SourceSpec], token: Option<&str>, wants_address: bool, names: &mut Names) -> Result<Self, String> {
        let token = token.map(|header| names.slot(&format!("header:{header}")));
        let sources = specs.iter().map(|spec| source(spec, names)).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { is_tagged: sources.len() > 1, sources, token, ipv6_prefix: ipv6_prefix(specs), wants_address })
    }

    /// Finds out what the sources say, and states it as facts: `client`, and the attribute of each that somebody asks for.
    pub fn resolve(&self, request: &mut Request<'_>, claims: &dyn Claims) {
        let mut client = request.take_named().map(|name| self.named(request, name));
        for source in &self.sources {
            if client.is_some() && source.attribute.is_none() {
                // Nobody asks what it says, unless it is the address.
                if self.wants_address {
                    source.find_address(request);
                }
                continue;
            }
            let Some(found) = self.find(source, request, claims) else { continue };
            if let Some(attribute) = source.attribute {
                request.put(attribute, found.clone());
            }
            if client.is_none() {
                client = Some(if self.is_tagged { Cow::Owned([&*source.tag, ":", &found].concat()) } else { found });
            }
        }
        // Whom no source names is nobody: a `client` that came with the request could be anybody's name, tag and all.
        if !self.sources.is_empty() || client.is_some() {
            request.put(Slot::CLIENT, client.unwrap_or_default());
        }
    }

    /// The client that a caller named: the same as if its name had come in the first header or attribute that names clients.
    fn named<'a>(&self, request: &mut Request<'a>, name: Cow<'a, str>) -> Cow<'a, str> {
        let stated = self.sources.iter().find_map(|source| match &source.place {
            Place::Fact(slot) | Place::OneOf(slot, _) => Some((&*source.tag, slot)),
            Place::Claim(_) | Place::Address { .. } => None,
        });
        if let Some((_, &slot)) = stated {
            request.put(slot, name.clone());
        }
        if !self.is_tagged {
            return name;
        }
        Cow::Owned([stated.map_or("client", |(tag, _)| tag), ":", &name].concat())
    }

    /// A client's name in its two parts: where it is from, if the name says so, and the rest.
    pub fn parts<'n>(&self, client: &'n str) -> (Option<&'n str>, &'n str) {
        match client.split_once(':') {
            Some((tag, name)) if self.is_tagged => (Some(tag), name),
            _ => (None, client),
        }
    }

    /// What one source says.
    fn find<'a>(&self, source: &Source, request: &mut Request<'a>, claims: &dyn Claims) -> Option<Cow<'a, str>> {
        match &source.place {
            Place::Fact(slot) => request.take(*slot),
            Place::OneOf(slot, valid) => {
                if valid.has(request.get(*slot)?) {
                    request.take(*slot)
                } else {
                    None
                }
            }
            Place::Claim(name) => claims.claim(request.get(self.token?)?, name).filter(|claim| !claim.is_empty()).map(Cow::Owned),
            Place::Address { .. } => Some(Cow::Owned(address::text(self.network(source.find_address(request)?)))),
        }
    }

    /// The part of an address that counts as one client.
    pub fn network(&self, address: IpAddr) -> IpAddr {
        network(address, self.ipv6_prefix)
    }
}

impl Source {
    /// Finds the client's address behind trusted proxies, if that is what the source is.
    fn find_address(&self, request: &mut Request<'_>) -> Option<IpAddr> {
        let Place::Address { trusted, forwarded_for } = &self.place else { return None };
        let peer = request.address()?;
        let forwarded = if trusted.is_empty() { None } else { request.get(*forwarded_for) };
        let address = address::client(peer, forwarded, trusted);
        request.set_client(address);
        Some(address)
    }
}

/// Which keys name somebody. Without that, whoever makes up a new key for each request is a new client each time.
#[derive(Debug)]
struct Valid {
    keys: HashSet<Box<str>>,
    patterns: Vec<Glob>,
}

impl Valid {
    fn new(texts: &[String]) -> Self {
        let (patterns, keys): (Vec<_>, Vec<_>) = texts.iter().partition(|text| text.contains(['*', '?']));
        Self {
            keys: keys.into_iter().map(|key| key.as_str().into()).collect(),
            patterns: patterns.into_iter().map(|pattern| Glob::new(pattern)).collect(),
        }
    }

    fn has(&self, key: &str) -> bool {
        self.keys.contains(key) || self.patterns.iter().any(|pattern| pattern.matches(key))
    }
}

/// How many bits of an IPv6 address make one client.
pub(super) fn ipv6_prefix(specs: &[SourceSpec]) -> u8 {
    let stated = specs.iter().find_map(|spec| if let SourceSpec::Ip { ip } = spec { Some(ip.ipv6_prefix) } else { None });
    stated.unwrap_or(IPV6_PREFIX_DEFAULT)
}

/// The part of an address that counts as one client.
pub(super) fn network(address: IpAddr, ipv6_prefix: u8) -> IpAddr {
    if address.is_ipv6() { address::mask(address, ipv6_prefix) } else { address }
}

fn source(spec: &SourceSpec, names: &mut Names) -> Result<Source, String> {
    let (attribute, place) = match spec {
        SourceSpec::Header { header, attribute, valid } => {
            let slot = names.slot(&format!("header:{header}"));
            let place = if valid.is_empty() { Place::Fact(slot) } else { Place::OneOf(slot, Valid::new(valid)) };
            (attribute.as_str(), place)
        }
        SourceSpec::Claim { claim, attribute } => (attribute.as_str(), Place::Claim(claim.as_str().into())),
        SourceSpec::Attribute { attribute } => (attribute.as_str(), Place::Fact(names.slot(attribute))),
        SourceSpec::Ip { ip: IpSpec { trusted_proxies, .. } } => {
            let network = |text: &String| Network::parse(text).ok_or_else(|| text.clone());
            let trusted = trusted_proxies.iter().map(network).collect::<Result<_, _>>()?;
            ("ip", Place::Address { trusted, forwarded_for: names.slot("header:x-forwarded-for") })
        }
    };
    // The address is kept as an address, and the attribute of an attribute is there already.
    let is_stated =
        matches!(place, Place::Fact(_) | Place::OneOf(..) | Place::Claim(_)) && !matches!(spec, SourceSpec::Attribute { .. });
    Ok(Source { tag: attribute.into(), attribute: names.wanted(attribute).filter(|_| is_stated), place })
}

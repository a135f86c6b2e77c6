//! The facts about one request, in the places that the rules of one set gave them.
//!
//! A rule set knows which names its rules ask for and numbers them; all other facts are dropped unread. So a request is a short row of texts, borrowed
//! from wherever the caller has them, and a condition finds its fact by a number.

use std::borrow::Cow;
use std::net::IpAddr;

use foldhash::HashMap;
use smallvec::SmallVec;

use super::{address, path};

/// Where a fact is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(u16);

impl Slot {
    /// `method`, in capitals.
    pub const METHOD: Self = Self(0);
    /// `path`, [normalized](path::normalize).
    pub const PATH: Self = Self(1);
    /// `host`, in lower case and without a port.
    pub const HOST: Self = Self(2);
    /// `ip`: the peer's address, and the client's once that is known. Read it by [`Request::text`] or [`Request::address`].
    pub const IP: Self = Self(3);
    /// `client`: who asks.
    pub const CLIENT: Self = Self(4);
    /// `tier`: the plan.
    pub const TIER: Self = Self(5);
    /// `api_key`: what a member is known by.
    pub const API_KEY: Self = Self(6);
    /// `tenant`: the customer that a key belongs to.
    pub const TENANT: Self = Self(7);
}

/// The most names that the rules of one set ask for.
pub const NAMES_MAX: usize = u16::MAX as usize;

const FIXED: [&str; 8] = ["method", "path", "host", "ip", "client", "tier", "api_key", "tenant"];

/// The names that the rules of one set ask for.
#[derive(Debug)]
pub struct Names {
    attributes: HashMap<Box<str>, Slot>,
    headers: HashMap<Box<str>, Slot>,
    query: HashMap<Box<str>, Slot>,
    /// All names as they are written in rules, by slot.
    all: Vec<Box<str>>,
    are_too_many: bool,
}

impl Default for Names {
    fn default() -> Self {
        let mut names = Self {
            attributes: HashMap::default(),
            headers: HashMap::default(),
            query: HashMap::default(),
            all: Vec::new(),
            are_too_many: false,
        };
        for name in FIXED {
            names.slot(name);
        }
        names
    }
}

impl Names {
    /// The slot of a name as rules write it: `tier`, `header:x-plan`, `query:page`.
    ///
    /// When there is none left, any: whoever compiles the rules then asks [`are_too_many`](Self::are_too_many).
    pub(super) fn slot(&mut self, name: &str) -> Slot {
        let Some(next) = u16::try_from(self.all.len()).ok().filter(|&next| next < u16::MAX) else {
            self.are_too_many = true;
            return Slot(0);
        };
        let next = Slot(next);
        let slot = match Space::of(name) {
            (Space::Attribute, name) => *self.attributes.entry(name.into()).or_insert(next),
            (Space::Header, name) => *self.headers.entry(name.to_ascii_lowercase().into()).or_insert(next),
            (Space::Query, name) => *self.query.entry(name.into()).or_insert(next),
        };
        if slot == next {
            self.all.push(name.into());
        }
        slot
    }

    /// Whether rules ask for more names than there are slots: what was compiled is of no use.
    pub(super) fn are_too_many(&self) -> bool {
        self.are_too_many
    }

    /// The slot of an attribute that some rule asks for.
    pub(super) fn wanted(&self, attribute: &str) -> Option<Slot> {
        self.attributes.get(attribute).copied()
    }

    /// The name of a slot as rules write it.
    pub fn name(&self, slot: Slot) -> &str {
        &self.all[usize::from(slot.0)]
    }

    /// All names with their slots.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Slot)> {
        (0..).map(Slot).zip(&self.all).map(|(slot, name)| (&**name, slot))
    }

    pub(super) fn header(&self, name: &str) -> Option<Slot> {
        if self.headers.is_empty() {
            return None;
        }
        if !name.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return self.headers.get(name).copied();
        }
        let lower: SmallVec<[u8; 64]> = name.bytes().map(|byte| byte.to_ascii_lowercase()).collect();
        self.headers.get(std::str::from_utf8(&lower).ok()?).copied()
    }
}

/// What kind of name it is.
enum Space {
    Attribute,
    Header,
    Query,
}

impl Space {
    fn of(name: &str) -> (Self, &str) {
        if let Some(header) = name.strip_prefix("header:") {
            (Self::Header, header)
        } else if let Some(parameter) = name.strip_prefix("query:") {
            (Self::Query, parameter)
        } else {
            (Self::Attribute, name)
        }
    }
}

/// The facts about one request.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    names: &'a Names,
    values: SmallVec<[Option<Cow<'a, str>>; 14]>,
    /// The client's address, if a proxy told it.
    client: Option<IpAddr>,
    /// Who the client is, if a caller said so whose word counts.
    named: Option<Cow<'a, str>>,
    /// Parameters that came in a query, and one of them, or a header, that came twice with two values.
    queried: SmallVec<[Slot; 2]>,
    repeated: Option<Slot>,
}

impl<'a> Request<'a> {
    /// A request of which nothing is known yet.
    pub fn new(names: &'a Names) -> Self {
        Self {
            names,
            values: SmallVec::from_elem(None, names.all.len()),
            client: None,
            named: None,
            queried: SmallVec::new(),
            repeated: None,
        }
    }

    /// States a fact. A name that no rule asks for is dropped. An empty value counts as absent.
    pub fn set(&mut self, name: &str, value: impl Into<Cow<'a, str>>) {
        match Space::of(name) {
            (Space::Attribute, name) => self.set_at(self.names.attributes.get(name).copied(), value),
            (Space::Header, name) => self.set_header(name, value),
            (Space::Query, name) => self.set_query(name, value),
        }
    }

    /// States a fact that has a slot of its own, without looking for its name.
    pub fn set_fixed(&mut self, slot: Slot, value: impl Into<Cow<'a, str>>) {
        self.set_at(Some(slot), value);
    }

    /// States a header, by its name in any case.
    pub fn set_header(&mut self, name: &str, value: impl Into<Cow<'a, str>>) {
        self.set_at(self.names.header(name), value);
    }

    /// States a header as it came, by its name in any case, with all its values. They are looked at only if some rule asks for it.
    ///
    /// Of a list the values are parts. With two different values any other one is [repeated](Self::repeated), as a parameter is: servers differ in
    /// which of them they take.
    pub fn add_header<V: Into<Cow<'a, str>>>(&mut self, name: &str, values: impl IntoIterator<Item = V>) {
        let Some(slot) = self.names.header(name) else { return };
        let mut values = values.into_iter().map(Into::into);
        let Some(mut whole) = values.next() else { return };
        for value in values {
            if is_list(name) {
                whole = Cow::Owned([&*whole, ", ", &*value].concat());
            } else if whole != value {
                self.repeated = Some(slot);
            }
        }
        self.set_at(Some(slot), whole);
    }

    /// States a parameter of the query.
    pub fn set_query(&mut self, name: &str, value: impl Into<Cow<'a, str>>) {
        self.set_at(self.names.query.get(name).copied(), value);
    }

    /// States a parameter as it came in a query, where it may come again.
    ///
    /// With another value it is [repeated](Self::repeated): some servers go by the first and some by the last, so whichever counted here, a client could
    /// be counted as somebody else than whom the server takes it for.
    pub fn add_query(&mut self, name: &str, value: impl Into<Cow<'a, str>>) {
        let Some(slot) = self.names.query.get(name).copied() else { return };
        let value = value.into();
        if !self.queried.contains(&slot) {
            self.queried.push(slot);
        } else if self.get(slot).unwrap_or_default() != value {
            self.repeated = Some(slot);
        }
        self.set_at(Some(slot), value);
    }

    /// A parameter or a header that some rule asks for, and that came with two values.
    pub fn repeated(&self) -> Option<&str> {
        self.repeated.map(|slot| self.names.name(slot))
    }

    /// Says who the client is, by a caller whose word counts: no source of the identity is asked. An empty name says nothing.
    ///
    /// A `client` that is merely [set](Self::set) counts only where rules have no identity.
    pub fn name_client(&mut self, name: impl Into<Cow<'a, str>>) {
        self.named = Some(name.into()).filter(|name| !name.is_empty());
    }

    /// A fact.
    pub fn get(&self, slot: Slot) -> Option<&str> {
        self.values[usize::from(slot.0)].as_deref()
    }

    /// A fact, with addresses in their one spelling. Only asked for by conditions and people, because spelling takes time.
    pub fn text(&self, slot: Slot) -> Option<Cow<'_, str>> {
        match (slot, self.get(slot)) {
            (Slot::IP, Some(value)) => {
                Some(self.address().map_or(Cow::Borrowed(value), |address| Cow::Owned(address::text(address))))
            }
            (_, value) => value.map(Cow::Borrowed),
        }
    }

    /// The address in `ip`, if it is one.
    pub fn address(&self) -> Option<IpAddr> {
        self.client.or_else(|| self.get(Slot::IP).and_then(address::parse))
    }

    /// All facts that are known, by name.
    pub fn facts(&self) -> impl Iterator<Item = (&str, Cow<'_, str>)> {
        self.names.iter().filter_map(|(name, slot)| Some((name, self.text(slot)?)))
    }

    fn set_at(&mut self, slot: Option<Slot>, value: impl Into<Cow<'a, str>>) {
        let Some(slot) = slot else { return };
        let value = value.into();
        match slot {
            Slot::METHOD => self.put(slot, fold(value, u8::is_ascii_lowercase, str::to_ascii_uppercase)),
            Slot::PATH => {
                let normal = match value {
                    Cow::Borrowed(text) => path::normalize(text),
                    Cow::Owned(text) => Cow::Owned(path::normalize(&text).into_owned()),
                };
                self.put(slot, normal);
            }
            Slot::HOST => self.put(slot, host(fold(value, u8::is_ascii_uppercase, str::to_ascii_lowercase))),
            _ => self.put(slot, value),
        }
    }

    /// A fact that is cheap to copy as long as it is borrowed from the caller.
    pub(super) fn take(&self, slot: Slot) -> Option<Cow<'a, str>> {
        self.values[usize::from(slot.0)].clone()
    }

    /// Who a caller said the client is.
    pub(super) fn take_named(&mut self) -> Option<Cow<'a, str>> {
        self.named.take()
    }

    pub(super) fn set_client(&mut self, address: IpAddr) {
        self.client = Some(address);
    }

    pub(super) fn put(&mut self, slot: Slot, value: Cow<'a, str>) {
        self.values[usize::from(slot.0)] = Some(value).filter(|value| !value.is_empty());
    }
}

/// Whether a header is a list by its definition (RFC 9110, 7239, 6265), so that each server reads all of its values.
fn is_list(name: &str) -> bool {
    const LISTS: [&str; 22] = [
        "accept",
        "accept-charset",
        "accept-encoding",
        "accept-language",
        "cache-control",
        "connection",
        "content-encoding",
        "content-language",
        "cookie",
        "expect",
        "forwarded",
        "if-match",
        "if-none-match",
        "pragma",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "via",
        "x-forwarded-for",
        "x-forwarded-host",
        "x-forwarded-proto",
    ];
    LISTS.iter().any(|list| list.eq_ignore_ascii_case(name))
}

fn fold(text: Cow<'_, str>, is_other: impl Fn(&u8) -> bool, change: impl Fn(&str) -> String) -> Cow<'_, str> {
    if text.bytes().any(|byte| is_other(&byte)) { Cow::Owned(change(&text)) } else { text }
}

/// A host without its port and without dots at its end, on either side of the port.
fn host(text: Cow<'_, str>) -> Cow<'_, str> {
    // With several colons and no brackets it is an IPv6 address, and the last colon begins no port.
    let is_port =
        |bare: &str, port: &str| (bare.ends_with(']') || !bare.contains(':')) && port.bytes().all(|byte| byte.is_ascii_digit());
    let dotless = text.trim_end_matches('.');
    let bare = match dotless.rsplit_once(':') {
        Some((bare, port)) if is_port(bare, port) => bare.trim_end_matches('.'),
        _ => dotless,
    };
    if bare.len() == text.len() { text } else { Cow::Owned(bare.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(name: &str, value: &str) -> Option<String> {
        let names = Names::default();
        let mut request = Request::new(&names);
        request.set(name, value);
        request.facts().next().map(|(_, value)| value.into_owned())
    }

    #[test]
    fn facts_are_brought_to_one_spelling() {
        let table = [
            ("method", "post", "POST"),
            ("host", "API.Example.com:8443", "api.example.com"),
            ("host", "example.com.", "example.com"),
            ("host", "example.com..:80.", "example.com"),
            ("host", "[2001:db8::1]:80", "[2001:db8::1]"),
            ("host", "2001:db8::1", "2001:db8::1"),
            ("path", "//a/./b?c", "/a/b"),
            ("ip", "::ffff:192.0.2.1", "192.0.2.1"),
            ("ip", "unix", "unix"),
        ];
        for (name, value, expected) in table {
            assert_eq!(seen(name, value).as_deref(), Some(expected), "{name}={value}");
        }
    }

    #[test]
    fn what_nobody_asks_for_is_dropped() {
        assert_eq!(seen("header:x-nobody", "1"), None);
        assert_eq!(seen("anything", "1"), None);
        assert_eq!(seen("client", ""), None, "an empty value is no value");
    }

    #[test]
    fn headers_are_found_in_any_case() {
        let mut names = Names::default();
        let slot = names.slot("header:X-Plan");
        let mut request = Request::new(&names);
        request.set_header("x-PLAN", "pro");
        assert_eq!(request.get(slot), Some("pro"));
    }

    #[test]
    fn a_header_with_two_values_is_repeated_unless_it_is_a_list() {
        let table: [(&str, &[&str], Option<&str>, bool); 6] = [
            ("x-api-key", &["a"], Some("a"), false),
            ("X-Api-Key", &["a", "a"], Some("a"), false),
            ("x-api-key", &["a", "b"], Some("a"), true),
            ("x-api-key", &["a", "", "a"], Some("a"), true),
            ("Accept", &["a", "b"], Some("a, b"), false),
            ("x-nobody", &["a", "b"], None, false),
        ];
        for (name, values, expected, is_repeated) in table {
            let mut names = Names::default();
            let slots = ["header:x-api-key", "header:accept"].map(|name| names.slot(name));
            let mut request = Request::new(&names);
            request.add_header(name, values.iter().copied());
            assert_eq!(slots.iter().find_map(|slot| request.get(*slot)), expected, "{name}: {values:?}");
            assert_eq!(request.repeated().is_some(), is_repeated, "{name}: {values:?}");
        }
    }
}

//! Addresses and networks, and which address of a chain of proxies is the client's.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// Hops of a forwarded chain that are looked at: a longer one is nobody's.
const HOPS_MAX: usize = 64;

/// Reads an address as people and proxies write it: with a port, in brackets, IPv4 inside IPv6.
///
/// ```
/// use tidegate_core::rules::address::parse;
///
/// for text in ["192.0.2.1", "192.0.2.1:443", "::ffff:192.0.2.1", "[::ffff:192.0.2.1]:443", " 192.0.2.1 "] {
///     assert_eq!(parse(text), "192.0.2.1".parse().ok(), "{text}");
/// }
/// assert_eq!(parse("unknown"), None);
/// ```
pub fn parse(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let address = bare.parse::<IpAddr>().or_else(|_| text.parse::<SocketAddr>().map(|socket| socket.ip()));
    address.ok().map(|address| address.to_canonical())
}

/// An address as people write it: what its `to_string` says. One of version 4 comes with most requests, and to format it takes longer than to decide.
pub fn text(address: IpAddr) -> String {
    let IpAddr::V4(address) = address else { return address.to_string() };
    let mut text = String::with_capacity("255.255.255.255".len());
    for (index, octet) in address.octets().into_iter().enumerate() {
        if index > 0 {
            text.push('.');
        }
        for (place, least) in [(100, 100), (10, 10), (1, 0)] {
            if octet >= least {
                text.push(char::from(b'0' + octet / place % 10));
            }
        }
    }
    text
}

/// A network such as `10.0.0.0/8`; a single address is one too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

impl Network {
    /// Reads a network. Bits behind the prefix must be zero.
    pub fn parse(text: &str) -> Option<Self> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (parse(address)?, Some(prefix.parse::<u8>().ok()?)),
            None => (parse(text)?, None),
        };
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.unwrap_or(bits);
        (prefix <= bits && mask(address, prefix) == address).then_some(Self { address, prefix })
    }

    /// Whether the address is in it.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.address.is_ipv4() == address.is_ipv4() && mask(address, self.prefix) == self.address
    }
}

/// The first `prefix` bits of an address, the rest zero.
pub fn mask(address: IpAddr, prefix: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let kept = u32::MAX.checked_shl(32 - u32::from(prefix.min(32))).unwrap_or(0);
            IpAddr::V4((u32::from(address) & kept).into())
        }
        IpAddr::V6(address) => {
            let kept = u128::MAX.checked_shl(128 - u32::from(prefix.min(128))).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from(u128::from(address) & kept))
        }
    }
}

/// The client's address: the peer's, unless the peer is a trusted proxy.
///
/// Then the chain is walked from the right, past trusted proxies, to the first that is not: everything to its left was written by somebody who
/// is not trusted. A hop that is no address ends the walk at the proxy that wrote it.
pub fn client(peer: IpAddr, forwarded_for: Option<&str>, trusted: &[Network]) -> IpAddr {
    let is_trusted = |address: IpAddr| trusted.iter().any(|network| network.contains(address));
    let mut client = peer;
    for hop in forwarded_for.unwrap_or_default().rsplit(',').take(HOPS_MAX) {
        if !is_trusted(client) {
            break;
        }
        match parse(hop) {
            Some(address) => client = address,
            None => break,
        }
    }
    client
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        parse(text).expect("an address")
    }

    #[test]
    fn an_address_is_spelled_as_the_standard_library_does() {
        for octet in 0..=u8::MAX {
            let address = IpAddr::from([octet, 0, 255 - octet, octet]);
            assert_eq!(text(address), address.to_string());
        }
        assert_eq!(text(address("2001:db8::1")), "2001:db8::1");
    }

    #[test]
    fn only_a_trusted_peer_is_believed() {
        let trusted = [Network::parse("10.0.0.0/8").expect("a network")];
        let table = [
            ("203.0.113.9", Some("198.51.100.7"), "203.0.113.9"),
            ("10.0.0.1", Some("198.51.100.7"), "198.51.100.7"),
            ("10.0.0.1", Some("1.1.1.1, 198.51.100.7, 10.0.0.2"), "198.51.100.7"),
            ("10.0.0.1", Some("10.0.0.3, 10.0.0.2"), "10.0.0.3"),
            ("10.0.0.1", Some("198.51.100.7, garbage"), "10.0.0.1"),
            ("10.0.0.1", Some(""), "10.0.0.1"),
            ("10.0.0.1", None, "10.0.0.1"),
            ("::ffff:10.0.0.1", Some("2001:db8::1"), "2001:db8::1"),
        ];
        for (peer, forwarded, expected) in table {
            assert_eq!(client(address(peer), forwarded, &trusted), address(expected), "{peer} {forwarded:?}");
        }
    }

    #[test]
    fn a_network_contains_its_addresses_and_no_others() {
        let network = Network::parse("2001:db8::/32").expect("a network");
        assert!(network.contains(address("2001:db8:1::1")) && !network.contains(address("2001:db9::1")));
        assert!(Network::parse("0.0.0.0/0").expect("all").contains(address("255.255.255.255")));
        assert!(!Network::parse("0.0.0.0/0").expect("all").contains(address("::1")));
        for text in ["10.0.0.1/8", "10.0.0.0/33", "ten", "10.0.0.0/", "::1/129"] {
            assert_eq!(Network::parse(text), None, "{text}");
        }
    }
}

//! Servers as other servers name them.

use crate::redis::url::Address;

/// A server as a redirection, a map or a sentinel names it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Endpoint {
    /// `None` is the host that was asked: it does not know its own name.
    pub(super) host: Option<Box<str>>,
    pub(super) port: u16,
}

impl Endpoint {
    pub(super) fn new(host: &str, port: u16) -> Self {
        Self { host: known(host).map(Box::from), port }
    }

    /// Its address, as seen by somebody who was told so at `asked`. Behind a socket in the file system there is no host to go on with.
    pub(super) fn seen_from(self, asked: &Address) -> Option<Address> {
        let host = match (self.host, asked) {
            (Some(host), _) => host,
            (None, Address::Tcp { host, .. }) => host.clone(),
            (None, Address::Unix(_)) => return None,
        };
        Some(Address::Tcp { host, port: self.port })
    }
}

/// A server that does not know its own name says nothing or "?".
pub(super) fn known(host: &str) -> Option<&str> {
    Some(host).filter(|host| !host.is_empty() && *host != "?")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_without_a_name_is_where_the_answer_came_from() {
        let asked = Address::tcp("a.example", 7000);

        assert_eq!(Endpoint::new("", 7001).seen_from(&asked), Some(Address::tcp("a.example", 7001)));
        assert_eq!(Endpoint::new("?", 7001).seen_from(&asked), Some(Address::tcp("a.example", 7001)));
        assert_eq!(Endpoint::new("b.example", 7001).seen_from(&asked), Some(Address::tcp("b.example", 7001)));
        assert_eq!(Endpoint::new("", 7001).seen_from(&Address::Unix("/run/redis.sock".into())), None);
    }
}

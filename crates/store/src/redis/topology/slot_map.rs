//! Who owns which slots, as `CLUSTER SLOTS` tells it.
//!
//! The reply is an array of ranges: first slot, last slot, the primary, its replicas. A server is its host, its port, its id and, since Redis 7, a list
//! of further names. Redis 6.2 and Valkey 9 agree on all of it.

use super::endpoint::{Endpoint, known};
use super::slots::SLOTS;
use crate::redis::resp::Value;
use crate::store::StoreError;

/// Slots that lie side by side and have one primary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) first: u16,
    pub(super) last: u16,
    pub(super) primary: Endpoint,
}

/// How servers are to be named: the way in which the one that was asked is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Names {
    /// As the cluster prefers.
    Preferred,
    /// By host name where the cluster knows one: a certificate is checked against it.
    Hosts,
}

/// Reads a reply to `CLUSTER SLOTS`.
///
/// # Errors
/// The reply has another shape: it is taken whole or not at all.
pub(super) fn ranges(reply: &Value, names: Names) -> Result<Vec<Range>, StoreError> {
    let Value::Array(items) = reply else { return Err(nonsense("it is no list")) };
    items.iter().map(|item| range(item, names)).collect()
}

fn range(item: &Value, names: Names) -> Result<Range, StoreError> {
    let Value::Array(parts) = item else { return Err(nonsense("a range is no list")) };
    let [first, last, primary, ..] = &**parts else { return Err(nonsense("a range has no primary")) };
    let (first, last) = (slot(first)?, slot(last)?);
    if first > last {
        return Err(nonsense("a range ends before it starts"));
    }
    Ok(Range { first, last, primary: endpoint(primary, names)? })
}

fn slot(value: &Value) -> Result<u16, StoreError> {
    match value {
        Value::Int(number) => u16::try_from(*number).ok().filter(|number| *number < SLOTS),
        _ => None,
    }
    .ok_or_else(|| nonsense("a slot is no number from 0 to 16383"))
}

fn endpoint(value: &Value, names: Names) -> Result<Endpoint, StoreError> {
    let Value::Array(parts) = value else { return Err(nonsense("a server is no list")) };
    let [host, Value::Int(port), more @ ..] = &**parts else { return Err(nonsense("a server has no host and port")) };
    let port =
        u16::try_from(*port).ok().filter(|port| *port > 0).ok_or_else(|| nonsense("a port is no number from 1 to 65535"))?;
    let preferred = match host {
        Value::Nil => None,
        Value::Bulk(_) | Value::Status(_) => known(text(host).ok_or_else(|| nonsense("a host is no text"))?),
        _ => return Err(nonsense("a host is no text")),
    };
    let further = |name| more.get(1).and_then(|list| further(list, name));
    let host = match names {
        Names::Hosts => further("hostname").or(preferred),
        Names::Preferred => preferred,
    };
    Ok(Endpoint { host: host.or_else(|| further("ip")).map(Box::from), port })
}

/// One of the further names of a server: a list of names and values in turn.
fn further<'a>(list: &'a Value, name: &str) -> Option<&'a str> {
    let Value::Array(items) = list else { return None };
    items.chunks_exact(2).find(|pair| text(&pair[0]) == Some(name)).and_then(|pair| known(text(&pair[1])?))
}

fn text(value: &Value) -> Option<&str> {
    std::str::from_utf8(value.text()?).ok()
}

fn nonsense(what: &str) -> StoreError {
    StoreError::protocol(format!("CLUSTER SLOTS was answered with nonsense: {what}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn list(items: impl IntoIterator<Item = Value>) -> Value {
        Value::Array(items.into_iter().collect())
    }

    fn bulk(text: &str) -> Value {
        Value::Bulk(text.as_bytes().into())
    }

    fn server(host: Value, port: i64, further: Value) -> Value {
        list([host, Value::Int(port), bulk("0123456789abcdef"), further])
    }

    fn one(server: Value) -> Value {
        list([list([Value::Int(0), Value::Int(5460), server])])
    }

    fn host(reply: &Value, names: Names) -> Option<Box<str>> {
        ranges(reply, names).unwrap().remove(0).primary.host
    }

    #[test]
    fn a_range_has_its_primary_and_its_replicas_do_not_matter() {
        let primary = list([bulk("127.0.0.1"), Value::Int(30001), bulk("id")]);
        let replica = list([bulk("127.0.0.1"), Value::Int(30004), bulk("id")]);

        let ranges = ranges(&list([list([Value::Int(0), Value::Int(5460), primary, replica])]), Names::Preferred).unwrap();

        let primary = Endpoint { host: Some("127.0.0.1".into()), port: 30001 };
        assert_eq!(ranges, [Range { first: 0, last: 5460, primary }]);
    }

    #[test]
    fn a_server_without_a_name_is_the_host_that_was_asked() {
        for nameless in [Value::Nil, bulk(""), bulk("?")] {
            assert_eq!(host(&one(server(nameless, 1, list([]))), Names::Preferred), None);
        }
        let ip = list([bulk("ip"), bulk("10.0.0.1")]);
        assert_eq!(host(&one(server(bulk("?"), 1, ip)), Names::Preferred).as_deref(), Some("10.0.0.1"));
    }

    #[test]
    fn who_came_by_name_goes_on_by_name() {
        let reply = one(server(bulk("10.0.0.1"), 1, list([bulk("hostname"), bulk("a.example")])));

        assert_eq!(host(&reply, Names::Hosts).as_deref(), Some("a.example"));
        assert_eq!(host(&reply, Names::Preferred).as_deref(), Some("10.0.0.1"));
    }

    #[test]
    fn a_cluster_without_slots_is_an_empty_map() {
        assert_eq!(ranges(&list([]), Names::Preferred), Ok(vec![]));
    }

    #[test]
    fn other_shapes_are_refused_with_a_reason() {
        let good = || list([bulk("a"), Value::Int(1)]);
        for (reply, reason) in [
            (Value::Nil, "it is no list"),
            (list([Value::Int(1)]), "a range is no list"),
            (list([list([Value::Int(0), Value::Int(1)])]), "a range has no primary"),
            (list([list([Value::Int(1), Value::Int(0), good()])]), "a range ends before it starts"),
            (list([list([Value::Int(-1), Value::Int(0), good()])]), "a slot is no number"),
            (list([list([Value::Int(0), Value::Int(16_384), good()])]), "a slot is no number"),
            (list([list([bulk("0"), Value::Int(1), good()])]), "a slot is no number"),
            (one(bulk("a:1")), "a server is no list"),
            (one(list([bulk("a")])), "a server has no host and port"),
            (one(list([bulk("a"), Value::Int(0)])), "a port is no number"),
            (one(list([bulk("a"), Value::Int(65_536)])), "a port is no number"),
            (one(list([Value::Int(1), Value::Int(1)])), "a host is no text"),
            (one(list([Value::Bulk([0xff].into()), Value::Int(1)])), "a host is no text"),
        ] {
            let error = ranges(&reply, Names::Preferred).unwrap_err();
            assert!(matches!(&error, StoreError::Protocol { why } if why.contains(reason)), "{reply:?}: {error}");
        }
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Nil),
            any::<i64>().prop_map(Value::Int),
            (0_i64..20_000).prop_map(Value::Int),
            proptest::collection::vec(any::<u8>(), 0..8).prop_map(|bytes| Value::Bulk(bytes.into())),
            "(hostname|ip|[?]|)".prop_map(|text| Value::Status(text.into())),
            ".{0,8}".prop_map(|text| Value::Error(text.into())),
        ];
        leaf.prop_recursive(4, 64, 6, |inner| proptest::collection::vec(inner, 0..6).prop_map(|items| Value::Array(items.into())))
    }

    proptest! {
        #[test]
        fn no_reply_panics_and_every_range_is_of_the_cluster(reply in any_value(), by_host in any::<bool>()) {
            let names = if by_host { Names::Hosts } else { Names::Preferred };
            for range in ranges(&reply, names).unwrap_or_default() {
                prop_assert!(range.first <= range.last && range.last < SLOTS && range.primary.port > 0);
            }
        }

        #[test]
        fn a_reply_with_one_odd_part_does_not_panic(odd in any_value(), place in 0_usize..6) {
            let part = |index: usize, value: Value| if index == place { odd.clone() } else { value };
            let further = list([part(4, bulk("hostname")), part(5, bulk("a.example"))]);
            let server = list([part(2, bulk("a")), part(3, Value::Int(1)), bulk("id"), further]);
            let _ = ranges(&list([list([part(0, Value::Int(0)), part(1, Value::Int(9)), server])]), Names::Hosts);
        }
    }
}

//! What one sentinel says.

use std::sync::Arc;

use crate::redis::node::{CallError, Mode, Node};
use crate::redis::resp::{Command, Value, store_error};
use crate::redis::topology::endpoint::Endpoint;
use crate::redis::topology::single::{is_a_cluster, mode};
use crate::redis::url::Address;
use crate::store::StoreError;

/// What one sentinel says.
#[derive(Debug)]
pub(super) struct Answer {
    /// Which one.
    pub(super) asked: Address,
    /// Who the primary is.
    pub(super) primary: Address,
    /// The number of the failover that made it one; 0 if the sentinel does not say.
    pub(super) epoch: u64,
    /// The other sentinels.
    pub(super) peers: Vec<Address>,
}

/// Asks a sentinel for everything at once.
pub(super) async fn ask(node: Arc<Node>, name: Arc<str>) -> Result<Answer, StoreError> {
    let (primary, details, peers) = tokio::join!(
        sentinel(&node, "get-master-addr-by-name", &name),
        sentinel(&node, "master", &name),
        sentinel(&node, "sentinels", &name)
    );
    let asked = node.address().clone();
    let primary = match primary? {
        Value::Error(text) => return Err(refusal(&node, &text)),
        // It knows others, perhaps.
        Value::Nil => return Err(unknown_name(&node, &name).await),
        primary => address(&primary, &asked).ok_or_else(|| nonsense(&asked))?,
    };
    // A sentinel may be forbidden to say more than that.
    let epoch = details.ok().and_then(|details| field(&details, b"config-epoch")?.parse().ok()).unwrap_or(0);
    let peers = peers.map_or_else(|_| Vec::new(), |peers| addresses(&peers, &asked));
    Ok(Answer { asked, primary, epoch, peers })
}

async fn sentinel(node: &Node, word: &str, name: &str) -> Result<Value, StoreError> {
    let command = Command::new(&[b"SENTINEL", word.as_bytes(), name.as_bytes()]);
    node.call(command, false).await.map_err(CallError::into_store_error)
}

/// A list of host and port.
fn address(value: &Value, asked: &Address) -> Option<Address> {
    let [host, port] = value.items()? else { return None };
    let port = text(port)?.parse().ok().filter(|&port| port > 0)?;
    Endpoint::new(text(host)?, port).seen_from(asked)
}

/// The addresses in a list of servers, each of which is a list of fields and values in turn.
fn addresses(servers: &Value, asked: &Address) -> Vec<Address> {
    let of = |server| {
        let port = field(server, b"port")?.parse().ok().filter(|&port| port > 0)?;
        Endpoint::new(field(server, b"ip")?, port).seen_from(asked)
    };
    servers.items().unwrap_or_default().iter().filter_map(of).collect()
}

fn field<'a>(server: &'a Value, name: &[u8]) -> Option<&'a str> {
    server.items()?.chunks_exact(2).find(|pair| pair[0].text() == Some(name)).and_then(|pair| text(&pair[1]))
}

fn text(value: &Value) -> Option<&str> {
    std::str::from_utf8(value.text()?).ok()
}

fn nonsense(address: &Address) -> StoreError {
    StoreError::protocol(format!("{address} answered nonsense when it was asked for the primary"))
}

/// The sentinel watches nothing of this name.
async fn unknown_name(node: &Node, name: &str) -> StoreError {
    let address = node.address();
    let all = node.call(Command::new(&[b"SENTINEL", b"masters"]), false).await;
    let names: Vec<_> = match &all {
        Ok(all) => all.items().unwrap_or_default().iter().filter_map(|server| field(server, b"name")).collect(),
        Err(_) => Vec::new(),
    };
    let known = if names.is_empty() { "it knows none".to_owned() } else { format!("it knows {}", names.join(", ")) };
    StoreError::protocol(format!("the sentinel {address} knows no primary of the name {name:?}: {known}"))
}

/// Why a server does not answer as a sentinel does.
fn refusal(node: &Node, text: &str) -> StoreError {
    let address = node.address();
    match mode(&node.state()) {
        Some(Mode::Cluster) => is_a_cluster(address),
        Some(Mode::Standalone) => is_no_sentinel(address),
        None if text.starts_with("ERR unknown command") => is_no_sentinel(address),
        Some(Mode::Sentinel) | None => store_error(text),
    }
}

fn is_no_sentinel(address: &Address) -> StoreError {
    StoreError::protocol(format!("{address} is no sentinel but a server with data; use redis://{address}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(items: &[&str]) -> Value {
        Value::Array(items.iter().map(|item| Value::Bulk(item.as_bytes().into())).collect())
    }

    #[test]
    fn servers_are_read_from_fields_in_any_order() {
        let asked = Address::tcp("s.example", 26_379);
        let servers = Value::Array(
            [
                list(&["name", "x", "port", "26380", "ip", "10.0.0.2", "flags", "sentinel"]),
                list(&["ip", "", "port", "26381"]),
                list(&["ip", "10.0.0.3", "port", "0"]),
                list(&["ip"]),
                Value::Nil,
            ]
            .into(),
        );

        assert_eq!(addresses(&servers, &asked), [Address::tcp("10.0.0.2", 26_380), Address::tcp("s.example", 26_381)]);
        assert_eq!(addresses(&Value::Error("ERR no".into()), &asked), []);
    }

    #[test]
    fn the_primary_is_a_host_and_a_port() {
        let asked = Address::tcp("s.example", 26_379);

        assert_eq!(address(&list(&["10.0.0.2", "6379"]), &asked), Some(Address::tcp("10.0.0.2", 6_379)));
        for odd in [list(&[]), list(&["10.0.0.2"]), list(&["a", "0"]), list(&["a", "b"]), list(&["a", "1", "2"]), Value::Int(1)] {
            assert_eq!(address(&odd, &asked), None, "{odd:?}");
        }
    }
}

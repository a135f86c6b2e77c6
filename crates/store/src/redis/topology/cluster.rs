//! A cluster: any of its servers knows who owns which slots.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use super::follow::Scout;
use super::pace::random;
use super::shared::{Shared, is_up};
use super::single::{is_a_sentinel, mode};
use super::slot_map::{Names, Range, ranges};
use super::view::View;
use crate::redis::node::{CallError, Mode, Node};
use crate::redis::resp::{Command, Value, store_error};
use crate::redis::url::Address;
use crate::store::StoreError;

/// So many servers are asked at the same time: one of them may be frozen, another cut off.
const ASKED_AT_ONCE: usize = 3;

/// How long a server has for the answer, its first connection included.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);

/// How the servers of a cluster are found.
#[derive(Debug)]
pub(super) struct Cluster {
    seeds: Vec<Address>,
}

/// A map, as one server sees it.
struct Map {
    asked: Address,
    ranges: Vec<Range>,
    /// Whether the server belongs to a majority and sees every slot served. One that was cut off or reset has an old map.
    is_sound: bool,
}

impl Cluster {
    pub(super) fn new(seeds: &[Address]) -> Self {
        Self { seeds: seeds.to_vec() }
    }
}

impl Scout for Cluster {
    async fn look(&mut self, shared: &Arc<Shared>) {
        let mut answer = ask_any(some_connected(shared)).await;
        if !matches!(&answer, Ok(map) if map.is_sound) {
            let seeds = self.seeds.iter().map(|seed| shared.node(seed)).collect();
            answer = better(answer, ask_any(seeds).await);
        }
        match answer {
            Ok(map) if map.is_sound || shared.view().primaries().is_empty() => publish(shared, map),
            // In the middle of a failover nobody sees every slot served. What is known is no worse than that, and redirections mend it.
            Ok(_) => {}
            Err(why) => shared.publish_failure(why),
        }
    }
}

/// Some of the primaries, in no order.
fn some_connected(shared: &Shared) -> Vec<Arc<Node>> {
    let view = shared.view();
    let mut nodes: Vec<_> = view.primaries().iter().map(|primary| primary.node.clone()).filter(|node| is_up(node)).collect();
    nodes.sort_by_cached_key(|_| random());
    nodes.truncate(ASKED_AT_ONCE);
    nodes
}

/// The first sound map, or else whatever says most.
async fn ask_any(nodes: Vec<Arc<Node>>) -> Result<Map, StoreError> {
    let mut questions: JoinSet<_> = nodes.into_iter().map(ask_in_time).collect();
    let mut best = Err(StoreError::unavailable("no server of the cluster is connected"));
    while let Some(answer) = questions.join_next().await {
        best = better(best, answer.unwrap_or_else(|_| Err(StoreError::unavailable("the question was given up"))));
        if matches!(&best, Ok(map) if map.is_sound) {
            break;
        }
    }
    best
}

/// A map is better than none and a sound one better than another; of errors the one that somebody has to mend.
fn better(one: Result<Map, StoreError>, other: Result<Map, StoreError>) -> Result<Map, StoreError> {
    match (one, other) {
        (Ok(map), Ok(other)) => Ok(if other.is_sound && !map.is_sound { other } else { map }),
        (Ok(map), Err(_)) | (Err(_), Ok(map)) => Ok(map),
        (Err(error), Err(other)) => Err(if error.is_transient() { other } else { error }),
    }
}

async fn ask_in_time(node: Arc<Node>) -> Result<Map, StoreError> {
    let late = || StoreError::unavailable(format!("{}: CLUSTER SLOTS was not answered in time", node.address()));
    tokio::time::timeout(ANSWER_LIMIT, ask(&node)).await.unwrap_or_else(|_| Err(late()))
}

async fn ask(node: &Node) -> Result<Map, StoreError> {
    let slots = Command::new(&[b"CLUSTER", b"SLOTS"]);
    let info = Command::new(&[b"CLUSTER", b"INFO"]);
    let (slots, info) = tokio::join!(node.call(slots, false), node.call(info, false));
    let asked = node.address().clone();
    let slots = match slots.map_err(CallError::into_store_error)? {
        Value::Error(text) => return Err(refusal(node, &text)),
        slots => slots,
    };
    let ranges = ranges(&slots, names(&asked))?;
    // Whoever may not ask gets the benefit of the doubt.
    let is_failed = info.is_ok_and(|info| info.text().is_some_and(|text| !contains(text, b"cluster_state:ok")));
    Ok(Map { asked, is_sound: !is_failed && !ranges.is_empty(), ranges })
}

/// Whoever gave names gets names.
fn names(asked: &Address) -> Names {
    match asked {
        Address::Tcp { host, .. } if host.parse::<std::net::IpAddr>().is_err() => Names::Hosts,
        Address::Tcp { .. } | Address::Unix(_) => Names::Preferred,
    }
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// Why a server does not know any slots.
fn refusal(node: &Node, text: &str) -> StoreError {
    let address = node.address();
    match mode(&node.state()) {
        Some(Mode::Sentinel) => is_a_sentinel(address),
        Some(Mode::Standalone) => is_no_cluster(address),
        Some(Mode::Cluster) | None if text.contains("cluster support disabled") => is_no_cluster(address),
        Some(Mode::Cluster) | None => store_error(text),
    }
}

fn is_no_cluster(address: &Address) -> StoreError {
    StoreError::protocol(format!("{address} is no server of a cluster; use redis://{address}"))
}

fn publish(shared: &Shared, map: Map) {
    let Map { asked, ranges, .. } = map;
    let owned = ranges.into_iter().filter_map(|range| {
        let address = range.primary.clone().seen_from(&asked)?;
        let primary = shared.primary(shared.node(&address));
        Some((range, primary))
    });
    shared.publish(View::spread(owned.collect()));
}

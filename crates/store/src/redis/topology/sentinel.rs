//! A primary that sentinels watch: they know who it is, and choose another one when it fails.
//!
//! All sentinels are asked, for any of them may be behind. Of their answers the one with the highest epoch counts: every failover has a higher one than
//! the last. And the server itself is asked too: it must say that it is a primary.

mod answer;
mod events;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::timeout;

use self::answer::{Answer, ask};
use self::events::Listener;
use super::follow::Scout;
use super::shared::Shared;
use super::view::View;
use crate::redis::node::{CallError, Node, NodeState};
use crate::redis::resp::{Command, Value, store_error};
use crate::redis::url::{Address, Login};
use crate::store::StoreError;

/// How long sentinels have for an answer, their first connection included.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);
/// How long the others have when one has answered.
const ANSWER_GRACE: Duration = Duration::from_millis(100);
/// How long a server has to say that it is a primary, its first connection included.
const ROLE_LIMIT: Duration = Duration::from_secs(1);
/// More sentinels than this are not kept: each is a connection.
const SENTINELS_MAX: usize = 16;

/// How the primary is found.
#[derive(Debug)]
pub(super) struct Sentinels {
    seeds: Vec<Address>,
    name: Arc<str>,
    login: Arc<Login>,
    known: HashMap<Address, Known>,
}

/// A sentinel has two connections: on one that waits for news, nothing can be asked.
#[derive(Debug)]
struct Known {
    node: Arc<Node>,
    _listener: Listener,
}

impl Sentinels {
    pub(super) fn new(seeds: &[Address], name: &str, login: &Arc<Login>) -> Self {
        Self { seeds: seeds.to_vec(), name: name.into(), login: login.clone(), known: HashMap::new() }
    }

    /// Asks all, and returns who answered and what the others said instead.
    async fn ask_all(&self) -> (Vec<Answer>, Vec<StoreError>) {
        let (mut answers, mut errors) = (Vec::new(), Vec::new());
        let mut questions: JoinSet<_> = self.known.values().map(|known| ask(known.node.clone(), self.name.clone())).collect();
        let mut over = std::pin::pin!(tokio::time::sleep(ANSWER_LIMIT));
        loop {
            tokio::select! {
                () = &mut over => break,
                answer = questions.join_next() => match answer {
                    Some(Ok(Ok(answer))) => {
                        answers.push(answer);
                        if answers.len() == 1 {
                            over.set(tokio::time::sleep(ANSWER_GRACE));
                        }
                    }
                    Some(Ok(Err(error))) => errors.push(error),
                    Some(Err(_)) => {}
                    None => break,
                },
            }
        }
        (answers, errors)
    }

    /// Keeps those of the address, and those that others name.
    fn learn(&mut self, shared: &Arc<Shared>, answers: &[Answer]) {
        let named = |address: &Address| answers.iter().any(|answer| answer.peers.contains(address));
        // Without an answer nobody can say who is gone.
        if !answers.is_empty() {
            self.known.retain(|address, _| {
                self.seeds.contains(address) || named(address) || answers.iter().any(|answer| answer.asked == *address)
            });
        }
        let peers = answers.iter().flat_map(|answer| &answer.peers);
        for address in self.seeds.iter().chain(peers) {
            if self.known.len() < SENTINELS_MAX && !self.known.contains_key(address) {
                let node = Node::start(address.clone(), self.login.clone(), shared.io());
                self.known.insert(address.clone(), Known { node, _listener: Listener::start(address, &self.login, shared) });
            }
        }
    }
}

impl Scout for Sentinels {
    async fn look(&mut self, shared: &Arc<Shared>) {
        self.learn(shared, &[]);
        let (mut answers, mut errors) = self.ask_all().await;
        self.learn(shared, &answers);
        if !answers.is_empty() {
            *shared.warnings.lock() = errors.iter().map(|error| format!("a sentinel does not help: {error}")).collect();
        }
        answers.sort_by_key(|answer| std::cmp::Reverse(answer.epoch));
        answers.dedup_by(|answer, earlier| answer.primary == earlier.primary);
        for answer in answers {
            match verify(shared, &answer.primary).await {
                Ok(node) => return shared.publish(View::one(shared.primary(node))),
                Err(error) => errors.push(error),
            }
        }
        // An error that somebody has to mend says more than one that may pass.
        errors.sort_by_key(StoreError::is_transient);
        let why = errors.into_iter().next();
        shared.publish_failure(why.unwrap_or_else(|| StoreError::unavailable("no sentinel answered in time")));
    }
}

/// The server, if it says itself that it is a primary.
async fn verify(shared: &Shared, address: &Address) -> Result<Arc<Node>, StoreError> {
    let node = shared.node(address);
    if let NodeState::Down { .. } = node.state() {
        // The sentinels think well of it, so there is no reason to pause.
        node.force_reconnect();
    }
    let late = || StoreError::unavailable(format!("{address}: the primary that the sentinels name does not answer"));
    let role = timeout(ROLE_LIMIT, role(&node)).await.unwrap_or_else(|_| Err(unreachable(&node).unwrap_or_else(late)))?;
    match role {
        Value::Error(text) => match store_error(&text) {
            // Whoever may not ask has to believe the sentinels.
            StoreError::Access { .. } if text.starts_with("NOPERM") => Ok(node),
            error => Err(error),
        },
        role if role.items().and_then(|items| items.first()?.text()) == Some(b"master") => Ok(node),
        _ => {
            let why = format!("{address}: the sentinels name it as the primary, but it is a replica");
            Err(StoreError::Refused { why: why.into() })
        }
    }
}

async fn role(node: &Node) -> Result<Value, StoreError> {
    let mut state = node.watch();
    let _ = state.wait_for(|state| matches!(state, NodeState::Up { .. })).await;
    node.call(Command::new(&[b"ROLE"]), false).await.map_err(CallError::into_store_error)
}

fn unreachable(node: &Node) -> Option<StoreError> {
    match node.state() {
        NodeState::Down { why, .. } => Some(why),
        NodeState::Connecting | NodeState::Up { .. } => None,
    }
}

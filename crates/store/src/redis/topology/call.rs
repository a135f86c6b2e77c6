//! One call: where it goes, and where it goes on when a server sends it away.
//!
//! A call is sent again only after an answer that proves that it did not run, or when not a byte of it was sent. When it may have run, its error is final:
//! a charge is never made twice.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::time::Ticks;
use tokio::sync::oneshot;

use super::endpoint::Endpoint;
use super::health::Kind;
use super::redirect::Meaning;
use super::shared::Shared;
use super::single::is_a_cluster;
use super::slots::Slot;
use super::{Calls, Exchange};
use crate::redis::node::{self, CallError, Lanes, Node, UnderWay};
use crate::redis::resp::{Command, Value, store_error};
use crate::redis::url::Address;
use crate::store::StoreError;

/// So many servers may send a call away.
const REDIRECTIONS_MAX: u32 = 5;

/// So often is waited for keys that are on their way: 1 ms, 2 ms, 4 ms, ..., 63 ms in all. Callers have budgets of their own.
const PAUSES_MAX: u32 = 6;

/// How long a call that met a demoted primary waits for the new one to be found.
const DEMOTION_WAIT: Duration = Duration::from_millis(50);

/// A plain command has no hash.
impl Calls for Command {
    fn by_hash(&self) -> Command {
        self.clone()
    }

    fn by_text(&self) -> Command {
        self.clone()
    }
}

/// Where a call stands.
struct Attempt {
    node: Arc<Node>,
    asking: bool,
    by_text: bool,
    redirections: u32,
    pauses: u32,
    /// Whether it was given to another primary because the first one was gone.
    is_resent: bool,
}

pub(super) async fn call(shared: &Shared, slot: Slot, call: &impl Calls) -> Result<Value, StoreError> {
    let mut patience = Patience { shared, is_over: false };
    let answer = follow(shared, slot, call).await;
    patience.is_over = true;
    answer
}

async fn follow(shared: &Shared, slot: Slot, call: &impl Calls) -> Result<Value, StoreError> {
    let node = shared.owner(slot).await?;
    let mut attempt = Attempt { node, asking: false, by_text: false, redirections: 0, pauses: 0, is_resent: false };
    loop {
        let command = if attempt.by_text { call.by_text() } else { call.by_hash() };
        match attempt.node.call(command, attempt.asking).await {
            Ok(Value::Error(text)) => match Meaning::of(&text) {
                Meaning::Final => return failure(text),
                Meaning::NoScript if attempt.by_text => return failure(text),
                Meaning::NoScript => attempt.by_text = true,
                meaning => attempt.redirect(shared, slot, meaning, &text).await?,
            },
            Ok(value) => return Ok(value),
            Err(error) => attempt.resend(shared, slot, error)?,
        }
    }
}

/// Sends a call on a thread that waits, if its primary is known and has a connection for it. Whatever is not plain is left to the other way.
pub(super) fn exchange(shared: &Shared, slot: Slot, call: &impl Calls, deadline: Ticks) -> Exchange {
    let Ok(node) = shared.known_owner(slot) else { return Exchange::Nothing };
    match node.exchange(&call.by_hash(), deadline) {
        node::Exchange::Answer(answer) => judge(shared, answer).map_or(Exchange::Nothing, Exchange::Answer),
        node::Exchange::Late(answer) => {
            shared.doubt.notify_one();
            Exchange::Late(Box::pin(late(answer)))
        }
        node::Exchange::Nothing => Exchange::Nothing,
    }
}

/// Adds a call to the lanes of an event loop, under the same conditions.
pub(super) fn push(shared: &Shared, slot: Slot, call: &impl Calls, lanes: &mut Lanes) -> Option<UnderWay> {
    lanes.push(&shared.known_owner(slot).ok()?, &call.by_hash())
}

/// What an answer on such a connection says; `None` if the call did not run, and has to go the other way.
pub(super) fn judge(shared: &Shared, answer: Result<Value, CallError>) -> Option<Result<Value, StoreError>> {
    match answer {
        Ok(Value::Error(text)) => match Meaning::of(&text) {
            Meaning::Final => Some(failure(text)),
            // It will be told the same again, by who knows what to do.
            _ => None,
        },
        Ok(value) => Some(Ok(value)),
        // The other way is another connection.
        Err(CallError::NotSent(_)) => None,
        Err(error) => {
            shared.doubt.notify_one();
            Some(Err(error.into_store_error()))
        }
    }
}

/// What a late answer says.
pub(super) async fn late(answer: oneshot::Receiver<Result<Value, CallError>>) -> Result<Value, StoreError> {
    match answer.await {
        Ok(Ok(Value::Error(text))) => failure(text),
        Ok(answer) => answer.map_err(CallError::into_store_error),
        Err(_) => Err(StoreError::unavailable("the runtime of the connection was stopped")),
    }
}

/// What the topology cannot judge is for the script to judge.
fn failure(text: Box<str>) -> Result<Value, StoreError> {
    match store_error(&text) {
        StoreError::Protocol { .. } => Ok(Value::Error(text)),
        error => Err(error),
    }
}

impl Attempt {
    async fn redirect(&mut self, shared: &Shared, slot: Slot, meaning: Meaning, text: &str) -> Result<(), StoreError> {
        match meaning {
            Meaning::Moved(..) | Meaning::Ask(_) if shared.kind != Kind::Cluster => {
                // Known from the connection already, unless the server may not be asked what it is.
                let error = is_a_cluster(self.node.address());
                *shared.warnings.lock() = vec![error.to_string()];
                Err(error)
            }
            Meaning::Moved(..) | Meaning::Ask(_) if self.redirections == REDIRECTIONS_MAX => {
                let why = format!("the servers of the cluster send a call around in circles, last by {text:?}");
                Err(StoreError::Refused { why: why.into() })
            }
            Meaning::Moved(slot, endpoint) => {
                let address = self.told(endpoint, text)?;
                self.go_to(shared.node(&address), false);
                shared.learn(slot, self.node.clone());
                shared.doubt.notify_one();
                Ok(())
            }
            Meaning::Ask(endpoint) => {
                let address = self.told(endpoint, text)?;
                self.go_to(shared.node(&address), true);
                Ok(())
            }
            // Where some of the keys are, the others will come, or they will follow: the same server is asked again.
            Meaning::TryAgain if self.pauses < PAUSES_MAX => {
                shared.sleep(Duration::from_millis(1 << self.pauses)).await;
                self.pauses += 1;
                Ok(())
            }
            Meaning::ReadOnly => self.leave_replica(shared, slot, text).await,
            Meaning::Nonsense => Err(StoreError::protocol(format!("a redirection that cannot be read: {text:?}"))),
            Meaning::TryAgain | Meaning::NoScript | Meaning::Final => Err(store_error(text)),
        }
    }

    fn told(&self, endpoint: Endpoint, text: &str) -> Result<Address, StoreError> {
        endpoint
            .seen_from(self.node.address())
            .ok_or_else(|| StoreError::protocol(format!("a redirection without a host, on a socket: {text:?}")))
    }

    /// The primary was demoted under our feet. Nothing was written, so the call may go to its successor.
    async fn leave_replica(&mut self, shared: &Shared, slot: Slot, text: &str) -> Result<(), StoreError> {
        shared.doubt.notify_one();
        if shared.kind == Kind::Single || self.is_resent {
            return Err(store_error(text));
        }
        let newer = shared.newer_owner_within(slot, &self.node, DEMOTION_WAIT).await;
        self.go_to(newer.ok_or_else(|| StoreError::Refused { why: text.into() })?, false);
        self.is_resent = true;
        Ok(())
    }

    /// There was no answer. Not a byte was sent to a server that is gone, so its successor may be asked.
    fn resend(&mut self, shared: &Shared, slot: Slot, error: CallError) -> Result<(), StoreError> {
        shared.doubt.notify_one();
        match (&error, shared.newer_owner(slot, &self.node)) {
            (CallError::NotSent(_), Some(newer)) if !self.is_resent => {
                self.is_resent = true;
                self.go_to(newer, false);
                Ok(())
            }
            _ => Err(error.into_store_error()),
        }
    }

    fn go_to(&mut self, node: Arc<Node>, asking: bool) {
        self.node = node;
        self.asking = asking;
        // Each server has scripts of its own.
        self.by_text = false;
        self.redirections += 1;
    }
}

/// A caller that does not wait to the end had reasons: perhaps the primary is frozen, and another one has taken over.
struct Patience<'a> {
    shared: &'a Shared,
    is_over: bool,
}

impl Drop for Patience<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.shared.doubt.notify_one();
        }
    }
}

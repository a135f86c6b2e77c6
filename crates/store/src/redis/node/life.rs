//! From attempt to attempt: the life of a node's connections.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::dial::{Dialled, dial};
use super::link::{End, Link, another};
use super::queue::{Order, Queue};
use crate::redis::url::{Address, Login};
use crate::store::StoreError;

/// The pause after the first attempt that failed; each further one is twice as long.
const PAUSE_MIN: Duration = Duration::from_millis(50);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// How long calls wait for the connection that follows a broken one.
const GRACE: Duration = Duration::from_millis(250);
/// A connection that broke sooner was none: a peer that greets and hangs up must not be dialled in a loop.
const LIFE_MIN: Duration = Duration::from_secs(1);

/// What an attempt led to.
enum Outcome {
    Up(Dialled),
    Failed(StoreError),
    Closed,
}

/// How a connection ended.
enum Lived {
    /// It broke, or another one is wanted.
    Long(StoreError),
    /// It broke when it was hardly there.
    Briefly(StoreError),
    Closed,
}

/// Whatever ends the task, a stopped runtime too, ends the waiting of all callers.
struct Closing(Arc<Queue>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Keeps a connection alive until the queue is closed.
pub(super) async fn run(queue: Arc<Queue>, address: Address, login: Arc<Login>) {
    let closing = Closing(queue);
    let queue = &*closing.0;
    // In a row, and not mended by a connection that lasted.
    let mut failures = 0_u32;
    // What calls are told that waited in vain after a connection broke. For the first attempt they wait as long as it takes.
    let mut grace = None;
    loop {
        let why = match attempt(queue, &address, &login, grace.take()).await {
            Outcome::Closed => return,
            Outcome::Failed(why) => why,
            Outcome::Up(dialled) => match live(queue, dialled, &address, &login).await {
                Lived::Closed => return,
                Lived::Briefly(why) => why,
                Lived::Long(why) => {
                    failures = 0;
                    queue.down(&why);
                    grace = Some(why);
                    continue;
                }
            },
        };
        queue.down(&why);
        queue.shut(&why);
        failures = failures.saturating_add(1);
        tokio::select! {
            biased;
            order = queue.ordered() => if order == Order::Close { return },
            () = tokio::time::sleep(pause(failures)) => {}
        }
    }
}

/// Tries once. While it lasts calls wait, but after a connection broke no longer than a moment, and are then told why it did.
async fn attempt(queue: &Queue, address: &Address, login: &Login, grace: Option<StoreError>) -> Outcome {
    let mut dialling = pin!(dial(address, login));
    let mut why = grace;
    let mut patience = pin!(tokio::time::sleep(GRACE));
    loop {
        tokio::select! {
            biased;
            // Another attempt is not sooner done than this one.
            order = queue.ordered() => if order == Order::Close { return Outcome::Closed },
            dialled = &mut dialling => return match dialled {
                Ok(dialled) => Outcome::Up(dialled),
                Err(why) => Outcome::Failed(at(address, why)),
            },
            () = &mut patience, if why.is_some() => if let Some(why) = why.take() { queue.shut(&why) },
        }
    }
}

/// Works with a connection as long as it lasts.
async fn live(queue: &Queue, dialled: Dialled, address: &Address, login: &Login) -> Lived {
    let since = Instant::now();
    queue.up(dialled.server);
    match Link::new(queue, dialled.stream, dialled.parser, login.stall_limit).run(address).await {
        End::Ordered(Order::Close) => Lived::Closed,
        End::Ordered(Order::Reconnect) => Lived::Long(at(address, another())),
        End::Broken(why) if since.elapsed() < LIFE_MIN => Lived::Briefly(why),
        End::Broken(why) => Lived::Long(why),
    }
}

/// How long to wait before the next attempt: between half and all of a time that doubles, so that a fleet does not come back as one.
fn pause(failures: u32) -> Duration {
    let longest = PAUSE_MIN.saturating_mul(1 << (failures - 1).min(16)).min(PAUSE_MAX);
    // The hasher of maps has random keys, which is as much chance as is needed here.
    let chance = (RandomState::new().hash_one(failures) % 1_000) as u32;
    longest / 2 + longest * chance / 2_000
}

/// The same error, with the address of the server.
pub(super) fn at(address: &Address, error: StoreError) -> StoreError {
    let say = |why: Arc<str>| format!("{address}: {why}").into();
    match error {
        StoreError::Unavailable { why } => StoreError::Unavailable { why: say(why) },
        StoreError::Refused { why } => StoreError::Refused { why: say(why) },
        StoreError::Access { why } => StoreError::Access { why: say(why) },
        StoreError::Foreign { why } => StoreError::Foreign { why: say(why) },
        StoreError::Protocol { why } => StoreError::Protocol { why: say(why) },
        StoreError::Full { .. } | StoreError::Timeout | StoreError::Open { .. } => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_differ_by_chance() {
        for (failures, longest) in [(1, 50), (2, 100), (3, 200), (6, 1_600), (7, 2_000), (u32::MAX, 2_000)] {
            let longest = Duration::from_millis(longest);
            let pauses: Vec<_> = (0..100).map(|_| pause(failures)).collect();

            assert!(pauses.iter().all(|pause| (longest / 2..=longest).contains(pause)), "{failures}: {pauses:?}");
            assert!(pauses.iter().any(|pause| *pause != pauses[0]), "{failures}");
        }
    }
}

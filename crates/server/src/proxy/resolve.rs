//! From names to addresses, again and again. The system is asked, so what it knows is known here: DNS, `/etc/hosts` and the like.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::net::lookup_host;
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::check::jittered;
use super::group::Group;

/// Where names led when they were last looked up with success.
pub(super) type Found = HashMap<String, Vec<IpAddr>>;

/// How long the names of new groups are waited for. Later ones are found in time.
const FIRST_WITHIN: Duration = Duration::from_secs(5);

/// How soon a name that leads nowhere is looked up again.
const AGAIN: Duration = Duration::from_secs(1);

/// The most addresses of one name.
const ADDRESSES_MAX: usize = 1_000;

/// Whether a host is no address.
pub(super) fn is_name(host: &str) -> bool {
    host.parse::<IpAddr>().is_err()
}

/// Looks names up, all at once, and waits for them; not on a thread that serves. Those that lead nowhere are missing.
pub(super) fn first(names: impl Iterator<Item = String>) -> io::Result<Found> {
    let mut names = names.peekable();
    if names.peek().is_none() {
        return Ok(Found::new());
    }
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let found = runtime.block_on(async {
        let mut asked: JoinSet<_> = names.map(|name| async move { (look_up(&name).await, name) }).collect();
        let mut found = Found::new();
        let all = async {
            while let Some(answer) = asked.join_next().await {
                if let Ok((Ok(addresses), name)) = answer {
                    found.insert(name, addresses);
                }
            }
        };
        // What came until then is better than nothing.
        let _ = timeout(FIRST_WITHIN, all).await;
        found
    });
    // Looking up a name cannot be interrupted.
    runtime.shutdown_background();
    Ok(found)
}

/// Looks the names of a group up from time to time. One that leads nowhere keeps the addresses that it had.
pub(super) async fn run(group: Arc<Group>, found: Arc<Mutex<Found>>) {
    let every = group.settings.resolve_interval;
    if every.is_zero() || group.names().next().is_none() {
        return;
    }
    loop {
        let is_complete = group.names().all(|name| found.lock().contains_key(name));
        sleep(jittered(if is_complete { every } else { every.min(AGAIN) })).await;
        for name in group.names() {
            match look_up(name).await {
                Ok(addresses) => drop(found.lock().insert(name.to_owned(), addresses)),
                Err(_) => group.counts.unresolved(),
            }
        }
        let now = found.lock().clone();
        group.follow(&now);
    }
}

async fn look_up(name: &str) -> io::Result<Vec<IpAddr>> {
    let mut addresses: Vec<IpAddr> = lookup_host((name, 0)).await?.map(|address| address.ip()).collect();
    // The system gives them in another order each time.
    addresses.sort_unstable();
    addresses.dedup();
    addresses.truncate(ADDRESSES_MAX);
    if addresses.is_empty() { Err(io::ErrorKind::NotFound.into()) } else { Ok(addresses) }
}

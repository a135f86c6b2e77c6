//! The task in the background: looks who the primaries are, again and again.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use super::pace::{Pauses, jittered};
use super::shared::{Shared, is_up};
use crate::redis::node::NodeState;

/// How often is looked when all is well.
const CALM: Duration = Duration::from_secs(10);
/// How often is looked when a primary is lost, or somebody doubts.
const ALERT: Duration = Duration::from_secs(1);
/// The longest pause between two looks while doubts keep coming.
const PAUSE_MAX: Duration = Duration::from_millis(500);
/// After a doubt the looks stay frequent for so many rounds: a failover takes its time, and a frozen primary cannot be seen from here.
const ALERT_ROUNDS: u32 = 20;

/// Who knows how to find the primaries.
pub(super) trait Scout {
    /// Finds them and publishes what it found.
    fn look(&mut self, shared: &Arc<Shared>) -> impl Future<Output = ()> + Send;
}

/// Looks for ever.
pub(super) async fn follow(shared: Arc<Shared>, mut scout: impl Scout) {
    let mut pauses = Pauses::up_to(PAUSE_MAX);
    let mut alert_rounds = 0_u32;
    loop {
        // News are few, and worth a look at once: one that is under way may be waiting for a server that is no primary any more.
        tokio::select! {
            () = look_and_rest(&shared, &mut scout, &mut pauses) => {}
            () = shared.news.notified() => {
                alert_rounds = ALERT_ROUNDS;
                continue;
            }
        }
        let mut losses = losses(&shared);
        let is_calm = alert_rounds == 0 && is_whole(&shared);
        tokio::select! {
            () = shared.doubt.notified() => alert_rounds = ALERT_ROUNDS,
            () = shared.news.notified() => alert_rounds = ALERT_ROUNDS,
            Some(_) = losses.join_next() => {}
            () = tokio::time::sleep(jittered(if is_calm { CALM } else { ALERT })) => {
                alert_rounds = alert_rounds.saturating_sub(1);
                pauses.reset();
            }
        }
    }
}

async fn look_and_rest(shared: &Arc<Shared>, scout: &mut impl Scout, pauses: &mut Pauses) {
    let changes = shared.changes();
    scout.look(shared).await;
    if changes.has_changed().unwrap_or(false) {
        pauses.reset();
    }
    // However many callers doubt meanwhile, one look answers them all.
    tokio::time::sleep(pauses.next()).await;
}

/// Whether every slot has a primary that is connected.
fn is_whole(shared: &Shared) -> bool {
    let view = shared.view();
    view.slots_lacking() == 0 && view.primaries().iter().all(|primary| is_up(&primary.node))
}

/// Ends when a primary that is connected is not any more.
fn losses(shared: &Shared) -> JoinSet<()> {
    let view = shared.view();
    let connected = view.primaries().iter().filter(|primary| is_up(&primary.node));
    connected
        .map(|primary| {
            let mut state = primary.node.watch();
            async move {
                let _ = state.wait_for(|state| !matches!(state, NodeState::Up { .. })).await;
            }
        })
        .collect()
}

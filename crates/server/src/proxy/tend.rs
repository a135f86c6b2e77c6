//! What happens in the background: servers are checked, and their names looked up. On a thread of its own, so that no request waits for it, nor it for them.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::task::coop::unconstrained;
use tokio::time::{Instant, sleep};

use super::group::Group;
use super::{check, resolve};
use crate::app::App;

/// How often unused connections are looked at.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// Tends the servers of the table in force, and of each that follows it, until this is dropped.
pub(crate) async fn tend(app: Arc<App>) {
    let Some(proxy) = &app.proxy else { return };
    let mut tables = proxy.tables.subscribe();
    loop {
        tables.mark_unchanged();
        // Dropped with the table: what is asked meanwhile concerns nobody any more.
        let mut tasks = JoinSet::new();
        for group in &proxy.table.load().groups {
            tasks.spawn(check::run(Arc::clone(group)));
            tasks.spawn(resolve::run(Arc::clone(group), Arc::clone(&proxy.found)));
            // Its looks at many connections would be taken for a task that does not let others run, and be answered as if nothing had come.
            tasks.spawn(unconstrained(sweep(Arc::clone(group))));
        }
        if tables.changed().await.is_err() {
            return;
        }
    }
}

/// Ends connections to the servers of a group that nobody uses and nobody should, again and again.
async fn sweep(group: Arc<Group>) {
    loop {
        sleep(SWEEP_EVERY).await;
        for server in group.servers() {
            server.pool.sweep(group.settings.keep_alive, Instant::now());
        }
    }
}

//! What happens in the background: servers are checked, and their names looked up. On a thread of its own, so that no request waits for it, nor it for them.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::{check, resolve};
use crate::app::App;

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
        }
        if tables.changed().await.is_err() {
            return;
        }
    }
}

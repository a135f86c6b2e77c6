//! Deleting everything that begins with a prefix, on all primaries.

use super::Topology;
use crate::redis::node::Node;
use crate::redis::resp::{Command, Value};
use crate::store::StoreError;

/// How many keys are asked for at once.
const BATCH: &[u8] = b"1000";

impl Topology {
    /// Deletes all keys that begin with `prefix`, a few at a time so that nobody waits for it.
    ///
    /// # Errors
    /// A primary could not be asked; what was deleted stays deleted.
    pub async fn delete_all(&self, prefix: &[u8]) -> Result<(), StoreError> {
        for primary in self.shared.view().primaries() {
            delete_on(&primary.node, prefix).await?;
        }
        Ok(())
    }
}

async fn delete_on(node: &Node, prefix: &[u8]) -> Result<(), StoreError> {
    let pattern = pattern(prefix);
    let mut cursor: Box<[u8]> = Box::from(*b"0");
    loop {
        let page = ask(node, Command::new(&[b"SCAN", &cursor, b"MATCH", &pattern, b"COUNT", BATCH])).await?;
        let Some([next, keys]) = page.items() else { return Err(nonsense()) };
        for key in keys.items().ok_or_else(nonsense)?.iter().filter_map(Value::text) {
            ask(node, Command::new(&[b"UNLINK", key])).await?;
        }
        cursor = next.text().ok_or_else(nonsense)?.into();
        if *cursor == *b"0" {
            return Ok(());
        }
    }
}

async fn ask(node: &Node, command: Command) -> Result<Value, StoreError> {
    let value = node.call(command, false).await.map_err(crate::redis::node::CallError::into_store_error)?;
    value.store_error().map_or(Ok(value), Err)
}

/// Matches what begins with the prefix, whatever it holds.
fn pattern(prefix: &[u8]) -> Vec<u8> {
    let mut pattern: Vec<u8> = prefix.iter().flat_map(|&byte| [b'\\', byte]).collect();
    pattern.push(b'*');
    pattern
}

fn nonsense() -> StoreError {
    StoreError::protocol("SCAN was not answered by a cursor and keys")
}

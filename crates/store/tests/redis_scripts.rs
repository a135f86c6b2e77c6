//! The scripts on a real server: the same answers as the Rust kernels, and what only a server can get wrong.
//!
//! `TIDEGATE_TEST_SERVER` chooses the server; Valkey unless given.

#[path = "redis_scripts/connection.rs"]
mod connection;
mod servers;
#[path = "redis_scripts/store.rs"]
mod store;

use store::ScriptStore;

tidegate_store::store_contract!(contract, ScriptStore::new);

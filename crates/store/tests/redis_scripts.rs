//! The scripts on a real server: the same answers as the Rust kernels, and what only a server can get wrong.
//!
//! `TIDEGATE_TEST_SERVER` chooses the server; Valkey unless given.
#![allow(
    clippy::similar_names,
    clippy::needless_for_each,
    clippy::ref_option,
    clippy::print_stdout,
    reason = "tests that print seeds and costs"
)]

#[path = "redis_scripts/busy.rs"]
mod busy;
#[path = "redis_scripts/connection.rs"]
mod connection;
#[path = "redis_scripts/cost.rs"]
mod cost;
#[path = "redis_scripts/declared.rs"]
mod declared;
#[path = "redis_scripts/kit.rs"]
mod kit;
#[path = "redis_scripts/model.rs"]
mod model;
#[path = "redis_scripts/random.rs"]
mod random;
#[path = "redis_scripts/server.rs"]
mod server;
mod servers;
#[path = "redis_scripts/size.rs"]
mod size;
#[path = "redis_scripts/ticks.rs"]
mod ticks;
#[path = "redis_scripts/trace.rs"]
mod trace;
#[path = "redis_scripts/traces.rs"]
mod traces;

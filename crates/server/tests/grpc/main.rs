//! The port of gRPC, asked without sockets: what goes in are requests as hyper reads them, what comes out are responses as it writes them.

mod by_files;
mod by_rules;
mod calls;
mod connection;
mod health;
mod reflection;
mod service;
#[path = "../setup/mod.rs"]
mod setup;
mod told;

//! The proxy over real sockets: forwarding, refusing, slots, failures.

mod access;
mod enforcing;
mod failures;
mod forwarding;
mod introduced;
mod lines;
mod setup;
mod smuggling;
mod stalls;
mod tunnels;
#[path = "../setup/mod.rs"]
mod usual;
mod ways;

//! The proxy over real sockets: forwarding, refusing, slots, failures.

mod enforcing;
mod failures;
mod forwarding;
mod setup;
mod smuggling;
mod tunnels;
#[path = "../setup/mod.rs"]
mod usual;

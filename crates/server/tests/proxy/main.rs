//! The proxy over real sockets: forwarding, refusing, slots, failures.

mod access;
mod enforcing;
mod failures;
mod forwarding;
mod introduced;
mod kept;
mod limits;
mod lines;
mod pace;
mod served;
mod setup;
mod slots;
mod slow;
mod smuggling;
mod stalls;
mod streams;
mod tunnels;
mod uploads;
#[path = "../setup/mod.rs"]
mod usual;
mod ways;

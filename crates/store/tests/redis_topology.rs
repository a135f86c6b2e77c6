//! Which server has which counters: on real servers that are killed, frozen and resharded, and on fakes that answer what real ones rarely do.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "what tests share is part of the tests, and what they measure is shown"
)]

mod servers;

mod redis_topology {
    mod cluster;
    mod fakes;
    mod kit;
    mod resharding;
    mod sentinel;
    mod single;
    mod traffic;
    mod wrong;
}

//! One server and its connection: answers, losses, strangers, and real servers.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails, also in what its tests share")]

mod broken;
mod calls;
mod lane;
mod line;
mod peer;
mod real;
#[path = "../servers/mod.rs"]
mod servers;
mod strangers;
mod tls;

//! Counters on a Redis or Valkey that many processes share: single, behind Sentinel, or a Cluster.
//!
//! | module | holds |
//! | --- | --- |
//! | [`url`] | what an address says |
//! | [`resp`] | the protocol: commands out, values in |
//! | [`node`] | one server, with one connection that carries all calls |
//! | [`topology`] | which server has which counters, also after a failover |
//! | [`script`] | the scripts, what they are told, and what they answer |
//! | [`store`] | the store: charges in, verdicts out |
//! | `spread` | requests whose counters lie on several servers |
//! | `heartbeat` | who shares the store |
//! | [`io`] | the one thread that talks to servers |

mod clock;
mod heartbeat;
pub mod io;
pub mod node;
pub mod resp;
pub mod script;
mod spread;
pub mod store;
pub mod topology;
pub mod url;

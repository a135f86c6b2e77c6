//! Counters on a Redis or Valkey that many processes share: single, behind Sentinel, or a Cluster.
//!
//! | module | holds |
//! | --- | --- |
//! | [`url`] | what an address says |
//! | [`resp`] | the protocol: commands out, values in |
//! | [`node`] | one server, with one connection that carries all calls |
//! | [`topology`] | which server has which counters, also after a failover |
//! | [`script`] | the scripts, what they are told, and what they answer |

pub mod node;
pub mod resp;
pub mod script;
pub mod topology;
pub mod url;

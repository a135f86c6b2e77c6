//! Where counters live.
//!
//! | module | holds |
//! | --- | --- |
//! | [`store`] | the [`Store`](store::Store) trait: what the engine asks of any store |
//! | [`memory`] | counters in this process |
//! | [`redis`] | counters that many processes share |
//! | [`clock`] | the clock of the memory store, and a manual one for tests |
//! | [`digest`] | keys as 128-bit keyed hashes |
//! | `contract` | one function per promise; every store runs them (feature `contract`) |

pub mod clock;
#[cfg(feature = "contract")]
pub mod contract;
pub mod digest;
pub mod memory;
pub mod redis;
pub mod store;

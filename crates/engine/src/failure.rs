//! What stands between the engine and a store that fails. All of it is pure: time and randomness are passed in, and nothing here waits.
//!
//! | module | holds |
//! | --- | --- |
//! | [`breaker`] | when a store is not asked any more, and how it is tried again |
//! | [`deny_cache`] | denials that hold without asking the store |
//!
//! Instants are nanoseconds of one monotonic clock. Instants of several threads may come out of order by as much as threads are delayed:
//! every difference saturates.

pub mod breaker;
pub mod deny_cache;
mod random;
mod table;

const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MILLISECOND;

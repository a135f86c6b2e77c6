//! What stands between the engine and a store that fails. All of it is pure: time and randomness are passed in, and nothing here waits.
//!
//! | module | holds |
//! | --- | --- |
//! | [`breaker`] | when a store is not asked any more, and how it is tried again |
//! | [`deny_cache`] | denials that hold without asking the store |
//! | [`instances`] | how many instances there are |
//! | [`share`] | which of them have a share of a quota that does not suffice for all |
//! | [`seen`] | what was left of counters, so that a fallback does not start with everything |
//! | [`debts`] | what was admitted without the store, to be charged when it is back |
//!
//! Instants are nanoseconds of one monotonic clock. Instants of several threads may come out of order by as much as threads are delayed:
//! every difference saturates.

pub mod breaker;
pub mod debts;
pub mod deny_cache;
pub mod instances;
pub(crate) mod random;
pub mod seen;
pub mod share;
mod table;

const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MILLISECOND;

//! The algorithms, one file each: pure functions of parameters, state, time and cost.
//!
//! All of them have the same five verbs, so that [`Meter`](crate::meter::Meter) can put one face over them:
//!
//! * `settle` brings a state to `now`: what has left the window goes, and what only a clock that went back can explain is clamped.
//!   Every other verb expects a settled state.
//! * `retry_after` is the smallest wait after which the cost is admitted, 0 for now and `None` for never.
//! * `remaining` and `reset_after` describe what is left.
//! * `commit` charges without asking, and says where: the [`Receipt`].
//! * `refund` gives back the part of a charge that still counts.
//!
//! A state that is at full credit may be dropped at any time: from `expires_at` on it answers like no state.

pub mod concurrency;
pub mod fixed_window;
pub mod gcra;
pub mod leaky_bucket;
pub mod rate;
pub mod sliding_window;
pub mod sliding_window_counter;
pub mod sliding_window_log;
pub mod sliding_window_ring;

use crate::time::Ticks;

/// Where a charge went, so that a refund can find what is left of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Receipt {
    /// Nothing was charged.
    Nothing,
    /// `gcra` and `leaky_bucket`: the arrival time right after the charge.
    Arrival(rate::Arrival),
    /// Windows and sub-windows: the one that was charged.
    Window {
        /// Its end, or its number.
        id: u64,
    },
    /// `sliding_window`: when it was charged.
    Stamp {
        /// The tick.
        at: Ticks,
        /// How often the log had been clamped by then: a clamp moves units, so that the stamp no longer finds them.
        clamps: u32,
    },
    /// `sliding_window_log`: the entry's sequence number.
    Entry {
        /// Unique within the state.
        sequence: u64,
    },
    /// `concurrency`: the lease.
    Lease {
        /// The id its holder made.
        id: u128,
    },
}

/// What is used after a charge: a debit stops at `bound`, and usage above it (the limit was lowered) is not forgiven.
fn charged(used: u64, cost: u64, bound: u64) -> u64 {
    used.max((used + cost).min(bound))
}

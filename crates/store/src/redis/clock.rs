//! The servers' clock, as far as this process knows it.
//!
//! Decisions are made by the server on its own clock. This estimate is for what has to be said before a server was asked: which days a calendar
//! quota may be in, when a token has expired, when a transition ends.

use std::sync::atomic::{AtomicI64, Ordering};

use tidegate_core::time::Ticks;

use crate::clock::SystemClock;

/// An estimate that every reply corrects.
#[derive(Debug)]
pub(super) enum ServerClock {
    /// This process's clock, and what the server's is ahead of it.
    Estimated { own: SystemClock, ahead: AtomicI64 },
    /// The scripts of a test are told the time.
    #[cfg(feature = "contract")]
    Told(crate::clock::ManualClock),
}

impl ServerClock {
    pub(super) fn new() -> Self {
        Self::Estimated { own: SystemClock::new(), ahead: AtomicI64::new(0) }
    }

    /// Nanoseconds since the epoch.
    pub(super) fn now(&self) -> Ticks {
        match self {
            Self::Estimated { own, ahead } => own.now().saturating_add_signed(ahead.load(Ordering::Relaxed)),
            #[cfg(feature = "contract")]
            Self::Told(clock) => clock.now(),
        }
    }

    /// Learns from a reply that was made at this instant of the server's clock, a moment ago.
    pub(super) fn observe(&self, server_now: Ticks) {
        match self {
            Self::Estimated { own, ahead } => {
                ahead.store(server_now.cast_signed() - own.now().cast_signed(), Ordering::Relaxed);
            }
            #[cfg(feature = "contract")]
            Self::Told(_) => {}
        }
    }

    /// How far the server's clock is ahead of this process's, in nanoseconds.
    pub(super) fn skew(&self) -> i64 {
        match self {
            Self::Estimated { ahead, .. } => ahead.load(Ordering::Relaxed),
            #[cfg(feature = "contract")]
            Self::Told(_) => 0,
        }
    }
}

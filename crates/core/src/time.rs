//! Time as a value that is passed in: integer ticks, and windows that a calendar outside this crate supplies.

use std::fmt::Debug;
use std::num::NonZeroU64;

/// A point in time or a duration, as a count of [`Tick`]s.
pub type Ticks = u64;

/// The latest instant a clock may show: with it, no sum of an instant and two of the longest periods overflows.
pub const TICKS_MAX: Ticks = 1 << 63;

/// The length of one tick, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tick(NonZeroU64);

impl Tick {
    /// One nanosecond: the tick of the memory store.
    pub const NANOSECOND: Self = Self(NonZeroU64::MIN);

    /// A tick of this many nanoseconds; `None` for 0.
    pub fn from_nanos(nanos: u64) -> Option<Self> {
        NonZeroU64::new(nanos).map(Self)
    }

    /// The length in nanoseconds.
    pub fn nanos(self) -> u64 {
        self.0.get()
    }

    /// A duration in ticks, rounded up: a window that is not a whole number of ticks over-limits by less than one.
    pub fn ceil(self, nanos: u64) -> Ticks {
        nanos.div_ceil(self.nanos())
    }
}

/// One window of a calendar: `start` belongs to it, `end` to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// The first tick.
    pub start: Ticks,
    /// The first tick of the next window.
    pub end: Ticks,
}

/// Somebody who knows days, months and time zones.
///
/// Must be a function of `now` alone: `start <= now < end`, and windows follow each other without a gap.
pub trait Calendar: Debug + Send + Sync {
    /// The window that `now` falls into.
    fn window_at(&self, now: Ticks) -> Window;
}

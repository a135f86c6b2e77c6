//! The clock of the memory store: nanoseconds since the epoch that only move forward, or a manual clock for tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use tidegate_core::time::{TICKS_MAX, Ticks};

/// Where a store in this process reads the time.
#[derive(Debug, Clone)]
pub enum Clock {
    /// The operating system's.
    System(SystemClock),
    /// One that tests move by hand.
    Manual(ManualClock),
}

impl Clock {
    /// Nanoseconds since the epoch.
    pub fn now(&self) -> Ticks {
        match self {
            Self::System(clock) => clock.now(),
            Self::Manual(clock) => clock.now(),
        }
    }
}

/// Wall time when the process began to look, monotonic time from then on.
///
/// Windows are aligned to the epoch, so the clock must know it; and a wall clock that is set back or forth must not grant or deny anything, so
/// later corrections are not followed.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock {
    /// What the monotonic clock lacks to the time since the epoch.
    offset_ns: Ticks,
}

impl SystemClock {
    /// A clock that starts at the wall time of now.
    #[allow(clippy::disallowed_methods, reason = "the one place that may read the time")]
    pub fn new() -> Self {
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self { offset_ns: nanos(since_epoch).saturating_sub(monotonic_ns()) }
    }

    /// Nanoseconds since the epoch.
    pub fn now(&self) -> Ticks {
        monotonic_ns() + self.offset_ns
    }
}

/// The monotonic clock of the system.
///
/// `Instant` reads the same one but hides its number, and the difference of two costs a quarter more: six nanoseconds of every check.
#[cfg(unix)]
#[inline]
#[allow(clippy::cast_sign_loss, reason = "a monotonic clock is positive")]
pub fn monotonic_ns() -> Ticks {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The same, which counts on while the machine is suspended: for rights that end, and that nobody must find alive after a sleep.
#[cfg(any(target_os = "linux", target_os = "android"))]
#[inline]
#[allow(clippy::cast_sign_loss, reason = "a clock that counts from the start of the system is positive")]
pub fn boot_ns() -> Ticks {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The same; the monotonic clock where the system has no other.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub fn boot_ns() -> Ticks {
    monotonic_ns()
}

/// The monotonic clock of the system, from the first reading on.
#[cfg(not(unix))]
#[allow(clippy::disallowed_methods, reason = "the one place that may read the time")]
pub fn monotonic_ns() -> Ticks {
    static STARTED: std::sync::LazyLock<std::time::Instant> = std::sync::LazyLock::new(std::time::Instant::now);
    nanos(STARTED.elapsed())
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

/// A clock that stands still until it is moved. Clones share their time; it can be moved while other threads read it.
///
/// ```
/// use tidegate_store::clock::ManualClock;
///
/// let clock = ManualClock::new(1_000);
/// clock.clone().advance(500);
/// assert_eq!(clock.now(), 1_500);
/// clock.advance(-2_000); // a clock can be set back, but not before the epoch
/// assert_eq!(clock.now(), 0);
/// ```
#[derive(Debug, Clone, Default)]
pub struct ManualClock(Arc<AtomicU64>);

impl ManualClock {
    /// A clock that shows `now`.
    pub fn new(now: Ticks) -> Self {
        Self(Arc::new(AtomicU64::new(now.min(TICKS_MAX))))
    }

    /// Nanoseconds since the epoch.
    pub fn now(&self) -> Ticks {
        self.0.load(Ordering::SeqCst)
    }

    /// Moves by so many nanoseconds, forwards or backwards; stops at the epoch and at the end of time.
    pub fn advance(&self, by: i64) {
        let moved = |now: Ticks| Some(now.saturating_add_signed(by).min(TICKS_MAX));
        let _ = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, moved);
    }
}

fn nanos(duration: std::time::Duration) -> Ticks {
    u64::try_from(duration.as_nanos()).map_or(TICKS_MAX, |nanos| nanos.min(TICKS_MAX))
}

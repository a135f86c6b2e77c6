//! From nanoseconds since the epoch to the times of a script, and back.
//!
//! In production a script knows microseconds since the epoch, which fit the 53 bits of its numbers. Nanoseconds do not: in the build for tests they are
//! counted from an origin shortly before, which is a multiple of the quota's window, so that windows stay where they are. A test that moves its clock
//! by months comes into another era, with an origin and counters of its own: what was counted before has expired.

use std::sync::OnceLock;

use tidegate_core::algorithm::fixed_window::Span;
use tidegate_core::meter::{Meter, Parameters};
use tidegate_core::mutant::Mutant;

use super::assemble::Build;

const DAY_NS: u64 = 86_400 * 1_000_000_000;
/// How long an era lasts. With the longest windows that [`compile`](super::compile) admits, 2^53 nanoseconds are not exceeded.
pub(super) const ERA_NS: u64 = 60 * DAY_NS;
/// How long before the first call the first era began: tests also set their clock back.
const BEFORE_NS: u64 = 5 * DAY_NS;

/// How the scripts count time.
#[derive(Debug)]
pub(super) struct Timeline {
    build: Build,
    /// In tests: when the first era began.
    began_ns: OnceLock<u64>,
}

/// Where in time a call is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Era {
    pub(super) number: u8,
    began_ns: u64,
}

impl Build {
    /// Whether the scripts are told the time.
    pub(super) fn is_injected(self) -> bool {
        self != Self::Production || Mutant::CallersClock.is_active()
    }

    /// The length of the ticks that the clock of its scripts shows.
    pub(super) fn unit_ns(self) -> u64 {
        match self {
            Self::Production | Self::InjectedMicros => 1_000,
            Self::Injected => 1,
        }
    }
}

impl Timeline {
    pub(super) fn new(build: Build) -> Self {
        Self { build, began_ns: OnceLock::new() }
    }

    /// The era of a time.
    pub(super) fn era(&self, now_ns: u64) -> Era {
        match self.build {
            Build::Production | Build::InjectedMicros => Era { number: 0, began_ns: 0 },
            Build::Injected => {
                let first = *self.began_ns.get_or_init(|| now_ns.saturating_sub(BEFORE_NS));
                let (number, began_ns) = match now_ns.checked_sub(first) {
                    Some(since) => (since / ERA_NS, first + since / ERA_NS * ERA_NS),
                    None => (255, 0),
                };
                Era { number: u8::try_from(number).unwrap_or(254), began_ns }
            }
        }
    }
}

impl Era {
    /// From when on the times of a quota are counted, in its ticks.
    pub(super) fn origin(self, meter: &Meter) -> u64 {
        let began = self.began_ns / meter.tick().nanos();
        let aligned = match meter.parameters() {
            Parameters::FixedWindow { span: Span::Epoch(window), .. } => *window,
            Parameters::SlidingWindowCounter { window, .. } => window,
            Parameters::SlidingWindowRing { width, .. } => width,
            _ => 1,
        };
        began - began % aligned
    }
}

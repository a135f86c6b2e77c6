//! A witness of the machine: how long the core that it runs on stood still.
//!
//! It sleeps for a millisecond at a time. Where it goes before everybody else (`SCHED_FIFO`, which its caller sees to), it wakes late only if the core did
//! nothing for anybody: another virtual machine had it, or the kernel did not let go. Whoever was to be served there waited for the machine.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::record::clock_s;

const NAP: Duration = Duration::from_millis(1);

/// To be late by less than that is usual, and may be the work of those who are measured.
const LATE: Duration = Duration::from_micros(250);

/// What a core was seen to do.
#[derive(Debug, Default)]
struct Witness {
    watched: Duration,
    stood: Duration,
    /// From when until when each time, by the clock that all processes share.
    stalls_s: Vec<(f64, f64)>,
}

impl Witness {
    /// Takes down how long a nap took that ended now.
    fn woke(&mut self, after: Duration, now_s: f64) {
        self.watched += after;
        let late = after.saturating_sub(NAP);
        if late > LATE {
            self.stood += late;
            self.stalls_s.push((now_s - late.as_secs_f64(), now_s));
        }
    }

    fn report(&self) -> Value {
        json!({"seconds": self.watched.as_secs_f64(), "stood_s": self.stood.as_secs_f64(), "stalls_s": self.stalls_s})
    }
}

/// Watches until its input ends; one line of JSON.
pub(crate) fn witnessed() -> Value {
    let is_over = Arc::new(AtomicBool::new(false));
    let ends = Arc::clone(&is_over);
    thread::spawn(move || {
        // An error is an end, too: whoever asked has gone.
        let _ = io::stdin().read_to_end(&mut Vec::new());
        ends.store(true, Ordering::Relaxed);
    });
    let mut witness = Witness::default();
    while !is_over.load(Ordering::Relaxed) {
        let slept = Instant::now();
        thread::sleep(NAP);
        witness.woke(slept.elapsed(), clock_s());
    }
    witness.report()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_late_counts_as_a_stall() {
        let mut witness = Witness::default();
        for microseconds in [1_000, 1_250, 900, 1_251, 6_000] {
            witness.woke(Duration::from_micros(microseconds), 8.0);
        }
        assert_eq!(witness.watched, Duration::from_micros(10_401));
        assert_eq!(witness.stood, Duration::from_micros(5_251));
        assert_eq!(witness.stalls_s, [(8.0 - 0.000_251, 8.0), (8.0 - 0.005, 8.0)]);
    }
}

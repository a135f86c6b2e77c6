//! The clock that tests move by hand.

use pyo3::prelude::*;
use tidegate_store::clock as rust;

use crate::convert::seconds;
use crate::errors::usage;

/// 2026-01-01T00:00:00Z: the start of a minute, an hour, a day, a month and a year.
const START_NS: u64 = 1_767_225_600_000_000_000;

/// A clock that stands still until it is told to move, for tests that need no sleep.
#[pyclass(frozen, module = "tidegate._native")]
pub(crate) struct ManualClock {
    pub(crate) clock: rust::ManualClock,
}

#[pymethods]
impl ManualClock {
    #[new]
    #[pyo3(signature = (start = None))]
    fn new(start: Option<f64>) -> PyResult<Self> {
        let start = start.map_or(Ok(START_NS), |start| {
            nanos(start).and_then(|ns| u64::try_from(ns).map_err(|_| usage("a clock cannot start before the epoch")))
        })?;
        Ok(Self { clock: rust::ManualClock::new(start) })
    }

    /// Moves forward; a negative number moves back, as a real clock does when it is corrected.
    fn advance(&self, seconds: f64) -> PyResult<()> {
        self.clock.advance(nanos(seconds)?);
        Ok(())
    }

    /// Moves by an exact number of nanoseconds.
    fn advance_ns(&self, nanoseconds: i64) {
        self.clock.advance(nanoseconds);
    }

    /// Seconds since the epoch.
    fn time(&self) -> f64 {
        seconds(self.clock.now())
    }

    /// Nanoseconds since the epoch.
    fn time_ns(&self) -> u64 {
        self.clock.now()
    }

    fn __repr__(&self) -> String {
        format!("ManualClock({})", seconds(self.clock.now()))
    }
}

/// Seconds as the nearest whole number of nanoseconds.
#[allow(clippy::cast_possible_truncation, reason = "the range is checked")]
fn nanos(seconds: f64) -> PyResult<i64> {
    let nanos = (seconds * 1e9).round();
    if nanos.is_finite() && nanos.abs() < 9.2e18 {
        Ok(nanos as i64)
    } else {
        Err(usage("a clock moves by a finite number of seconds"))
    }
}

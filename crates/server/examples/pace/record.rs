//! What a run measured.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde_json::{Map, Value, json};

const CUTS: [(&str, f64); 5] = [("50", 0.5), ("90", 0.9), ("99", 0.99), ("99.9", 0.999), ("100", 1.0)];

/// Latencies of all calls that were due after the warm-up, each with its nanoseconds: a run has less than a million.
#[derive(Debug)]
pub(crate) struct Record {
    warm_up_ns: u64,
    seconds: f64,
    /// When it began, by the clock of the machine.
    pub(crate) begun_s: f64,
    waits_ns: Vec<u64>,
    /// When each of them was due.
    dues_ns: Vec<u64>,
    lags_ns: Vec<u64>,
    errors: u64,
    unanswered: u64,
    /// Connections that had to be opened again.
    pub(crate) reopened: u64,
}

impl Record {
    pub(crate) fn new(warm_up: Duration, seconds: Duration, calls: usize) -> Self {
        Self {
            warm_up_ns: nanoseconds(warm_up),
            seconds: seconds.saturating_sub(warm_up).as_secs_f64(),
            begun_s: 0.0,
            waits_ns: touched(calls),
            dues_ns: touched(calls),
            lags_ns: touched(calls),
            errors: 0,
            unanswered: 0,
            reopened: 0,
        }
    }

    /// A call was taken up, to be sent at once or when a connection has room.
    pub(crate) fn took_up(&mut self, due_ns: u64, now_ns: u64) {
        if due_ns >= self.warm_up_ns {
            self.lags_ns.push(now_ns.saturating_sub(due_ns));
        }
    }

    /// A call was answered.
    pub(crate) fn answered(&mut self, due_ns: u64, now_ns: u64, is_good: bool) {
        if !is_good {
            // Also in the warm-up: what fails there is no server to measure.
            self.errors += 1;
        }
        if due_ns >= self.warm_up_ns {
            self.waits_ns.push(now_ns.saturating_sub(due_ns));
            self.dues_ns.push(due_ns);
        }
    }

    /// So many calls were not answered when the time was over.
    pub(crate) fn gave_up(&mut self, calls: usize) {
        self.unanswered += calls as u64;
    }

    /// One line of JSON.
    pub(crate) fn report(mut self) -> Value {
        #[allow(clippy::cast_precision_loss, reason = "numbers of calls are far below 2^53")]
        let per_second = self.waits_ns.len() as f64 / self.seconds;
        let each: Vec<(u64, u64)> =
            self.dues_ns.iter().zip(&self.waits_ns).map(|(due, wait)| (due / 1000, wait / 1000)).collect();
        json!({
            "begun_s": self.begun_s,
            "each_us": each,
            "calls": self.waits_ns.len(),
            "errors": self.errors,
            "unanswered": self.unanswered,
            "reopened": self.reopened,
            "per_second": per_second,
            "cuts_us": cuts_us(&mut self.waits_ns),
            "lag_us": cuts_us(&mut self.lags_ns),
        })
    }
}

/// Returns the time of a clock that all processes share: a witness of the machine is another one.
#[allow(clippy::cast_precision_loss, reason = "seconds since the machine was started, with more than enough digits")]
pub(crate) fn clock_s() -> f64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

/// A length of time in the unit of the pacer.
pub(crate) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Room for so many, in pages that the kernel has given already: it would give them in the middle of the run.
fn touched(calls: usize) -> Vec<u64> {
    let mut room = vec![1; calls];
    room.clear();
    room
}

#[allow(clippy::cast_precision_loss, reason = "a latency is far below 2^53 nanoseconds")]
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of a length")]
fn cuts_us(samples_ns: &mut [u64]) -> Map<String, Value> {
    samples_ns.sort_unstable();
    let cut = |share: f64| {
        let rank = (samples_ns.len() as f64 * share).ceil() as usize;
        samples_ns.get(rank.saturating_sub(1)).map(|&sample| sample as f64 / 1e3)
    };
    CUTS.iter().map(|&(name, share)| (name.to_owned(), cut(share).into())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_what_was_due_after_the_warm_up() {
        let mut record = Record::new(Duration::from_micros(1), Duration::from_secs(1), 8);
        record.answered(0, 900_000_000, true);
        for number in 1..=100 {
            record.took_up(1000, 1000 + number);
            record.answered(1000, 1000 + 1000 * number, number != 100);
        }
        record.gave_up(2);
        let report = record.report();
        assert_eq!((&report["calls"], &report["errors"], &report["unanswered"]), (&json!(100), &json!(1), &json!(2)));
        assert_eq!(report["cuts_us"], json!({"50": 50.0, "90": 90.0, "99": 99.0, "99.9": 100.0, "100": 100.0}));
        assert_eq!(report["lag_us"]["99"], json!(0.099));
        assert_eq!((report["each_us"].as_array().unwrap().len(), &report["each_us"][7]), (100, &json!([1, 8])));
    }

    #[test]
    fn nothing_measured_has_no_percentile() {
        let report = Record::new(Duration::ZERO, Duration::from_secs(1), 0).report();
        assert_eq!(report["cuts_us"]["99"], Value::Null);
    }
}

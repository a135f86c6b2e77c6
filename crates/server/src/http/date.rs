//! The time of an answer, as its field `Date` says it: written once a second by each thread.

use std::cell::RefCell;
use std::time::{Duration, SystemTime};

use tidegate_store::clock::{SystemClock, monotonic_ns};

/// Appends the time.
pub(crate) fn extend_date(bytes: &mut Vec<u8>) {
    extend_date_at(bytes, monotonic_ns());
}

/// The same for who has read the monotonic clock already.
pub(super) fn extend_date_at(bytes: &mut Vec<u8>, now_ns: u64) {
    thread_local! {
        /// The second in which it was written, and what was written.
        static WRITTEN: RefCell<(u64, String)> = const { RefCell::new((0, String::new())) };
    }
    let second = now_ns / 1_000_000_000;
    WRITTEN.with_borrow_mut(|(written, date)| {
        if *written != second || date.is_empty() {
            let since_epoch = Duration::from_nanos(SystemClock::new().now());
            (*written, *date) = (second, httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + since_epoch));
        }
        bytes.extend_from_slice(date.as_bytes());
    });
}

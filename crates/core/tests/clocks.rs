//! What a clock that goes back must not give away, in the smallest histories that once did.

use tidegate_core::meter::{Ask, Meter};
use tidegate_core::quota::Quota;
use tidegate_core::time::Tick;

/// A denied request opened the next window and used nothing of it; the window before it was then granted a second time.
#[test]
fn an_empty_window_is_not_left_for_the_one_before_it() {
    let quota: Quota = "4/minute fixed_window".parse().expect("a quota");
    let meter = Meter::new(&quota, Tick::NANOSECOND, None).expect("a quota without a calendar");
    let boundary = 60_000_000_000;
    let before = boundary - 1;
    let mut state = meter.empty();
    let mut admitted = 0;
    for (now, cost) in [(before, 4), (boundary, 5), (before, 4), (boundary, 4), (boundary, 5), (before, 1)] {
        if meter.decide(&mut state, now, Ask::cost(cost)).is_allowed() {
            admitted += cost;
        }
    }
    assert_eq!(admitted, 8, "of each of the two windows, four");
}

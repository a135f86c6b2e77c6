//! Calendars on a coarser clock.

use std::sync::Arc;

use parking_lot::Mutex;
use tidegate_core::time::{Calendar, Tick, Ticks, Window};

/// How many windows are remembered: as many as a call looks at.
const REMEMBERED: usize = 4;

/// A calendar of nanoseconds on a clock of longer ticks. It remembers windows: a call asks for several, and they stay the same for long.
#[derive(Debug)]
pub(super) struct Coarse {
    inner: Arc<dyn Calendar>,
    tick: Tick,
    last: Mutex<([Window; REMEMBERED], usize)>,
}

impl Coarse {
    pub(super) fn new(inner: Arc<dyn Calendar>, tick: Tick) -> Self {
        Self { inner, tick, last: Mutex::new(([Window { start: 0, end: 0 }; REMEMBERED], 0)) }
    }
}

impl Calendar for Coarse {
    fn window_at(&self, now: Ticks) -> Window {
        let mut last = self.last.lock();
        let (windows, next) = &mut *last;
        if let Some(known) = windows.iter().find(|window| (window.start..window.end).contains(&now)) {
            return *known;
        }
        let window = self.inner.window_at(now * self.tick.nanos());
        // Boundaries are whole seconds; if one were not, both of its windows would agree on where it is.
        let window = Window { start: self.tick.ceil(window.start), end: self.tick.ceil(window.end) };
        windows[*next] = window;
        *next = (*next + 1) % REMEMBERED;
        window
    }
}

/// The boundaries of the windows around a time: of the one before, its own, and the two after it.
pub(super) fn boundaries(calendar: &dyn Calendar, now: Ticks) -> [Ticks; 5] {
    let current = calendar.window_at(now);
    let before = calendar.window_at(current.start.saturating_sub(1));
    let next = calendar.window_at(current.end);
    let after = calendar.window_at(next.end);
    [before.start.min(current.start), current.start, current.end, next.end, after.end]
}

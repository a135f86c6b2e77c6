//! What the store last said was left of a counter, so that a fallback does not start with everything: each outage would grant a burst otherwise.

use tidegate_store::digest::Digest;

use super::table::{Entry, Look, Table};
use crate::word::Word;

/// Counters unless told otherwise: some 4 MB when all are used.
pub const ENTRIES_DEFAULT: usize = 65_536;

/// What was left of counters, for all threads. Of too many, those that were seen longest ago are forgotten.
#[derive(Debug)]
pub struct Seen {
    table: Table<Level>,
}

#[derive(Debug, Clone, Copy)]
struct Level {
    counter: Digest,
    remaining: u64,
    /// By the clock of the store.
    said_at: u64,
    seen_at: u64,
    reset_at: u64,
    /// Whether it was taken into account: what has come in since then is there.
    is_applied: bool,
}

/// What is known of a counter when it is counted without the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// The store said that so much is left, and that was not taken into account yet.
    Seen(u64),
    /// Nothing was said within the window.
    Unknown,
    /// It was taken into account before.
    Applied,
}

impl Entry for Level {
    fn counter(&self) -> Digest {
        self.counter
    }

    fn worth(&self, _now: u64) -> u64 {
        self.seen_at
    }
}

impl Default for Seen {
    fn default() -> Self {
        Self::new(ENTRIES_DEFAULT)
    }
}

impl Seen {
    /// For at most so many counters, rounded down to a power of two, and at least 512.
    pub fn new(entries_max: usize) -> Self {
        Self { table: Table::new(entries_max) }
    }

    /// The store said what is left of a counter. An answer that was overtaken says nothing.
    pub fn put(&self, now: u64, counter: Digest, word: Word) {
        let Word { said_at, left, reset_after } = word;
        let reset_at = now.saturating_add(reset_after);
        let level = Level { counter, remaining: left, said_at, seen_at: now, reset_at, is_applied: false };
        self.table.put_unless(now, level, |_| true, |known| word.is_overtaken(known.said_at, known.remaining));
    }

    /// What was left of a counter, for all instances together, if that was seen within the window.
    ///
    /// Without a window, as with a calendar, it holds until everything should be there again.
    pub fn start_level(&self, now: u64, counter: Digest, window_ns: Option<u64>) -> Option<u64> {
        self.table.find(counter, |level| {
            let is_recent = match window_ns {
                Some(window_ns) => now.saturating_sub(level.seen_at) <= window_ns,
                None => now < level.reset_at,
            };
            if is_recent { Look::Found(level.remaining) } else { Look::Other }
        })
    }

    /// With what a counter starts, once: it is asked before every decision, and what has come in since must not be taken away again.
    pub fn apply(&self, now: u64, counter: Digest, window_ns: u64) -> Start {
        let is_recent = |level: &Level| now.saturating_sub(level.seen_at) <= window_ns;
        let known = self.table.find(counter, |level| if is_recent(level) { Look::Found(*level) } else { Look::Other });
        let (start, level) = match known {
            Some(Level { is_applied: true, .. }) => return Start::Applied,
            Some(level) => (Start::Seen(level.remaining), Level { is_applied: true, ..level }),
            None => {
                let reset_at = now.saturating_add(window_ns);
                (Start::Unknown, Level { counter, remaining: 0, said_at: 0, seen_at: now, reset_at, is_applied: true })
            }
        };
        self.table.put(now, level, |_| true);
        start
    }

    /// The counter was reset: nothing is known of it.
    pub fn forget(&self, counter: Digest) {
        self.table.forget(counter);
    }

    /// Forgets everything and frees the memory.
    pub fn clear(&self) {
        self.table.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNTER: Digest = Digest([1, 2]);

    fn put(seen: &Seen, now: u64, counter: Digest, left: u64, reset_after: u64) {
        seen.put(now, counter, Word { said_at: now, left, reset_after });
    }

    #[test]
    fn an_answer_that_was_overtaken_raises_nothing() {
        let seen = Seen::default();
        put(&seen, 10, COUNTER, 7, 100);
        seen.put(11, COUNTER, Word { said_at: 9, left: 8, reset_after: 100 });
        assert_eq!(seen.apply(20, COUNTER, 50), Start::Seen(7));
        seen.put(21, COUNTER, Word { said_at: 9, left: 8, reset_after: 100 });
        assert_eq!(seen.apply(22, COUNTER, 50), Start::Applied);
    }

    #[test]
    fn a_level_is_applied_once_and_a_new_one_again() {
        let seen = Seen::default();
        put(&seen, 10, COUNTER, 7, 100);

        assert_eq!(seen.apply(20, COUNTER, 50), Start::Seen(7));
        assert_eq!(seen.apply(21, COUNTER, 50), Start::Applied);
        put(&seen, 30, COUNTER, 3, 100);
        assert_eq!(seen.apply(40, COUNTER, 50), Start::Seen(3));
        assert_eq!(seen.apply(200, COUNTER, 50), Start::Unknown);
        assert_eq!(seen.apply(201, COUNTER, 50), Start::Applied);
    }

    #[test]
    fn a_level_holds_for_a_window() {
        let seen = Seen::new(0);
        put(&seen, 100, COUNTER, 7, 30);
        put(&seen, 110, COUNTER, 6, 40);

        assert_eq!(seen.start_level(110, COUNTER, Some(50)), Some(6));
        assert_eq!(seen.start_level(160, COUNTER, Some(50)), Some(6));
        assert_eq!(seen.start_level(161, COUNTER, Some(50)), None);
        assert_eq!(seen.start_level(149, COUNTER, None), Some(6));
        assert_eq!(seen.start_level(150, COUNTER, None), None);
        assert_eq!(seen.start_level(110, Digest([1, 3]), Some(50)), None);
    }

    #[test]
    fn what_was_seen_longest_ago_gives_way() {
        let seen = Seen::new(0);
        for counter in 0..9 {
            put(&seen, counter, Digest([0, counter]), counter, 1_000);
        }
        let level = |counter| seen.start_level(9, Digest([0, counter]), Some(1_000));

        assert_eq!((level(0), level(1), level(8)), (None, Some(1), Some(8)));
    }

    #[test]
    fn what_was_reset_is_not_known() {
        let seen = Seen::new(0);
        put(&seen, 0, COUNTER, 7, 30);
        put(&seen, 0, Digest([1, 3]), 8, 30);
        seen.forget(COUNTER);

        assert_eq!(seen.start_level(0, COUNTER, Some(9)), None);
        assert_eq!(seen.start_level(0, Digest([1, 3]), Some(9)), Some(8));
        seen.clear();
        assert_eq!(seen.start_level(0, Digest([1, 3]), Some(9)), None);
    }
}

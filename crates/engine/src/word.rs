//! What the store says of a counter, and which of two answers is the older one.

/// Answers do not overtake each other by more than this; a clock of which it seems so was set.
const CLOCK_STEP: u64 = 10_000_000_000;

/// What the store said of a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Word {
    /// When, by its own clock.
    pub said_at: u64,
    /// What is left there.
    pub left: u64,
    /// The wait until everything is there again.
    pub reset_after: u64,
}

impl Word {
    /// Whether it was said before what is known already, and comes later. Answers come in any order: what an older one says is left has been taken since,
    /// unless the clock of the store was set back.
    pub fn is_overtaken(&self, known_at: u64, known_left: u64) -> bool {
        let is_older = self.said_at < known_at && known_at - self.said_at <= CLOCK_STEP;
        is_older || (self.said_at == known_at && self.left >= known_left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_answer_is_overtaken_and_one_by_another_clock_is_not() {
        let said = |said_at, left| Word { said_at, left, reset_after: 0 };
        let known_at = 5 * CLOCK_STEP;
        let table = [
            (said(known_at + 1, 9), false),
            (said(known_at, 6), false),
            (said(known_at, 7), true),
            (said(known_at, 8), true),
            (said(known_at - 1, 6), true),
            (said(known_at - CLOCK_STEP, 6), true),
            (said(known_at - CLOCK_STEP - 1, 9), false),
        ];
        for (word, expected) in table {
            assert_eq!(word.is_overtaken(known_at, 7), expected, "{word:?}");
        }
    }
}

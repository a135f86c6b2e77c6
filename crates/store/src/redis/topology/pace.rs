//! How often is asked: never in step with the other processes, and never in a storm.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

/// The first pause after a failure, and the shortest between two questions.
const PAUSE_MIN: Duration = Duration::from_millis(50);

/// A duration of 80 to 120 % of `base`, so that many processes do not ask at the same time.
pub(super) fn jittered(base: Duration) -> Duration {
    base * percent(80, 120) / 100
}

fn percent(from: u32, to: u32) -> u32 {
    from + random() % (to - from)
}

/// Randomness that nothing depends on: the standard library draws fresh keys for each hasher.
pub(super) fn random() -> u32 {
    let [.., a, b, c, d] = RandomState::new().build_hasher().finish().to_be_bytes();
    u32::from_be_bytes([a, b, c, d])
}

/// Pauses that grow while nothing changes.
#[derive(Debug)]
pub(super) struct Pauses {
    next: Duration,
    max: Duration,
}

impl Pauses {
    pub(super) fn up_to(max: Duration) -> Self {
        Self { next: PAUSE_MIN, max }
    }

    /// The next pause; each is twice as long as the one before.
    pub(super) fn next(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(self.max);
        jittered(pause)
    }

    /// Begins with short ones again.
    pub(super) fn reset(&mut self) {
        self.next = PAUSE_MIN;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jittered_duration_stays_near() {
        let base = Duration::from_secs(10);
        for _ in 0..1_000 {
            assert!((Duration::from_secs(8)..Duration::from_secs(12)).contains(&jittered(base)));
        }
    }

    #[test]
    fn pauses_grow_to_their_maximum_and_start_again() {
        let mut pauses = Pauses::up_to(Duration::from_millis(500));
        let mut longest = Duration::ZERO;
        for _ in 0..10 {
            longest = pauses.next();
        }
        assert!((Duration::from_millis(400)..Duration::from_millis(600)).contains(&longest));

        pauses.reset();

        assert!(pauses.next() <= Duration::from_millis(60));
    }
}

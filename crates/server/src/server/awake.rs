//! A worker that asks for work instead of sleeping until it is woken, while there is a lot of it.
//!
//! A thread with nothing to do gives its core away, and is woken when bytes come. On a virtual machine that costs about half of what a request does: the core is
//! halted, the host lends it to others, and has to be asked to give it back. Who is sure to be woken in a moment is better off asking again and again.
//!
//! ```text
//! busy_poll: 100us    a request begins or ends every 40 µs      nobody sleeps
//!                     every 40 µs, and now not for 100          sleeps until the next one
//!                     every 300 µs                              sleeps each time: a wait of 100 µs would be in vain
//! ```
//!
//! So a core is kept busy only if it nearly is by itself: with 100 µs, by more than 5,000 requests a second on this worker, each of which begins and ends.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::task::{Poll, Waker};
use std::time::Duration;

use tidegate_store::clock::monotonic_ns;
use tokio::task::yield_now;

/// The average goes an eighth of the way to each pause ...
const WEIGHT: u64 = 8;
/// ... and one pause, however long, counts as so many times the wait: after it a few short ones are enough.
const PAUSE_MAX: u64 = 8;

thread_local! {
    /// Requests that began or ended on this thread; it wraps around.
    static BEATS: Cell<u32> = const { Cell::new(0) };
    /// Who waits for the next one.
    static SLEEPER: RefCell<Option<Waker>> = const { RefCell::new(None) };
}

/// Notes that a request began or ended on this thread.
#[inline]
pub(super) fn beat() {
    BEATS.set(BEATS.get().wrapping_add(1));
    if let Some(sleeper) = SLEEPER.take() {
        sleeper.wake();
    }
}

/// Keeps this thread awake while requests begin or end so often that the next one is to be expected within this time.
pub(super) async fn stay_awake(wait: Duration) {
    let mut pulse = Pulse::new(wait);
    let mut seen = BEATS.get();
    loop {
        let beats = beats_since(&mut seen);
        let now_ns = monotonic_ns();
        if beats > 0 {
            pulse.beat(beats, now_ns);
        }
        if pulse.is_worth_waiting(now_ns) {
            // The runtime looks for events without waiting for them while somebody stands back like this.
            yield_now().await;
        } else {
            next_beat(seen).await;
        }
    }
}

fn beats_since(seen: &mut u32) -> u32 {
    let now = BEATS.get();
    now.wrapping_sub(std::mem::replace(seen, now))
}

/// Waits until a request begins or ends that was not seen.
async fn next_beat(seen: u32) {
    poll_fn(|context| {
        if BEATS.get() != seen {
            return Poll::Ready(());
        }
        SLEEPER.set(Some(context.waker().clone()));
        Poll::Pending
    })
    .await;
}

/// How often requests begin or end. Pure: time is passed in.
#[derive(Debug)]
struct Pulse {
    wait_ns: u64,
    /// The pause between two of them, on average.
    pause_ns: u64,
    /// When the last one was.
    last_at: u64,
}

impl Pulse {
    /// Before the first request: nothing is expected.
    fn new(wait: Duration) -> Self {
        let wait_ns = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX / PAUSE_MAX);
        Self { wait_ns, pause_ns: wait_ns * PAUSE_MAX, last_at: 0 }
    }

    /// Notes that so many began or ended since the last time.
    fn beat(&mut self, beats: u32, now_ns: u64) {
        let pause_ns = now_ns.saturating_sub(std::mem::replace(&mut self.last_at, now_ns)) / u64::from(beats.max(1));
        let pause_ns = pause_ns.min(self.wait_ns * PAUSE_MAX);
        self.pause_ns = (self.pause_ns * (WEIGHT - 1) + pause_ns) / WEIGHT;
    }

    /// Whether the next one is to be expected soon enough, and is not overdue.
    fn is_worth_waiting(&self, now_ns: u64) -> bool {
        self.pause_ns < self.wait_ns && now_ns.saturating_sub(self.last_at) < self.wait_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: u64 = 1_000;

    /// A pulse of 100 µs, after so many requests began or ended with this pause, and the time of the last one.
    fn after(beats: u64, pause_us: u64) -> (Pulse, u64) {
        let mut pulse = Pulse::new(Duration::from_micros(100));
        let at = |number: u64| 1_000_000 * US + number * pause_us * US;
        (0..=beats).for_each(|number| pulse.beat(1, at(number)));
        (pulse, at(beats))
    }

    #[test]
    fn who_is_busy_stays_awake_and_who_is_not_sleeps() {
        for (pause_us, expected) in [(1, true), (40, true), (90, true), (110, false), (300, false), (1_000_000, false)] {
            let (pulse, now_ns) = after(100, pause_us);
            assert_eq!(pulse.is_worth_waiting(now_ns), expected, "every {pause_us} µs");
        }
    }

    #[test]
    fn nobody_is_waited_for_longer_than_it_says() {
        let (pulse, now_ns) = after(100, 40);
        assert!(pulse.is_worth_waiting(now_ns + 99 * US));
        assert!(!pulse.is_worth_waiting(now_ns + 100 * US));
    }

    #[test]
    fn a_first_request_keeps_nobody_awake() {
        assert!(!Pulse::new(Duration::from_micros(100)).is_worth_waiting(0));
        let (pulse, now_ns) = after(2, 1);
        assert!(!pulse.is_worth_waiting(now_ns));
    }

    #[test]
    fn a_long_pause_is_forgotten_after_a_few_short_ones() {
        let (mut pulse, mut now_ns) = after(100, 10);
        now_ns += 3_600_000_000 * US;
        pulse.beat(1, now_ns);
        let mut needed = 0;
        while !pulse.is_worth_waiting(now_ns) {
            now_ns += 10 * US;
            pulse.beat(1, now_ns);
            needed += 1;
        }

        assert_eq!(needed, 1);
    }

    #[test]
    fn many_at_once_are_many_short_pauses() {
        let mut pulse = Pulse::new(Duration::from_micros(100));
        let mut now_ns = 0;
        for _ in 0..100 {
            now_ns += 90 * US;
            pulse.beat(9, now_ns);
        }

        assert!((9 * US..=11 * US).contains(&pulse.pause_ns), "{}", pulse.pause_ns);
    }

    #[test]
    fn whoever_sleeps_is_woken_by_the_next_request() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let seen = BEATS.get();
            let sleeping = tokio::spawn(next_beat(seen));
            yield_now().await;
            assert!(!sleeping.is_finished());
            beat();
            sleeping.await.unwrap();
        });
    }
}

//! A timer for many waits, one after the other.
//!
//! Hardly any wait is so long that its timer fires. Setting one for each wait costs more than the wait itself: so a timer stays where it was set, and is
//! moved when it fires too early, which is once in as much time as anybody is waited for.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::time::{Instant, Sleep, sleep_until};

/// A timer that is made when somebody is waited for the first time.
#[derive(Default)]
pub(super) struct Alarm(Option<Pin<Box<Sleep>>>);

impl Alarm {
    /// Waits until then. Who waits next may wait longer or less long.
    pub(super) fn poll_at(&mut self, at: Instant, context: &mut Context<'_>) -> Poll<()> {
        let timer = self.0.get_or_insert_with(|| Box::pin(sleep_until(at)));
        if timer.deadline() > at {
            timer.as_mut().reset(at);
        }
        ready!(timer.as_mut().poll(context));
        if timer.deadline() < at {
            timer.as_mut().reset(at);
            return timer.as_mut().poll(context);
        }
        Poll::Ready(())
    }
}

impl fmt::Debug for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Alarm").field(&self.0.as_ref().map(|timer| timer.deadline())).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_wait_is_as_long_as_it_should_be() {
        let mut alarm = Alarm::default();
        for seconds in [5, 1, 0, 30, 2, 2, 60] {
            let at = Instant::now() + Duration::from_secs(seconds);
            poll_fn(|context| alarm.poll_at(at, context)).await;
            assert!(Instant::now() >= at && Instant::now() < at + Duration::from_millis(5), "{seconds}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_that_ended_before_its_time_leaves_nothing_to_the_next() {
        let mut alarm = Alarm::default();
        let begun = Instant::now();
        let soon = begun + Duration::from_secs(1);
        assert!(poll_fn(|context| Poll::Ready(alarm.poll_at(soon, context))).await.is_pending());
        let later = begun + Duration::from_secs(3);
        poll_fn(|context| alarm.poll_at(later, context)).await;
        assert!(Instant::now() >= later);
    }
}

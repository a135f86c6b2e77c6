//! A thread that waits for an answer, for as long as its budget lasts.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use tidegate_core::time::Ticks;
use tidegate_store::clock::monotonic_ns;

/// Who waits.
struct Waiter {
    thread: Thread,
    /// Others may wake a thread for reasons of their own.
    is_called: AtomicBool,
}

impl Wake for Waiter {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_called.swap(true, Ordering::Release) {
            self.thread.unpark();
        }
    }
}

/// When a time that begins now is over, by [`monotonic_ns`].
pub(super) fn deadline(budget: Duration) -> Ticks {
    monotonic_ns().saturating_add(u64::try_from(budget.as_nanos()).unwrap_or(u64::MAX))
}

/// The answer; `None` if it did not come in time.
pub(super) fn wait_for<F: Future + Unpin>(answer: &mut F, deadline: Ticks) -> Option<F::Output> {
    let mut answer = Pin::new(answer);
    let waiter = Arc::new(Waiter { thread: thread::current(), is_called: AtomicBool::new(false) });
    let waker = Waker::from(Arc::clone(&waiter));
    loop {
        if let Poll::Ready(answer) = answer.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Some(answer);
        }
        while !waiter.is_called.swap(false, Ordering::Acquire) {
            let left = deadline.saturating_sub(monotonic_ns());
            if left == 0 {
                return None;
            }
            thread::park_timeout(Duration::from_nanos(left));
        }
    }
}

//! A thread that waits for an answer, for as long as its budget lasts.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

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

/// The answer; `None` if it did not come in time.
pub(super) fn wait_for<T>(mut answer: Pin<&mut (dyn Future<Output = T> + Send)>, budget: Duration) -> Option<T> {
    let deadline = monotonic_ns().saturating_add(u64::try_from(budget.as_nanos()).unwrap_or(u64::MAX));
    let waiter = Arc::new(Waiter { thread: thread::current(), is_called: AtomicBool::new(false) });
    let waker = Waker::from(Arc::clone(&waiter));
    loop {
        if let Poll::Ready(answer) = answer.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Some(answer);
        }
        while !waiter.is_called.swap(false, Ordering::Acquire) {
            let left_ns = deadline.saturating_sub(monotonic_ns());
            if left_ns == 0 {
                return None;
            }
            thread::park_timeout(Duration::from_nanos(left_ns));
        }
    }
}

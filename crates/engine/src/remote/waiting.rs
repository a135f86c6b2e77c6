//! One caller that waits for one answer, for as long as its budget lasts.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// Where an answer is put and waited for.
#[derive(Debug)]
pub(super) struct Waiting<T> {
    shared: Arc<(Mutex<Option<T>>, Condvar)>,
}

/// The other end of it.
#[derive(Debug)]
pub(super) struct Delivery<T> {
    shared: Arc<(Mutex<Option<T>>, Condvar)>,
}

/// Both ends.
pub(super) fn waiting<T>() -> (Delivery<T>, Waiting<T>) {
    let shared = Arc::new((Mutex::new(None), Condvar::new()));
    (Delivery { shared: Arc::clone(&shared) }, Waiting { shared })
}

impl<T> Delivery<T> {
    /// Puts the answer there. If nobody waits any more, it is forgotten.
    pub(super) fn put(self, answer: T) {
        let (answered, arrived) = &*self.shared;
        *answered.lock() = Some(answer);
        arrived.notify_one();
    }
}

impl<T> Waiting<T> {
    /// The answer; `None` if it did not come in time.
    pub(super) fn take_within(self, budget: Duration) -> Option<T> {
        let (answered, arrived) = &*self.shared;
        let mut answer = answered.lock();
        if answer.is_none() {
            arrived.wait_while_for(&mut answer, |answer| answer.is_none(), budget);
        }
        answer.take()
    }
}

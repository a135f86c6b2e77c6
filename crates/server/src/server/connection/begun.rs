//! Requests of HTTP/2 that have just begun.
//!
//! A request is usually a task of its own. Most of those here are answered as soon as they are looked at, and for them that is a detour: a task is
//! made and put in line, it wakes its connection, which is put in line too. So requests are first looked at where they came from, and only what has
//! to wait becomes a task.

use std::cell::RefCell;
use std::pin::Pin;
use std::task::{Context, Waker};

use hyper::rt::Executor;

type Request = Pin<Box<dyn Future<Output = ()> + Send>>;

thread_local! {
    /// What began on the connection that this thread is looking at.
    static BEGUN: RefCell<Vec<Request>> = const { RefCell::new(Vec::new()) };
}

/// Keeps requests until somebody looks at them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Begin;

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Begin {
    fn execute(&self, request: F) {
        BEGUN.with_borrow_mut(|begun| begun.push(Box::pin(request)));
    }
}

/// Looks at all requests that have begun, and tells whether there were any.
pub(super) fn look() -> bool {
    let mut begun = BEGUN.take();
    let is_any = !begun.is_empty();
    // Nobody is to be woken: what has to wait is looked at once more by its task.
    let mut context = Context::from_waker(Waker::noop());
    for mut request in begun.drain(..) {
        if request.as_mut().poll(&mut context).is_pending() {
            tokio::spawn(request);
        }
    }
    // Its room is for the next ones.
    BEGUN.set(begun);
    is_any
}

//! Decisions that are ready, on their way to an event loop.
//!
//! The store's thread must not wait for the interpreter. It puts decisions here and, if the box was empty, writes one byte to a socket that the event
//! loop watches; the loop then takes all that have come. So a batch of answers costs one wake-up, and nobody waits for the other's lock.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use pyo3::prelude::*;
use tidegate_engine::decision::Decision as Decided;

use crate::decision::Decision;
use crate::errors::usage;

/// Where one event loop finds the decisions that it waits for.
#[pyclass(frozen, module = "tidegate._native")]
pub(crate) struct Mailbox {
    letters: Arc<Letters>,
    bell: UnixStream,
    next: AtomicU64,
}

/// What the store's thread sees of it.
pub(crate) struct Letters {
    ready: Mutex<Vec<(u64, Decided)>>,
    rope: UnixStream,
}

impl Letters {
    /// Puts a decision there.
    pub(crate) fn put(&self, ticket: u64, decision: Decided) {
        let mut ready = self.ready.lock();
        ready.push((ticket, decision));
        let is_first = ready.len() == 1;
        drop(ready);
        if is_first {
            // A full socket rings already, and a closed one has no loop behind it.
            let _ = (&self.rope).write(&[1]);
        }
    }
}

impl Mailbox {
    /// A number for a decision that will come, and the way to put it there.
    pub(crate) fn ticket(&self) -> (u64, Arc<Letters>) {
        (self.next.fetch_add(1, Ordering::Relaxed), Arc::clone(&self.letters))
    }
}

#[pymethods]
impl Mailbox {
    #[new]
    fn new() -> PyResult<Self> {
        let pair = UnixStream::pair().and_then(|(bell, rope)| {
            bell.set_nonblocking(true)?;
            rope.set_nonblocking(true)?;
            Ok((bell, rope))
        });
        let (bell, rope) = pair.map_err(|error| usage(&format!("no socket is left for the event loop: {error}")))?;
        let letters = Arc::new(Letters { ready: Mutex::new(Vec::new()), rope });
        Ok(Self { letters, bell, next: AtomicU64::new(0) })
    }

    /// What the event loop watches: readable when there is something to take.
    fn fileno(&self) -> i32 {
        self.bell.as_raw_fd()
    }

    /// All decisions that have come, each with its number.
    fn take(&self) -> Vec<(u64, Decision)> {
        let mut rings = [0; 64];
        // Quiet before looking: a decision that comes afterwards rings again.
        loop {
            match (&self.bell).read(&mut rings) {
                Ok(64) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                _ => break,
            }
        }
        let ready = std::mem::take(&mut *self.letters.ready.lock());
        ready.into_iter().map(|(ticket, decision)| (ticket, Decision { decision })).collect()
    }
}

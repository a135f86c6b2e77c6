//! Decisions that are ready, on their way to an event loop.
//!
//! The store's thread must not wait for the interpreter. It puts decisions here and, if the box was empty, writes one byte to a socket that the event
//! loop watches; the loop then takes all that have come. So a batch of answers costs one wake-up, and nobody waits for the other's lock. In the same
//! way questions are collected here until the loop has run all tasks that are ready, and leave together.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use pyo3::prelude::*;
use tidegate_engine::decision::Decision as Decided;
use tidegate_engine::engine::Pending;
use tidegate_store::redis::io::{Io, Job};

use crate::decision::Decision;
use crate::errors::usage;

/// So many questions leave at once, also if the loop has more to ask: the server works on them while the loop goes on. With 64 tasks on two cores 16
/// made 46,000 to 65,000 checks a second, 32 51,000 to 55,000, and all together, with client and server taking turns, 33,000 to 45,000.
const TOGETHER: usize = 16;

/// Where one event loop finds the decisions that it waits for.
#[pyclass(frozen, module = "tidegate._native")]
pub(crate) struct Mailbox {
    letters: Arc<Letters>,
    bell: UnixStream,
    next: AtomicU64,
    unsent: Mutex<Vec<(Io, Job)>>,
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
    /// Collects a question; its decision will come under this number.
    pub(crate) fn expect(&self, pending: Pending) -> u64 {
        let (ticket, letters) = (self.next.fetch_add(1, Ordering::Relaxed), Arc::clone(&self.letters));
        let io = pending.io().clone();
        let job = pending.job(move |decision| letters.put(ticket, decision));
        let mut unsent = self.unsent.lock();
        unsent.push((io, job));
        if unsent.len() >= TOGETHER {
            send(std::mem::take(&mut *unsent));
        }
        ticket
    }
}

/// All limiters of a process have the same thread.
fn send(unsent: Vec<(Io, Job)>) {
    if let Some((io, _)) = unsent.first() {
        let io = io.clone();
        io.run_all(unsent.into_iter().map(|(_, job)| job).collect());
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
        Ok(Self { letters, bell, next: AtomicU64::new(0), unsent: Mutex::new(Vec::new()) })
    }

    /// What the event loop watches: readable when there is something to take.
    fn fileno(&self) -> i32 {
        self.bell.as_raw_fd()
    }

    /// Sends the questions that were collected.
    fn send(&self) {
        send(std::mem::take(&mut *self.unsent.lock()));
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

//! Decisions that are ready, on their way to an event loop.
//!
//! The store's thread must not wait for the interpreter. It puts decisions here and, if the box was empty, writes one byte to a socket that the event
//! loop watches; the loop then takes all that have come. So a batch of answers costs one wake-up, and nobody waits for the other's lock. In the same
//! way questions are collected here until the loop has run all tasks that are ready, and leave together.
//!
//! A question that is alone takes a shorter way, without the store's thread: it is sent from the thread of the loop on a connection of its own, which
//! the loop watches. That saves two wake-ups of threads, each of which takes as long as the server's work. Where the last one was alone, the next one
//! is taken to be too, and leaves at once. If no answer comes in time, the store's thread takes over: it gives up when the budget is over, and takes
//! the answer in when it comes after all.

mod watch;

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use pyo3::prelude::*;
use tidegate_engine::decision::Decision as Decided;
use tidegate_engine::engine::Pending;

use crate::decision::Decision;
use crate::errors::usage;
use watch::Watch;

/// So many questions leave at once, also if the loop has more to ask: the server works on them while the loop goes on. With 64 tasks on two cores 16
/// made 46,000 to 65,000 checks a second, 32 51,000 to 55,000, and all together, with client and server taking turns, 33,000 to 45,000.
const TOGETHER: usize = 16;

/// Where one event loop finds the decisions that it waits for.
#[pyclass(frozen, module = "tidegate._native")]
pub(crate) struct Mailbox {
    letters: Arc<Letters>,
    bell: UnixStream,
    watch: Watch,
    next: AtomicU64,
    unsent: Mutex<Vec<Question>>,
    /// The one that is under way on a connection of its own.
    alone: Mutex<Option<Question>>,
    /// Whether the last question was.
    was_alone: AtomicBool,
}

/// A question, and the number under which its decision will come.
struct Question {
    ticket: u64,
    pending: Pending,
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
        let ticket = self.next.fetch_add(1, Ordering::Relaxed);
        let mut question = Question { ticket, pending };
        let mut unsent = self.unsent.lock();
        if unsent.is_empty() && self.was_alone.load(Ordering::Relaxed) {
            question = match self.send_alone(question) {
                None => return ticket,
                Some(question) => question,
            };
        }
        unsent.push(question);
        if unsent.len() >= TOGETHER {
            self.send_by_thread(std::mem::take(&mut *unsent));
        }
        ticket
    }

    /// Has the store's thread ask. All limiters of a process have the same one.
    fn send_by_thread(&self, questions: Vec<Question>) {
        let Some(first) = questions.first() else { return };
        let io = first.pending.io().clone();
        let job = |Question { ticket, pending }: Question| {
            let letters = Arc::clone(&self.letters);
            pending.job(move |decision| letters.put(ticket, decision))
        };
        io.run_all(questions.into_iter().map(job).collect());
    }

    /// Sends a question that is alone, and keeps it; gives it back if the store's thread has to go on with it.
    fn send_alone(&self, mut question: Question) -> Option<Question> {
        let mut alone = self.alone.lock();
        if alone.is_some() || !question.pending.send() {
            return Some(question);
        }
        if !question.pending.socket().is_some_and(|socket| self.watch.begin(socket)) {
            return Some(question);
        }
        *alone = Some(question);
        None
    }

    /// Before looking for letters: a decision that comes afterwards rings again.
    fn quieten(&self) {
        let mut rings = [0; 64];
        loop {
            match (&self.bell).read(&mut rings) {
                Ok(64) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                _ => break,
            }
        }
    }

    /// The decision on the question that is alone, if its answer has come.
    fn look(&self) -> Option<(u64, Decided)> {
        let mut alone = self.alone.lock();
        let Question { ticket, pending } = alone.take()?;
        // Before the connection can be somebody else's.
        if let Some(socket) = pending.socket() {
            self.watch.end(socket);
        }
        match pending.look() {
            Ok(decision) => return Some((ticket, decision)),
            Err(pending) => {
                let question = Question { ticket, pending };
                if question.pending.socket().is_some_and(|socket| self.watch.begin(socket)) {
                    *alone = Some(question);
                } else {
                    self.send_by_thread(vec![question]);
                }
            }
        }
        None
    }
}

#[pymethods]
impl Mailbox {
    #[new]
    fn new() -> PyResult<Self> {
        let made = UnixStream::pair().and_then(|(bell, rope)| {
            bell.set_nonblocking(true)?;
            rope.set_nonblocking(true)?;
            let watch = Watch::new(&bell)?;
            Ok((bell, rope, watch))
        });
        let (bell, rope, watch) = made.map_err(|error| usage(&format!("no socket is left for the event loop: {error}")))?;
        let letters = Arc::new(Letters { ready: Mutex::new(Vec::new()), rope });
        let (unsent, alone) = (Mutex::default(), Mutex::default());
        Ok(Self { letters, bell, watch, next: AtomicU64::new(0), unsent, alone, was_alone: AtomicBool::new(false) })
    }

    /// What the event loop watches: readable when there is something to take.
    fn fileno(&self) -> i32 {
        self.watch.fileno()
    }

    /// Whether questions were collected that have to be sent.
    #[getter]
    fn has_unsent(&self) -> bool {
        !self.unsent.lock().is_empty()
    }

    /// Sends the questions that were collected.
    fn send(&self) {
        let mut questions = std::mem::take(&mut *self.unsent.lock());
        // Not beside one that is under way: two tasks that ask in turn had better travel together.
        let is_alone = questions.len() == 1 && self.alone.lock().is_none();
        self.was_alone.store(is_alone, Ordering::Relaxed);
        if is_alone {
            questions = questions.into_iter().filter_map(|question| self.send_alone(question)).collect();
        }
        self.send_by_thread(questions);
    }

    /// The seconds until somebody has to `hurry` the question that is alone; `None` without one.
    #[getter]
    fn patience(&self) -> Option<f64> {
        self.alone.lock().as_ref().map(|question| question.pending.patience().as_secs_f64())
    }

    /// Leaves the question that is alone to the store's thread, if it has waited long enough.
    fn hurry(&self) {
        if let Some((ticket, decision)) = self.look() {
            return self.letters.put(ticket, decision);
        }
        let late = self.alone.lock().take_if(|question| question.pending.patience().is_zero());
        if let Some(socket) = late.as_ref().and_then(|question| question.pending.socket()) {
            self.watch.end(socket);
        }
        self.send_by_thread(late.into_iter().collect());
    }

    /// All decisions that have come, each with its number.
    fn take(&self) -> Vec<(u64, Decision)> {
        let alone = self.look();
        if alone.is_none() || !self.letters.ready.lock().is_empty() {
            self.quieten();
        }
        let ready = std::mem::take(&mut *self.letters.ready.lock());
        ready.into_iter().chain(alone).map(|(ticket, decision)| (ticket, Decision { decision })).collect()
    }
}

impl Drop for Mailbox {
    fn drop(&mut self) {
        // The loop has gone. The store's thread takes in what it will be answered.
        let left = self.alone.get_mut().take();
        self.send_by_thread(left.into_iter().collect());
    }
}

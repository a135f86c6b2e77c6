//! Decisions that are ready, on their way to an event loop.
//!
//! The store's thread must not wait for the interpreter. It puts decisions here and, if the box was empty, writes one byte to a socket that the event
//! loop watches; the loop then takes all that have come. So a batch of answers costs one wake-up, and nobody waits for the other's lock. In the same
//! way questions are collected here until the loop has run all tasks that are ready, and leave together.
//!
//! Where the loop can have a connection for itself, there is not even that: its own thread writes the questions of all tasks that are ready, and the
//! loop watches the connection (`node/lane.rs`). Every hand-over to another thread takes as long as the server's work. Where the last question was
//! alone, the next one is taken to be too, and leaves at once. If no answer comes for long, the store's thread takes over: it gives up when the budget
//! is over, and takes the answer in when it comes after all.

mod watch;

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use parking_lot::Mutex;
use pyo3::prelude::*;
use tidegate_engine::decision::Decision as Decided;
use tidegate_engine::engine::Pending;
use tidegate_store::redis::node::Lanes;

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
    desk: Mutex<Desk>,
}

/// What the event loop has asked.
#[derive(Default)]
struct Desk {
    next: u64,
    lanes: Lanes,
    /// On the lanes, in the order in which they were asked.
    under_way: VecDeque<Question>,
    /// For the store's thread.
    left: Vec<Question>,
    /// How many were asked since they were last sent.
    unsent: usize,
    /// Whether the last question was alone.
    was_alone: bool,
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
    pub(crate) fn expect(&self, mut pending: Pending) -> u64 {
        let mut desk = self.desk.lock();
        let desk = &mut *desk;
        let ticket = desk.next;
        desk.next += 1;
        desk.unsent += 1;
        let is_alone = desk.was_alone && desk.unsent == 1 && desk.under_way.is_empty();
        let is_on_lane = Watch::CAN_SHARE && pending.push(&mut desk.lanes);
        let question = Question { ticket, pending };
        if is_on_lane {
            desk.under_way.push_back(question);
        } else {
            desk.left.push(question);
        }
        if is_alone && is_on_lane || desk.unsent >= TOGETHER {
            self.send_all(desk);
        }
        ticket
    }

    fn send_all(&self, desk: &mut Desk) {
        desk.unsent = 0;
        if !desk.lanes.flush(|socket| self.watch.begin(socket)) {
            // No reply will wake the loop for these.
            self.sort(desk, |ticket, decision| self.letters.put(ticket, decision));
        }
        self.send_by_thread(std::mem::take(&mut desk.left));
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

    /// Finds the questions that were answered on the lanes.
    fn sort(&self, desk: &mut Desk, mut deliver: impl FnMut(u64, Decided)) {
        let is_single = desk.lanes.is_single();
        for _ in 0..desk.under_way.len() {
            // Of one server the answers come in order: the first that is missing is the end.
            if is_single && desk.under_way.front().is_some_and(|question| question.pending.is_coming()) {
                break;
            }
            let Some(Question { ticket, pending }) = desk.under_way.pop_front() else { break };
            if pending.is_coming() {
                desk.under_way.push_back(Question { ticket, pending });
                continue;
            }
            match pending.look() {
                Ok(decision) => deliver(ticket, decision),
                // It did not run, and has to go another way.
                Err(pending) => self.send_by_thread(vec![Question { ticket, pending }]),
            }
        }
        desk.lanes.rest(|socket| self.watch.end(socket));
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
        Ok(Self { letters, bell, watch, desk: Mutex::default() })
    }

    /// What the event loop watches: readable when there is something to take.
    fn fileno(&self) -> i32 {
        self.watch.fileno()
    }

    /// Whether questions were collected that have to be sent.
    #[getter]
    fn has_unsent(&self) -> bool {
        self.desk.lock().unsent > 0
    }

    /// Sends the questions that were collected.
    fn send(&self) {
        let mut desk = self.desk.lock();
        // Not beside one that is under way: two tasks that ask in turn had better travel together.
        desk.was_alone = desk.unsent == 1 && desk.under_way.len() + desk.left.len() == 1;
        self.send_all(&mut desk);
    }

    /// The seconds until somebody has to `hurry`; `None` if no question is under way on a connection of the loop's.
    #[getter]
    fn patience(&self) -> Option<f64> {
        let desk = self.desk.lock();
        desk.under_way.iter().map(|question| question.pending.patience()).min().map(|patience| patience.as_secs_f64())
    }

    /// Leaves all questions that are under way to the store's thread, if one has waited long enough.
    fn hurry(&self) {
        let mut desk = self.desk.lock();
        desk.lanes.receive();
        self.sort(&mut desk, |ticket, decision| self.letters.put(ticket, decision));
        if desk.under_way.iter().any(|question| question.pending.patience().is_zero()) {
            desk.lanes.leave(|socket| self.watch.end(socket));
            self.send_by_thread(desk.under_way.drain(..).collect());
        }
    }

    /// All decisions that have come, each with its number.
    fn take(&self) -> Vec<(u64, Decision)> {
        let mut taken = Vec::new();
        let mut desk = self.desk.lock();
        if !desk.under_way.is_empty() {
            desk.lanes.receive();
            self.sort(&mut desk, |ticket, decision| taken.push((ticket, Decision { decision })));
        }
        drop(desk);
        if taken.is_empty() || !self.letters.ready.lock().is_empty() {
            self.quieten();
        }
        let ready = std::mem::take(&mut *self.letters.ready.lock());
        taken.extend(ready.into_iter().map(|(ticket, decision)| (ticket, Decision { decision })));
        taken
    }
}

impl Drop for Mailbox {
    fn drop(&mut self) {
        // The loop has gone. The store's thread takes in what it will be answered.
        let desk = std::mem::take(self.desk.get_mut());
        self.send_by_thread(desk.under_way.into_iter().chain(desk.left).collect());
    }
}

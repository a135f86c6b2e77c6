//! Lines on their way to the thread that writes them.
//!
//! They wait as bytes in one buffer. Whoever adds the first line wakes the writer, which then waits a moment for more: a busy proxy wakes it twenty times a
//! second and not once for each request.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::file::Place;

/// The most bytes that wait. At 300 bytes a line and 30,000 lines a second they are there after 120 ms in which the disk did nothing.
const BYTES_MAX: usize = 1_024 * 1_024;

/// How long lines wait for others.
const GATHER: Duration = Duration::from_millis(50);

/// How long the last lines are waited for.
const LAST_WITHIN: Duration = Duration::from_secs(1);

/// Lines that wait.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
    written: AtomicU64,
    dropped: AtomicU64,
}

#[derive(Debug, Default)]
struct Waiting {
    bytes: Vec<u8>,
    lines: u64,
    is_over: bool,
}

impl Queue {
    /// Adds a line, if there is room.
    pub(super) fn push(&self, line: &[u8]) {
        let mut waiting = self.waiting.lock();
        if waiting.is_over || waiting.bytes.len() + line.len() > BYTES_MAX {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let is_first = waiting.bytes.is_empty();
        waiting.bytes.extend_from_slice(line);
        waiting.lines += 1;
        drop(waiting);
        if is_first {
            self.changed.notify_one();
        }
    }

    /// Lines that were written, and lines that were dropped.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.written.load(Ordering::Relaxed), self.dropped.load(Ordering::Relaxed))
    }

    /// Waits for lines, and exchanges them for an empty buffer. How many there are; `None` if no more will come.
    fn take(&self, bytes: &mut Vec<u8>) -> Option<u64> {
        let mut waiting = self.waiting.lock();
        while waiting.bytes.is_empty() && !waiting.is_over {
            self.changed.wait(&mut waiting);
        }
        if !waiting.is_over {
            self.changed.wait_while_for(&mut waiting, |waiting| !waiting.is_over, GATHER);
        }
        if waiting.bytes.is_empty() {
            return None;
        }
        bytes.clear();
        std::mem::swap(bytes, &mut waiting.bytes);
        Some(std::mem::take(&mut waiting.lines))
    }

    fn run(&self, mut place: Place) {
        let mut bytes = Vec::new();
        while let Some(lines) = self.take(&mut bytes) {
            // A full disk is no reason to refuse requests.
            let counter = if place.write(&bytes).is_ok() { &self.written } else { &self.dropped };
            counter.fetch_add(lines, Ordering::Relaxed);
        }
    }
}

/// The thread that writes.
#[derive(Debug)]
pub(super) struct Writer {
    queue: Arc<Queue>,
    /// Ends with the thread.
    running: Receiver<()>,
}

impl Writer {
    pub(super) fn start(queue: Arc<Queue>, place: Place) -> io::Result<Self> {
        let (ends, running) = channel();
        let shared = Arc::clone(&queue);
        let run = move || {
            shared.run(place);
            drop(ends);
        };
        thread::Builder::new().name("tidegate-log".to_owned()).spawn(run)?;
        Ok(Self { queue, running })
    }

    /// Lets it write what is left. A thread that waits for somebody who takes no lines is left alone.
    pub(super) fn stop(self) {
        self.queue.waiting.lock().is_over = true;
        self.queue.changed.notify_one();
        let ended = self.running.recv_timeout(LAST_WITHIN);
        debug_assert!(ended != Ok(()), "nothing is ever sent");
        if ended == Err(RecvTimeoutError::Timeout) {
            let lines = std::mem::take(&mut self.queue.waiting.lock().lines);
            self.queue.dropped.fetch_add(lines, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::settings::Target;
    use super::*;

    #[test]
    fn what_does_not_fit_is_dropped_and_counted() {
        let queue = Queue::default();
        let line = [b'x'; 1_024];
        for _ in 0..1_030 {
            queue.push(&line);
        }

        assert_eq!(queue.counts(), (0, 6));
        let mut bytes = Vec::new();
        assert_eq!((queue.take(&mut bytes), bytes.len()), (Some(1_024), BYTES_MAX));
    }

    #[test]
    fn the_end_loses_no_line_and_takes_no_more() {
        let path = std::env::temp_dir().join(format!("tidegate-queue-{}", std::process::id()));
        let queue = Arc::<Queue>::default();
        let place = Place::open(&Target::File { path: path.clone() }).unwrap();
        let writer = Writer::start(Arc::clone(&queue), place).unwrap();
        queue.push(b"first\n");
        queue.push(b"last\n");
        writer.stop();
        queue.push(b"late\n");

        assert_eq!(std::fs::read_to_string(&path).unwrap(), "first\nlast\n");
        assert_eq!(queue.counts(), (2, 1));
        std::fs::remove_file(path).unwrap();
    }
}

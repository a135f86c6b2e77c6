//! The one thread of a process that talks to servers.
//!
//! Everything that waits for a network runs there, as tasks of one runtime: connections, timers, failovers. Callers hand over a job and wait, or do
//! not. One thread is enough, because all it does is to move bytes, and it lets calls of many threads leave in one write.
//!
//! A forked child has no such thread, only the memory of it. It makes its own: see [`forked`].

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread;

use parking_lot::Mutex;
use tokio::runtime::{Builder, Handle};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Work for the thread.
pub type Job = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The way to the thread.
#[derive(Debug, Clone)]
pub struct Io {
    handle: Handle,
    jobs: UnboundedSender<Job>,
}

/// How often this process was forked from another since the thread began; a child's number differs from its parent's.
static FORKS: AtomicU64 = AtomicU64::new(0);

/// The thread of each number. Those of ancestors stay: to drop them would shut connections that the parent uses.
static THREADS: Mutex<Vec<(u64, Io)>> = Mutex::new(Vec::new());

/// To be called in a child right after it was forked, before anything else.
pub fn forked() {
    FORKS.fetch_add(1, Ordering::SeqCst);
}

/// The number of the process in its line of forks. What was made under another number must be made anew.
pub fn forks() -> u64 {
    FORKS.load(Ordering::Relaxed)
}

impl Io {
    /// The thread of this process; starts it if there is none.
    ///
    /// # Panics
    /// The system has no thread, or no event queue, left.
    pub fn of_process() -> Self {
        let mut threads = THREADS.lock();
        let number = forks();
        if let Some((_, io)) = threads.iter().find(|(of, _)| *of == number) {
            return io.clone();
        }
        let io = Self::start();
        threads.push((number, io.clone()));
        io
    }

    fn start() -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().expect("the system has an event queue left");
        let handle = runtime.handle().clone();
        let (jobs, queue) = unbounded_channel();
        let run = move || runtime.block_on(take(queue));
        thread::Builder::new().name("tidegate-io".to_owned()).spawn(run).expect("the system has a thread left");
        Self { handle, jobs }
    }

    /// Runs a job. Jobs that come while the thread is busy wake it once, not once each.
    pub fn run(&self, job: Job) {
        // The queue ends with the process.
        let _ = self.jobs.send(job);
    }

    /// Begins a job on this very thread, and leaves to the store's what it has to wait for. What it sends first is queued before this returns: whatever
    /// its caller, or somebody who hears of it, sends next comes after it.
    pub fn begin(&self, mut job: Job) {
        // What it waits for, it waits for by the timers of the store's thread.
        let _context = self.handle.enter();
        // Nobody need be woken: the thread polls it again in any case.
        if job.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            self.run(job);
        }
    }

    /// Runs several jobs, which wakes the thread once. They are one task, because their answers mostly come together too.
    pub fn run_all(&self, mut jobs: Vec<Job>) {
        self.run(Box::pin(poll_fn(move |context| {
            jobs.retain_mut(|job| job.as_mut().poll(context).is_pending());
            if jobs.is_empty() { Poll::Ready(()) } else { Poll::Pending }
        })));
    }

    /// The runtime.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }
}

async fn take(mut queue: UnboundedReceiver<Job>) {
    while let Some(job) = queue.recv().await {
        tokio::spawn(job);
    }
}

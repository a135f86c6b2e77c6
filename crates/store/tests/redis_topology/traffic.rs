//! A steady stream of calls, and what became of each.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_store::redis::topology::Topology;
use tidegate_store::store::StoreError;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::kit::{Io, Script, call};

/// What a caller is ready to wait while a server may be gone.
const BUDGET: Duration = Duration::from_millis(200);

/// What a caller is ready to wait where every server answers: however long a busy machine keeps it from that.
const NO_HURRY: Duration = Duration::from_secs(20);

/// Calls that go on until they are stopped.
pub(crate) struct Traffic {
    calls: Arc<Mutex<Vec<Call>>>,
    is_over: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<()>>,
}

/// What became of one call.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) end: Instant,
    pub(crate) answer: Result<i64, StoreError>,
}

impl Traffic {
    /// As many callers as scripts, each of which asks again when it has its answer, or has waited for 200 ms.
    pub(crate) fn start(io: &Io, topology: &Arc<Topology>, scripts: &[Script]) -> Self {
        Self::start_with(BUDGET, io, topology, scripts)
    }

    /// The same callers, who wait for their answer.
    pub(crate) fn start_patient(io: &Io, topology: &Arc<Topology>, scripts: &[Script]) -> Self {
        Self::start_with(NO_HURRY, io, topology, scripts)
    }

    fn start_with(budget: Duration, io: &Io, topology: &Arc<Topology>, scripts: &[Script]) -> Self {
        let calls = Arc::default();
        let is_over = Arc::default();
        let caller = |script: &Script| run(budget, topology.clone(), script.clone(), Arc::clone(&calls), Arc::clone(&is_over));
        let tasks = scripts.iter().map(|script| io.handle.spawn(caller(script)));
        Self { tasks: tasks.collect(), calls, is_over }
    }

    pub(crate) fn len(&self) -> usize {
        self.calls.lock().unwrap().len()
    }

    /// Waits for so many more calls to succeed.
    pub(crate) fn flow(&self, io: &Io, calls: usize) {
        let start = self.len();
        io.eventually("calls flow", Duration::from_secs(30), || {
            self.calls.lock().unwrap()[start..].iter().filter(|call| call.answer.is_ok()).count() >= calls
        });
    }

    pub(crate) fn stop(self, io: &Io) -> Vec<Call> {
        self.is_over.store(true, Ordering::Relaxed);
        for task in self.tasks {
            io.run(task).unwrap();
        }
        std::mem::take(&mut *self.calls.lock().unwrap())
    }
}

async fn run(budget: Duration, topology: Arc<Topology>, script: Script, calls: Arc<Mutex<Vec<Call>>>, is_over: Arc<AtomicBool>) {
    while !is_over.load(Ordering::Relaxed) {
        let answer = match timeout(budget, call(&topology, &script)).await {
            Ok(answer) => answer.map(|value| value.int().unwrap_or_else(|| panic!("a number, not {value:?}"))),
            Err(_) => Err(StoreError::Timeout),
        };
        // Else a refused connection would fill the memory.
        let pause = if answer.is_ok() { Duration::from_millis(1) } else { Duration::from_millis(5) };
        calls.lock().unwrap().push(Call { end: Instant::now(), answer });
        sleep(pause).await;
    }
}

/// The longest time between two calls that succeeded.
pub(crate) fn longest_gap(calls: &[Call]) -> Duration {
    let mut ends: Vec<_> = calls.iter().filter(|call| call.answer.is_ok()).map(|call| call.end).collect();
    ends.sort();
    ends.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or_default()
}

pub(crate) fn failures(calls: &[Call]) -> Vec<&StoreError> {
    calls.iter().filter_map(|call| call.answer.as_ref().err()).collect()
}

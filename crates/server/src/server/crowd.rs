//! How many connections there are, and where.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Shared;
use crate::metrics::{ConnectionFailure, Port};

/// All connections of a server.
#[derive(Debug)]
pub(super) struct Crowd {
    workers: Box<[Load]>,
    /// Room for more connections.
    room: Arc<Semaphore>,
    /// Connections, and loops that accept more.
    alive: AtomicUsize,
    /// Connections that ever came.
    came: AtomicU32,
    is_stopped: Mutex<bool>,
    changed: Condvar,
}

/// The connections of a worker, by port.
#[derive(Debug, Default)]
struct Load([AtomicUsize; Port::ALL.len()]);

/// Room for a connection that has not come yet.
pub(super) type Room = OwnedSemaphorePermit;

/// The place of a connection in the crowd, held as long as it lives.
pub(super) struct Place {
    shared: Arc<Shared>,
    port: Port,
    worker: usize,
    /// How many came before.
    number: u32,
    _room: Room,
}

/// Something else that a server waits for before it is empty.
pub(super) struct Alive(Arc<Shared>);

impl Load {
    fn of(&self, port: Port) -> &AtomicUsize {
        &self.0[port as usize]
    }

    fn all(&self) -> usize {
        self.0.iter().map(|open| open.load(Ordering::Relaxed)).sum()
    }
}

impl Crowd {
    pub(super) fn new(workers: usize, connections_max: usize) -> Self {
        Self {
            workers: (0..workers).map(|_| Load::default()).collect(),
            room: Arc::new(Semaphore::new(connections_max.clamp(1, Semaphore::MAX_PERMITS))),
            alive: AtomicUsize::new(0),
            came: AtomicU32::new(0),
            is_stopped: Mutex::new(false),
            changed: Condvar::new(),
        }
    }

    /// How many workers there are.
    pub(super) fn workers(&self) -> usize {
        self.workers.len()
    }

    /// How many connections there are.
    pub(super) fn open(&self) -> usize {
        self.workers.iter().map(Load::all).sum()
    }

    /// Waits until there is room for one more connection.
    pub(super) async fn room(&self) -> Option<Room> {
        Arc::clone(&self.room).acquire_owned().await.ok()
    }

    /// Room for one more connection, if there is.
    pub(super) fn room_now(&self) -> Option<Room> {
        Arc::clone(&self.room).try_acquire_owned().ok()
    }

    /// The worker for a new connection: the one with the fewest of its kind. Few connections of gRPC carry everything, so they must not gather on one
    /// worker because the other one has many idle ones of HTTP.
    fn quietest(&self, port: Port) -> usize {
        let load = |worker: &usize| {
            let load = &self.workers[*worker];
            (load.of(port).load(Ordering::Relaxed), load.all())
        };
        (0..self.workers.len()).min_by_key(load).unwrap_or(0)
    }

    /// Waits until there is nobody left, but no longer than this.
    pub(super) fn wait_until_empty(&self, limit: Duration) {
        let mut is_stopped = self.is_stopped.lock();
        let is_waiting = |is_stopped: &mut bool| !*is_stopped && self.alive.load(Ordering::SeqCst) > 0;
        self.changed.wait_while_for(&mut is_stopped, is_waiting, limit);
    }

    /// Waits until there is nobody left of a server that has stopped, but no longer than this.
    pub(super) fn wait_until_gone(&self, limit: Duration) {
        self.changed.wait_while_for(&mut self.is_stopped.lock(), |_| self.alive.load(Ordering::SeqCst) > 0, limit);
    }

    /// Waits until the server stops, but no longer than this. Returns whether it has.
    pub(super) fn wait_for_stop(&self, limit: Duration) -> bool {
        let mut is_stopped = self.is_stopped.lock();
        self.changed.wait_while_for(&mut is_stopped, |is_stopped| !*is_stopped, limit);
        *is_stopped
    }

    /// Wakes everybody who waits.
    pub(super) fn stop(&self) {
        *self.is_stopped.lock() = true;
        self.changed.notify_all();
    }

    fn leave(&self) {
        if self.alive.fetch_sub(1, Ordering::SeqCst) == 1 {
            // With the lock, so that who has looked and is about to wait is woken too.
            let _waiting = self.is_stopped.lock();
            self.changed.notify_all();
        }
    }
}

impl Place {
    /// Takes a place for a connection that came.
    pub(super) fn take(shared: &Arc<Shared>, port: Port, room: Room) -> Self {
        let crowd = &shared.crowd;
        let worker = crowd.quietest(port);
        crowd.workers[worker].of(port).fetch_add(1, Ordering::Relaxed);
        crowd.alive.fetch_add(1, Ordering::SeqCst);
        shared.app.metrics.opened(port);
        let number = crowd.came.fetch_add(1, Ordering::Relaxed);
        Self { shared: Arc::clone(shared), port, worker, number, _room: room }
    }

    pub(super) fn worker(&self) -> usize {
        self.worker
    }

    pub(super) fn port(&self) -> Port {
        self.port
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// A factor from 0.9 to 1.1, so that connections that came together do not all go together. Multiples of the golden ratio are spread evenly, however
    /// many there are.
    pub(super) fn jitter(&self) -> f64 {
        0.9 + 0.2 * f64::from(self.number.wrapping_mul(0x9E37_79B9)) / f64::from(u32::MAX)
    }

    pub(super) fn failed(&self, why: ConnectionFailure) {
        self.shared.app.metrics.failed(self.port, why);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.failed(ConnectionFailure::Panic);
        }
        self.shared.app.metrics.closed(self.port);
        self.shared.crowd.workers[self.worker].of(self.port).fetch_sub(1, Ordering::Relaxed);
        self.shared.crowd.leave();
    }
}

impl Alive {
    pub(super) fn new(shared: &Arc<Shared>) -> Self {
        shared.crowd.alive.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(shared))
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.crowd.leave();
    }
}

//! A bounded place where things wait to be taken, one lane for each worker.
//!
//! A lane's lock is held to push one thing or to carry all away, which is a swap: for nanoseconds, and by nobody else than its worker and who takes.
//! What finds its lane full is dropped and counted; nobody waits for room.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::metrics::{shards_of, thread_number};

/// Things that wait to be taken.
#[derive(Debug)]
pub(super) struct Ring<T> {
    /// The most that wait in one lane.
    depth: usize,
    lanes: Box<[Lane<T>]>,
    /// What was carried out of the lanes and not taken yet.
    carried: Mutex<VecDeque<T>>,
}

/// What one worker put. Aligned, so that no cache line belongs to two of them.
#[derive(Debug)]
#[repr(align(128))]
struct Lane<T> {
    waiting: Mutex<Vec<T>>,
    /// How many wait, for a look without the lock.
    len: AtomicUsize,
    dropped: AtomicU64,
}

impl<T> Ring<T> {
    /// Holds so many at most, of so many workers.
    pub(super) fn new(size: usize, workers: usize) -> Self {
        let lanes = shards_of(workers);
        let lane = |_| Lane { waiting: Mutex::new(Vec::new()), len: AtomicUsize::new(0), dropped: AtomicU64::new(0) };
        Self { depth: (size / lanes).max(1), lanes: (0..lanes).map(lane).collect(), carried: Mutex::default() }
    }

    /// Puts what `make` makes, unless the lane of this thread is full; then nothing is made, and one more was dropped.
    pub(super) fn put(&self, make: impl FnOnce() -> Option<T>) {
        let lane = self.here();
        if lane.len.load(Ordering::Relaxed) >= self.depth {
            lane.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        // Made without the lock.
        let Some(thing) = make() else { return };
        let mut waiting = lane.waiting.lock();
        if waiting.len() < self.depth {
            waiting.push(thing);
            lane.len.store(waiting.len(), Ordering::Relaxed);
        } else {
            // Threads that share the lane were faster.
            drop(waiting);
            lane.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Takes at most so many, those of one worker in their order.
    pub(super) fn take(&self, limit: usize) -> Vec<T> {
        let mut carried = self.carried.lock();
        for lane in &self.lanes {
            if carried.len() >= limit {
                break;
            }
            carried.extend(lane.carry());
        }
        let taken = limit.min(carried.len());
        carried.drain(..taken).collect()
    }

    /// How many wait.
    pub(super) fn waiting(&self) -> usize {
        self.carried.lock().len() + self.lanes.iter().map(|lane| lane.len.load(Ordering::Relaxed)).sum::<usize>()
    }

    /// How many were dropped since the start.
    pub(super) fn dropped(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.dropped.load(Ordering::Relaxed)).sum()
    }

    fn here(&self) -> &Lane<T> {
        // The number of lanes is a power of two.
        &self.lanes[thread_number() & (self.lanes.len() - 1)]
    }
}

impl<T> Lane<T> {
    fn carry(&self) -> Vec<T> {
        // As many will come again; their room is made here and not where a request waits.
        let room = Vec::with_capacity(self.len.load(Ordering::Relaxed));
        let mut waiting = self.waiting.lock();
        self.len.store(0, Ordering::Relaxed);
        std::mem::replace(&mut waiting, room)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;
    use std::thread;

    use super::*;

    #[test]
    fn what_does_not_fit_is_dropped_and_counted() {
        let ring = Ring::new(3, 1);
        for number in 0..5 {
            ring.put(|| Some(number));
        }

        assert_eq!((ring.waiting(), ring.dropped()), (3, 2));
        assert_eq!(ring.take(10), [0, 1, 2]);
        ring.put(|| Some(7));
        assert_eq!((ring.take(10), ring.dropped()), (vec![7], 2));
    }

    #[test]
    fn a_full_ring_makes_nothing() {
        let ring = Ring::new(1, 1);
        ring.put(|| Some(1));
        ring.put(|| unreachable!("there is no room for it"));

        assert_eq!(ring.dropped(), 1);
    }

    #[test]
    fn no_more_are_taken_than_were_asked_for_and_the_rest_stays() {
        let ring = Ring::new(10, 1);
        (0..5).for_each(|number| ring.put(|| Some(number)));

        assert_eq!(ring.take(2), [0, 1]);
        assert_eq!(ring.waiting(), 3);
        assert_eq!((ring.take(2), ring.take(2), ring.take(2)), (vec![2, 3], vec![4], vec![]));
    }

    #[test]
    fn what_is_put_is_taken_or_counted_as_dropped_whoever_races() {
        const PUT: usize = 20_000;
        let ring = Arc::new(Ring::new(256, 4));
        let is_over = Arc::new(AtomicBool::new(false));
        let reader = thread::spawn({
            let (ring, is_over) = (Arc::clone(&ring), Arc::clone(&is_over));
            move || {
                let mut taken = 0;
                while !is_over.load(Ordering::Acquire) {
                    taken += ring.take(100).len();
                }
                taken
            }
        });
        let putters: Vec<_> = (0..4)
            .map(|_| {
                let ring = Arc::clone(&ring);
                thread::spawn(move || (0..PUT).for_each(|number| ring.put(|| Some(number))))
            })
            .collect();
        for putter in putters {
            putter.join().expect("it puts");
        }
        is_over.store(true, Ordering::Release);

        let taken = reader.join().expect("it takes") + ring.take(usize::MAX).len();
        assert_eq!(taken as u64 + ring.dropped(), 4 * PUT as u64);
        assert_eq!(ring.waiting(), 0);
    }
}

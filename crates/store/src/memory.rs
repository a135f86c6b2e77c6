//! Counters in this process: exact under any number of threads, with bounded memory.
//!
//! Keys are spread over shards, each behind its own lock that is held for nanoseconds. All quotas of one key are in one shard, so the usual
//! request takes one lock; a request with several keys takes its locks in order, and all are held until it is decided.
//!
//! Every state knows when it is back at full credit and may be forgotten. A sweep that walks along with the traffic drops such states; there is no
//! thread and no timer.

mod locked;
mod several;
mod shard;
mod table;

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard};
use tidegate_core::algorithm::{Receipt, Refund};
use tidegate_core::decision::{Status, Verdict};
use tidegate_core::meter::{Assessment, State};
use tidegate_core::mutant::Mutant;
use tidegate_core::time::{Tick, Ticks};

use self::locked::{Locked, in_force, shard_index};
use self::shard::{Shard, Visit, is_limiting};
use crate::clock::Clock;
use crate::digest::Digest;
use crate::store::{Charge, Part, Store, StoreError, StoreStats};

/// Enough that threads rarely meet.
const SHARDS_MAX: usize = 256;

/// The cap on keys is kept per shard. With this many keys in each, chance fills none of them much earlier than the others.
const SHARD_KEYS_MIN: usize = 4_096;

/// How many slots a sweep looks at: a run that memory likes. When it is due, [`Shard::count`] says.
const SWEEP_SLOTS: u32 = 128;

/// A store in this process.
#[derive(Debug)]
pub struct MemoryStore {
    shards: Box<[Padded]>,
    clock: Clock,
    sweep_next: Turn,
}

/// Whose turn it is to be swept. Alone on its cache lines: next to the shards' address, every turn would slow down all other cores.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Turn(AtomicUsize);

/// A shard alone on its cache lines, so that a lock taken by one core does not slow the neighbours.
#[derive(Debug)]
#[repr(align(128))]
struct Padded(Mutex<Shard>);

impl MemoryStore {
    /// A store that holds at most about `keys_max` states, by this clock.
    ///
    /// The cap is kept per shard, so uneven keys reach a large one a little early; one below 8,192 is exact. With 0 nothing can be remembered
    /// and every check fails.
    pub fn new(clock: Clock, keys_max: usize) -> Self {
        let count = (keys_max / SHARD_KEYS_MIN).clamp(1, SHARDS_MAX);
        // A power of two, so that a key's shard is found by a mask.
        let count = if count.is_power_of_two() { count } else { count.next_power_of_two() / 2 };
        let shard = || Padded(Mutex::new(Shard::with_len_max(keys_max.div_ceil(count))));
        let shards = std::iter::repeat_with(shard).take(count).collect();
        Self { shards, clock, sweep_next: Turn::default() }
    }

    fn lock(&self, charges: &[Charge<'_>]) -> Locked<'_> {
        Locked::new(&self.shards, charges)
    }

    fn shard(&self, key: Digest) -> MutexGuard<'_, Shard> {
        self.shards[shard_index(key, self.shards.len())].0.lock()
    }

    /// Runs `act` on one state under its lock.
    fn with_state<R>(&self, charge: &Charge<'_>, act: impl FnOnce(&mut State, Ticks) -> R) -> Result<R, StoreError> {
        let mut shard = self.shard(charge.key);
        let now = self.clock.now();
        shard.visit(charge.key ^ charge.namespace, charge.meter, now, |state| {
            let result = act(state, now);
            let limiting = charge.meter.left(state, now).remaining == Some(0);
            (result, Visit::Leave { limiting })
        })
    }

    /// Decides and, if there is room, charges one quota, with one lock and one look-up.
    #[inline]
    fn check_one<R>(&self, charge: &Charge<'_>, report: impl FnOnce(Status) -> R) -> Result<R, StoreError> {
        let mut shard = self.shard(charge.key);
        let now = self.clock.now();
        let digest = charge.key ^ charge.namespace;
        let place = shard.find(digest);
        // The two cases do not meet again before the report: a status in memory that either could have written would be copied twice.
        if let Some(admission) = shard.admit(place, charge.meter, now, charge.ask) {
            self.finish_one(shard, true, now);
            return Ok(report(charge.meter.admitted(admission)));
        }
        let status = shard.decide(place, digest, charge.meter, now, charge.ask)?;
        self.finish_one(shard, status.is_allowed(), now);
        Ok(report(status))
    }

    #[inline]
    fn finish_one(&self, mut shard: MutexGuard<'_, Shard>, is_allowed: bool, now: Ticks) {
        let is_due = shard.count(is_allowed);
        drop(shard);
        if is_due {
            self.sweep(now);
        }
    }

    /// Sweeps the next shard in turn, unless somebody is using it.
    #[cold]
    fn sweep(&self, now: Ticks) {
        let index = self.sweep_next.0.fetch_add(1, Ordering::Relaxed) % self.shards.len();
        if let Some(mut shard) = self.shards[index].0.try_lock() {
            shard.sweep(now, SWEEP_SLOTS as usize);
        }
    }
}

impl Store for MemoryStore {
    fn now(&self) -> Ticks {
        self.clock.now()
    }

    fn tick(&self) -> Tick {
        Tick::NANOSECOND
    }

    fn check(&self, charges: &[Charge<'_>]) -> Result<Verdict, StoreError> {
        match single(charges) {
            Some(charge) => self.check_one(charge, Verdict::of_one),
            None => self.check_all(charges),
        }
    }

    fn allow(&self, charges: &[Charge<'_>]) -> Result<bool, StoreError> {
        match single(charges) {
            Some(charge) => self.check_one(charge, |status| status.is_allowed()),
            None => Ok(self.check_all(charges)?.is_allowed()),
        }
    }

    fn peek(&self, charges: &[Charge<'_>]) -> Result<Verdict, StoreError> {
        let mut locked = self.lock(charges);
        let now = self.clock.now();
        let statuses = in_force(charges, now).map(|(index, charge)| {
            locked.shard(charge.key).peek(charge.key ^ charge.namespace, charge.meter, |state| {
                let assessment = charge.meter.assess(state, now, charge.ask);
                status(charge, index, assessment, Receipt::Nothing, state, now)
            })
        });
        Ok(Verdict::new(statuses.collect()))
    }

    fn debit(&self, charges: &[Charge<'_>]) -> Result<Verdict, StoreError> {
        let mut locked = self.lock(charges);
        let now = self.clock.now();
        // Slots cannot be owed.
        let is_charged =
            |charge: &Charge<'_>| charge.ask.cost > 0 && !charge.meter.is_stateless() && !charge.meter.retry_is_hint();
        locked.make_room(charges, now, is_charged)?;
        let statuses = in_force(charges, now).map(|(index, charge)| {
            locked.shard(charge.key).visit(charge.key ^ charge.namespace, charge.meter, now, |state| {
                charge.meter.debit(state, now, charge.ask.cost);
                let admitted = Assessment { retry_after: Some(0), delay: 0 };
                let status = status(charge, index, admitted, Receipt::Nothing, state, now);
                (status, visit(&status, is_charged(charge)))
            })
        });
        Ok(Verdict::new(statuses.collect::<Result<_, _>>()?))
    }

    fn refund(&self, charge: &Charge<'_>, refund: Refund) -> Result<(), StoreError> {
        self.with_state(charge, |state, now| charge.meter.refund(state, now, refund))
    }

    fn renew(&self, charge: &Charge<'_>) -> Result<bool, StoreError> {
        self.with_state(charge, |state, now| charge.ask.lease.is_some_and(|lease| charge.meter.renew(state, now, lease)))
    }

    fn release(&self, charge: &Charge<'_>) -> Result<bool, StoreError> {
        self.with_state(charge, |state, now| charge.ask.lease.is_some_and(|lease| charge.meter.release(state, now, lease)))
    }

    fn reset(&self, charge: &Charge<'_>) -> Result<bool, StoreError> {
        Ok(self.shard(charge.key).remove(charge.key ^ charge.namespace))
    }

    fn clear(&self) {
        self.shards.iter().for_each(|shard| shard.0.lock().clear());
    }

    fn stats(&self) -> StoreStats {
        self.shards.iter().fold(StoreStats::default(), |sum, shard| {
            let shard = shard.0.lock();
            StoreStats {
                allowed: sum.allowed + shard.allowed,
                denied: sum.denied + shard.denied,
                keys: sum.keys + shard.len() as u64,
                bytes: sum.bytes + (shard.bytes() + size_of::<Padded>()) as u64,
                expired: sum.expired + shard.expired,
                evicted: sum.evicted + shard.evicted,
            }
        })
    }
}

/// The charge of a request with one quota, if nothing else is special about it.
fn single<'a>(charges: &'a [Charge<'a>]) -> Option<&'a Charge<'a>> {
    match charges {
        [charge]
            if charge.part == Part::Enforced && charge.until.is_none() && charge.ask.cost > 0 && !charge.meter.is_stateless() =>
        {
            Some(charge).filter(|_| !Mutant::ReadModifyWrite.is_active())
        }
        _ => None,
    }
}

fn visit(status: &Status, is_charged: bool) -> Visit {
    let limiting = is_limiting(status);
    if is_charged { Visit::Keep { limiting } } else { Visit::Leave { limiting } }
}

fn status(charge: &Charge<'_>, index: usize, assessment: Assessment, receipt: Receipt, state: &State, now: Ticks) -> Status {
    let left = charge.meter.left(state, now);
    // A quota that is phased out stops denying when it ends.
    let ends_after = charge.until.map_or(Ticks::MAX, |until| until - now);
    Status {
        quota: u16::try_from(index).unwrap_or(u16::MAX),
        is_shadow: matches!(charge.part, Part::Shadow(_)),
        limit: charge.meter.capacity(),
        remaining: left.remaining,
        retry_after: match charge.until {
            None => assessment.retry_after,
            Some(_) => Some(assessment.retry_after.unwrap_or(Ticks::MAX).min(ends_after)),
        },
        retry_is_hint: charge.meter.retry_is_hint(),
        reset_after: left.reset_after.min(ends_after),
        delay: assessment.delay,
        receipt,
    }
}

//! Counters in this process: exact under any number of threads, with bounded memory.
//!
//! Keys are spread over shards, each behind its own lock that is held for nanoseconds. All quotas of one key are in one shard, so the usual
//! request takes one lock; a request with several keys takes its locks in order, and all are held until it is decided.
//!
//! Every state knows when it is back at full credit and may be forgotten. A sweep that walks along with the traffic drops such states; there is no
//! thread and no timer.

mod shard;
mod table;

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;
use tidegate_core::algorithm::{Receipt, Refund};
use tidegate_core::decision::{Status, Statuses, Verdict};
use tidegate_core::meter::{Assessment, State};
use tidegate_core::mutant::Mutant;
use tidegate_core::time::{Tick, Ticks};

use self::shard::{Shard, Visit, is_limiting};
use crate::clock::Clock;
use crate::digest::Digest;
use crate::store::{Charge, Store, StoreError, StoreStats};

/// A power of two, enough that threads rarely meet.
const SHARDS: usize = 256;

/// How often a shard's traffic pays for a sweep, and how many slots it looks at: eight for each check, in runs that memory likes.
const SWEEP_EVERY: u64 = 16;
const SWEEP_SLOTS: usize = 128;

/// A store in this process.
#[derive(Debug)]
pub struct MemoryStore {
    shards: Box<[Padded]>,
    clock: Clock,
    sweep_next: AtomicUsize,
}

/// A shard alone on its cache lines, so that a lock taken by one core does not slow the neighbours.
#[derive(Debug)]
#[repr(align(128))]
struct Padded(Mutex<Shard>);

/// The shards of one request, locked, in order.
type Locked<'a> = SmallVec<[(usize, MutexGuard<'a, Shard>); 1]>;

impl MemoryStore {
    /// A store that holds at most about `keys_max` states, by this clock.
    ///
    /// The cap is kept per shard, so uneven keys reach it a little early. With 0 nothing can be remembered and every check fails.
    pub fn new(clock: Clock, keys_max: usize) -> Self {
        let shard = || Padded(Mutex::new(Shard::with_len_max(keys_max.div_ceil(SHARDS))));
        let shards = std::iter::repeat_with(shard).take(SHARDS).collect();
        Self { shards, clock, sweep_next: AtomicUsize::new(0) }
    }

    fn lock(&self, charges: &[Charge<'_>]) -> Locked<'_> {
        let mut indexes: SmallVec<[usize; 8]> = charges.iter().map(|charge| shard_index(charge.key)).collect();
        if indexes.len() > 1 {
            indexes.sort_unstable();
            indexes.dedup();
        }
        indexes.into_iter().map(|index| (index, self.shards[index].0.lock())).collect()
    }

    /// Runs `act` on one state under its lock.
    fn with_state<R>(&self, charge: &Charge<'_>, act: impl FnOnce(&mut State, Ticks) -> R) -> Result<R, StoreError> {
        let mut shard = self.shards[shard_index(charge.key)].0.lock();
        let now = self.clock.now();
        shard.visit(charge.key ^ charge.namespace, charge.meter, now, |state| {
            let result = act(state, now);
            let limiting = charge.meter.left(state, now).remaining == Some(0);
            (result, Visit::Leave { limiting })
        })
    }

    /// Decides and, if all have room, charges several quotas: first look at all, then write all.
    ///
    /// Also returns the time if a sweep is due.
    fn check_all(&self, charges: &[Charge<'_>]) -> Result<(Statuses, Option<Ticks>), StoreError> {
        let mut locked = self.lock(charges);
        // Read under the lock: time must not go back between two charges of one key.
        let now = self.clock.now();
        let mut assessed: SmallVec<[(usize, Assessment); 4]> = SmallVec::new();
        let mut is_allowed = true;
        for (index, charge) in in_force(charges, now) {
            let assessment =
                shard_of(&mut locked, charge.key).visit(charge.key ^ charge.namespace, charge.meter, now, |state| {
                    let assessment = charge.meter.assess(state, now, charge.ask);
                    (assessment, Visit::Leave { limiting: assessment.retry_after != Some(0) })
                })?;
            is_allowed &= assessment.retry_after == Some(0);
            assessed.push((index, assessment));
        }
        if is_allowed {
            make_room(charges, &mut locked, now)?;
        }
        let statuses = assessed.into_iter().map(|(index, assessment)| {
            let charge = &charges[index];
            // After a denial nothing is charged; the second look only reports what is left.
            let act = |state: &mut State| charge_one(charge, index, assessment, is_allowed, state, now);
            shard_of(&mut locked, charge.key).visit(charge.key ^ charge.namespace, charge.meter, now, act)
        });
        let statuses = statuses.collect::<Result<_, _>>()?;
        let is_due = locked.first_mut().is_some_and(|(_, shard)| shard.count(is_allowed) % SWEEP_EVERY == 0);
        Ok((statuses, is_due.then_some(now)))
    }

    /// The same for one quota, with one lock and one look-up.
    #[inline]
    fn check_one(&self, charge: &Charge<'_>) -> Result<(Statuses, Option<Ticks>), StoreError> {
        let mut shard = self.shards[shard_index(charge.key)].0.lock();
        let now = self.clock.now();
        let status = shard.decide(charge.key ^ charge.namespace, charge.meter, now, charge.ask)?;
        let is_due = shard.count(status.is_allowed()) % SWEEP_EVERY == 0;
        Ok((SmallVec::from_buf([status]), is_due.then_some(now)))
    }

    /// Sweeps the next shard in turn, unless somebody is using it.
    fn sweep(&self, now: Ticks) {
        let index = self.sweep_next.fetch_add(1, Ordering::Relaxed) % SHARDS;
        if let Some(mut shard) = self.shards[index].0.try_lock() {
            shard.sweep(now, SWEEP_SLOTS);
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
        if charges.iter().all(|charge| charge.ask.cost == 0) {
            return self.peek(charges);
        }
        if Mutant::ReadModifyWrite.is_active() && self.peek(charges)?.is_allowed() {
            return self.debit(charges);
        }
        let (statuses, sweep_at) = match charges {
            [charge] if charge.until.is_none() && !charge.meter.is_stateless() => self.check_one(charge)?,
            _ => self.check_all(charges)?,
        };
        if let Some(now) = sweep_at {
            self.sweep(now);
        }
        Ok(Verdict::new(statuses))
    }

    fn peek(&self, charges: &[Charge<'_>]) -> Result<Verdict, StoreError> {
        let mut locked = self.lock(charges);
        let now = self.clock.now();
        let statuses = in_force(charges, now).map(|(index, charge)| {
            shard_of(&mut locked, charge.key).peek(charge.key ^ charge.namespace, charge.meter, |state| {
                let assessment = charge.meter.assess(state, now, charge.ask);
                status(charge, index, assessment, Receipt::Nothing, state, now)
            })
        });
        Ok(Verdict::new(statuses.collect()))
    }

    fn debit(&self, charges: &[Charge<'_>]) -> Result<Verdict, StoreError> {
        let mut locked = self.lock(charges);
        let now = self.clock.now();
        let is_charged = |charge: &Charge<'_>| charge.ask.cost > 0 && !charge.meter.is_stateless();
        make_room(charges, &mut locked, now)?;
        let statuses = in_force(charges, now).map(|(index, charge)| {
            shard_of(&mut locked, charge.key).visit(charge.key ^ charge.namespace, charge.meter, now, |state| {
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
        Ok(self.shards[shard_index(charge.key)].0.lock().remove(charge.key ^ charge.namespace))
    }

    fn clear(&self) {
        self.shards.iter().for_each(|shard| shard.0.lock().clear());
    }

    fn stats(&self) -> StoreStats {
        self.shards.iter().fold(StoreStats::default(), |sum, shard| {
            let shard = shard.0.lock();
            StoreStats {
                allowed: sum.allowed + shard.stats.allowed,
                denied: sum.denied + shard.stats.denied,
                keys: sum.keys + shard.len() as u64,
                bytes: sum.bytes + (shard.bytes() + size_of::<Padded>()) as u64,
                expired: sum.expired + shard.stats.expired,
                evicted: sum.evicted + shard.stats.evicted,
            }
        })
    }
}

/// The charges that are still asked at `now`, with their positions.
fn in_force<'a>(charges: &'a [Charge<'a>], now: Ticks) -> impl Iterator<Item = (usize, &'a Charge<'a>)> + Clone {
    charges.iter().enumerate().filter(move |(_, charge)| charge.until.is_none_or(|until| now < until))
}

/// Makes room in each shard for the states that the request is about to create.
fn make_room(charges: &[Charge<'_>], locked: &mut Locked<'_>, now: Ticks) -> Result<(), StoreError> {
    let keep: SmallVec<[Digest; 8]> = charges.iter().map(|charge| charge.key ^ charge.namespace).collect();
    for (index, shard) in locked.iter_mut() {
        let new = in_force(charges, now)
            .filter(|(_, charge)| shard_index(charge.key) == *index && !charge.meter.is_stateless())
            .filter(|(_, charge)| !shard.contains(charge.key ^ charge.namespace))
            .count();
        shard.make_room(now, new, &keep)?;
    }
    Ok(())
}

fn shard_index(key: Digest) -> usize {
    key.0[0] as usize % SHARDS
}

fn shard_of<'a>(locked: &'a mut Locked<'_>, key: Digest) -> &'a mut Shard {
    let index = shard_index(key);
    let (_, shard) = locked.iter_mut().find(|(locked, _)| *locked == index).expect("every shard of the request is locked");
    shard
}

/// Charges one quota if the request as a whole is allowed, and reports what is left.
fn charge_one(
    charge: &Charge<'_>,
    index: usize,
    assessment: Assessment,
    is_allowed: bool,
    state: &mut State,
    now: Ticks,
) -> (Status, Visit) {
    let is_charged = is_allowed && !charge.meter.is_stateless();
    let receipt = if is_charged { charge.meter.commit(state, now, charge.ask) } else { Receipt::Nothing };
    let status = status(charge, index, assessment, receipt, state, now);
    (status, visit(&status, is_charged))
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

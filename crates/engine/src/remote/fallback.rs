//! This instance's share of every quota, counted in this process while the store is away.
//!
//! All instances together admit no more than the rule says, if there are no more of them than the last heartbeat told (`algorithms.md` §5.3). A key
//! does not start with its whole share, for what it used before the outage still counts: it starts with this instance's part of what was last seen to
//! remain, less what the store was not told of. All of what is used counts for a whole window from then on, because nobody here knows since when it
//! does: counts of an earlier outage that run out in the meantime must not make room for what the store has admitted since. Of a key that this instance has not seen, others may have used everything: it starts with nothing, unless there are no others. Once a
//! window has passed without the store, nothing from before counts any more.
//!
//! An instance that has never reached the store knows nothing, and starts as if nothing had been used.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};
use smallvec::SmallVec;
use tidegate_core::algorithm::Receipt;
use tidegate_core::decision::{Status, Statuses};
use tidegate_core::meter::{Ask, Meter};
use tidegate_core::time::Ticks;
use tidegate_store::clock::{Clock, SystemClock, monotonic_ns};
use tidegate_store::digest::Digest;
use tidegate_store::memory::MemoryStore;
use tidegate_store::redis::io;
use tidegate_store::store::{Charge, OwnedCharge, Part, Place, Store as _};

use crate::decision::Origin;
use crate::engine::random_id;
use crate::failure::debts::Debts;
use crate::failure::instances::Instances;
use crate::failure::seen::{Seen, Start};
use crate::failure::share::InstanceId;
use crate::plan::Planned;
use crate::word::Word;

/// Counters whose admissions are told to the store when it is back.
const DEBTS_MAX: usize = 10_000;

/// When it may be worth to ask again, for those who have no share.
const NO_SHARE_RETRY: Ticks = 1_000_000_000;

/// Locks under which counters begin, so that nobody decides between two steps of it.
const BEGINNINGS: usize = 64;

/// One quota to be decided here.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Local<'a> {
    pub(crate) index: u16,
    pub(crate) planned: &'a Planned,
    pub(crate) key: Digest,
    pub(crate) place: Place,
    pub(crate) ask: Ask,
    pub(crate) part: Part,
}

/// What is counted here, and what is known for it.
#[derive(Debug)]
pub(crate) struct Fallback {
    counters: MemoryStore,
    shares: RwLock<HashMap<ShareOf, Arc<Share>>>,
    instances: Instances,
    seen: Seen,
    debts: Debts<OwnedCharge>,
    beginnings: [Mutex<()>; BEGINNINGS],
    /// When the store was last heard of; 0 if never.
    heard_at: AtomicU64,
    started_at: Ticks,
}

/// Which share: of which quota, and of how many instances.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct ShareOf {
    namespace: Digest,
    meter: u64,
    instances: u32,
}

/// What one instance may admit.
#[derive(Debug)]
struct Share {
    meter: Meter,
    sharers: u32,
}

impl Fallback {
    pub(super) fn new(keys_max: usize, instances_min: u32) -> Self {
        Self::with_clock(Clock::System(SystemClock::new()), keys_max, instances_min)
    }

    fn with_clock(clock: Clock, keys_max: usize, instances_min: u32) -> Self {
        Self {
            counters: MemoryStore::new(clock, keys_max),
            shares: RwLock::default(),
            instances: Instances::new(this_process(), instances_min),
            seen: Seen::default(),
            debts: Debts::new(DEBTS_MAX),
            beginnings: [const { Mutex::new(()) }; BEGINNINGS],
            heard_at: AtomicU64::new(0),
            started_at: monotonic_ns(),
        }
    }

    pub(super) fn instances(&self) -> &Instances {
        &self.instances
    }

    pub(super) fn debts(&self) -> &Debts<OwnedCharge> {
        &self.debts
    }

    /// The store said what remains of a counter.
    pub(super) fn saw(&self, now: Ticks, counter: Digest, word: Word) {
        self.heard_at.store(now, Ordering::Relaxed);
        self.seen.put(now, counter, word);
    }

    /// The store charged after all what was admitted here.
    pub(super) fn pay(&self, counter: Digest, cost: u64) {
        self.debts.subtract(counter, cost);
    }

    /// Gives back a slot that was lent here; `false` if there was none.
    pub(crate) fn release(&self, charge: &Charge<'_>) -> bool {
        self.lent(charge).is_some_and(|meter| self.counters.release(&Charge { meter: &meter, ..*charge }).unwrap_or(false))
    }

    /// Extends a slot that was lent here; `false` if there is none.
    pub(crate) fn renew(&self, charge: &Charge<'_>) -> bool {
        self.lent(charge).is_some_and(|meter| self.counters.renew(&Charge { meter: &meter, ..*charge }).unwrap_or(false))
    }

    /// By which meter slots of a quota were lent here, if any were.
    fn lent(&self, charge: &Charge<'_>) -> Option<Meter> {
        let shares = self.shares.read();
        let mut found = shares.iter().filter(|(of, _)| of.namespace == charge.namespace);
        found.next().map(|(_, share)| share.meter.clone())
    }

    /// Decides all together, as the store would. Waits are hints: the store may be back before.
    pub(crate) fn decide(&self, origin: Origin, asked: &[Local<'_>]) -> Statuses {
        self.decide_at(monotonic_ns(), origin, asked)
    }

    fn decide_at(&self, now: Ticks, origin: Origin, asked: &[Local<'_>]) -> Statuses {
        let shares: SmallVec<[Arc<Share>; 4]> = asked.iter().map(|local| self.share(local.planned)).collect();
        let charge = |local: &Local<'_>, share: &'_ Arc<Share>| -> OwnedCharge {
            let Local { planned, key, place, ask, part, .. } = *local;
            OwnedCharge { meter: share.meter.clone(), key, place, namespace: planned.namespace, ask, until: None, part }
        };
        let charges: SmallVec<[OwnedCharge; 4]> = asked.iter().zip(&shares).map(|(local, share)| charge(local, share)).collect();
        let has_share: SmallVec<[bool; 4]> = asked
            .iter()
            .zip(&shares)
            .zip(&charges)
            .map(|((local, share), charge)| self.begin(now, local, share, &charge.charge()))
            .collect();
        let is_denied = asked.iter().zip(&has_share).any(|(local, has_share)| local.part == Part::Enforced && !has_share);
        let charges: SmallVec<[Charge<'_>; 4]> = charges.iter().map(OwnedCharge::charge).collect();
        let verdict = match origin {
            Origin::Check if !is_denied => self.counters.check(&charges),
            Origin::Debit => self.counters.debit(&charges),
            Origin::Check | Origin::Peek => self.counters.peek(&charges),
        };
        let Ok(verdict) = verdict else { return asked.iter().map(|local| without_share(local)).collect() };
        let statuses = verdict.statuses().iter().map(|status| {
            let (local, has_share) = (&asked[usize::from(status.quota)], has_share[usize::from(status.quota)]);
            if !has_share {
                return without_share(local);
            }
            let is_counted = !matches!(status.receipt, Receipt::Nothing | Receipt::Lease { .. }) || origin == Origin::Debit;
            if is_counted && origin != Origin::Peek && local.ask.cost > 0 {
                self.owe(local);
            }
            Status { quota: local.index, retry_is_hint: true, limit: local.planned.meter.capacity(), ..*status }
        });
        statuses.collect()
    }

    /// Leaves a counter no more than this instance's part of what the store last said to remain; `false` if this instance may not admit anything.
    fn begin(&self, now: Ticks, local: &Local<'_>, share: &Share, charge: &Charge<'_>) -> bool {
        let counter = charge.counter();
        if !self.instances.is_sharer(counter, share.sharers) {
            return false;
        }
        let Some(capacity) = share.meter.capacity() else { return true };
        let _one_at_a_time = self.beginnings[usize::from(counter.0[0].to_le_bytes()[0]) % BEGINNINGS].lock();
        let Some(start) = self.start(now, local, counter) else { return true };
        if share.meter.retry_is_hint() {
            // Slots cannot be owed: so many are free that are known to be.
            let left =
                self.counters.peek(&[Charge { ask: Ask::cost(0), ..*charge }]).ok().and_then(|verdict| verdict.remaining());
            return capacity.saturating_sub(left.unwrap_or(0)) + charge.ask.cost <= start;
        }
        let used = capacity.saturating_sub(start).saturating_add(self.debts.of(counter));
        let _ = self.counters.reset(charge);
        if used > 0 {
            // What cannot be counted because the memory is full is denied in the next step.
            let _ = self.counters.debit(&[Charge { ask: Ask::cost(used), ..*charge }]);
        }
        true
    }

    /// How much a counter may have here; `None` if nothing from before the outage counts, or it was counted already.
    fn start(&self, now: Ticks, local: &Local<'_>, counter: Digest) -> Option<u64> {
        let heard_at = self.heard_at.load(Ordering::Relaxed);
        let window = local.planned.looks_back_ns(self.counters.now())?;
        if heard_at == 0 || now.saturating_sub(heard_at) >= window {
            return None;
        }
        let instances = u64::from(self.instances.count());
        let start = if local.planned.meter.retry_is_hint() {
            // Slots do not come in with time: the last word of the store stands.
            self.seen.start_level(now, counter, Some(window)).map_or(Start::Unknown, Start::Seen)
        } else {
            self.seen.apply(now, counter, window)
        };
        match start {
            Start::Seen(remaining) => Some(remaining / instances),
            Start::Applied => None,
            // Nobody else can have used it, and this instance would know.
            Start::Unknown if instances == 1 && now.saturating_sub(self.started_at) >= window => None,
            Start::Unknown => Some(0),
        }
    }

    /// Remembers what was admitted, so that it can be told to the store.
    fn owe(&self, local: &Local<'_>) {
        let Local { planned, key, place, ask, .. } = *local;
        self.debts.add(key ^ planned.namespace, ask.cost, || OwnedCharge {
            meter: planned.meter.clone(),
            key,
            place,
            namespace: planned.namespace,
            ask: Ask::cost(0),
            until: None,
            part: Part::Enforced,
        });
    }

    fn share(&self, planned: &Planned) -> Arc<Share> {
        let instances = self.instances.count();
        let of = ShareOf { namespace: planned.namespace, meter: planned.meter.fingerprint(), instances };
        if let Some(share) = self.shares.read().get(&of) {
            return Arc::clone(share);
        }
        let share = planned.quota.share(instances);
        // A quota that the store can count, this one can: its tick is finer. If not, nothing is admitted.
        let meter = self.counters.meter(&share.quota, planned.calendar.clone());
        let share = Arc::new(match meter {
            Ok(meter) => Share { meter, sharers: share.sharers },
            Err(_) => Share { meter: planned.meter.clone(), sharers: 0 },
        });
        let mut shares = self.shares.write();
        // Earlier generations and counts of instances are not asked for again.
        if shares.len() >= 4_096 {
            shares.clear();
        }
        shares.insert(of, Arc::clone(&share));
        share
    }
}

/// All limiters of a process are one instance: requests are spread over processes, not over limiters.
fn this_process() -> InstanceId {
    static KNOWN: Mutex<Option<(u64, InstanceId)>> = Mutex::new(None);
    let mut known = KNOWN.lock();
    match *known {
        Some((forks, id)) if forks == io::forks() => id,
        _ => {
            let id = InstanceId(random_id().to_be_bytes());
            *known = Some((io::forks(), id));
            id
        }
    }
}

fn without_share(local: &Local<'_>) -> Status {
    Status {
        quota: local.index,
        is_shadow: matches!(local.part, Part::Shadow(_)),
        limit: local.planned.meter.capacity(),
        remaining: Some(0),
        retry_after: Some(NO_SHARE_RETRY),
        retry_is_hint: true,
        reset_after: NO_SHARE_RETRY,
        delay: 0,
        receipt: Receipt::Nothing,
    }
}

#[cfg(test)]
mod tests;

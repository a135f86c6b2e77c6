//! Units that were taken from a shared store before anybody asked for them, and are spent without asking it.
//!
//! Only for quotas that say so (`advance 100ms`), and only for counters that are asked for often: the others would give back most of what they take.
//! Everything that is spent was charged before, at most as long ago as the quota allows, by the stricter quota of
//! [`Quota::in_advance`](tidegate_core::quota::Quota::in_advance); so nothing extra is admitted, whatever is lost, late or crashes.
//!
//! ```text
//! asked_at          store charges      answered_at
//!    |                    |                 |========== spent ==========|
//!    |----------------- advance, less what clocks may differ ---------->| until: never later, whenever the answer came
//!                         |------------------ advance ------------------------>|
//! ```
//!
//! - Each grant keeps its own deadline. With that of a later one, what is left of many could be hoarded, and spent at once on top of a full bucket.
//! - A grant belongs to the question that it answers. After a [reset](Advances::forget) the charge is gone, and so is the right to spend it.
//! - What is not spent in time is [given back](Advances::sweep) once, by its receipt.
//!
//! All of it is pure: time and randomness are passed in. Instants are nanoseconds of a clock that counts on while the machine is suspended.

mod demand;
mod holding;

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tidegate_store::digest::Digest;

use self::holding::Holding;
pub use self::holding::{Granted, Held, Unspent};
use crate::failure::random::Random;
use crate::word::Word;

/// Locks. A power of two.
const SHARDS: usize = 64;
/// Counters that are watched by each, so that strangers cannot fill the memory: the ones beyond ask for themselves.
const HOLDINGS_MAX: usize = 1_024;

/// A counter, as one quota sees it: what was charged by a quota with other numbers is not spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HoldingId {
    /// The fingerprint of the meter.
    pub meter: u64,
    /// The digest of the key combined with that of the namespace.
    pub counter: Digest,
}

impl std::hash::Hash for HoldingId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // Digests are keyed, so nobody can choose them.
        state.write_u64(self.counter.0[1] ^ self.meter);
    }
}

/// Passes on what is well mixed already.
#[derive(Debug, Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

/// One request of a counter.
#[derive(Debug, Clone, Copy)]
pub struct Asks {
    /// Which.
    pub id: HoldingId,
    /// How much.
    pub cost: u64,
    /// How early units may be taken.
    pub advance_ns: u64,
    /// How many instances share the store.
    pub instances: u32,
}

/// What becomes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Found {
    /// The units, if they were there.
    pub held: Option<Held>,
    /// More is to be asked for.
    pub wanted: Option<Wanted>,
}

/// Units that are to be asked for. Whoever is told so must tell the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// How many.
    pub units: u64,
    /// Names the question.
    pub number: u64,
}

type Holdings<H> = HashMap<HoldingId, Holding<H>, BuildHasherDefault<AsItIs>>;

/// What one process holds of all counters, for all threads. `H` is what is needed to give units back.
#[derive(Debug)]
pub struct Advances<H> {
    shards: Box<[Mutex<Holdings<H>>]>,
    numbers: AtomicU64,
    /// Questions that were not answered yet.
    asking: AtomicU64,
    /// Requests that were admitted by what was here.
    spent: AtomicU64,
    random: Mutex<Random>,
    next_shard: AtomicU64,
}

impl<H: Clone> Advances<H> {
    /// Nothing is held. Pauses after a refusal follow from the seed.
    pub fn new(seed: u64) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            numbers: AtomicU64::new(1),
            asking: AtomicU64::new(0),
            spent: AtomicU64::new(0),
            random: Mutex::new(Random::new(seed)),
            next_shard: AtomicU64::new(0),
        }
    }

    /// Spends units of a counter, if enough are here, and says whether it is time to ask for more.
    pub fn spend(&self, now: u64, asks: Asks) -> Found {
        let mut holdings = self.shard(asks.id).lock();
        if holdings.len() >= HOLDINGS_MAX && !holdings.contains_key(&asks.id) {
            return Found::default();
        }
        let holding = holdings.entry(asks.id).or_insert_with(|| Holding::new(now));
        holding.count(now, asks);
        let held = holding.take(now, asks.cost);
        let wanted = holding.wants(now, asks).map(|units| {
            let number = self.numbers.fetch_add(1, Ordering::Relaxed);
            holding.ask(number);
            self.asking.fetch_add(1, Ordering::SeqCst);
            Wanted { units, number }
        });
        Found { held, wanted }
    }

    /// What [`spend`](Self::spend) would find, without taking it.
    pub fn peek(&self, now: u64, id: HoldingId, cost: u64) -> Option<Held> {
        self.shard(id).lock().get(&id)?.find(now, cost)
    }

    /// Counts so many requests as admitted by what was here.
    pub fn count(&self, requests: u64) {
        self.spent.fetch_add(requests, Ordering::Relaxed);
    }

    /// Puts units back that were not used after all, as if they had not been taken. Those of a grant that is gone are lost.
    pub fn put_back(&self, id: HoldingId, held: Held, cost: u64) {
        if let Some(holding) = self.shard(id).lock().get_mut(&id) {
            holding.put_back(held, cost);
        }
    }

    /// The store said to somebody what is left of a counter.
    pub fn saw(&self, now: u64, id: HoldingId, word: Word) {
        if let Some(holding) = self.shard(id).lock().get_mut(&id) {
            holding.saw(now, word);
        }
    }

    /// The store gave units. What comes back cannot be spent, and is to be given back.
    #[must_use]
    pub fn granted(&self, now: u64, id: HoldingId, granted: Granted<H>) -> Option<Unspent<H>> {
        // Nobody knows the holding any more: the counter was reset, and there is nothing that could be given back.
        let unspent = self.shard(id).lock().get_mut(&id).and_then(|holding| holding.granted(now, granted));
        self.asking.fetch_sub(1, Ordering::SeqCst);
        unspent
    }

    /// The store gave none, or did not answer. It is left alone for a while.
    pub fn refused(&self, now: u64, id: HoldingId, number: u64, advance_ns: u64) {
        let pause = self.random.lock().around(advance_ns);
        if let Some(holding) = self.shard(id).lock().get_mut(&id) {
            holding.refused(number, now.saturating_add(pause));
        }
        self.asking.fetch_sub(1, Ordering::SeqCst);
    }

    /// Looks at the next so many shards: what could not be spent in time is to be given back, and who asks no more is forgotten.
    #[must_use]
    pub fn sweep(&self, now: u64, shards: usize) -> Vec<Unspent<H>> {
        let first = self.next_shard.fetch_add(shards as u64, Ordering::Relaxed);
        let mut unspent = Vec::new();
        for number in (first..).take(shards) {
            let shard = usize::try_from(number % SHARDS as u64).unwrap_or(0);
            self.shards[shard].lock().retain(|_, holding| {
                unspent.extend(holding.expired(now));
                !holding.is_idle(now)
            });
        }
        unspent
    }

    /// Everything that is held, to be given back: nothing of it is spent from here on.
    #[must_use]
    pub fn drain(&self) -> Vec<Unspent<H>> {
        let drained = |shard: &Mutex<Holdings<H>>| std::mem::take(&mut *shard.lock());
        self.shards.iter().flat_map(drained).flat_map(|(_, mut holding)| holding.expired(u64::MAX)).collect()
    }

    /// Forgets a counter that was reset, with what was taken of it, for all quotas.
    pub fn forget(&self, counter: Digest) {
        self.shards[shard_of(counter)].lock().retain(|id, _| id.counter != counter);
    }

    /// Forgets everything.
    pub fn clear(&self) {
        self.shards.iter().for_each(|shard| *shard.lock() = HashMap::default());
    }

    /// Whether a question was not answered yet.
    pub fn is_asking(&self) -> bool {
        self.asking.load(Ordering::SeqCst) > 0
    }

    /// How many requests were admitted by what was here.
    pub fn spent(&self) -> u64 {
        self.spent.load(Ordering::Relaxed)
    }

    /// How many units are here, whether there is still time to spend them or not.
    pub fn units(&self) -> u64 {
        self.shards.iter().map(|shard| shard.lock().values().map(Holding::units).sum::<u64>()).sum()
    }

    fn shard(&self, id: HoldingId) -> &Mutex<Holdings<H>> {
        &self.shards[shard_of(id.counter)]
    }
}

#[allow(clippy::cast_possible_truncation, reason = "only the low bits count")]
fn shard_of(counter: Digest) -> usize {
    counter.0[0] as usize & (SHARDS - 1)
}

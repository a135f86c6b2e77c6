//! Denials that hold without asking the store, so that who is denied costs the store nothing.
//!
//! A denial with a wait is a promise about the same cost of the same counter: it is denied until then, unless somebody gives units back. The
//! store promised at an instant between sending and receiving. Counted from sending, the wait ends no later than in the store, and so long the
//! cache denies; counted from receiving it ends no earlier, and that is what a client is told.
//!
//! ```text
//! sent_at        store decides      received_at
//!    |---- retry_after ---->|                            the cache denies before this
//!                   |---- retry_after ---->|             the store admits from here on
//!                                      |---- retry_after ---->|  what a client is told
//! ```
//!
//! What it does not see is what **other** instances give back: a refund or a reset there takes effect here after [`HOLD_MAX_NS`] at the latest.
//! It denies too much then, never too little. And what a client is told is what the store said then: if a lower cost was admitted since, the wait is
//! longer, as it is for everybody who was told before.

use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_core::decision::Status;
use tidegate_core::meter::{Ask, Receipt};
use tidegate_store::digest::Digest;

use super::SECOND;
use super::table::{Entry, Look, Table};

/// Entries unless told otherwise: some 6 MB when all are used.
pub const ENTRIES_DEFAULT: usize = 65_536;

/// After so long the store is asked again whatever it said: somebody may have reset the counter, and waits can be months.
pub const HOLD_MAX_NS: u64 = 10 * SECOND;

/// A cost above the capacity is denied for good, but the quota may change in a way that the generation does not tell.
const NEVER_HOLD_NS: u64 = SECOND;

/// What exactly was denied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DenialKey {
    /// The generation of quotas that was asked.
    pub generation: u64,
    /// The counter: the digest of the key combined with that of the namespace.
    pub counter: Digest,
    /// How much was asked for.
    pub cost: u64,
    /// The longest delay that was of use. The wait of a `leaky_bucket` depends on it.
    pub max_delay: u64,
}

impl DenialKey {
    /// What was asked of a counter.
    pub fn new(generation: u64, counter: Digest, ask: Ask) -> Self {
        Self { generation, counter, cost: ask.cost, max_delay: ask.max_delay }
    }
}

/// A denial that holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Denial {
    /// As in the status.
    pub limit: Option<u64>,
    /// What was left when the store was asked. Less than the cost; requests of a lower cost may have taken of it since.
    pub remaining: Option<u64>,
    /// When the same cost is admitted, as a client is told: `None` is never.
    pub told_until: Option<u64>,
    /// When everything is there again, as a client is told.
    pub reset_at: u64,
}

impl Denial {
    /// What the quota at this position would say now.
    pub fn status(&self, now: u64, quota: u16) -> Status {
        Status {
            quota,
            is_shadow: false,
            limit: self.limit,
            remaining: self.remaining,
            // Never 0, which would say that it is allowed.
            retry_after: self.told_until.map(|until| until.saturating_sub(now).max(1)),
            retry_is_hint: false,
            reset_after: self.reset_at.saturating_sub(now),
            delay: 0,
            receipt: Receipt::Nothing,
        }
    }
}

/// The denials of one engine, for all threads.
#[derive(Debug)]
pub struct DenyCache {
    table: Table<Held>,
    hits: AtomicU64,
}

#[derive(Debug, Clone, Copy)]
struct Held {
    key: DenialKey,
    deny_until: u64,
    denial: Denial,
}

impl Entry for Held {
    fn counter(&self) -> Digest {
        self.key.counter
    }

    fn worth(&self, now: u64) -> u64 {
        self.deny_until.saturating_sub(now)
    }
}

impl Default for DenyCache {
    fn default() -> Self {
        Self::new(ENTRIES_DEFAULT)
    }
}

impl DenyCache {
    /// A cache of at most so many denials, rounded down to a power of two, and at least 512.
    pub fn new(entries_max: usize) -> Self {
        Self { table: Table::new(entries_max), hits: AtomicU64::new(0) }
    }

    /// The denial that holds for this at `now`, if there is one. A few nanoseconds if nothing is known of the counter.
    #[inline]
    pub fn get(&self, now: u64, key: &DenialKey) -> Option<Denial> {
        let denial = self.table.find(key.counter, |held| {
            if held.deny_until <= now {
                Look::Drop
            } else if held.key == *key {
                Look::Found(held.denial)
            } else {
                Look::Other
            }
        })?;
        self.hits.fetch_add(1, Ordering::Relaxed);
        Some(denial)
    }

    /// Keeps what the store said to a call of that time.
    ///
    /// Only what is exact: a status that allows, one in shadow, or one whose wait is a hint (concurrency) is not kept. Charges that count in any
    /// case ([`Counted`](tidegate_store::store::Part::Counted)) must not be put, for their store has to be asked.
    pub fn put(&self, key: DenialKey, status: &Status, sent_at: u64, received_at: u64) {
        if status.is_allowed() || status.is_shadow || status.retry_is_hint || key.cost == 0 {
            return;
        }
        let hold = status.retry_after.map_or(NEVER_HOLD_NS, |wait| wait.min(HOLD_MAX_NS));
        let deny_until = sent_at.saturating_add(hold);
        // An answer that was longer under way than it says to wait is worth nothing.
        if deny_until <= received_at {
            return;
        }
        let denial = Denial {
            limit: status.limit,
            remaining: status.remaining,
            told_until: status.retry_after.map(|wait| received_at.saturating_add(wait)),
            reset_at: received_at.saturating_add(status.reset_after),
        };
        self.table.put(received_at, Held { key, deny_until, denial }, |held| held.key == key);
    }

    /// Forgets what was denied of a counter, for every cost: after a refund, a reset, a release.
    ///
    /// To be called when the store has answered: a denial that was decided before and is put after it is held in vain, up to its wait.
    pub fn forget(&self, counter: Digest) {
        self.table.forget(counter);
    }

    /// Forgets everything and frees the memory.
    pub fn clear(&self) {
        self.table.clear();
    }

    /// How many requests were denied from here.
    pub fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNTER: Digest = Digest([7, 9]);

    fn key(generation: u64, cost: u64) -> DenialKey {
        DenialKey::new(generation, COUNTER, Ask::cost(cost))
    }

    fn denied(retry_after: Option<u64>) -> Status {
        Status {
            quota: 0,
            is_shadow: false,
            limit: Some(10),
            remaining: Some(2),
            retry_after,
            retry_is_hint: false,
            reset_after: 50,
            delay: 0,
            receipt: Receipt::Nothing,
        }
    }

    /// A cache with one denial of cost 3 in generation 1, sent at 100 and received at 120.
    fn cache_with(status: &Status) -> DenyCache {
        let cache = DenyCache::new(0);
        cache.put(key(1, 3), status, 100, 120);
        cache
    }

    #[test]
    fn it_denies_no_longer_than_the_store_and_tells_no_less() {
        let cache = cache_with(&denied(Some(30)));

        let denial = cache.get(129, &key(1, 3)).unwrap();
        assert_eq!(denial, Denial { limit: Some(10), remaining: Some(2), told_until: Some(150), reset_at: 170 });
        assert_eq!(denial.status(129, 4), Status { quota: 4, retry_after: Some(21), reset_after: 41, ..denied(None) });
        assert_eq!(cache.get(130, &key(1, 3)), None);
        assert_eq!(cache.hits(), 1);
    }

    #[test]
    fn another_cost_generation_delay_or_counter_is_asked() {
        let cache = cache_with(&denied(Some(30)));

        assert_eq!(cache.get(125, &key(1, 4)), None);
        assert_eq!(cache.get(125, &key(2, 3)), None);
        assert_eq!(cache.get(125, &DenialKey { max_delay: 5, ..key(1, 3) }), None);
        assert_eq!(cache.get(125, &DenialKey { counter: Digest([7, 9 + 256]), ..key(1, 3) }), None);
        assert!(cache.get(125, &key(1, 3)).is_some());
    }

    #[test]
    fn never_is_said_for_a_second() {
        let cache = cache_with(&denied(None));

        assert_eq!(cache.get(SECOND + 99, &key(1, 3)).unwrap().status(SECOND, 0).retry_after, None);
        assert_eq!(cache.get(SECOND + 100, &key(1, 3)), None);
    }

    #[test]
    fn a_long_wait_is_told_in_full_and_asked_again_after_a_while() {
        let month = 30 * 86_400 * SECOND;
        let cache = cache_with(&denied(Some(month)));

        assert_eq!(cache.get(HOLD_MAX_NS + 99, &key(1, 3)).unwrap().told_until, Some(month + 120));
        assert_eq!(cache.get(HOLD_MAX_NS + 100, &key(1, 3)), None);
    }

    #[test]
    fn what_is_not_exact_is_not_kept() {
        let (shadow, hint) = (Status { is_shadow: true, ..denied(Some(30)) }, Status { retry_is_hint: true, ..denied(Some(30)) });
        for status in [denied(Some(0)), denied(Some(20)), shadow, hint] {
            assert_eq!(cache_with(&status).get(120, &key(1, 3)), None, "{status:?}");
        }
    }

    #[test]
    fn a_counter_is_forgotten_with_every_cost() {
        let cache = cache_with(&denied(Some(30)));
        cache.put(key(1, 4), &denied(Some(40)), 100, 120);
        cache.forget(COUNTER);

        assert_eq!((cache.get(121, &key(1, 3)), cache.get(121, &key(1, 4))), (None, None));
    }

    #[test]
    fn a_later_denial_takes_the_place_of_an_earlier_one() {
        let cache = cache_with(&denied(Some(30)));
        cache.put(key(1, 3), &denied(Some(25)), 125, 128);

        assert_eq!(cache.get(149, &key(1, 3)).unwrap().told_until, Some(153));
        cache.clear();
        assert_eq!(cache.get(149, &key(1, 3)), None);
    }
}

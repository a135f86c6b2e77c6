//! `concurrency`: never more than *limit* units in flight.
//!
//! **State**: one lease per holder: id, weight and expiry, about 100 bytes.
//!
//! | symbol | field | unit |
//! | --- | --- | --- |
//! | C | `limit` | units in flight |
//! | – | `ttl` | ticks that a lease lives without being renewed |
//!
//! **Rule**
//! ```text
//! acquire(id, n)  drop leases with expiry <= now ; allow iff used + n <= C ; add (id, n, now + ttl)
//! renew(id)       expiry = now + ttl, or lost if it is gone
//! release(id)     remove; a lease that is gone is no error
//! ```
//! Ids are 128 random bits made by the holder, so a repeated acquire finds its own slot and takes no second one.
//!
//! **Timeline** of `2 concurrent ttl 30s`, from `testdata/vectors/concurrency.json`:
//! ```text
//! t=0s   acquire A → allowed, 1 left
//! t=1s   acquire B → allowed, 0 left
//! t=2s   acquire C → denied, a slot expires in 28 s
//! t=20s  renew A   → held until 50 s
//! t=21s  release B
//! t=21s  acquire C → allowed, 0 left
//! ```
//!
//! **What it gets wrong**: the waiting time is only an upper estimate, for holders may finish earlier or renew. A holder that dies keeps its slot until
//! the lease expires; one that is suspended for longer than that loses it.
//!
//! **Reference**: `algorithms.md` §1.8.

use std::collections::{BTreeMap, BTreeSet};

use super::{Algorithm, Ask, Demand, Receipt, Refund};
use crate::mutant::Mutant;
use crate::time::Ticks;

/// Parameters of a `concurrency` quota.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Concurrency {
    /// Units in flight; with 0 nobody is let in, and those in flight finish.
    pub limit: u64,
    /// How long a lease lives without being renewed.
    pub ttl: Ticks,
}

/// The leases that are held.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Leases {
    held: BTreeMap<u128, Lease>,
    /// The same leases, first to expire first.
    by_expiry: BTreeSet<(Ticks, u128)>,
    used: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Lease {
    weight: u64,
    expires_at: Ticks,
}

impl Algorithm for Concurrency {
    type State = Leases;

    fn empty(&self) -> Leases {
        Leases::default()
    }

    /// Drops the leases that have expired.
    fn settle(&self, state: &mut Leases, now: Ticks) {
        while let Some(&(_, id)) = state.by_expiry.first().filter(|&&(expires_at, _)| expires_at <= now) {
            state.remove(id);
        }
    }

    /// An upper estimate: until enough leases have expired, if nobody renews or releases.
    fn retry_after(&self, state: &Leases, now: Ticks, Ask { cost, lease, .. }: Ask) -> Option<Ticks> {
        if cost <= self.limit && lease.is_some_and(|id| state.held.contains_key(&short(id))) {
            return Some(0);
        }
        if self.limit == 0 {
            return None;
        }
        let leaving = state.by_expiry.iter().map(|(expires_at, id)| (*expires_at, state.held[id].weight));
        Demand { used: state.used, limit: self.limit, cost }.wait(now, leaving)
    }

    fn remaining(&self, state: &Leases, _now: Ticks) -> u64 {
        self.limit.saturating_sub(state.used)
    }

    fn reset_after(&self, state: &Leases, now: Ticks) -> Ticks {
        if self.limit == 0 { 0 } else { self.expires_at(state).saturating_sub(now) }
    }

    /// Adds a lease; one with the same id is renewed and keeps its weight.
    fn commit(&self, state: &mut Leases, now: Ticks, Ask { cost, lease, .. }: Ask) -> Receipt {
        let Some(id) = lease.map(short) else { return Receipt::Nothing };
        if !self.renew(state, now, id) {
            state.insert(id, Lease { weight: cost, expires_at: now + self.ttl });
        }
        Receipt::Lease { id: id.to_le_bytes() }
    }

    fn expires_at(&self, state: &Leases) -> Ticks {
        state.by_expiry.last().map_or(0, |&(expires_at, _)| expires_at)
    }

    /// Slots are released, not refunded: part of a lease cannot be given back.
    fn refund(&self, _state: &mut Leases, _now: Ticks, _refund: Refund) {}

    /// An estimate: a B-tree node is filled to about two thirds.
    fn heap_bytes(state: &Leases) -> usize {
        state.held.len() * (size_of::<(u128, Lease)>() + size_of::<(Ticks, u128)>()) * 3 / 2
    }
}

impl Concurrency {
    /// Extends a lease; `false` when it is gone and its holder must stop.
    pub(crate) fn renew(&self, state: &mut Leases, now: Ticks, id: u128) -> bool {
        if Mutant::LeaseFromStart.is_active() {
            return state.held.contains_key(&short(id));
        }
        match state.remove(short(id)) {
            Some(lease) => state.insert(short(id), Lease { expires_at: now + self.ttl, ..lease }),
            None => return false,
        }
        true
    }

    /// Gives the slots back; `false` when the lease was gone already.
    pub(crate) fn release(state: &mut Leases, id: u128) -> bool {
        state.remove(short(id)).is_some()
    }
}

impl Leases {
    fn insert(&mut self, id: u128, lease: Lease) {
        self.used += lease.weight;
        self.by_expiry.insert((lease.expires_at, id));
        self.held.insert(id, lease);
    }

    fn remove(&mut self, id: u128) -> Option<Lease> {
        let lease = self.held.remove(&id)?;
        self.by_expiry.remove(&(lease.expires_at, id));
        self.used -= lease.weight;
        Some(lease)
    }
}

/// All 128 bits, but for the mutant that keeps four bytes.
fn short(id: u128) -> u128 {
    if Mutant::ShortLeaseIds.is_active() { id & u128::from(u32::MAX) } else { id }
}

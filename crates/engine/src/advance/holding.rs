//! What is held of one counter.

use smallvec::SmallVec;
use tidegate_core::algorithm::Receipt;
use tidegate_core::mutant::Mutant;

use super::Asks;
use super::demand::Demand;
use crate::word::Word;

/// So many requests in the time that units last make a counter worth it; fewer than one, and it is not any more.
const WORTH_IT: u64 = 4;
/// Grants that are held at once: one that is spent and one that follows.
const GRANTS_MAX: usize = 2;
/// How far clocks of this process and of the store may run apart, one part in so many.
const DRIFT: u64 = 1_000;
/// A holding that nobody asked for so many times `advance` is forgotten.
const IDLE: u64 = 4;

/// What the store gave.
#[derive(Debug, Clone)]
pub struct Granted<H> {
    /// Names the question.
    pub number: u64,
    /// How many units.
    pub units: u64,
    /// When they were asked for, before anything was sent.
    pub asked_at: u64,
    /// How early they may be taken.
    pub advance_ns: u64,
    /// How long they count at least, from the question on, if they end with a window.
    pub ends_after: Option<u64>,
    /// Where the charge went.
    pub receipt: Receipt,
    /// What the store said is left.
    pub word: Word,
    /// What is needed to give units back.
    pub handle: H,
}

/// Units of a request that were here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// What is left, here and in the store when it last said so.
    pub remaining: u64,
    /// The wait until everything is there again.
    pub reset_after: u64,
    /// Where the charge went.
    pub receipt: Receipt,
    /// Of which grant.
    grant: u64,
}

/// Units that are to be given back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unspent<H> {
    /// How many.
    pub units: u64,
    /// Where the charge went.
    pub receipt: Receipt,
    /// What else is needed for it.
    pub handle: H,
}

#[derive(Debug)]
pub(super) struct Holding<H> {
    demand: Demand,
    is_worth_it: bool,
    /// The oldest first.
    grants: SmallVec<[Grant<H>; GRANTS_MAX]>,
    /// The question that was not answered yet.
    asking: Option<u64>,
    /// Until then nothing is asked.
    quiet_until: u64,
    /// How many units came last.
    last: u64,
    left: u64,
    /// When the store said that, by its own clock.
    said_at: u64,
    reset_at: u64,
    idle_at: u64,
}

#[derive(Debug)]
struct Grant<H> {
    number: u64,
    units: u64,
    /// To be spent before.
    until: u64,
    receipt: Receipt,
    handle: H,
}

impl<H: Clone> Holding<H> {
    pub(super) fn new(now: u64) -> Self {
        Self {
            demand: Demand::new(now),
            is_worth_it: false,
            grants: SmallVec::new(),
            asking: None,
            quiet_until: 0,
            last: 0,
            left: 0,
            said_at: 0,
            reset_at: 0,
            idle_at: now,
        }
    }

    pub(super) fn count(&mut self, now: u64, Asks { cost, advance_ns, .. }: Asks) {
        self.demand.count(now, cost, advance_ns);
        self.idle_at = self.demand.since().saturating_add(IDLE * advance_ns);
    }

    /// The units of a request, if one grant has them all: then they have one receipt.
    pub(super) fn find(&self, now: u64, cost: u64) -> Option<Held> {
        let grant = self.grants.iter().find(|grant| now < grant.until && grant.units >= cost)?;
        Some(self.held(now, grant))
    }

    /// The same, and takes them.
    pub(super) fn take(&mut self, now: u64, cost: u64) -> Option<Held> {
        let grant = self.grants.iter_mut().find(|grant| now < grant.until && grant.units >= cost)?;
        grant.units -= cost;
        let number = grant.number;
        self.grants.iter().find(|grant| grant.number == number).map(|grant| self.held(now, grant))
    }

    fn held(&self, now: u64, grant: &Grant<H>) -> Held {
        Held {
            remaining: self.left.saturating_add(self.live(now)),
            reset_after: self.reset_at.saturating_sub(now),
            receipt: grant.receipt,
            grant: grant.number,
        }
    }

    pub(super) fn put_back(&mut self, held: Held, cost: u64) {
        if let Some(grant) = self.grants.iter_mut().find(|grant| grant.number == held.grant) {
            grant.units += cost;
        }
    }

    /// How many units to ask for: what is spent in half of the time that they last, and no more than a fair part of what is left for all.
    pub(super) fn wants(&mut self, now: u64, Asks { cost, instances, .. }: Asks) -> Option<u64> {
        let demand = self.demand.per_span();
        self.is_worth_it = demand >= cost.saturating_mul(if self.is_worth_it { 1 } else { WORTH_IT });
        let is_enough = u128::from(self.live(now)) * 10 > u128::from(self.last) * 3;
        if !self.is_worth_it || is_enough || self.asking.is_some() || now < self.quiet_until {
            return None;
        }
        let fair = self.left / (2 * u64::from(instances.max(1)));
        // For one request the store can as well be asked by itself.
        Some((demand / 2).min(fair)).filter(|&units| units >= cost.saturating_mul(2))
    }

    pub(super) fn ask(&mut self, number: u64) {
        self.asking = Some(number);
    }

    pub(super) fn saw(&mut self, now: u64, word: Word) {
        if !word.is_overtaken(self.said_at, self.left) {
            (self.said_at, self.left) = (word.said_at, word.left);
            self.reset_at = now.saturating_add(word.reset_after);
        }
    }

    pub(super) fn granted(&mut self, now: u64, granted: Granted<H>) -> Option<Unspent<H>> {
        let Granted { number, units, asked_at, advance_ns, ends_after, receipt, word, handle } = granted;
        // An answer to a question of before the counter was reset: its charge is gone.
        if self.asking != Some(number) {
            return None;
        }
        self.asking = None;
        self.last = units;
        self.saw(now, word);
        let ends_after = ends_after.filter(|_| !Mutant::AdvanceOutlivesWindow.is_active());
        let lasts = ends_after.map_or(advance_ns, |ends_after| ends_after.min(advance_ns));
        let until = if Mutant::AdvanceFromTheAnswer.is_active() { now } else { asked_at } + lasts - lasts / DRIFT;
        if until <= now {
            return Some(Unspent { units, receipt, handle });
        }
        if Mutant::AdvanceMergesDeadlines.is_active() {
            self.grants.iter_mut().for_each(|grant| grant.until = until);
        }
        // Of three the oldest is hardly more than a rest, too small for the last request.
        let oldest = if self.grants.len() < GRANTS_MAX { None } else { self.take_out(0) };
        self.grants.push(Grant { number, units, until, receipt, handle });
        oldest
    }

    pub(super) fn refused(&mut self, number: u64, quiet_until: u64) {
        if self.asking == Some(number) {
            (self.asking, self.quiet_until) = (None, quiet_until);
        }
    }

    /// Takes out what cannot be spent any more.
    pub(super) fn expired(&mut self, now: u64) -> Vec<Unspent<H>> {
        let mut expired = Vec::new();
        while let Some(position) = self.grants.iter().position(|grant| grant.until <= now) {
            expired.extend(self.take_out(position));
        }
        expired
    }

    /// Whether nothing would be lost with it.
    pub(super) fn is_idle(&self, now: u64) -> bool {
        self.grants.is_empty() && self.asking.is_none() && self.idle_at < now
    }

    pub(super) fn units(&self) -> u64 {
        self.grants.iter().map(|grant| grant.units).sum()
    }

    fn live(&self, now: u64) -> u64 {
        self.grants.iter().filter(|grant| now < grant.until).map(|grant| grant.units).sum()
    }

    fn take_out(&mut self, position: usize) -> Option<Unspent<H>> {
        let Grant { number, units, until, receipt, handle } = self.grants.remove(position);
        if Mutant::AdvanceSpendsReturned.is_active() && until < u64::MAX {
            self.grants.push(Grant { number, units, until: u64::MAX, receipt, handle: handle.clone() });
        }
        (units > 0).then_some(Unspent { units, receipt, handle })
    }
}

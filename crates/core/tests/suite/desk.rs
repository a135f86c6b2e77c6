//! The desk at which histories are played: one key under a family of quotas, treated as a store treats it.

use tidegate_core::algorithm::{Receipt, Refund};
use tidegate_core::decision::Status;
use tidegate_core::meter::{Ask, Meter, State};
use tidegate_core::time::{TICKS_MAX, Ticks};

use super::history::{Amount, History, Step, Wait};
use super::quotas::Kind;

/// A charge that was admitted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Charged {
    pub(crate) receipt: Receipt,
    pub(crate) lease: u128,
    pub(crate) cost: u64,
    /// Units given back already.
    pub(crate) given_back: u64,
    /// Whether the receipt still means the same: see [`Meter::refunds`].
    pub(crate) is_valid: bool,
}

/// What one step came to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Event {
    Checked {
        cost: u64,
        status: Status,
    },
    Debited,
    /// Which charge, and how many units of it.
    Refunded {
        charge: usize,
        units: u64,
    },
    Moved,
    Loaded,
}

/// What can be asked without taking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) retry_after: Option<Ticks>,
    pub(crate) delay: Ticks,
    pub(crate) remaining: Option<u64>,
    pub(crate) reset_after: Ticks,
}

/// One key under a family of quotas: does what a store does.
#[derive(Debug, Clone)]
pub(crate) struct Desk {
    pub(crate) kind: Kind,
    pub(crate) meters: Vec<Meter>,
    pub(crate) loaded: usize,
    pub(crate) state: State,
    pub(crate) now: Ticks,
    /// The sum of all moves forward: a time that never goes back.
    pub(crate) elapsed: Ticks,
    pub(crate) charges: Vec<Charged>,
    pub(crate) window: Ticks,
    pub(crate) retry_after: Ticks,
}

impl Desk {
    pub(crate) fn open(history: &History) -> Self {
        let meters = history.family.meters();
        let state = meters[0].empty();
        let (kind, window, now) = (history.family.kind, history.family.window, history.start);
        Self { kind, meters, loaded: 0, state, now, elapsed: 0, charges: Vec::new(), window, retry_after: 0 }
    }

    pub(crate) fn meter(&self) -> &Meter {
        &self.meters[self.loaded]
    }

    pub(crate) fn play(&mut self, step: Step) -> Event {
        match step {
            Step::Check(amount) => {
                let cost = self.units(amount);
                Event::Checked { cost, status: self.check(cost) }
            }
            Step::Debit(cost) => {
                self.meters[self.loaded].debit(&mut self.state, self.now, cost);
                Event::Debited
            }
            Step::Refund(charge, units) => self.refund(charge, units),
            Step::Forward(wait) => {
                let ticks = self.ticks(wait).min(TICKS_MAX - self.now);
                self.now += ticks;
                self.elapsed += ticks;
                Event::Moved
            }
            Step::Back(wait) => {
                self.now = self.now.saturating_sub(self.ticks(wait));
                Event::Moved
            }
            Step::Load(quota) => {
                self.load(quota % self.meters.len());
                Event::Loaded
            }
        }
    }

    pub(crate) fn check(&mut self, cost: u64) -> Status {
        let lease = self.next_lease();
        let status = self.meters[self.loaded].decide(&mut self.state, self.now, ask(cost, lease));
        match status.retry_after {
            Some(0) => self.charges.push(Charged { receipt: status.receipt, lease, cost, given_back: 0, is_valid: true }),
            wait => self.retry_after = wait.unwrap_or(0),
        }
        status
    }

    /// Does what happened at another desk, which is at the same time.
    pub(crate) fn follow(&mut self, other: &Self, step: Step, event: Event) {
        match event {
            Event::Checked { cost, .. } => {
                self.check(cost);
            }
            Event::Debited => {
                self.play(step);
            }
            Event::Refunded { charge, units } => {
                self.refund(charge, units);
            }
            Event::Loaded => self.load(other.loaded),
            Event::Moved => {}
        }
        (self.now, self.elapsed) = (other.now, other.elapsed);
    }

    /// Asks without taking, as of `now + wait`, and forgets that it was asked.
    pub(crate) fn answer(&self, wait: Ticks, cost: u64) -> Answer {
        let (mut state, now) = (self.state.clone(), self.now + wait);
        let assessment = self.meter().assess(&mut state, now, ask(cost, self.next_lease()));
        let left = self.meter().left(&state, now);
        Answer {
            retry_after: assessment.retry_after,
            delay: assessment.delay,
            remaining: left.remaining,
            reset_after: left.reset_after,
        }
    }

    pub(crate) fn admits(&self, wait: Ticks, cost: u64) -> bool {
        self.answer(wait, cost).retry_after == Some(0)
    }

    pub(crate) fn remaining(&self) -> u64 {
        self.answer(0, 0).remaining.expect("a limited quota")
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.meter().capacity().expect("a limited quota")
    }

    pub(crate) fn units(&self, amount: Amount) -> u64 {
        match amount {
            Amount::Units(units) => units,
            Amount::Remaining(more) => (self.remaining() + more).max(1),
            Amount::Capacity(more) => self.capacity() + more,
        }
    }

    /// Gives units of a charge back, as many as are left of it.
    pub(crate) fn refund(&mut self, charge: usize, units: u64) -> Event {
        let Some(charge) = charge.checked_rem(self.charges.len()) else { return Event::Moved };
        let charged = &mut self.charges[charge];
        let meter = &self.meters[self.loaded];
        if self.kind == Kind::Concurrency {
            let is_held = meter.release(&mut self.state, self.now, charged.lease);
            return if is_held { Event::Refunded { charge, units: charged.cost } } else { Event::Moved };
        }
        let units = units.min(charged.cost - charged.given_back);
        if units == 0 || !charged.is_valid {
            return Event::Moved;
        }
        let refund = Refund { receipt: charged.receipt, cost: units };
        meter.refund(&mut self.state, self.now, refund);
        charged.given_back += units;
        Event::Refunded { charge, units }
    }

    pub(crate) fn load(&mut self, quota: usize) {
        let is_same = self.meters[quota].refunds(self.meter());
        self.charges.iter_mut().for_each(|charged| charged.is_valid &= is_same);
        self.loaded = quota;
    }

    fn ticks(&self, wait: Wait) -> Ticks {
        match wait {
            Wait::Ticks(ticks) => ticks,
            Wait::Eighths(eighths) => self.window * eighths / 8,
            Wait::Retry(more) => self.retry_after.saturating_add_signed(more),
            Wait::Reset(more) => self.answer(0, 0).reset_after.saturating_add_signed(more),
        }
    }

    /// Ids that differ in their upper halves only.
    pub(crate) fn next_lease(&self) -> u128 {
        (self.charges.len() as u128 + 1) << 64
    }
}

/// A cost, and a lease for the quotas that want one.
pub(crate) fn ask(cost: u64, lease: u128) -> Ask {
    Ask { lease: Some(lease), ..Ask::cost(cost) }
}

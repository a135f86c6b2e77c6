//! Random histories, and the desk at which they are played.
//!
//! A history is mostly relative: "wait until the denial said, less a tick", "ask for one more than remains". So short random lists meet the edges that
//! absolute times and costs would miss.

use std::fmt;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::Union;
use tidegate_core::algorithm::{Receipt, Refund};
use tidegate_core::decision::Status;
use tidegate_core::meter::{Ask, Meter, State};
use tidegate_core::time::{TICKS_MAX, Ticks};

use super::quotas::{Family, Kind, Options, families};

/// One event.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Step {
    Check(Amount),
    Debit(u64),
    /// Gives so many units of an earlier charge back; a slot is given back as a whole.
    Refund(usize, u64),
    Forward(Wait),
    Back(Wait),
    /// Another quota of the family takes over.
    Load(usize),
}

/// How much is asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Amount {
    Units(u64),
    /// What remains, and this much more.
    Remaining(u64),
    /// The capacity, and this much more.
    Capacity(u64),
}

/// How far the clock moves.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Wait {
    Ticks(u64),
    /// In eighths of a window.
    Eighths(u64),
    /// As the last denial said, and so many ticks.
    Retry(i64),
    /// Until everything is back, and so many ticks.
    Reset(i64),
}

/// Which events a history may have besides checks and a clock that moves on.
#[derive(Debug, Clone, Copy, Default)]
#[allow(clippy::struct_excessive_bools, reason = "each says whether a kind of event may happen")]
pub(crate) struct Events {
    pub(crate) debits: bool,
    pub(crate) refunds: bool,
    pub(crate) back: bool,
    pub(crate) loads: bool,
}

impl Events {
    pub(crate) const ALL: Self = Self { debits: true, refunds: true, back: true, loads: true };
    pub(crate) const FORWARD: Self = Self { back: false, ..Self::ALL };
}

/// A family of quotas, when it begins, and what happens.
#[derive(Clone)]
pub(crate) struct History {
    pub(crate) family: Family,
    pub(crate) start: Ticks,
    pub(crate) steps: Vec<Step>,
}

/// On one line, however it is asked for.
impl fmt::Debug for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} from {}: {:?}", self.family, self.start, self.steps)
    }
}

/// Random histories.
pub(crate) fn histories(options: Options, events: Events) -> impl Strategy<Value = History> {
    (families(options), starts(), vec(steps(events), 1..40)).prop_map(|(family, start, steps)| History { family, start, steps })
}

/// The beginning of time, today, and its end.
pub(crate) fn starts() -> impl Strategy<Value = Ticks> {
    let today = 1_767_225_600_000_000_000_u64;
    prop_oneof![1 => 0..200_u64, 3 => today..today + 100_000, 1 => TICKS_MAX - 500_000..=TICKS_MAX]
}

fn steps(events: Events) -> impl Strategy<Value = Step> {
    let mut choices = vec![(8, amounts().prop_map(Step::Check).boxed()), (6, waits().prop_map(Step::Forward).boxed())];
    if events.debits {
        choices.push((1, (0..=12_u64).prop_map(Step::Debit).boxed()));
    }
    if events.refunds {
        choices.push((
            3,
            (any::<prop::sample::Index>(), 1..=4_u64).prop_map(|(of, units)| Step::Refund(of.index(64), units)).boxed(),
        ));
    }
    if events.back {
        choices.push((2, waits().prop_map(Step::Back).boxed()));
    }
    if events.loads {
        choices.push((1, (0..3_usize).prop_map(Step::Load).boxed()));
    }
    Union::new_weighted(choices)
}

pub(crate) fn amounts() -> impl Strategy<Value = Amount> {
    prop_oneof![
        5 => (1..=4_u64).prop_map(Amount::Units),
        3 => (0..=1_u64).prop_map(Amount::Remaining),
        1 => (0..=1_u64).prop_map(Amount::Capacity),
    ]
}

pub(crate) fn waits() -> impl Strategy<Value = Wait> {
    prop_oneof![
        2 => (0..=3_u64).prop_map(Wait::Ticks),
        1 => (1..=200_u64).prop_map(Wait::Ticks),
        3 => (1..=20_u64).prop_map(Wait::Eighths),
        3 => (-1..=1_i64).prop_map(Wait::Retry),
        1 => (-1..=1_i64).prop_map(Wait::Reset),
    ]
}

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
        let refund = Refund { receipt: charged.receipt, before: charged.given_back, cost: units };
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

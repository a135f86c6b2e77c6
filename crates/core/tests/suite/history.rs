//! Random histories.
//!
//! A history is mostly relative: "wait until the denial said, less a tick", "ask for one more than remains". So short random lists meet the edges that
//! absolute times and costs would miss.

use std::fmt;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::Union;
use tidegate_core::time::{TICKS_MAX, Ticks};

use super::quotas::{Family, Options, families};

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

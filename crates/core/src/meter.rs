//! A quota compiled for a clock's tick: one face over all algorithms.
//!
//! ```
//! use tidegate_core::meter::{Ask, Meter};
//! use tidegate_core::time::Tick;
//!
//! let quota = "2/minute".parse().unwrap();
//! let meter = Meter::new(&quota, Tick::NANOSECOND, None).unwrap();
//! let (mut state, now) = (meter.empty(), 1_000_000_000);
//!
//! assert_eq!(meter.decide(&mut state, now, Ask::cost(2)).retry_after, Some(0));
//! assert_eq!(meter.decide(&mut state, now, Ask::cost(1)).retry_after, Some(60_000_000_000));
//! assert_eq!(meter.decide(&mut state, now, Ask::cost(3)).retry_after, None); // never
//! ```

mod compile;
mod decide;
mod parameters;
mod state;

pub use compile::MeterError;
pub use parameters::Parameters;
pub use state::State;

use decide::Work;
use state::{Kernel, Stored, Usage, with_kernel, with_state};

use crate::algorithm::Algorithm as _;
use crate::algorithm::concurrency::Concurrency;
pub use crate::algorithm::{Admission, Ask, Receipt, Refund};
use crate::decision::Status;
use crate::mutant::Mutant;
use crate::time::{Tick, Ticks};

/// A quota that can decide: parameters in ticks. Immutable and shared by all keys.
#[derive(Debug, Clone)]
pub struct Meter {
    kernel: Kernel,
    min_interval: Ticks,
    capacity: Option<u64>,
    advance_ns: u64,
    tick: Tick,
    fingerprint: u64,
}

/// Whether a request fits, before it is charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Assessment {
    /// The smallest wait until it fits: 0 is now, `None` never.
    pub retry_after: Option<Ticks>,
    /// `leaky_bucket`: when it may start, counted from now.
    pub delay: Ticks,
}

/// What is left of a quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Left {
    /// The largest cost that is admitted now; `None` is unlimited.
    pub remaining: Option<u64>,
    /// The wait until everything is there again.
    pub reset_after: Ticks,
}

/// A state as small as it can be.
#[derive(Debug, Clone, PartialEq)]
pub enum Packed {
    /// It fits two numbers: see [`Meter::pack`].
    Words([u64; 2]),
    /// Anything larger.
    State(State),
}

impl Meter {
    /// The tick that it was compiled for: the unit of its times.
    pub fn tick(&self) -> Tick {
        self.tick
    }

    /// The smallest gap between two admitted requests of one key; 0 when there is none.
    pub fn min_interval(&self) -> Ticks {
        self.min_interval
    }

    /// How many nanoseconds before they are spent units may be taken; 0 if each request takes its own.
    pub fn advance_ns(&self) -> u64 {
        self.advance_ns
    }

    /// The same meter, of which units may be taken in advance: it must be that of [`Quota::in_advance`](crate::quota::Quota::in_advance).
    #[must_use]
    pub fn with_advance(self, advance_ns: u64) -> Self {
        let advance_ns = if self.is_stateless() { 0 } else { advance_ns };
        Self { advance_ns, ..self }
    }

    /// The most that can be taken at once when nothing is used; `None` is unlimited.
    pub fn capacity(&self) -> Option<u64> {
        self.capacity
    }

    /// Whether the waiting time of a denial is an upper estimate only.
    pub fn retry_is_hint(&self) -> bool {
        matches!(self.kernel, Kernel::Concurrency(_))
    }

    /// A number that meters with the same parameters share, and others almost never.
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// Whether receipts of `charged`, an earlier meter of the same counters, still mean the same here.
    ///
    /// Not for a bucket whose rate was changed, also to 0, or whose burst was lowered.
    pub fn refunds(&self, charged: &Self) -> bool {
        match (&self.kernel, &charged.kernel) {
            (Kernel::Gcra(new), Kernel::Gcra(old)) => new.refunds(old),
            (Kernel::LeakyBucket(new), Kernel::LeakyBucket(old)) => new.refunds(old),
            (Kernel::Gcra(_) | Kernel::LeakyBucket(_), _) | (_, Kernel::Gcra(_) | Kernel::LeakyBucket(_)) => false,
            _ => true,
        }
    }

    /// Whether there is nothing to remember: unlimited, or never admitted. A store must not touch the counters for it, which an earlier
    /// generation of the quota may have left.
    pub fn is_stateless(&self) -> bool {
        matches!(self.kernel, Kernel::Unlimited(_) | Kernel::Closed(_))
    }

    /// The state of a key that was never seen.
    pub fn empty(&self) -> State {
        self.unpack([0, 0])
    }

    /// Settles the state, charges it if `ask` fits, and says what is left.
    ///
    /// Settling is not a charge: it drops what no longer counts, and clamps what only a clock that went back can explain. Keep the settled
    /// state even when the request is denied, otherwise the waiting time it was told would not come true after such a step.
    pub fn decide(&self, state: &mut State, now: Ticks, ask: Ask) -> Status {
        let State { usage, last_admitted } = state;
        with_state!(self, usage, |kernel, usage| Work { meter: self, kernel, usage, last_admitted, now }.decide(ask))
    }

    /// The same for a packed state, in one step.
    pub fn decide_packed(&self, words: [u64; 2], now: Ticks, ask: Ask) -> (Status, Packed) {
        with_kernel!(self, |kernel| {
            let (mut usage, mut last_admitted) = (kernel.unpack(words), None);
            let status = Work { meter: self, kernel, usage: &mut usage, last_admitted: &mut last_admitted, now }.decide(ask);
            (status, pack(kernel, usage, last_admitted))
        })
    }

    /// The usual case of [`decide_packed`](Self::decide_packed) in few instructions. `None` says nothing: then that one decides.
    #[inline]
    pub fn admit(&self, words: [u64; 2], now: Ticks, ask: Ask) -> Option<Admission> {
        match &self.kernel {
            Kernel::Gcra(kernel) if self.min_interval == 0 => kernel.admit(words, now, ask),
            _ => None,
        }
    }

    /// What is to be said of an admission.
    #[inline]
    pub fn admitted(&self, Admission { remaining, reset_after, receipt, .. }: Admission) -> Status {
        Status {
            quota: 0,
            is_shadow: false,
            limit: self.capacity,
            remaining: Some(remaining),
            retry_after: Some(0),
            retry_is_hint: false,
            reset_after,
            delay: 0,
            receipt,
        }
    }

    /// Settles the state and answers whether `ask` fits into it. Charges nothing: the first half of `decide`.
    pub fn assess(&self, state: &mut State, now: Ticks, ask: Ask) -> Assessment {
        let State { usage, last_admitted } = state;
        with_state!(self, usage, |kernel, usage| {
            let mut work = Work { meter: self, kernel, usage, last_admitted, now };
            work.settle();
            let retry_after = work.retry_after(ask);
            if Mutant::ChargesDenied.is_active() && retry_after != Some(0) {
                work.commit(ask);
            }
            Assessment { retry_after, delay: work.delay(retry_after) }
        })
    }

    /// Settles and charges a state for an admitted request: the second half of `decide`.
    ///
    /// The state need not be the one that was assessed: a store that kept nothing of a new key shows an empty one again.
    pub fn commit(&self, state: &mut State, now: Ticks, ask: Ask) -> Receipt {
        let State { usage, last_admitted } = state;
        with_state!(self, usage, |kernel, usage| {
            let mut work = Work { meter: self, kernel, usage, last_admitted, now };
            work.settle();
            work.commit(ask)
        })
    }

    /// What is left in a settled state.
    pub fn left(&self, state: &State, now: Ticks) -> Left {
        let State { usage, last_admitted } = state;
        with_state!(self, usage, |kernel, usage| decide::left(self, kernel, usage, *last_admitted, now))
    }

    /// Charges without asking and without counting as a request; stops at the quota's `max_debt`. Slots cannot be owed.
    pub fn debit(&self, state: &mut State, now: Ticks, cost: u64) {
        self.settle(state, now);
        if cost > 0 && !self.retry_is_hint() {
            with_state!(self, &mut state.usage, |kernel, usage| kernel.commit(usage, now, Ask::cost(cost)));
        }
    }

    /// Gives back what still counts of a charge. Slots are not touched: they are released.
    pub fn refund(&self, state: &mut State, now: Ticks, refund: Refund) {
        self.settle(state, now);
        with_state!(self, &mut state.usage, |kernel, usage| kernel.refund(usage, now, refund));
    }

    /// Extends a lease; `false` when it is lost.
    pub fn renew(&self, state: &mut State, now: Ticks, lease: u128) -> bool {
        self.settle(state, now);
        match (&self.kernel, &mut state.usage) {
            (Kernel::Concurrency(kernel), Usage::Concurrency(leases)) => kernel.renew(leases, now, lease),
            _ => false,
        }
    }

    /// Gives a lease back; `false` when it was unknown, which is no error.
    pub fn release(&self, state: &mut State, now: Ticks, lease: u128) -> bool {
        self.settle(state, now);
        match &mut state.usage {
            Usage::Concurrency(leases) => Concurrency::release(leases, lease),
            _ => false,
        }
    }

    /// From here on the state answers like [`empty`](Self::empty) and may be dropped.
    pub fn expires_at(&self, state: &State) -> Ticks {
        let gap_end = state.last_admitted.map_or(0, |last| last + self.min_interval);
        let expires_at = with_state!(self, &state.usage, |kernel, usage| kernel.expires_at(usage));
        expires_at.max(gap_end)
    }

    /// The state as two numbers, for stores that keep small states inline; `None` when it needs more.
    ///
    /// The first number is when the state may be dropped, so a store can sweep without knowing the quota. Two zeros are the empty state.
    pub fn pack(&self, state: &State) -> Option<[u64; 2]> {
        with_state!(self, &state.usage, |kernel, usage| kernel.pack(usage)).filter(|_| state.last_admitted.is_none())
    }

    /// The reverse of [`pack`](Self::pack), with a meter of the same algorithm and window.
    pub fn unpack(&self, words: [u64; 2]) -> State {
        fn state<A: Stored>(kernel: &A, words: [u64; 2]) -> State {
            State { usage: A::usage(kernel.unpack(words)), last_admitted: None }
        }
        with_kernel!(self, |kernel| state(kernel, words))
    }

    fn settle(&self, state: &mut State, now: Ticks) {
        let State { usage, last_admitted } = state;
        with_state!(self, usage, |kernel, usage| Work { meter: self, kernel, usage, last_admitted, now }.settle());
    }
}

fn pack<A: Stored>(kernel: &A, usage: A::State, last_admitted: Option<Ticks>) -> Packed {
    match kernel.pack(&usage).filter(|_| last_admitted.is_none()) {
        Some(words) => Packed::Words(words),
        None => Packed::State(State { usage: A::usage(usage), last_admitted }),
    }
}

//! The circuit breaker of one shard primary: a store that fails is not asked, and one that may have recovered is tried with care.
//!
//! ```text
//! CLOSED     every call is sent       opens if of 20 calls or more within a second half failed or 80 % were slow,
//!                                     or after 5 failures in a row within 500 ms or 10 budgets
//! OPEN       none is                  for min(10 s, 250 ms * 2^k), by chance up to half more or less
//! HALF_OPEN  one at a time, a probe   3 answers: RAMP; a failure: OPEN with k + 1
//! RAMP       1 %, then 5, then 25     200 ms each, by chance up to half more or less, then CLOSED; a failure: OPEN with k + 1
//! ```
//!
//! After 30 s in CLOSED k is 0 again. Chance keeps the instances of a fleet apart, which all lost the store at the same moment.
//!
//! ```
//! use tidegate_engine::failure::breaker::{Admit, Breaker, BreakerState, Outcome};
//!
//! let breaker = Breaker::new(5_000_000, 42);
//! for now in 0..5 {
//!     let Admit::Send(token) = breaker.admit(now) else { panic!("closed") };
//!     breaker.record(now, token, Outcome::Failed);
//! }
//!
//! assert!(matches!(breaker.admit(5), Admit::Refuse { .. }));
//! assert!(matches!(breaker.admit(400_000_000), Admit::Probe(_)));
//! assert_eq!(breaker.state(400_000_000), BreakerState::HalfOpen);
//! ```

mod machine;
mod window;

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use machine::Machine;

/// One per shard primary; shared by all threads that call it.
#[derive(Debug)]
pub struct Breaker {
    /// The generation of calls while the breaker is closed, else [`NOT_CLOSED`]: the usual call asks nothing but this.
    closed: AtomicU64,
    // A lock and no counters without one: outcomes come at the pace of a network, and what they change is more than one number.
    machine: Mutex<Machine>,
}

/// No generation has this number.
const NOT_CLOSED: u64 = 0;

/// Whether a call may be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admit {
    /// It may. Its outcome is to be recorded with the token.
    Send(Token),
    /// It may, and is the only one: what happens next hangs on its outcome.
    Probe(Token),
    /// It may not: decide without the store.
    Refuse {
        /// When it is worth to ask again, in nanoseconds. Never 0 for an open breaker.
        retry_after: u64,
    },
}

impl Admit {
    /// What the outcome is recorded with; `None` if there is no call.
    pub fn token(self) -> Option<Token> {
        match self {
            Self::Send(token) | Self::Probe(token) => Some(token),
            Self::Refuse { .. } => None,
        }
    }
}

/// Ties an outcome to the state in which its call was sent: late outcomes do not disturb later states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token {
    generation: u64,
}

/// What a call came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The store decided, whatever it decided.
    Ok {
        /// From sending to the answer. More than the budget is slow.
        took_ns: u64,
    },
    /// No answer in time, no connection, or the store said that it cannot work.
    Failed,
    /// Neither: sent elsewhere, cancelled by the caller, wrong arguments. Counts for nothing, and makes room for the next probe.
    NotAFailure,
}

/// How things stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakerState {
    /// Every call is sent.
    Closed,
    /// No call is sent.
    Open {
        /// When the store is tried again.
        until: u64,
    },
    /// One probe at a time.
    HalfOpen,
    /// The store has answered the probes, and gets a share of the calls.
    Ramp {
        /// How large a share.
        percent: u8,
    },
}

impl BreakerState {
    /// A word for health and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open { .. } => "open",
            Self::HalfOpen => "half_open",
            Self::Ramp { .. } => "ramp",
        }
    }
}

/// Why a breaker opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenReason {
    /// Half of the calls of a second failed.
    Failures,
    /// Four of five calls of a second were slow.
    Slow,
    /// Five calls in a row failed.
    Consecutive,
    /// A probe failed or was slow.
    Probe,
    /// A call failed while the share of calls was being raised.
    Ramp,
}

impl OpenReason {
    /// A word for health and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Failures => "failures",
            Self::Slow => "slow",
            Self::Consecutive => "consecutive_failures",
            Self::Probe => "probe_failed",
            Self::Ramp => "ramp_failed",
        }
    }
}

/// One opening of a breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opening {
    /// Why.
    pub reason: OpenReason,
    /// When.
    pub at: u64,
    /// When the breaker was last closed: before this opening, or before the first of those that followed each other.
    pub since: u64,
}

impl Breaker {
    /// A closed breaker. Answers that take longer than `budget_ns` are slow; `seed` is the chance of this instance and shard.
    pub fn new(budget_ns: u64, seed: u64) -> Self {
        let machine = Machine::new(budget_ns, seed);
        Self { closed: AtomicU64::new(machine.generation_closed().unwrap_or(NOT_CLOSED)), machine: Mutex::new(machine) }
    }

    /// Whether a call may be sent now. A few nanoseconds while closed.
    ///
    /// Every token should come back with [`record`](Self::record); a probe that does not is given up after a second.
    #[inline]
    pub fn admit(&self, now: u64) -> Admit {
        match self.closed.load(Ordering::Acquire) {
            NOT_CLOSED => self.with(|machine| machine.admit(now, None)),
            generation => Admit::Send(Token { generation }),
        }
    }

    /// The same for the call of a key: while only a share of the calls is sent, a key has either all of them sent or none. Otherwise the store and the
    /// fallback would both count it, and neither would know of the other.
    #[inline]
    pub fn admit_key(&self, now: u64, key: u64) -> Admit {
        match self.closed.load(Ordering::Acquire) {
            NOT_CLOSED => self.with(|machine| machine.admit(now, u8::try_from(key % 100).ok())),
            generation => Admit::Send(Token { generation }),
        }
    }

    /// What the call of this token came to. Once per token; an outcome from before the breaker opened changes nothing.
    pub fn record(&self, now: u64, token: Token, outcome: Outcome) {
        self.with(|machine| machine.record(now, token, outcome));
    }

    /// The shard has a new primary, which deserves a trial of its own: what is not closed becomes half open at once, with k = 0.
    ///
    /// A closed breaker stays closed, because nothing speaks against the new primary and enforcement would pause for nothing; but it
    /// forgets what the old one did.
    pub fn trial(&self) {
        self.with(Machine::trial);
    }

    /// How things stand.
    pub fn state(&self, now: u64) -> BreakerState {
        match self.closed.load(Ordering::Acquire) {
            NOT_CLOSED => self.with(|machine| machine.state(now)),
            _ => BreakerState::Closed,
        }
    }

    /// The last opening, if there ever was one.
    pub fn last_opening(&self) -> Option<Opening> {
        self.machine.lock().last_opening()
    }

    /// How often it has opened.
    pub fn openings(&self) -> u64 {
        self.machine.lock().openings()
    }

    fn with<R>(&self, act: impl FnOnce(&mut Machine) -> R) -> R {
        let mut machine = self.machine.lock();
        let answer = act(&mut machine);
        // Under the lock, so that the word never tells of an older state than the machine is in; and only if it changed, so that outcomes do
        // not take its cache line away from those who ask.
        let closed = machine.generation_closed().unwrap_or(NOT_CLOSED);
        if self.closed.load(Ordering::Relaxed) != closed {
            self.closed.store(closed, Ordering::Release);
        }
        answer
    }
}

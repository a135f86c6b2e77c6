//! What the engine asks of any store.

use std::fmt::Debug;
use std::sync::Arc;

use tidegate_core::decision::Verdict;
use tidegate_core::meter::{Ask, Meter, MeterError, Refund};
use tidegate_core::quota::Quota;
use tidegate_core::time::{Calendar, Tick, Ticks};

use crate::digest::Digest;

/// One quota to be charged for one key.
#[derive(Debug, Clone, Copy)]
pub struct Charge<'a> {
    /// The quota, compiled for the store's tick.
    pub meter: &'a Meter,
    /// Who is counted. Charges of one key are decided without a second lock or round trip.
    pub key: Digest,
    /// Where a store that is spread over machines keeps it.
    pub place: Place,
    /// Which quota: keeps the counters of quotas apart.
    pub namespace: Digest,
    /// How much, and for leases the id.
    pub ask: Ask,
    /// A quota that is being phased out: from this instant on it is not asked any more.
    pub until: Option<Ticks>,
    /// What it has to do with the other charges of the request.
    pub part: Part,
}

/// A charge that outlives the call which made it.
#[derive(Debug, Clone)]
pub struct OwnedCharge {
    /// As in [`Charge`].
    pub meter: Meter,
    /// As in [`Charge`].
    pub key: Digest,
    /// As in [`Charge`].
    pub place: Place,
    /// As in [`Charge`].
    pub namespace: Digest,
    /// As in [`Charge`].
    pub ask: Ask,
    /// As in [`Charge`].
    pub until: Option<Ticks>,
    /// As in [`Charge`].
    pub part: Part,
}

impl OwnedCharge {
    /// The charge.
    pub fn charge(&self) -> Charge<'_> {
        let Self { meter, key, place, namespace, ask, until, part } = self;
        Charge { meter, key: *key, place: *place, namespace: *namespace, ask: *ask, until: *until, part: *part }
    }
}

impl Charge<'_> {
    /// Names the counter: one of a quota and a key.
    pub fn counter(&self) -> Digest {
        self.key ^ self.namespace
    }

    /// The same, on its own feet.
    pub fn to_owned(&self) -> OwnedCharge {
        let &Charge { meter, key, place, namespace, ask, until, part } = self;
        OwnedCharge { meter: meter.clone(), key, place, namespace, ask, until, part }
    }
}

/// Where a store that is spread over machines keeps a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Counters with the same tag are on the same machine, and are decided in one round trip.
    pub tag: Digest,
    /// How many are counted together, roughly: 0 for the narrowest. Of counters on several machines the narrow ones are asked first, so that a
    /// client without quota of its own does not use up what all share.
    pub breadth: u8,
}

impl Place {
    /// The breadth of a counter that everybody shares.
    pub const EVERYBODY: u8 = u8::MAX;

    /// A place of its own.
    pub fn of(key: Digest) -> Self {
        Self { tag: key, breadth: 0 }
    }
}

/// What a charge has to do with the others of its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Part {
    /// It may deny the request, and is charged if no charge of this kind does.
    #[default]
    Enforced,
    /// A rule in shadow, by its number: simulates that the rule were enforced. It denies nothing, and is charged if the request is allowed
    /// and no charge of the same number would have denied it.
    Shadow(u16),
    /// Stands for itself, as in the reference rate limit service: charged in any case, also above the limit.
    Counted,
}

/// Where the counters are, and the clock that they go by.
///
/// Every method acts at one instant of the store's own clock. Callers may be many threads; each promise is a function of the contract suite.
pub trait Store: Debug + Send + Sync {
    /// The store's clock.
    fn now(&self) -> Ticks;

    /// The length of its tick: the unit of all times that go in and come out.
    fn tick(&self) -> Tick;

    /// Compiles a quota as this store decides it. A store may count time more coarsely than its tick says.
    ///
    /// # Errors
    /// See [`MeterError`].
    fn meter(&self, quota: &Quota, calendar: Option<Arc<dyn Calendar>>) -> Result<Meter, MeterError> {
        Meter::new(quota, self.tick(), calendar)
    }

    /// Charges all or none: all if every quota has room, otherwise nothing.
    ///
    /// # Errors
    /// The store could not decide; nothing was charged.
    fn check(&self, charges: &[Charge<'_>]) -> Result<Verdict, StoreError>;

    /// The same as `check`, but answers only whether it charged. A store overrides it if that saves work.
    ///
    /// # Errors
    /// See [`check`](Self::check).
    fn allow(&self, charges: &[Charge<'_>]) -> Result<bool, StoreError> {
        Ok(self.check(charges)?.is_allowed())
    }

    /// Answers what `check` would, and changes nothing.
    ///
    /// # Errors
    /// The store could not answer.
    fn peek(&self, charges: &[Charge<'_>]) -> Result<Verdict, StoreError>;

    /// Charges without asking, up to each quota's `max_debt`.
    ///
    /// # Errors
    /// The store could not remember the charge; nothing was charged.
    fn debit(&self, charges: &[Charge<'_>]) -> Result<Verdict, StoreError>;

    /// Gives back what still counts of a charge. Must be called at most once per unit. `charge.ask` is not looked at.
    ///
    /// # Errors
    /// The store could not be reached; the charge stays.
    fn refund(&self, charge: &Charge<'_>, refund: Refund) -> Result<(), StoreError>;

    /// Extends a lease; `false` when it is lost.
    ///
    /// # Errors
    /// The store could not be reached.
    fn renew(&self, charge: &Charge<'_>) -> Result<bool, StoreError>;

    /// Gives a lease back; `false` when it was unknown.
    ///
    /// # Errors
    /// The store could not be reached; the lease expires by itself.
    fn release(&self, charge: &Charge<'_>) -> Result<bool, StoreError>;

    /// Forgets what is known of a key under a quota; `false` when nothing was.
    ///
    /// # Errors
    /// The store could not be reached.
    fn reset(&self, charge: &Charge<'_>) -> Result<bool, StoreError>;

    /// Forgets everything and frees the memory.
    fn clear(&self);

    /// What the store holds and has done.
    fn stats(&self) -> StoreStats;
}

/// Why a store could not decide.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The memory store holds as many keys as it may, and every one it looked at is limiting somebody.
    #[error("memory store: full of keys that are still limiting; raise max_keys or shorten the windows")]
    Full {
        /// When the first of them is back at full credit.
        free_after: Ticks,
    },
    /// No answer within the budget. Whether the charge was made is not known.
    #[error("the store did not answer within the budget")]
    Timeout,
    /// The circuit breaker keeps calls away from a store that failed.
    #[error("the store failed a moment ago; it is not asked before it has answered a probe")]
    Open {
        /// When it is tried again.
        retry_after: Ticks,
    },
    /// The store cannot be reached, or the connection broke.
    #[error("the store cannot be reached: {why}")]
    Unavailable {
        /// What the system or the peer said.
        why: Arc<str>,
    },
    /// The store says that it cannot work now: it is loading, read-only, out of memory, without a majority, ...
    #[error("the store cannot work now: {why}")]
    Refused {
        /// What it said.
        why: Arc<str>,
    },
    /// Wrong password, or a user that may not do what is needed.
    #[error("the store denies access: {why}")]
    Access {
        /// What it said.
        why: Arc<str>,
    },
    /// A value under one of our keys that is not ours. Nothing was overwritten.
    #[error("a foreign value is under a key of the limiter: {why}")]
    Foreign {
        /// What it said.
        why: Arc<str>,
    },
    /// The peer does not speak the protocol, or is not what the address says.
    #[error("the store answers what makes no sense: {why}")]
    Protocol {
        /// What was wrong.
        why: Arc<str>,
    },
}

impl StoreError {
    /// The connection broke, or there is none.
    pub fn unavailable(why: impl Into<Arc<str>>) -> Self {
        Self::Unavailable { why: why.into() }
    }

    /// The peer answered what makes no sense.
    pub fn protocol(why: impl Into<Arc<str>>) -> Self {
        Self::Protocol { why: why.into() }
    }

    /// The words of [`kind`](Self::kind).
    pub const KINDS: [&'static str; 8] = [
        "store_full",
        "store_timeout",
        "store_breaker_open",
        "store_unavailable",
        "store_refused",
        "store_access",
        "store_foreign_value",
        "store_protocol",
    ];

    /// A word for metrics and decisions.
    pub fn kind(&self) -> &'static str {
        Self::KINDS[self.kind_index()]
    }

    /// The position of that word.
    pub fn kind_index(&self) -> usize {
        match self {
            Self::Full { .. } => 0,
            Self::Timeout => 1,
            Self::Open { .. } => 2,
            Self::Unavailable { .. } => 3,
            Self::Refused { .. } => 4,
            Self::Access { .. } => 5,
            Self::Foreign { .. } => 6,
            Self::Protocol { .. } => 7,
        }
    }

    /// When it may be worth to ask again, as far as that can be said.
    pub fn retry_after(&self) -> Ticks {
        const SECOND: Ticks = 1_000_000_000;
        match *self {
            Self::Full { free_after: wait } | Self::Open { retry_after: wait } => wait,
            Self::Timeout | Self::Unavailable { .. } | Self::Refused { .. } => SECOND,
            // Somebody has to mend something first.
            Self::Access { .. } | Self::Foreign { .. } | Self::Protocol { .. } => 10 * SECOND,
        }
    }

    /// Whether the same call may succeed later without anybody changing anything.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Full { .. } | Self::Timeout | Self::Open { .. } | Self::Unavailable { .. } | Self::Refused { .. } => true,
            Self::Access { .. } | Self::Foreign { .. } | Self::Protocol { .. } => false,
        }
    }
}

/// What a store holds and has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StoreStats {
    /// Checks that were allowed.
    pub allowed: u64,
    /// Checks that were denied.
    pub denied: u64,
    /// States held now, one for each pair of quota and key.
    pub keys: u64,
    /// Memory held for them.
    pub bytes: u64,
    /// States dropped because they were back at full credit.
    pub expired: u64,
    /// States dropped early to make room.
    pub evicted: u64,
}

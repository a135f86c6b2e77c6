//! The counter at which the promises are tried: a store, its clock, and short ways to ask.

use tidegate_core::algorithm::{Receipt, Refund};
use tidegate_core::decision::{Status, Verdict};
use tidegate_core::meter::{Ask, Meter};
use tidegate_core::quota::Quota;
use tidegate_core::time::Ticks;

use crate::clock::ManualClock;
use crate::digest::{Digest, Digester};
use crate::store::{Charge, Part, Place, Store};

/// One second in nanoseconds.
pub const SECOND: u64 = 1_000_000_000;

/// A quota of every algorithm, each with a capacity of 5 that an idle key can use up at once.
pub const QUOTAS_OF_FIVE: [&str; 9] = [
    "5/minute",
    "5/minute entries 2",
    "5/minute sliding_window_log",
    "5/minute sliding_window_counter",
    "5/minute sliding_window_counter buckets 6",
    "5/minute fixed_window",
    "5/minute gcra",
    "1/second queue 4s",
    "5 concurrent ttl 60s",
];

/// A store and its clock, which starts on a full minute.
#[derive(Debug)]
pub struct Counter<S> {
    /// The store.
    pub store: S,
    /// Its clock.
    pub clock: ManualClock,
}

/// A quota with the namespace of its counters.
#[derive(Debug, Clone)]
pub struct Metered {
    meter: Meter,
    namespace: Digest,
}

impl<S: Store> Counter<S> {
    /// A counter with an empty store.
    pub fn new(factory: impl FnOnce(ManualClock) -> S) -> Self {
        let clock = ManualClock::new(1_767_225_600 * SECOND);
        Self { store: factory(clock.clone()), clock }
    }

    /// Compiles a quota. Its counters are those of its name.
    ///
    /// # Panics
    /// The text is no quota, or needs a calendar.
    pub fn quota(&self, name: &str, text: &str) -> Metered {
        self.metered(name, &text.parse().unwrap_or_else(|error| panic!("{text}: {error}")))
    }

    /// The same for a quota that was read before.
    ///
    /// # Panics
    /// It needs a calendar.
    pub fn metered(&self, name: &str, quota: &Quota) -> Metered {
        let meter = self.store.meter(quota, None).expect("a quota without a calendar");
        Metered { meter, namespace: digest(&format!("quota {name}")) }
    }

    /// Moves the clock on by nanoseconds.
    pub fn advance(&self, nanos: u64) {
        self.clock.advance(i64::try_from(nanos).expect("less than three hundred years"));
    }

    /// Moves the clock on by ticks of the store.
    pub fn advance_ticks(&self, ticks: Ticks) {
        self.advance(ticks * self.store.tick().nanos());
    }

    /// Checks all charges together.
    ///
    /// # Panics
    /// The store failed.
    pub fn check(&self, charges: &[Charge<'_>]) -> Verdict {
        self.store.check(charges).expect("a store that works")
    }

    /// Whether a check of one charge is allowed.
    pub fn allows(&self, charge: Charge<'_>) -> bool {
        self.check(&[charge]).is_allowed()
    }

    /// What one quota says to a question.
    ///
    /// # Panics
    /// The store failed.
    pub fn ask(&self, charge: Charge<'_>) -> Status {
        self.store.peek(&[charge]).expect("a store that works").statuses()[0]
    }

    /// What remains of one quota for a key.
    ///
    /// # Panics
    /// The quota is unlimited, or the store failed.
    pub fn remaining(&self, quota: &Metered, key: &str) -> u64 {
        self.ask(quota.charge(key, 0)).remaining.expect("a limited quota")
    }

    /// Gives units of a charge back, of which `before` were given back earlier.
    ///
    /// # Panics
    /// The store failed.
    pub fn refund(&self, quota: &Metered, key: &str, receipt: Receipt, cost: u64) {
        self.store.refund(&quota.charge(key, cost), Refund { receipt, cost }).expect("a store that works");
    }
}

impl Metered {
    /// A charge of this quota. Leases get an id that is different for every call.
    pub fn charge(&self, key: &str, cost: u64) -> Charge<'_> {
        self.leased(key, cost, next_lease())
    }

    /// A charge with this lease.
    pub fn leased(&self, key: &str, cost: u64, lease: u128) -> Charge<'_> {
        let ask = Ask { lease: Some(lease), ..Ask::cost(cost) };
        let key = digest(key);
        let place = Place::of(key);
        Charge { meter: &self.meter, key, place, namespace: self.namespace, ask, until: None, part: Part::Enforced }
    }

    /// The compiled quota.
    pub fn meter(&self) -> &Meter {
        &self.meter
    }
}

/// A digest as the engine makes them.
pub fn digest(text: &str) -> Digest {
    Digester::new(*b"contract of keys").digest(text.as_bytes())
}

/// Ids that differ in their upper half only.
fn next_lease() -> u128 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(1);
    u128::from(NEXT.fetch_add(1, Ordering::Relaxed)) << 64
}

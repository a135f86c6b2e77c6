//! The published mistakes of `algorithms.md` §1.10, and those that §3 warns of, each behind a switch that exists in test builds only.
//!
//! A test re-introduces them one at a time and shows that the suite notices. Without the feature `mutants`, [`Mutant::is_active`] is the
//! constant `false` and the compiler removes every trace of them.

macro_rules! mutants {
    ($($variant:ident = $number:literal, $what:literal;)*) => {
        /// One published mistake.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Mutant {
            $(#[doc = concat!("Mistake ", $number, ": ", $what, ".")] $variant,)*
        }

        impl Mutant {
            /// All of them, with the number in §1.10, or the section, and what they do.
            pub const ALL: &'static [(Self, &'static str, &'static str)] = &[$((Self::$variant, $number, $what),)*];
        }
    };
}

mutants! {
    TwoBucketsAsSlidingWindow = "1", "the two-bucket counter is sold as a window without a boundary";
    AdmitsBelowLimit = "2", "admits while the estimate is below the limit and ignores the cost";
    ChargesDenied = "3", "increments before deciding, so denied requests count";
    LogByTimestamp = "4", "log entries are named by their timestamp, so requests of one tick vanish";
    ExpiryFromCreation = "9", "the expiry is set by the first charge only, so later ones are forgotten early";
    TiersShareCounters = "5", "the keys of counters omit the quota, so that several quotas count in one";
    ChargesTierByTier = "6", "quotas are charged one after the other, so a request that one denies has used up others";
    SharesOfFortyPercent = "8", "each instance admits 40 % of the quota by itself, however many there are";
    FlushForgets = "8", "what was admitted without the store is forgotten when the store refuses to be told";
    LimitZeroAdmits = "9", "a limit of 0 admits the first request";
    ReadModifyWrite = "9", "state is read and written back in two steps";
    WindowRenewedOnUse = "10", "every allowed request renews the window";
    EvictsLimitingKeys = "10", "eviction by size forgets a key that is limiting";
    RingOfTooFewBuckets = "11", "k sub-windows are summed where k + 1 are touched";
    RefundAfterExpiry = "12", "a refund after the window rolled is taken from the next";
    ResetAtWindowEnd = "13", "the end of the window is promised although the count carries over";
    RemainingRoundedUp = "14", "the estimate is rounded down before it is subtracted from the limit";
    RetryIgnoresCost = "15", "the waiting time is that of a cost of 1";
    NeverIsNotSaid = "15", "a cost above the capacity gets a waiting time";
    KeysMadeUp = "17", "a script makes up the names of keys, which a cluster keeps elsewhere";
    CallersClock = "18", "the caller's clock decides, and not the store's";
    ExpiryByItself = "19", "a counter and its expiry are written by two commands, the expiry for a new counter only";
    FourteenDigits = "20", "numbers are printed with fourteen digits";
    KeysUndeclared = "21", "a script touches a key that is not among its keys";
    LeaseFromStart = "25", "leases are scored by their start, so long requests are evicted";
    ShadowCountsAll = "28", "a rule in shadow is charged also for requests that it would have denied";
    WideFirst = "7", "the widest scope is charged first, so requests that a narrow one denies drain it";
    ShortLeaseIds = "25", "lease ids have four bytes, so two holders share one slot";
    BreakerNeverForgets = "26", "the breaker never forgets a failure, so that five in a week open it";
    BreakerManyProbes = "26", "every caller probes a store that may have recovered";
    BreakerLongCooldown = "26", "an open breaker stays open for half a minute, however short the outage was";
    AdvanceByTheSameQuota = "3.2", "units that are spent later are charged by the quota itself";
    AdvanceFromTheAnswer = "3.1", "the time to spend units counts from the answer, and not from the question";
    AdvanceMergesDeadlines = "3.1", "what is left of earlier units may be spent as long as later ones";
    AdvanceOutlivesWindow = "3.2", "units are spent in the window after the one in which they were charged";
    AdvanceSpendsReturned = "3.6", "units that were given back are spent all the same";
}

#[cfg(feature = "mutants")]
mod switch {
    use super::Mutant;
    use std::sync::atomic::{AtomicUsize, Ordering};

    static ACTIVE: AtomicUsize = AtomicUsize::new(usize::MAX);

    impl Mutant {
        /// Whether this mistake is switched on.
        pub fn is_active(self) -> bool {
            ACTIVE.load(Ordering::SeqCst) == self as usize
        }

        /// Switches one mistake on for the whole process, or all off.
        pub fn activate(mutant: Option<Self>) {
            ACTIVE.store(mutant.map_or(usize::MAX, |m| m as usize), Ordering::SeqCst);
        }
    }
}

/// A test and its name.
#[cfg(feature = "mutants")]
pub type Promise = (&'static str, fn());

/// Shows that all promises hold, and that with each mistake the one breaks that is there to notice it.
///
/// # Panics
/// A promise does not hold, or a mistake goes unnoticed.
#[cfg(feature = "mutants")]
#[allow(clippy::print_stdout, reason = "the table of who notices what is what a reader of the test wants")]
pub fn hunt(promises: &[Promise], killers: &[(Mutant, &str)]) {
    use std::panic;

    let failing =
        || -> Vec<_> { promises.iter().filter(|(_, hold)| panic::catch_unwind(hold).is_err()).map(|(name, _)| *name).collect() };
    assert_eq!(failing(), Vec::<&str>::new(), "without any mistake");
    for &(mutant, expected) in killers {
        panic::set_hook(Box::new(|_| {}));
        Mutant::activate(Some(mutant));
        let noticed = failing();
        Mutant::activate(None);
        drop(panic::take_hook());

        let (_, number, what) = Mutant::ALL.iter().find(|(known, _, _)| *known == mutant).expect("a known mistake");
        println!("{number:>3}  {what}\n       killed by {}", noticed.join(", "));
        assert!(noticed.contains(&expected), "{what}: {expected} does not notice, only {noticed:?} does");
    }
}

#[cfg(not(feature = "mutants"))]
impl Mutant {
    /// Whether this mistake is switched on: never, outside test builds.
    #[inline(always)]
    pub const fn is_active(self) -> bool {
        let _ = self;
        false
    }
}

//! The published mistakes of `algorithms.md` §1.10, switched on one at a time: the suite must notice each, and for the right reason.
//!
//! `cargo test -p tidegate-core --features mutants --test mutants -- --nocapture` prints which property kills which mistake.

mod suite;

use std::panic;

use proptest::test_runner::{Config, RngSeed, TestRunner};
use tidegate_core::mutant::Mutant;

use suite::Property;

/// Enough for every mistake to be met, and the same ones each time.
const CASES: u32 = 1_000;
const SEED: u64 = 1_010;

/// For each mistake the property that is about it. Others may notice too.
const KILLERS: &[(Mutant, &str)] = &[
    (Mutant::TwoBucketsAsSlidingWindow, "no_window_sees_more_than_its_bound"),
    (Mutant::AdmitsBelowLimit, "what_remains_is_admitted_and_one_more_is_not"),
    (Mutant::ChargesDenied, "a_denied_request_leaves_no_trace"),
    (Mutant::LogByTimestamp, "no_window_sees_more_than_its_bound"),
    (Mutant::ExpiryFromCreation, "from_its_expiry_on_a_state_is_like_none"),
    (Mutant::LimitZeroAdmits, "a_limit_of_zero_admits_nothing_and_says_never"),
    (Mutant::WindowRenewedOnUse, "every_decision_is_that_of_the_naive_formula"),
    (Mutant::RingOfTooFewBuckets, "no_window_sees_more_than_its_bound"),
    (Mutant::RefundAfterExpiry, "a_refund_never_gives_more_than_never_having_charged"),
    (Mutant::ResetAtWindowEnd, "the_wait_is_true_and_not_a_tick_too_long"),
    (Mutant::RemainingRoundedUp, "what_remains_is_admitted_and_one_more_is_not"),
    (Mutant::RetryIgnoresCost, "the_wait_is_true_and_not_a_tick_too_long"),
    (Mutant::NeverIsNotSaid, "the_wait_is_true_and_not_a_tick_too_long"),
    (Mutant::LeaseFromStart, "leases_are_counted_like_in_the_naive_book"),
    (Mutant::ShortLeaseIds, "leases_are_counted_like_in_the_naive_book"),
];

/// Mistakes of stores, which have a test of their own there.
const OF_STORES: &[Mutant] = &[
    Mutant::WideFirst,
    Mutant::ReadModifyWrite,
    Mutant::EvictsLimitingKeys,
    Mutant::ShadowCountsAll,
    Mutant::TiersShareCounters,
    Mutant::ChargesTierByTier,
    Mutant::KeysMadeUp,
    Mutant::CallersClock,
    Mutant::ExpiryByItself,
    Mutant::FourteenDigits,
    Mutant::KeysUndeclared,
];

/// Mistakes of the engine, likewise.
const OF_THE_ENGINE: &[Mutant] = &[
    Mutant::SharesOfFortyPercent,
    Mutant::FlushForgets,
    Mutant::BreakerNeverForgets,
    Mutant::BreakerManyProbes,
    Mutant::BreakerLongCooldown,
    Mutant::AdvanceByTheSameQuota,
    Mutant::AdvanceFromTheAnswer,
    Mutant::AdvanceMergesDeadlines,
    Mutant::AdvanceOutlivesWindow,
    Mutant::AdvanceSpendsReturned,
];

macro_rules! list {
    ($($module:ident::$name:ident,)*) => {
        const PROPERTIES: &[(&str, Property)] = &[$((stringify!($name), suite::$module::$name),)*];
    };
}
suite::properties!(list);

/// The properties that fail now.
fn failing() -> Vec<&'static str> {
    let config = Config {
        cases: CASES,
        failure_persistence: None,
        max_shrink_iters: 0,
        rng_seed: RngSeed::Fixed(SEED),
        ..Config::default()
    };
    let fails = |property: Property| property(&mut TestRunner::new(config.clone())).is_err();
    PROPERTIES.iter().filter(|(_, property)| fails(*property)).map(|&(name, _)| name).collect()
}

/// One test, because the switch is one for the whole process.
#[test]
fn the_suite_passes_and_fails_with_each_published_mistake() {
    assert_eq!(failing(), Vec::<&str>::new(), "without any mistake");
    panic::set_hook(Box::new(|_| {}));
    let mut table = Vec::new();
    for &(mutant, number, what) in Mutant::ALL {
        if OF_STORES.contains(&mutant) || OF_THE_ENGINE.contains(&mutant) {
            continue;
        }
        Mutant::activate(Some(mutant));
        table.push((mutant, number, what, failing()));
        Mutant::activate(None);
    }
    drop(panic::take_hook());
    for (_, number, what, killers) in &table {
        println!("{number:>3}  {what}\n       killed by {}", killers.join(", "));
    }
    for (mutant, _, what, killers) in &table {
        let (_, expected) = KILLERS.iter().find(|(killed, _)| killed == mutant).expect("every mistake has a killer");
        assert!(killers.contains(expected), "{what}: {expected} does not notice, only {killers:?} does");
    }
}

//! The published mistakes that are about stores, switched on one at a time: the contract and the limits must notice each, and for the right reason.

mod limits;
mod servers;
mod spread;

use tidegate_core::mutant::{Mutant, hunt};
use tidegate_store::clock::Clock;
use tidegate_store::memory::MemoryStore;

const KILLERS: &[(Mutant, &str)] = &[
    (Mutant::ReadModifyWrite, "many_threads_admit_exactly_the_limit"),
    (Mutant::EvictsLimitingKeys, "a_limiting_key_is_never_evicted"),
    (Mutant::WideFirst, "a_narrow_denial_leaves_the_wide_quota_alone"),
    (Mutant::ShadowCountsAll, "a_shadow_denies_nothing_and_counts_only_what_it_would_admit"),
];

macro_rules! list {
    ($($name:ident,)*) => {
        [$((stringify!($name), limits::$name as fn()),)*]
    };
}

fn promises() -> Vec<(&'static str, fn())> {
    let contract = tidegate_store::store_contract!(list | clock | MemoryStore::new(Clock::Manual(clock), 10_000_000));
    let spread: [(&str, fn()); 2] = [
        ("a_narrow_denial_leaves_the_wide_quota_alone", spread::a_narrow_denial_leaves_the_wide_quota_alone),
        ("a_wide_denial_is_given_back", spread::a_wide_denial_is_given_back),
    ];
    contract.into_iter().chain(limits::limits!(list)).chain(spread).collect()
}

/// One test, because the switch is one for the whole process.
#[test]
fn the_promises_hold_and_fail_with_each_published_mistake() {
    hunt(&promises(), KILLERS);
}

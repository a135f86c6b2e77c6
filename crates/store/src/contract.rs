//! What every store promises: one function per promise, each taking a factory that makes an empty store on a clock moved by hand.
//!
//! A store passes the contract with one line in its tests:
//!
//! ```ignore
//! tidegate_store::store_contract!(memory, |clock| MemoryStore::new(Clock::Manual(clock), 1_000_000));
//! ```
//!
//! | module | promises about |
//! | --- | --- |
//! | [`decisions`] | all or nothing, true answers, what changes nothing |
//! | [`parts`] | charges in shadow, and charges that stand for themselves |
//! | [`returns`] | refunds, debits, resets |
//! | [`leases`] | slots in flight |
//! | [`threads`] | exact counts with many callers at once |
//! | [`truth_tables`] | the tables of `testdata/vectors`, which [`vectors`] reads |
//!
//! [`counter`] holds what the promises have in common.
#![allow(clippy::missing_panics_doc, reason = "every function here panics, and only, when the promise is broken")]

pub mod counter;
pub mod decisions;
pub mod leases;
pub mod parts;
pub mod returns;
pub mod threads;
pub mod truth_tables;
pub mod vectors;

/// `store_contract!(name, factory)` expands to a module with one test per promise.
///
/// `store_contract!(list factory)` is the list of their names and functions instead, for tests of the tests.
#[macro_export]
macro_rules! store_contract {
    ($name:ident, $factory:expr) => {
        mod $name {
            use super::*;

            $crate::store_contract!(@promises tests $factory);
        }
    };
    (list $factory:expr) => {
        $crate::store_contract!(@promises list $factory)
    };
    (@promises $form:ident $factory:expr) => {
        $crate::store_contract! { @$form $factory,
            decisions::all_quotas_are_charged_or_none,
            decisions::the_first_request_of_a_key_is_charged_to_all_quotas,
            decisions::all_keys_are_charged_or_none,
            decisions::a_denied_check_charges_nothing,
            decisions::asking_changes_nothing,
            decisions::waits_are_true_to_the_tick,
            decisions::keys_and_namespaces_are_counted_apart,
            decisions::an_ended_quota_is_not_asked,
            decisions::a_wait_ends_with_the_quota_that_caused_it,
            decisions::allow_says_what_check_says,
            decisions::a_limit_of_zero_keeps_what_was_counted,
            decisions::a_request_without_quotas_is_allowed,
            parts::a_shadow_denies_nothing_and_counts_only_what_it_would_admit,
            parts::a_denied_request_is_not_counted_in_shadow,
            parts::the_quotas_of_a_shadow_are_charged_together_or_not_at_all,
            parts::shadows_do_not_see_each_other,
            parts::what_stands_for_itself_is_charged_above_its_limit,
            returns::a_refund_gives_back_what_still_counts,
            returns::a_refund_to_nobody_leaves_nothing_behind,
            returns::a_debit_overdraws_as_far_as_the_quota_allows,
            returns::a_debit_is_charged_to_all_quotas,
            returns::a_reset_forgets_one_key_under_one_quota,
            returns::clearing_forgets_everything,
            leases::acquiring_again_takes_no_second_slot,
            leases::a_lease_lives_until_it_expires_or_is_released,
            leases::a_renewed_lease_lives_on,
            leases::a_lease_cannot_be_refunded_or_owed,
            threads::many_threads_admit_exactly_the_limit,
            threads::a_shared_quota_admits_exactly_its_limit,
            threads::threads_charge_all_quotas_or_none,
            threads::keys_in_any_order_never_block_each_other,
            truth_tables::every_row_is_answered_as_the_tables_say,
        }
    };
    (@tests $factory:expr, $($module:ident::$promise:ident,)*) => {
        $(#[test]
        fn $promise() {
            $crate::contract::$module::$promise($factory);
        })*
    };
    (@list $factory:expr, $($module:ident::$promise:ident,)*) => {
        [$((stringify!($promise), (|| $crate::contract::$module::$promise($factory)) as fn()),)*]
    };
}

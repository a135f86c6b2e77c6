//! The published mistakes that are about the engine, switched on one at a time: its promises must notice each, and for the right reason.

mod advance;
mod failure;

use tidegate_core::mutant::{Mutant, hunt};

const KILLERS: &[(Mutant, &str)] = &[
    (Mutant::BreakerNeverForgets, "five_errors_in_a_week_never_open_it"),
    (Mutant::BreakerManyProbes, "at_most_one_probe_is_in_flight"),
    (Mutant::BreakerLongCooldown, "a_blip_of_a_second_does_not_cost_much_more"),
    (Mutant::AdvanceByTheSameQuota, "no_sliding_window_sees_more_than_its_limit"),
    (Mutant::AdvanceFromTheAnswer, "the_time_to_spend_counts_from_the_question"),
    (Mutant::AdvanceMergesDeadlines, "each_grant_keeps_its_own_deadline"),
    (Mutant::AdvanceOutlivesWindow, "no_fixed_window_sees_more_than_its_limit"),
    (Mutant::AdvanceSpendsReturned, "what_is_given_back_is_not_spent"),
];

macro_rules! list {
    ($($name:ident,)*) => {
        const PROMISES: &[(&str, fn())] = &[$((stringify!($name), failure::$name),)*];
    };
}
failure::promises!(list);

macro_rules! list_advance {
    ($($name:ident,)*) => {
        const OF_ADVANCES: &[(&str, fn())] = &[$((stringify!($name), advance::$name),)*];
    };
}
advance::promises!(list_advance);

/// One test, because the switch is one for the whole process.
#[test]
fn the_promises_hold_and_fail_with_each_published_mistake() {
    hunt(&[PROMISES, OF_ADVANCES].concat(), KILLERS);
}

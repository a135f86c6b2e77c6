//! What every algorithm must do, as properties over random histories, and the naive oracles that they are held to.
//!
//! The list in [`properties!`] is run twice: by `properties.rs`, which must see all of them hold, and by `mutants.rs`, which switches the published
//! mistakes on one at a time and must see at least one of them fail. (A `suite.rs` beside this folder would become a test program of its own.)
//!
//! | module | holds |
//! | --- | --- |
//! | [`quotas`] | random quotas of every algorithm, in families that share their counters |
//! | [`history`] | random histories |
//! | [`desk`] | where they are played |
//! | [`oracle`] | what happened, written down naively: exact log, virtual meter, book of leases |
//! | [`bounds`] | never above the bound, whatever the clock does |
//! | [`models`] | every verdict as by the formula of §1.1-1.7, so nothing is denied without need |
//! | [`promises`] | `retry_after`, `remaining` and `reset_after` are true from both sides |
//! | [`traces`] | what leaves no trace: denials, questions, expiry, packing |
//! | [`refunds`] | a refund gives back what it should and no more |
//! | [`changes`] | changed limits, and the limits 0 and unlimited |
//! | [`leases`] | slots in flight |
//! | [`edges`] | the largest and smallest numbers |

pub(crate) mod bounds;
pub(crate) mod changes;
pub(crate) mod desk;
pub(crate) mod edges;
pub(crate) mod history;
pub(crate) mod leases;
pub(crate) mod models;
pub(crate) mod oracle;
pub(crate) mod promises;
pub(crate) mod quotas;
pub(crate) mod refunds;
pub(crate) mod traces;

use std::fmt::Debug;

use proptest::strategy::Strategy;
use proptest::test_runner::{TestCaseError, TestRunner};

/// What a property says after all its cases: `Err` holds the smallest case that breaks it.
pub(crate) type Outcome = Result<(), String>;

/// A property: draws its cases from the runner.
pub(crate) type Property = fn(&mut TestRunner) -> Outcome;

/// Hands the list of all properties to a macro.
macro_rules! properties {
    ($visit:ident) => {
        $visit! {
            bounds::no_window_sees_more_than_its_bound,
            bounds::a_clock_that_steps_back_grants_nothing,
            bounds::admitted_requests_keep_their_distance,
            bounds::the_bounded_log_never_admits_more_than_the_exact_log,
            bounds::both_logs_answer_like_the_naive_one_up_to_m_entries,
            models::every_decision_is_that_of_the_naive_formula,
            promises::the_wait_is_true_and_not_a_tick_too_long,
            promises::a_start_in_time_is_promised_to_the_tick,
            promises::what_remains_is_admitted_and_one_more_is_not,
            promises::everything_is_back_at_the_reset_and_not_a_tick_before,
            promises::waiting_never_hurts,
            promises::a_cost_of_n_is_n_costs_of_one,
            promises::a_coarser_tick_rounds_waits_up_and_decides_the_same,
            traces::a_denied_request_leaves_no_trace,
            traces::a_question_leaves_no_trace,
            traces::from_its_expiry_on_a_state_is_like_none,
            traces::packing_loses_nothing,
            refunds::a_refund_at_once_gives_everything_back,
            refunds::a_refund_never_gives_more_than_never_having_charged,
            refunds::many_refunds_give_no_more_than_never_having_charged,
            refunds::refunds_in_parts_give_no_more_than_one,
            changes::a_changed_limit_keeps_what_was_used,
            changes::a_changed_rate_keeps_the_time_until_the_reset,
            changes::a_limit_of_zero_admits_nothing_and_says_never,
            changes::without_a_limit_everything_passes,
            leases::leases_are_counted_like_in_the_naive_book,
            edges::numbers_at_their_limits_never_overflow,
        }
    };
}
pub(crate) use properties;

/// Runs a property's body on random cases. With a runner of its own: one that has had its cases would say yes to a second property without trying it.
pub(crate) fn holds<S: Strategy>(runner: &mut TestRunner, cases: S, body: impl Fn(S::Value) -> Outcome) -> Outcome
where
    S::Value: Debug,
{
    let mut runner = TestRunner::new_with_rng(runner.config().clone(), runner.new_rng());
    runner.run(&cases, |case| body(case).map_err(TestCaseError::fail)).map_err(|error| error.to_string())
}

/// `Err` with a message unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err(format!($($message)+));
        }
    };
}
pub(crate) use ensure;

//! How the answers of several quotas become one.

use tidegate_core::algorithm::Receipt;
use tidegate_core::decision::{Status, Verdict};
use tidegate_core::time::Ticks;

/// A quota of ten units that says this.
fn status(remaining: u64, retry_after: Option<Ticks>) -> Status {
    Status {
        quota: 0,
        is_shadow: false,
        limit: Some(10),
        remaining: Some(remaining),
        retry_after,
        retry_is_hint: false,
        reset_after: 10 - remaining,
        delay: 0,
        receipt: Receipt::Nothing,
    }
}

fn verdict(statuses: impl IntoIterator<Item = Status>) -> Verdict {
    Verdict::new(statuses.into_iter().collect())
}

#[test]
fn nobody_says_no_to_a_request_without_quotas() {
    let verdict = verdict([]);
    assert!(verdict.is_allowed());
    assert_eq!((verdict.retry_after(), verdict.remaining(), verdict.reset_after()), (Some(0), None, 0));
    assert!(verdict.binding().is_none());
}

#[test]
fn the_longest_wait_binds_and_never_is_the_longest() {
    let waiting = verdict([status(0, Some(5)), status(0, Some(9)), status(9, Some(0))]);
    assert_eq!((waiting.binding_index(), waiting.retry_after()), (1, Some(9)));
    let never = verdict([status(0, Some(Ticks::MAX)), status(5, None), status(0, Some(7))]);
    assert_eq!((never.binding_index(), never.retry_after(), never.is_allowed()), (1, None, false));
}

#[test]
fn among_those_with_room_the_smallest_share_left_binds() {
    let large = Status { limit: Some(1_000), remaining: Some(100), ..status(0, Some(0)) };
    let small = Status { limit: Some(10), remaining: Some(2), ..status(0, Some(0)) };
    let verdict = verdict([small, large, Status { limit: None, remaining: None, ..small }]);
    assert_eq!(verdict.binding_index(), 1, "a tenth is less than a fifth");
    assert_eq!(verdict.remaining(), Some(2), "and yet only two units fit into all");
}

#[test]
fn of_two_alike_the_first_binds() {
    assert_eq!(verdict([status(3, Some(0)), status(3, Some(0))]).binding_index(), 0);
    assert_eq!(verdict([status(0, Some(4)), status(0, Some(4))]).binding_index(), 0);
}

#[test]
fn the_slowest_reset_and_the_longest_delay_are_told() {
    let delayed = |delay| Status { delay, ..status(5, Some(0)) };
    let allowed = verdict([delayed(3), delayed(8), status(2, Some(0))]);
    assert_eq!((allowed.delay(), allowed.reset_after()), (8, 8));
    assert_eq!(verdict([delayed(3), status(0, Some(1))]).delay(), 0, "a denied request does not start");
}

#[test]
fn a_wait_is_an_estimate_if_any_of_those_that_deny_only_estimates() {
    let hint = |retry_after| Status { retry_is_hint: true, ..status(0, retry_after) };
    assert!(verdict([hint(Some(3)), status(0, Some(9))]).retry_is_hint());
    assert!(!verdict([hint(Some(0)), status(0, Some(9))]).retry_is_hint());
}

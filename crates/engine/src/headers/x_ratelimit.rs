//! `X-RateLimit-Limit`, `-Remaining` and `-Reset`: no standard, and everybody means something else by `Reset`.

use std::fmt::Write as _;

use tidegate_core::decision::Status;
use tidegate_core::quota::Shape;
use tidegate_core::time::Ticks;

use super::{Field, Fields, SECOND, XRateLimit, seconds_up, window_s};
use crate::plan::Planned;

/// Adds the three fields of the tightest quota. `told` are all that clients are told about.
pub(super) fn push<'a>(
    fields: &mut Fields,
    form: XRateLimit,
    (planned, status): (&Planned, &Status),
    told: impl Iterator<Item = (&'a Planned, &'a Status)>,
    now_ns: u64,
) {
    let mut limit = status.limit.unwrap_or(0).to_string();
    if form == XRateLimit::Draft03 {
        for (planned, status) in told {
            push_policy(&mut limit, planned, status);
        }
    }
    fields.push((Field::XLimit, limit));
    fields.push((Field::XRemaining, status.remaining.unwrap_or(0).to_string()));
    if let Some(wait) = wait(planned, status) {
        let reset = if form == XRateLimit::Epoch { now_ns.saturating_add(wait).div_ceil(SECOND) } else { seconds_up(wait) };
        fields.push((Field::XReset, reset.to_string()));
    }
}

/// One quota of the list. The window is not optional there, so a quota without one is not listed.
fn push_policy(list: &mut String, planned: &Planned, status: &Status) {
    if let Some(window) = window_s(planned, status) {
        let _ = write!(list, ", {};w={window};name=\"{}\"", status.limit.unwrap_or(0), planned.label);
    }
}

/// How long until the same call is admitted if it was denied, and until nothing is used any more otherwise; `None` if nobody knows or it is never.
fn wait(planned: &Planned, status: &Status) -> Option<Ticks> {
    let is_known = !matches!(planned.quota.shape(), Shape::Concurrency { .. }) && status.limit != Some(0);
    let wait = if status.is_allowed() { Some(status.reset_after) } else { status.retry_after };
    wait.filter(|_| is_known)
}

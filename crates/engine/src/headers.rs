//! A decision as HTTP header fields: `RateLimit-Policy`, `RateLimit` and `Retry-After`.
//!
//! The form is that of draft-ietf-httpapi-ratelimit-headers-11. Everything is rounded to whole seconds so that it stays true: waits up, what is left down.

use tidegate_core::decision::{Status, Verdict};
use tidegate_core::quota::Shape;
use tidegate_core::time::Ticks;

use crate::decision::Decision;
use crate::plan::Planned;

/// Parameter names, in one table because the draft is about to rename two of them.
const QUOTA: &str = "q";
const WINDOW: &str = "w";
const UNIT: &str = "qu";
const AVAILABLE: &str = "r";
const EFFECTIVE_WINDOW: &str = "t";

const SECOND: u64 = 1_000_000_000;

/// The fields to send with a response, whether it was allowed or denied. Unlimited quotas are not mentioned.
pub fn fields(decision: &Decision) -> Vec<(&'static str, String)> {
    let told = || decision.statuses().filter(|(_, status)| status.limit.is_some() && decision.is_told(status));
    let policies: Vec<String> = told().map(|(planned, status)| policy(planned, status)).collect();
    let mut fields = Vec::new();
    if !policies.is_empty() {
        fields.push(("RateLimit-Policy", policies.join(", ")));
    }
    // The tightest of those that clients are told about, which need not be the one that decides.
    if let Some(status) = Verdict::new(told().map(|(_, status)| *status).collect()).binding() {
        fields.push(("RateLimit", available(decision.planned(status), status)));
    }
    if let (false, Some(wait)) = (decision.is_allowed(), decision.verdict().retry_after()) {
        fields.push(("Retry-After", seconds_up(wait).max(1).to_string()));
    }
    fields
}

fn policy(planned: &Planned, status: &Status) -> String {
    let quota = status.limit.unwrap_or(0);
    let window = match *planned.quota.shape() {
        Shape::Concurrency { .. } => return format!("\"{}\";{QUOTA}={quota};{UNIT}=\"concurrent-requests\"", planned.label),
        // A bucket of B units fills in B / rate: that is the window in which B may be used.
        Shape::Gcra { limit, period_ns, .. } | Shape::LeakyBucket { limit, period_ns, .. } => scaled(quota, period_ns, limit),
        // Absent for calendar windows: a month has no fixed length, and the parameter is optional.
        _ => planned.quota.period_ns(),
    };
    match window.map(seconds_up) {
        Some(window) if window > 0 => format!("\"{}\";{QUOTA}={quota};{WINDOW}={window}", planned.label),
        _ => format!("\"{}\";{QUOTA}={quota}", planned.label),
    }
}

fn available(planned: &Planned, status: &Status) -> String {
    let remaining = status.remaining.unwrap_or(0);
    let window = match *planned.quota.shape() {
        // Nobody knows when slots come free; and a quota that never has room has no window either.
        Shape::Concurrency { .. } => return format!("\"{}\";{AVAILABLE}={remaining}", planned.label),
        _ if status.limit == Some(0) => return format!("\"{}\";{AVAILABLE}=0", planned.label),
        _ if remaining == 0 => status.retry_after.filter(|&wait| wait > 0).unwrap_or(status.reset_after),
        // With this window, available / window is the sustainable rate.
        Shape::Gcra { limit, period_ns, .. } | Shape::LeakyBucket { limit, period_ns, .. } => {
            scaled(remaining, period_ns, limit).unwrap_or(status.reset_after)
        }
        _ => status.reset_after,
    };
    format!("\"{}\";{AVAILABLE}={remaining};{EFFECTIVE_WINDOW}={}", planned.label, seconds_up(window))
}

/// `units * period / limit`, rounded up; `None` without a rate.
fn scaled(units: u64, period_ns: u64, limit: u64) -> Option<u64> {
    let time = (u128::from(units) * u128::from(period_ns)).div_ceil(u128::from(Some(limit).filter(|&limit| limit > 0)?));
    u64::try_from(time).ok()
}

fn seconds_up(wait: Ticks) -> u64 {
    wait.div_ceil(SECOND)
}

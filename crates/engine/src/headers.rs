//! A decision as HTTP header fields: `RateLimit-Policy`, `RateLimit`, `Retry-After` and, for those who know them, `X-RateLimit-*`.
//!
//! The form of the first two is that of draft-ietf-httpapi-ratelimit-headers-11. Everything is rounded to whole seconds so that it stays true: waits
//! and times up, what is left down.

mod x_ratelimit;

use smallvec::SmallVec;
use tidegate_core::decision::{Status, Verdict};
use tidegate_core::quota::Shape;
use tidegate_core::time::Ticks;

use crate::decision::Decision;
use crate::plan::Planned;

/// Parameter names, in one table because the draft is about to rename two of them.
const QUOTA: &str = "q";
const WINDOW: &str = "w";
const UNIT_REQUESTS: &str = ";qu=\"concurrent-requests\"";
const AVAILABLE: &str = "r";
const EFFECTIVE_WINDOW: &str = "t";

/// Room for one item with a label of usual length.
const ITEM_LEN: usize = 64;

const SECOND: u64 = 1_000_000_000;

/// The largest integer of a structured field (RFC 9651): who has more left is told this.
const INTEGER_MAX: u64 = 999_999_999_999_999;

/// Which fields are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Profile {
    /// `RateLimit-Policy` and `RateLimit`.
    pub standard: bool,
    /// `Retry-After` on denials.
    pub retry_after: bool,
    /// `X-RateLimit-Limit`, `-Remaining` and `-Reset`.
    pub x_ratelimit: XRateLimit,
}

/// The forms of `X-RateLimit-*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum XRateLimit {
    /// Not sent.
    Off,
    /// `Reset` is a time, in seconds since 1970.
    Epoch,
    /// `Reset` is a wait in seconds.
    Delta,
    /// As Envoy writes it, after the third revision of the draft: `Limit` also lists all quotas with their windows.
    Draft03,
}

impl Profile {
    /// What the standards say, and nothing else.
    pub const STANDARD: Self = Self { standard: true, retry_after: true, x_ratelimit: XRateLimit::Off };
}

/// A field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// `RateLimit-Policy`.
    Policy,
    /// `RateLimit`.
    RateLimit,
    /// `Retry-After`.
    RetryAfter,
    /// `X-RateLimit-Limit`.
    XLimit,
    /// `X-RateLimit-Remaining`.
    XRemaining,
    /// `X-RateLimit-Reset`.
    XReset,
}

impl Field {
    /// Its name in lower case, as HTTP/2 and ASGI write it.
    pub fn as_lower_case(self) -> &'static str {
        match self {
            Self::Policy => "ratelimit-policy",
            Self::RateLimit => "ratelimit",
            Self::RetryAfter => "retry-after",
            Self::XLimit => "x-ratelimit-limit",
            Self::XRemaining => "x-ratelimit-remaining",
            Self::XReset => "x-ratelimit-reset",
        }
    }

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Policy => "RateLimit-Policy",
            Self::RateLimit => "RateLimit",
            Self::RetryAfter => "Retry-After",
            Self::XLimit => "X-RateLimit-Limit",
            Self::XRemaining => "X-RateLimit-Remaining",
            Self::XReset => "X-RateLimit-Reset",
        }
    }
}

/// Fields with their values.
pub type Fields = SmallVec<[(Field, String); 4]>;

/// The standard fields to send with a response, whether it was allowed or denied. Unlimited quotas are not mentioned.
pub fn fields(decision: &Decision) -> Vec<(&'static str, String)> {
    fields_in(decision, Profile::STANDARD, 0).into_iter().map(|(field, value)| (field.as_str(), value)).collect()
}

/// The fields of a profile. `now_ns` is the time of the decision, in nanoseconds since 1970; only [`XRateLimit::Epoch`] asks for it.
pub fn fields_in(decision: &Decision, profile: Profile, now_ns: u64) -> Fields {
    let told = || decision.statuses().filter(|(_, status)| status.limit.is_some() && decision.is_told(status));
    // The tightest of those that clients are told about, which need not be the one that decides. Most often there is one.
    let tightest = match told().take(2).count() {
        0 | 1 => told().next(),
        _ => Verdict::new(told().map(|(_, status)| *status).collect())
            .binding()
            .and_then(|tightest| told().find(|(_, status)| status.quota == tightest.quota)),
    };
    let mut fields = Fields::new();
    if let (true, Some((planned, status))) = (profile.standard, tightest) {
        fields.push((Field::Policy, policies(told())));
        fields.push((Field::RateLimit, available(planned, status)));
    }
    if let (true, false, Some(wait)) = (profile.retry_after, decision.is_allowed(), decision.verdict().retry_after()) {
        fields.push((Field::RetryAfter, seconds_up(wait).max(1).to_string()));
    }
    if let (true, Some((planned, status))) = (profile.x_ratelimit != XRateLimit::Off, tightest) {
        x_ratelimit::push(&mut fields, profile.x_ratelimit, (planned, status), told(), now_ns);
    }
    fields
}

fn policies<'a>(told: impl Iterator<Item = (&'a Planned, &'a Status)>) -> String {
    let mut list = String::with_capacity(ITEM_LEN);
    for (planned, status) in told {
        list.push_str(if list.is_empty() { "" } else { ", " });
        label(&mut list, planned);
        parameter(&mut list, QUOTA, integer(status.limit));
        if matches!(planned.quota.shape(), Shape::Concurrency { .. }) {
            list.push_str(UNIT_REQUESTS);
        } else if let Some(window) = window_s(planned, status) {
            parameter(&mut list, WINDOW, window);
        }
    }
    list
}

/// The window of a quota in whole seconds, if it has one of a fixed length.
fn window_s(planned: &Planned, status: &Status) -> Option<u64> {
    let window = match *planned.quota.shape() {
        // A bucket of B units fills in B / rate: that is the window in which B may be used.
        Shape::Gcra { limit, period_ns, .. } | Shape::LeakyBucket { limit, period_ns, .. } => {
            scaled(status.limit.unwrap_or(0), period_ns, limit)
        }
        // Absent for calendar windows: a month has no fixed length, and the parameter is optional.
        _ => planned.quota.period_ns(),
    };
    window.map(seconds_up).filter(|&window| window > 0)
}

fn available(planned: &Planned, status: &Status) -> String {
    let remaining = status.remaining.unwrap_or(0);
    let window = match *planned.quota.shape() {
        // Nobody knows when slots come free; and a quota that never has room has no window either.
        Shape::Concurrency { .. } => None,
        _ if status.limit == Some(0) => None,
        _ if remaining == 0 && !status.is_allowed() => Some(status.retry_after.unwrap_or(status.reset_after)),
        // With this window, available / window is the sustainable rate. Who took the last unit waits no longer than for a whole one.
        Shape::Gcra { limit, period_ns, .. } | Shape::LeakyBucket { limit, period_ns, .. } => {
            Some(scaled(remaining.max(1), period_ns, limit).unwrap_or(status.reset_after))
        }
        _ => Some(status.reset_after),
    };
    let mut item = String::with_capacity(ITEM_LEN);
    label(&mut item, planned);
    parameter(&mut item, AVAILABLE, if status.limit == Some(0) { 0 } else { integer(Some(remaining)) });
    if let Some(window) = window {
        parameter(&mut item, EFFECTIVE_WINDOW, seconds_up(window));
    }
    item
}

// Not by `write!`: formatting takes longer than deciding, most of all for a caller that has thousands of other things to do between two requests.
fn label(text: &mut String, planned: &Planned) {
    text.push('"');
    text.push_str(&planned.label);
    text.push('"');
}

fn parameter(text: &mut String, name: &str, value: u64) {
    text.push(';');
    text.push_str(name);
    text.push('=');
    number(text, value);
}

fn number(text: &mut String, mut value: u64) {
    let (mut digits, mut first) = ([0; 20], 20);
    loop {
        first -= 1;
        digits[first] = b'0' + u8::try_from(value % 10).unwrap_or(0);
        value /= 10;
        if value == 0 {
            break;
        }
    }
    text.extend(digits[first..].iter().copied().map(char::from));
}

/// `units * period / limit`, rounded up; `None` without a rate.
fn scaled(units: u64, period_ns: u64, limit: u64) -> Option<u64> {
    let time = (u128::from(units) * u128::from(period_ns)).div_ceil(u128::from(Some(limit).filter(|&limit| limit > 0)?));
    u64::try_from(time).ok()
}

/// A number that a structured field can hold.
fn integer(units: Option<u64>) -> u64 {
    units.unwrap_or(0).min(INTEGER_MAX)
}

fn seconds_up(wait: Ticks) -> u64 {
    wait.div_ceil(SECOND)
}

//! Header fields for the client, and the body of a denial.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde_json::json;
use tidegate_core::descriptors::answer::{Answer, Status};
use tidegate_engine::headers::{self, Profile, XRateLimit};

use super::super::proto::HeaderValue;
use super::{Decided, field, name_of};
use crate::app::App;

const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";

const SECOND: u64 = 1_000_000_000;

/// The fields that tell of the tightest descriptor.
pub(super) fn of(app: &App, decided: &Decided) -> Vec<HeaderValue> {
    let profile = app.settings.headers.profile();
    if let Some(decision) = decided.tightest() {
        let fields = headers::fields_in(decision, profile, app.engine.now_ns());
        return fields.into_iter().map(|(name, value)| field(name.as_str(), value)).collect();
    }
    match decided.answer.tightest() {
        Some(tightest) => of_files(&decided.answer, tightest, profile, app.engine.now_ns()),
        None => Vec::new(),
    }
}

/// The three fields of the reference service, and those of the profile.
fn of_files(answer: &Answer, tightest: usize, profile: Profile, now_ns: u64) -> Vec<HeaderValue> {
    let status = &answer.statuses[tightest];
    let Some(limit) = &status.current_limit else { return Vec::new() };
    let reset_after_s = status.reset_after_s.unwrap_or(0);
    let mut fields = vec![
        field("RateLimit-Limit", limit.requests_per_unit.to_string()),
        field("RateLimit-Remaining", status.remaining.to_string()),
        field("RateLimit-Reset", reset_after_s.to_string()),
    ];
    if profile.standard {
        fields.push(field("RateLimit-Policy", policies(answer)));
        fields.push(field("RateLimit", format!("{};r={};t={reset_after_s}", quoted(status), status.remaining)));
    }
    if profile.retry_after && is_denied(answer) {
        let denials = answer.statuses.iter().filter(|status| status.is_over).filter_map(|status| status.reset_after_s);
        fields.extend(denials.max().map(|wait_s| field("Retry-After", wait_s.max(1).to_string())));
    }
    if profile.x_ratelimit != XRateLimit::Off {
        let reset = match profile.x_ratelimit {
            XRateLimit::Epoch => now_ns.div_ceil(SECOND) + reset_after_s,
            _ => reset_after_s,
        };
        let mut list = limit.requests_per_unit.to_string();
        if profile.x_ratelimit == XRateLimit::Draft03 {
            push_policies(&mut list, answer);
        }
        fields.push(field("X-RateLimit-Limit", list));
        fields.push(field("X-RateLimit-Remaining", status.remaining.to_string()));
        fields.push(field("X-RateLimit-Reset", reset.to_string()));
    }
    fields
}

fn is_denied(answer: &Answer) -> bool {
    answer.overall == tidegate_core::descriptors::answer::Code::OverLimit
}

fn policies(answer: &Answer) -> String {
    let mut policies = String::new();
    for status in &answer.statuses {
        let Some(limit) = &status.current_limit else { continue };
        let separator = if policies.is_empty() { "" } else { ", " };
        let _ = write!(policies, "{separator}{};q={}", quoted(status), limit.requests_per_unit);
        if limit.unit.seconds() > 0 {
            let _ = write!(policies, ";w={}", limit.unit.seconds());
        }
    }
    policies
}

/// All limits as Envoy lists them. One without a unit has no window, and is not listed.
fn push_policies(list: &mut String, answer: &Answer) {
    for status in &answer.statuses {
        if let Some(limit) = status.current_limit.as_ref().filter(|limit| limit.unit.seconds() > 0) {
            let _ = write!(list, ", {};w={};name={}", limit.requests_per_unit, limit.unit.seconds(), quoted(status));
        }
    }
}

/// The name of a limit as a text of a structured field. Names in files are free: what cannot be written is left out.
fn quoted(status: &Status) -> String {
    let mut text = String::from('"');
    for letter in name_of(status).unwrap_or(Cow::Borrowed("limit")).chars().filter(|letter| matches!(letter, ' '..='~')) {
        if matches!(letter, '"' | '\\') {
            text.push('\\');
        }
        text.push(letter);
    }
    text.push('"');
    text
}

/// The body of a denial. Which status Envoy answers with is Envoy's affair, so the body does not repeat it.
pub(super) fn problem(decided: &Decided) -> Vec<u8> {
    let denials = || decided.answer.statuses.iter().filter(|status| status.is_over);
    let mut problem = json!({
        "type": QUOTA_EXCEEDED,
        "title": "Quota Exceeded",
        "violated-policies": denials().filter_map(name_of).collect::<Vec<_>>(),
    });
    if let Some(wait_s) = denials().filter_map(|status| status.reset_after_s).max() {
        let unit = if wait_s == 1 { "second" } else { "seconds" };
        problem["detail"] = format!("try again in {wait_s} {unit}").into();
    }
    problem.to_string().into_bytes()
}

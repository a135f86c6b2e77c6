//! A decision as JSON, with the names and the meaning that it has in Python.

use tidegate_core::decision::Status;
use tidegate_engine::decision::Decision;
use tidegate_engine::headers::{Profile, fields_in};
use tidegate_engine::plan::Planned;
use tidegate_store::store::StoreError;

use super::write::Writer;

const SECOND: u64 = 1_000_000_000;

/// Room for the usual answer: one rule with one quota.
pub(super) const ANSWER_BYTES: usize = 640;

/// Writes what a check or a peek is answered, with the times as of `now_ns`, and with header fields for who asked for them.
pub(super) fn write(writer: &mut Writer, decision: &Decision, now_ns: u64, profile: Option<Profile>) {
    let verdict = decision.verdict();
    let binding = decision.binding();
    writer.open('{');
    writer.member("allowed").flag(decision.is_allowed());
    writer.member("rule").optional_text(binding.and_then(|(planned, _)| planned.rule.as_deref()));
    writer.member("limit").optional_number(binding.and_then(|(_, status)| status.limit));
    writer.member("remaining").optional_number(verdict.remaining());
    writer.member("reset_at").optional_number(binding.map(|_| epoch(now_ns, verdict.reset_after())));
    writer.member("reset_after").seconds(verdict.reset_after());
    writer.member("retry_after").optional_seconds(verdict.retry_after());
    writer.member("retry_is_hint").flag(verdict.retry_is_hint());
    writer.member("delay").seconds(verdict.delay());
    writer.member("cost").number(decision.cost());
    writer.member("lease").optional_text(decision.lease().map(|lease| format!("{lease:032x}")).as_deref());
    write_state(writer, decision);
    writer.member("shadowed").open('[');
    for name in decision.shadowed() {
        writer.text(name);
    }
    writer.close(']');
    writer.member("quotas").open('[');
    for (planned, status) in decision.statuses() {
        writer.open('{');
        write_quota(writer, planned, status);
        writer.member("allowed").flag(status.is_allowed());
        writer.member("retry_after").optional_seconds(status.retry_after);
        write_reset(writer, status, now_ns);
        writer.close('}');
    }
    writer.close(']');
    if let Some(profile) = profile {
        writer.member("fields").open('{');
        for (field, value) in fields_in(decision, profile, now_ns) {
            writer.member(field.as_str()).text(&value);
        }
        writer.close('}');
    }
    writer.close('}');
}

/// Writes what a question for usage is answered: the decision took nothing.
pub(super) fn write_usage(writer: &mut Writer, decision: &Decision, now_ns: u64) {
    writer.open('{');
    write_state(writer, decision);
    writer.member("quotas").open('[');
    for (planned, status) in decision.statuses() {
        writer.open('{');
        write_quota(writer, planned, status);
        let used = status.limit.zip(status.remaining).map(|(limit, remaining)| limit.saturating_sub(remaining));
        writer.member("used").optional_number(used);
        write_reset(writer, status, now_ns);
        writer.close('}');
    }
    writer.close(']');
    writer.close('}');
}

/// Who decided: the rules, their generation, and whether the store did.
fn write_state(writer: &mut Writer, decision: &Decision) {
    writer.member("degraded").flag(decision.degraded().is_some());
    writer.member("reason").optional_text(decision.degraded().map(StoreError::kind));
    writer.member("generation").number(decision.generation());
    writer.member("rules").open('[');
    for name in decision.rules() {
        writer.text(name);
    }
    writer.close(']');
}

fn write_quota(writer: &mut Writer, planned: &Planned, status: &Status) {
    writer.member("name").text(&planned.label);
    writer.member("rule").optional_text(planned.rule.as_deref());
    writer.member("quota").text(&planned.text);
    writer.member("algorithm").text(planned.quota.algorithm().map_or("unlimited", |algorithm| algorithm.as_str()));
    writer.member("mode").text(if status.is_shadow { "shadow" } else { "enforce" });
    writer.member("limit").optional_number(status.limit);
    writer.member("remaining").optional_number(status.remaining);
}

fn write_reset(writer: &mut Writer, status: &Status, now_ns: u64) {
    writer.member("reset_after").seconds(status.reset_after);
    writer.member("reset_at").number(epoch(now_ns, status.reset_after));
}

/// The time after a wait, in whole seconds since 1970: rounded up, so that it is true then.
fn epoch(now_ns: u64, wait_ns: u64) -> u64 {
    now_ns.saturating_add(wait_ns).div_ceil(SECOND)
}

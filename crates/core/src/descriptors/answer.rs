//! From what was counted to the codes of the answer.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::tree::Limit;
use super::unit::Unit;

/// What the answer says is left when nothing is limited.
pub const REMAINING_UNLIMITED: u32 = u32::MAX;

/// Whether a descriptor, or the request, may pass. The numbers are those of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// It may.
    Ok = 1,
    /// It may not.
    OverLimit = 2,
}

/// The limit as the answer shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CurrentLimit {
    /// Its name.
    pub name: Option<Arc<str>>,
    /// So many ...
    pub requests_per_unit: u32,
    /// ... per unit.
    pub unit: Unit,
}

/// What was counted for one descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count {
    /// Whether there is more than the limit allows.
    pub is_over: bool,
    /// What is left.
    pub remaining: u64,
    /// Until it is counted afresh.
    pub reset_after_s: u64,
}

/// The answer to one descriptor.
#[derive(Debug, Clone, PartialEq, Default)]
#[allow(clippy::struct_excessive_bools, reason = "each is a word of the answer")]
pub struct Status {
    /// Whether there is more than the limit allows and it is enforced.
    pub is_over: bool,
    /// The path of the limit in the trees; `None` if there is none, or if the descriptor brought its own.
    pub path: Option<Arc<str>>,
    /// The limit; `None` if there is none.
    pub current_limit: Option<CurrentLimit>,
    /// What is left; [`REMAINING_UNLIMITED`] if everything is.
    pub remaining: u32,
    /// Whole seconds until it is counted afresh, never 0.
    pub reset_after_s: Option<u64>,
    /// Whether it would have been over, were it not in shadow.
    pub is_shadowed: bool,
    /// Whether it denies only together with all others of its kind.
    pub is_quota: bool,
    /// Whether it is explicitly unlimited.
    pub is_unlimited: bool,
    /// What the node says about itself.
    pub metadata: Option<Arc<Value>>,
}

/// How all requests are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Modes {
    /// Every request passes, although its statuses say what they say.
    pub is_shadow: bool,
    /// Every descriptor that is not unlimited denies only together with all others, also one that has no limit.
    pub is_quota: bool,
}

/// The answer to a request: one status for each descriptor, in their order.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// Whether the request may pass.
    pub overall: Code,
    /// The answers to its descriptors.
    pub statuses: Vec<Status>,
}

impl Status {
    /// Its code.
    pub fn code(&self) -> Code {
        if self.is_over { Code::OverLimit } else { Code::Ok }
    }

    /// The answer where nothing is limited on purpose.
    pub fn unlimited() -> Self {
        Self { remaining: REMAINING_UNLIMITED, is_unlimited: true, ..Self::default() }
    }

    /// The answer by a node's limit.
    pub fn limited(limit: &Limit, count: Count) -> Self {
        let current = CurrentLimit { name: limit.name.clone(), requests_per_unit: limit.requests_per_unit, unit: limit.unit };
        Self {
            is_over: count.is_over && !limit.is_shadow,
            path: Some(Arc::clone(&limit.path)),
            is_shadowed: count.is_over && limit.is_shadow,
            is_quota: limit.is_quota,
            metadata: limit.metadata.clone(),
            ..Self::own(current, count)
        }
    }

    /// The answer by a limit that the descriptor brought along.
    pub fn own(limit: CurrentLimit, count: Count) -> Self {
        Self {
            is_over: count.is_over,
            current_limit: Some(limit),
            remaining: if count.is_over { 0 } else { u32::try_from(count.remaining).unwrap_or(u32::MAX) },
            reset_after_s: Some(count.reset_after_s.max(1)),
            ..Self::default()
        }
    }
}

impl Answer {
    /// Combines what the descriptors were answered.
    pub fn new(mut statuses: Vec<Status>, modes: Modes) -> Self {
        for status in &mut statuses {
            status.is_quota = !status.is_unlimited && (status.is_quota || modes.is_quota);
        }
        let is_denied = statuses.iter().any(|status| status.is_over && !status.is_quota);
        let mut quotas = statuses.iter().filter(|status| status.is_quota).peekable();
        let is_used_up = quotas.peek().is_some() && quotas.all(|status| status.is_over);
        let is_over = (is_denied || is_used_up) && !modes.is_shadow;
        Self { overall: if is_over { Code::OverLimit } else { Code::Ok }, statuses }
    }

    /// The descriptor whose limit headers tell: the last that denies and is no quota, otherwise the first with the least left.
    pub fn tightest(&self) -> Option<usize> {
        let denies = |status: &Status| status.is_over && !status.is_quota;
        let limited = || self.statuses.iter().enumerate().filter(|(_, status)| status.current_limit.is_some());
        self.statuses
            .iter()
            .rposition(denies)
            .or_else(|| limited().min_by_key(|(_, status)| status.remaining).map(|(index, _)| index))
    }

    /// The metadata of all descriptors that passed, merged; where two say something else, the first wins.
    pub fn metadata(&self) -> Option<Value> {
        let passed = self.statuses.iter().filter(|status| !status.is_over).filter_map(|status| status.metadata.as_deref());
        let mut merged = Map::new();
        for fields in passed.filter_map(Value::as_object) {
            merge(&mut merged, fields);
        }
        (!merged.is_empty()).then_some(Value::Object(merged))
    }
}

fn merge(into: &mut Map<String, Value>, from: &Map<String, Value>) {
    for (name, value) in from {
        match (into.get_mut(name), value) {
            (None, _) => _ = into.insert(name.clone(), value.clone()),
            (Some(Value::Object(fields)), Value::Object(more)) => merge(fields, more),
            (Some(_), _) => {}
        }
    }
}

/// Which of the limits of one request are replaced by others, that is named by one of them. What is unlimited stays so.
pub fn replaced(limits: &[Option<&Limit>]) -> Vec<bool> {
    let names: Vec<&str> = limits.iter().flatten().flat_map(|limit| &limit.replaces).map(|name| &**name).collect();
    let is_replaced = |limit: &Limit| !limit.is_unlimited() && limit.name.as_deref().is_some_and(|name| names.contains(&name));
    limits.iter().map(|limit| limit.is_some_and(is_replaced)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn status(letters: &str, remaining: u32) -> Status {
        let has = |letter| letters.contains(letter);
        let limit = CurrentLimit { name: None, requests_per_unit: 5, unit: Unit::Minute };
        Status {
            is_over: has('o'),
            is_quota: has('q'),
            is_unlimited: has('u'),
            current_limit: (!has('u') && !has('n')).then_some(limit),
            remaining,
            ..Status::default()
        }
    }

    fn overall(statuses: &[&str], modes: Modes) -> Code {
        Answer::new(statuses.iter().map(|letters| status(letters, 0)).collect(), modes).overall
    }

    #[test]
    fn one_descriptor_denies_and_quotas_deny_only_together() {
        let cases: [(&[&str], Code); 9] = [
            (&["", ""], Code::Ok),
            (&["", "o"], Code::OverLimit),
            (&["q", "qo"], Code::Ok),
            (&["qo", "qo"], Code::OverLimit),
            (&["qo"], Code::OverLimit),
            (&["qo", ""], Code::OverLimit),
            (&["q", "o"], Code::OverLimit),
            (&["q", "n"], Code::Ok),
            (&["qo", "u"], Code::OverLimit),
        ];
        for (statuses, expected) in cases {
            assert_eq!(overall(statuses, Modes::default()), expected, "{statuses:?}");
        }
    }

    #[test]
    fn with_quotas_everywhere_also_a_descriptor_without_a_limit_lets_the_request_pass() {
        let modes = Modes { is_quota: true, ..Modes::default() };

        assert_eq!(overall(&["o", "n"], modes), Code::Ok);
        assert_eq!(overall(&["o", "u"], modes), Code::OverLimit);
        assert_eq!(overall(&["o", "o"], modes), Code::OverLimit);
        assert_eq!(overall(&["u"], modes), Code::Ok);
    }

    #[test]
    fn shadow_everywhere_changes_only_the_overall_code() {
        let answer = Answer::new(vec![status("o", 0)], Modes { is_shadow: true, ..Modes::default() });

        assert_eq!((answer.overall, answer.statuses[0].code()), (Code::Ok, Code::OverLimit));
    }

    #[test]
    fn headers_tell_the_last_denial_or_the_first_with_the_least_left() {
        let tightest = |statuses: &[(&str, u32)]| {
            Answer::new(statuses.iter().map(|(letters, remaining)| status(letters, *remaining)).collect(), Modes::default())
                .tightest()
        };

        assert_eq!(tightest(&[("o", 0), ("o", 0), ("qo", 0)]), Some(1));
        assert_eq!(tightest(&[("", 4), ("", 3), ("", 3)]), Some(1));
        assert_eq!(tightest(&[("n", 0), ("", 3)]), Some(1));
        assert_eq!(tightest(&[("n", 0), ("u", REMAINING_UNLIMITED)]), None);
    }

    #[test]
    fn metadata_of_what_passed_is_merged_and_the_first_wins() {
        let with = |letters, metadata| Status { metadata: Some(Arc::new(metadata)), ..status(letters, 0) };
        let statuses = vec![
            with("", json!({"team": "a", "deep": {"x": 1}})),
            with("o", json!({"secret": true})),
            with("", json!({"team": "b", "deep": {"x": 2, "y": 3}, "more": [1]})),
        ];

        let metadata = Answer::new(statuses, Modes::default()).metadata();

        assert_eq!(metadata, Some(json!({"team": "a", "deep": {"x": 1, "y": 3}, "more": [1]})));
        assert_eq!(Answer::new(vec![status("", 0)], Modes::default()).metadata(), None);
    }
}

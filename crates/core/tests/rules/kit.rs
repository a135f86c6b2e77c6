//! Rule sets from short documents, and what they make of requests from short lists of facts.

use serde_json::{Value, json};
use tidegate_core::rules::explain::Outcome;
use tidegate_core::rules::identity::Claims;
use tidegate_core::rules::{Members, PlanOf, Request, RuleSet, RuleSetError};

/// A rule that applies, in words.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) rule: String,
    pub(crate) key: Vec<String>,
    pub(crate) plan: String,
    pub(crate) cost: u64,
}

/// Believes tokens of the form `claim=value`.
pub(crate) struct Believer;

impl Claims for Believer {
    fn claim(&self, header: &str, name: &str) -> Option<String> {
        header.split_once('=').filter(|(claim, _)| *claim == name).map(|(_, value)| value.to_owned())
    }
}

/// A rule with what is given, and else the least that a rule needs.
pub(crate) fn rule(given: &Value) -> Value {
    let mut rule = json!({
        "name": "rule", "per": [], "quotas": [{"text": "10/minute"}], "cost": {"units": 1}, "mode": "enforce", "rollout": 10_000,
        "priority": 0, "stop": false, "headers": true,
    });
    for (key, value) in given.as_object().expect("a mapping") {
        rule[key] = value.clone();
    }
    rule
}

/// A condition that must hold, in the case that is written.
pub(crate) fn condition(attribute: &str, test: &Value) -> Value {
    json!({"attribute": attribute, "test": test, "not": false, "ignore_case": false})
}

/// The same, but it must not hold.
pub(crate) fn not(mut condition: Value) -> Value {
    condition["not"] = json!(true);
    condition
}

/// The same, in any case.
pub(crate) fn ignoring_case(mut condition: Value) -> Value {
    condition["ignore_case"] = json!(true);
    condition
}

/// A set of these rules, with these sources of identity.
pub(crate) fn try_set(identity: &Value, rules: &[Value]) -> Result<RuleSet, RuleSetError> {
    let rules: Vec<Value> = rules.iter().map(rule).collect();
    let jwt = json!({"header": "authorization", "verified_by": "upstream"});
    let document = json!({"version": 1, "domain": "test", "identity": identity, "jwt": jwt, "rules": rules});
    RuleSet::new(serde_json::from_value(document).expect("a document"))
}

pub(crate) fn set(identity: &Value, rules: &[Value]) -> RuleSet {
    try_set(identity, rules).expect("a rule set")
}

/// The request with these facts, identified.
pub(crate) fn request<'a>(set: &'a RuleSet, facts: &'a [(&str, &str)]) -> Request<'a> {
    let mut request = set.request();
    for (name, value) in facts {
        request.set(name, *value);
    }
    set.identity().resolve(&mut request, &Believer);
    request
}

/// What applies, after making sure that matching and explaining agree on it.
pub(crate) fn found(set: &RuleSet, facts: &[(&str, &str)]) -> Vec<Found> {
    found_by(set, &Members::default(), facts)
}

/// A digest that anybody can compute: the key itself, as far as it fits.
pub(crate) fn digest(key: &[u8]) -> [u64; 2] {
    let mut bytes = [0; 16];
    key.iter().take(16).zip(&mut bytes).for_each(|(from, to)| *to = *from);
    let half = |at: usize| u64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    [half(0), half(8)]
}

/// The same as a document has it.
pub(crate) fn digest_text(key: &str) -> String {
    let [first, second] = digest(key.as_bytes());
    format!("{first:016x}{second:016x}")
}

/// What applies, with members.
pub(crate) fn found_by(set: &RuleSet, members: &Members, facts: &[(&str, &str)]) -> Vec<Found> {
    let mut request = request(set, facts);
    let standing = members.join(&mut request, digest);
    let matches = set.matches(&request, standing, None);
    let applied: Vec<_> =
        matches.rules.iter().map(|found| (found.rule, found.plan, found.cost, &matches.keys[found.key].1)).collect();
    let outcomes = set.explain(&request, standing, false);
    let explained: Vec<_> = outcomes
        .iter()
        .filter_map(|outcome| match outcome {
            Outcome::Applies { found, key, bytes } => Some((found, key, bytes)),
            _ => None,
        })
        .collect();
    let agreed: Vec<_> = explained.iter().map(|(found, _, bytes)| (found.rule, found.plan, found.cost, *bytes)).collect();
    assert_eq!(applied, agreed, "{facts:?}");
    let found = explained.into_iter().map(|(found, key, _)| Found {
        rule: set.rules()[found.rule].name.to_string(),
        key: key.clone(),
        plan: match found.plan {
            PlanOf::Rule(plan) => set.rules()[found.rule].plans[plan].name.to_string(),
            PlanOf::Member(plan) => members.plans()[plan].name.to_string(),
        },
        cost: found.cost,
    });
    found.collect()
}

/// The names of the rules that apply.
pub(crate) fn names(set: &RuleSet, facts: &[(&str, &str)]) -> Vec<String> {
    found(set, facts).into_iter().map(|found| found.rule).collect()
}

/// Whether a rule with this one condition applies.
pub(crate) fn holds(condition: &Value, facts: &[(&str, &str)]) -> bool {
    !found(&set(&json!([]), &[json!({"match": [condition]})]), facts).is_empty()
}

/// The key of the only rule, if it applies.
pub(crate) fn key(set: &RuleSet, facts: &[(&str, &str)]) -> Option<String> {
    found(set, facts).pop().map(|found| found.key.join(" "))
}

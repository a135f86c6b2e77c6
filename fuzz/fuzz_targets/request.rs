//! Any request against rules of every kind: facts have one spelling, and matching and explaining agree.
//!
//! The input is one fact a line, in the order of [`NAMES`].

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use tidegate_core::rules::explain::Outcome;
use tidegate_core::rules::identity::Claims;
use tidegate_core::rules::path::normalize;
use tidegate_core::rules::{Request, RuleSet, Standing};

const NAMES: [&str; 10] = [
    "path",
    "host",
    "ip",
    "header:x-forwarded-for",
    "method",
    "header:X-Api-Key",
    "header:authorization",
    "query:page",
    "tier",
    "size",
];

static RULES: LazyLock<RuleSet> = LazyLock::new(|| {
    let document = serde_json::from_str(include_str!("../rules.json")).expect("a document");
    RuleSet::new(document).expect("a rule set")
});

/// Believes everybody.
struct Believer;

impl Claims for Believer {
    fn claim(&self, header: &str, _name: &str) -> Option<String> {
        Some(header.to_owned())
    }
}

fuzz_target!(|text: &str| {
    let facts: Vec<(&str, &str)> = NAMES.into_iter().zip(text.split('\n')).collect();
    assert_path_is_normal(facts.first().map_or("", |(_, path)| path));
    let mut request = RULES.request();
    for (name, value) in &facts {
        request.set(name, *value);
    }
    assert_facts_are_spelled(&request);
    RULES.identity().resolve(&mut request, &Believer);
    assert_matched_as_explained(&request);
});

fn assert_path_is_normal(path: &str) {
    let normal = normalize(path);
    assert_eq!(normalize(&normal), normal, "{path:?}");
    assert!(normal.starts_with('/') && !normal.contains(['?', '#', ' ', '\0']));
    assert!(normal == "/" || normal[1..].split('/').all(|segment| !matches!(segment, "" | "." | "..")), "{path:?}");
}

/// Stated again as they are seen, they are the same.
fn assert_facts_are_spelled(request: &Request<'_>) {
    let mut again = RULES.request();
    for (name, value) in request.facts() {
        again.set(name, value.into_owned());
    }
    assert!(request.facts().eq(again.facts()));
}

fn assert_matched_as_explained(request: &Request<'_>) {
    let matches = RULES.matches(request, Standing::default(), None);
    let matched = matches.rules.iter().map(|found| (found.rule, found.plan, found.cost, &matches.keys[found.key].1));
    let outcomes = RULES.explain(request, Standing::default(), false);
    let explained = outcomes.iter().filter_map(|outcome| match outcome {
        Outcome::Applies { found, bytes, .. } => Some((found.rule, found.plan, found.cost, bytes)),
        _ => None,
    });
    assert!(matched.eq(explained));
}

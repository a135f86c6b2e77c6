//! Any document is either compiled, and then says the same whether it is matched or explained, or refused with a message.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_core::rules::explain::Outcome;
use tidegate_core::rules::identity::NoClaims;
use tidegate_core::rules::{RuleSet, RuleSetSpec, Standing};

const FACTS: [(&str, &str); 8] = [
    ("method", "POST"),
    ("path", "/api/v1/orders/7"),
    ("host", "api.example.com"),
    ("ip", "10.0.0.1"),
    ("header:x-api-key", "abc"),
    ("header:x-forwarded-for", "198.51.100.7, 10.0.0.2"),
    ("tier", "pro"),
    ("size", "12"),
];

fuzz_target!(|document: &[u8]| {
    let Ok(spec) = serde_json::from_slice::<RuleSetSpec>(document) else { return };
    match RuleSet::new(spec) {
        Ok(set) => assert_matched_as_explained(&set),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});

fn assert_matched_as_explained(set: &RuleSet) {
    let mut request = set.request();
    for (name, value) in FACTS {
        request.set(name, value);
    }
    set.identity().resolve(&mut request, &NoClaims);
    let matches = set.matches(&request, Standing::default(), None);
    let matched: Vec<_> = matches.rules.iter().map(|found| (found.rule, found.plan, found.cost)).collect();
    let outcomes = set.explain(&request, Standing::default(), false);
    let explained: Vec<_> = outcomes
        .iter()
        .filter_map(|outcome| match outcome {
            Outcome::Applies { found, .. } => Some((found.rule, found.plan, found.cost)),
            _ => None,
        })
        .collect();
    assert_eq!(matched, explained);
}

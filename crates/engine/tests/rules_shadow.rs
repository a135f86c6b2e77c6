//! Rules that only say what they would have said: shadow, and the part of a rollout that is not reached yet.

mod rules;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::json;
use tidegate_core::rules::explain::Outcome;

use rules::{Ruled, SECOND, Text, cases, exact};

fn shadowed(limiter: &Ruled, facts: &str) -> Vec<String> {
    limiter.check(facts).shadowed().iter().map(ToString::to_string).collect()
}

#[test]
fn a_shadow_rule_denies_nothing_and_says_what_it_would_have_denied() {
    let limiter = Ruled::new(&[json!({"name": "shadow", "mode": "shadow", "quotas": "2/minute, 100/hour"})]);
    for expected in [&[][..], &[], &["shadow"], &["shadow"]] {
        let decision = limiter.check("");
        assert!(decision.is_allowed() && decision.binding().is_none());
        assert_eq!(decision.shadowed().iter().map(|name| &***name).collect::<Vec<_>>(), expected);
    }
    assert_eq!(limiter.left(""), [0, 98], "it charged only what it would have admitted");
    limiter.advance(60 * SECOND);
    assert!(shadowed(&limiter, "").is_empty());
}

#[test]
fn what_an_enforced_rule_denies_is_not_charged_to_a_shadow_rule() {
    let limiter = Ruled::new(&[
        json!({"name": "enforced", "quotas": "3/minute"}),
        json!({"name": "shadow", "mode": "shadow", "quotas": "10/minute"}),
    ]);
    assert_eq!(limiter.count("", 20), 3);
    assert_eq!(limiter.left(""), [0, 7]);
}

#[test]
fn a_shadow_rule_that_would_deny_does_not_keep_others_from_being_charged() {
    let limiter = Ruled::new(&[
        json!({"name": "first", "mode": "shadow", "quotas": "1/minute"}),
        json!({"name": "enforced", "quotas": "10/minute"}),
        json!({"name": "second", "mode": "shadow", "quotas": "5/minute"}),
    ]);
    assert_eq!(limiter.count("", 7), 7);
    assert_eq!(limiter.left(""), [0, 3, 0]);
    assert_eq!(shadowed(&limiter, ""), ["first", "second"]);
}

#[test]
fn a_rule_that_is_off_counts_nothing() {
    let limiter = Ruled::new(&[json!({"mode": "off", "quotas": "1/minute"})]);
    assert_eq!(limiter.count("", 5), 5);
    assert_eq!(limiter.engine.stats().store.keys, 0);
}

#[test]
fn headers_are_about_rules_that_are_enforced_and_may_be_told() {
    let limiter = Ruled::new(&[
        json!({"name": "told", "quotas": "10/minute"}),
        json!({"name": "silent", "quotas": "9/minute", "headers": false}),
        json!({"name": "shadow", "quotas": "8/minute", "mode": "shadow"}),
    ]);
    let decision = limiter.check("");
    let told: Vec<_> = decision
        .statuses()
        .filter(|(_, status)| decision.is_told(status))
        .filter_map(|(planned, _)| planned.rule.as_deref())
        .collect();
    assert_eq!(told, ["told"]);
}

#[test]
fn a_refund_gives_back_to_shadow_rules_what_they_took() {
    let limiter = Ruled::new(&[json!({"name": "enforced"}), json!({"name": "shadow", "mode": "shadow", "quotas": "1/minute"})]);
    let (first, second) = (limiter.check(""), limiter.check(""));
    assert_eq!(limiter.left(""), [8, 0]);
    limiter.engine.refund_decision(&second, None).expect("a call that makes sense");
    assert_eq!(limiter.left(""), [9, 0], "the shadow rule would have denied the second, and took nothing");
    limiter.engine.refund_decision(&first, None).expect("a call that makes sense");
    assert_eq!(limiter.left(""), [10, 1]);
}

/// The clients for which a rule with this rollout is enforced.
fn enforced(name: &str, rollout: u16) -> Vec<bool> {
    let limiter = Ruled::new(&[json!({"name": name, "per": ["client"], "rollout": rollout})]);
    let is_enforced = |client: usize| {
        let facts = format!("client={client}");
        let (_, explained) = limiter.engine.explain(&Text(&facts)).expect("a call that makes sense");
        let is_enforced = !limiter.peek(&facts).statuses().next().expect("a quota").1.is_shadow;
        assert_eq!(explained[0].is_enforced, is_enforced, "an explanation says the same");
        is_enforced
    };
    (0..10_000).map(is_enforced).collect()
}

#[test]
fn a_rollout_enforces_about_its_share_of_keys_and_the_same_ones_everywhere() {
    for (rollout, share) in [(0, 0..=0), (1_000, 880..=1_120), (5_000, 4_800..=5_200), (10_000, 10_000..=10_000)] {
        let keys = enforced("rule", rollout);
        let count = keys.iter().filter(|&&is_enforced| is_enforced).count();
        assert!(share.contains(&count), "{count} of 10,000 at {rollout}");
        assert_eq!(keys, enforced("rule", rollout), "another engine says the same");
    }
}

#[test]
fn a_key_that_a_rollout_has_reached_stays_reached() {
    let steps: Vec<_> = [100, 1_000, 3_000, 5_001, 9_999, 10_000].map(|rollout| enforced("rule", rollout)).into();
    for pair in steps.windows(2) {
        assert!(pair[0].iter().zip(&pair[1]).all(|(before, after)| !before || *after));
    }
}

#[test]
fn each_rule_draws_its_own_keys() {
    let (one, other) = (enforced("one", 5_000), enforced("other", 5_000));
    let both = one.iter().zip(&other).filter(|(one, other)| **one && **other).count();
    assert!((2_250..=2_750).contains(&both), "{both} of 10,000 are in both halves");
}

#[test]
fn the_keys_of_a_rollout_are_the_same_for_ever() {
    // If this fails, a deployment changes for whom rules are enforced: the choice must depend on nothing but the names.
    let first: Vec<usize> =
        enforced("rule", 1_000).iter().enumerate().filter(|(_, is)| **is).map(|(client, _)| client).take(5).collect();
    assert_eq!(first, FIRST_OF_TEN_PERCENT);
}

const FIRST_OF_TEN_PERCENT: [usize; 5] = [14, 25, 38, 56, 66];

#[test]
fn two_versions_of_a_rule_share_the_keys_without_a_gap() {
    let limiter = Ruled::new(&[
        json!({"name": "orders", "per": ["client"], "rollout_from": 2_500}),
        json!({"name": "orders~12", "per": ["client"], "rollout": 2_500}),
    ]);
    let mut reached = 0;
    for client in 0..2_000 {
        let (_, rules) = limiter.engine.explain(&Text(&format!("client={client}"))).expect("a call that makes sense");
        assert_ne!(rules[0].is_enforced, rules[1].is_enforced, "client {client} has exactly one of them");
        reached += usize::from(rules[1].is_enforced);
    }
    assert!((400..=600).contains(&reached), "{reached} of 2,000 at 25 %");
}

#[test]
fn a_rollout_keeps_counting_when_it_reaches_a_key() {
    let rules = |rollout: u16| [json!({"per": ["client"], "quotas": "5/minute", "rollout": rollout})];
    let limiter = Ruled::new(&rules(0));
    assert_eq!(limiter.count("client=a", 4), 4);
    limiter.load(&rules(10_000), tidegate_engine::plan::Transition::Safe);
    assert_eq!(limiter.count("client=a", 4), 1, "four were counted in shadow");
}

#[test]
fn an_explanation_says_what_would_be_asked() {
    let limiter = Ruled::new(&[
        json!({"name": "shadow", "mode": "shadow", "per": ["client"], "quotas": "5/minute", "tiers": {"pro": "7/minute, 70/hour"}}),
        json!({"name": "other", "match": [exact("path", "/x")]}),
    ]);
    let (seen, explained) = limiter.engine.explain(&Text("client=a tier=pro")).expect("a call that makes sense");
    assert!(seen.contains(&("client".to_owned(), "a".to_owned())));
    assert_eq!((explained[0].plan.as_str(), explained[0].is_enforced, explained[0].quotas.len()), ("tier pro", false, 2));
    assert!(matches!(explained[1].outcome, Outcome::NoMatch { .. }));
    assert_eq!(limiter.left("client=a tier=pro"), [7, 70], "and takes nothing");
}

proptest! {
    #![proptest_config(cases(1_000))]

    /// A shadow rule says, request by request, what it would have said if it had been enforced; as far as no other rule denies.
    #[test]
    fn a_shadow_rule_simulates_its_enforcement(
        quotas in select(vec!["3/10s", "4/12s sliding_window_counter", "3/20s fixed_window", "4/20s burst 2", "2/5s, 5/30s", "3/10s queue 5s"]),
        steps in vec((1..=3_u64, 0..6_000_u64), 1..80),
    ) {
        let rule = |mode: &str| json!({"quotas": quotas, "mode": mode, "cost": {"attribute": "size", "default": 1, "max": null}});
        let (enforced, shadow) = (Ruled::new(&[rule("enforce")]), Ruled::new(&[rule("shadow")]));
        for (size, millis) in steps {
            let facts = format!("size={size}");
            let decision = shadow.check(&facts);
            prop_assert!(decision.is_allowed());
            prop_assert_eq!(decision.shadowed().is_empty(), enforced.allows(&facts));
            prop_assert_eq!(shadow.left(""), enforced.left(""));
            for limiter in [&enforced, &shadow] {
                limiter.advance(millis * (SECOND / 1_000));
            }
        }
    }
}

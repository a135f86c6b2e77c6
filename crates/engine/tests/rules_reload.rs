//! Rules that change while they are in force.

mod rules;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use serde_json::{Value, json};
use tidegate_engine::plan::{LoadError, Transition};

use rules::{Ruled, SECOND, document, exact};

#[test]
fn counters_survive_a_reload_that_changes_anything_but_the_window() {
    let limiter = Ruled::new(&[json!({"name": "limit", "per": ["client"], "quotas": "10/minute"})]);
    assert_eq!(limiter.count("client=a path=/", 6), 6);
    let changes = [
        (json!({"name": "limit", "per": ["client"], "quotas": "8/minute"}), 2),
        (
            json!({"name": "limit", "per": ["client"], "quotas": "20/minute", "priority": 9, "mode": "shadow", "owner": "somebody"}),
            14,
        ),
        (
            json!({"name": "limit", "per": ["client"], "quotas": "20/minute", "match": [exact("path", "/")], "cost": {"units": 2}}),
            14,
        ),
        (json!({"name": "limit", "per": ["client"], "quotas": "5/minute"}), 0),
        (json!({"name": "limit", "per": ["client"], "quotas": "10/minute"}), 4),
    ];
    for (rule, left) in changes {
        limiter.load(&[json!({"name": "other", "match": [exact("path", "/x")]}), rule.clone()], Transition::Safe);
        assert_eq!(limiter.left("client=a path=/"), [left], "{rule}");
    }
}

#[test]
fn a_rule_of_another_name_counts_afresh() {
    let limiter = Ruled::new(&[json!({"name": "a"})]);
    assert!(limiter.allows(""));
    limiter.load(&[json!({"name": "b"})], Transition::Safe);
    assert_eq!(limiter.left(""), [10]);
    limiter.load(&[json!({"name": "a"})], Transition::Safe);
    assert_eq!(limiter.left(""), [9], "and the old one is remembered as long as it counts");
}

#[test]
fn a_safe_transition_is_made_for_each_plan() {
    let rules = |default: &str, pro: &str| [json!({"per": ["client"], "quotas": default, "tiers": {"pro": pro}})];
    let limiter = Ruled::new(&rules("5/minute", "10/minute"));
    assert_eq!((limiter.count("client=a", 9), limiter.count("client=p tier=pro", 99)), (5, 10));
    // Only the default plan gets another window.
    limiter.load(&rules("50/hour", "12/minute"), Transition::Safe);
    assert_eq!(limiter.left("client=a"), [50, 45], "the old quota is asked beside the new one, with the higher limit");
    assert_eq!(limiter.left("client=p tier=pro"), [2], "the other plan has nothing to phase out");
    assert_eq!(limiter.count("client=a", 99), 45, "the change admits nothing extra");
    limiter.advance(60 * SECOND);
    assert_eq!(limiter.left("client=a"), [5], "the old quota is over");
    assert_eq!(limiter.count("client=a", 99), 5);
}

#[test]
fn an_immediate_transition_starts_afresh() {
    let limiter = Ruled::new(&[json!({"quotas": "5/minute"})]);
    assert_eq!(limiter.count("", 9), 5);
    limiter.load(&[json!({"quotas": "5/hour"})], Transition::Immediate);
    assert_eq!(limiter.left(""), [5]);
}

#[test]
fn rules_that_cannot_be_loaded_leave_the_old_ones_in_force() {
    let limiter = Ruled::new(&[json!({"quotas": "5/minute"})]);
    assert_eq!(limiter.count("", 3), 3);
    let mut wrong = document(&[json!({})]);
    wrong.rules[0].quotas[0].text = "five a minute".to_owned();
    assert!(matches!(limiter.engine.load(wrong, Transition::Safe), Err(LoadError::Rules(_))));
    let mut unsigned = document(&[json!({})]);
    unsigned.jwt =
        serde_json::from_value(json!({"header": "authorization", "algorithms": ["none"], "secret": "c2VjcmV0"})).expect("a spec");
    assert!(matches!(limiter.engine.load(unsigned, Transition::Safe), Err(LoadError::Jwt(_))));
    assert_eq!((limiter.left(""), limiter.engine.plan().generation()), (vec![2], 1));
}

const RELOADS: u64 = 100;
const CHECKS: u64 = 100_000;
const LIMIT: u64 = 40_000;

/// The rules of one generation. All share a limit; one more has the generation's name, another limit each time, and its own place.
fn generation(number: u64) -> [Value; 2] {
    let common =
        json!({"name": "limit", "quotas": format!("{LIMIT}/day"), "priority": i64::try_from(number % 3).expect("small") - 1});
    [
        common,
        json!({"name": format!("generation-{number}"), "per": ["client"], "quotas": format!("{}/day", 1_000_000 + number), "headers": number.is_multiple_of(2)}),
    ]
}

#[test]
fn every_decision_during_reloads_belongs_to_one_generation_and_none_fails() {
    let limiter = Ruled::new(&generation(1));
    let (done, allowed) = (AtomicU64::new(0), AtomicU64::new(0));
    let is_failed = AtomicBool::new(false);
    let check = |thread: u64| {
        let mut seen = BTreeSet::new();
        for call in 0..CHECKS / 4 {
            let decision = limiter.check(&format!("client={}", (thread + call) % 10));
            let generation = decision.generation();
            let names: BTreeSet<String> = decision.rules().map(ToString::to_string).collect();
            let limits: BTreeSet<u64> = decision.statuses().filter_map(|(_, status)| status.limit).collect();
            let is_whole = names == BTreeSet::from(["limit".to_owned(), format!("generation-{generation}")])
                && limits == BTreeSet::from([LIMIT, 1_000_000 + generation]);
            if !is_whole || decision.degraded().is_some() {
                is_failed.store(true, Ordering::Relaxed);
            }
            assert!(is_whole && decision.degraded().is_none(), "{generation}: {names:?} {limits:?}");
            allowed.fetch_add(u64::from(decision.is_allowed()), Ordering::Relaxed);
            done.fetch_add(1, Ordering::Relaxed);
            seen.insert(generation);
        }
        seen.len()
    };
    let seen: Vec<usize> = thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|thread| scope.spawn(move || check(thread))).collect();
        for number in 2..=RELOADS + 1 {
            // Spread over the checks, so that each generation decides some of them.
            while done.load(Ordering::Relaxed) < (number - 1) * CHECKS / (RELOADS + 2) && !is_failed.load(Ordering::Relaxed) {
                thread::yield_now();
            }
            let transition = if number % 2 == 0 { Transition::Safe } else { Transition::Immediate };
            assert_eq!(limiter.engine.load(document(&generation(number)), transition), Ok(number));
        }
        threads.into_iter().map(|thread| thread.join().expect("a thread that returns")).collect()
    });
    assert_eq!((done.into_inner(), allowed.into_inner()), (CHECKS, LIMIT), "exactly the limit, through all generations");
    assert!(seen.iter().any(|&generations| generations > 10), "reloads and checks overlapped: {seen:?}");
    assert_eq!(limiter.left("")[..1], [0]);
}

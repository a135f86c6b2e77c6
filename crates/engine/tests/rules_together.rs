//! All rules that match are charged together, or none is.

mod rules;

use std::thread;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};
use tidegate_engine::engine::{CheckOptions, UsageError};

use rules::{Ruled, SECOND, Text, cases, exact};

#[test]
fn narrow_and_wide_rules_are_charged_together_or_not_at_all() {
    let limiter = Ruled::new(&[
        json!({"name": "wide", "quotas": "100/hour"}),
        json!({"name": "narrow", "per": ["client"], "quotas": "3/minute", "match": [exact("method", "POST")]}),
    ]);
    assert_eq!(limiter.count("method=POST client=a", 10), 3);
    assert_eq!(limiter.left("method=POST client=a"), [97, 0], "what was denied is charged nowhere");
    assert_eq!(limiter.count("method=GET client=a", 10), 10, "only the wide rule matches");
    assert_eq!(limiter.left("method=POST client=b"), [87, 3]);
    assert_eq!(limiter.count("method=GET", 100), 87);
    assert!(!limiter.allows("method=POST client=b"));
    assert_eq!(limiter.left("method=POST client=b"), [0, 3], "the narrow rule is not charged either");
}

#[test]
fn a_decision_names_the_rules_that_apply_and_the_one_that_binds() {
    let limiter = Ruled::new(&[
        json!({"name": "wide", "quotas": "100/hour"}),
        json!({"name": "narrow", "per": ["client"], "quotas": "1/minute"}),
        json!({"name": "other", "match": [exact("path", "/x")]}),
    ]);
    let allowed = limiter.check("client=a");
    assert_eq!(allowed.rules().map(|name| &**name).collect::<Vec<_>>(), ["wide", "narrow"]);
    assert!(allowed.is_allowed() && allowed.degraded().is_none() && allowed.generation() == 1);
    let denied = limiter.check("client=a");
    let (binding, _) = denied.binding().expect("a rule that binds");
    assert_eq!(binding.rule.as_deref(), Some("narrow"));
    assert_eq!(denied.verdict().retry_after(), Some(60 * SECOND));
}

#[test]
fn a_request_that_no_rule_matches_is_allowed() {
    let limiter = Ruled::new(&[json!({"per": ["client"], "quotas": "1/minute"})]);
    for decision in [limiter.check("path=/"), limiter.peek("path=/")] {
        assert!(decision.is_allowed() && decision.binding().is_none() && decision.rules().next().is_none());
        assert_eq!((decision.verdict().remaining(), decision.lease()), (None, None));
    }
    assert_eq!(limiter.engine.allow_request(&Text("path=/"), None), Ok(true));
    let stats = limiter.engine.stats().store;
    assert_eq!((stats.allowed, stats.denied, stats.keys), (0, 0, 0), "the store was not asked");
}

#[test]
fn an_allow_list_stops_before_any_quota_is_asked() {
    let limiter = Ruled::new(&[
        json!({"name": "limit", "quotas": "1/minute"}),
        json!({"name": "staff", "quotas": "", "stop": true, "priority": 10, "match": [exact("client", "boss")]}),
    ]);
    assert_eq!(limiter.count("client=boss", 50), 50);
    assert_eq!(limiter.check("client=boss").rules().map(|name| &**name).collect::<Vec<_>>(), ["staff"]);
    assert_eq!(limiter.count("client=a", 50), 1);
}

#[test]
fn each_rule_charges_its_own_cost() {
    let limiter = Ruled::new(&[
        json!({"name": "requests", "quotas": "10/minute"}),
        json!({"name": "bytes", "quotas": "1000/minute", "cost": {"attribute": "size", "default": 1, "max": 500}}),
    ]);
    let decision = limiter.check("size=300");
    assert_eq!(decision.cost(), 300, "the most that any rule charges");
    assert_eq!(limiter.left(""), [9, 700]);
    assert!(limiter.allows("size=9999") && limiter.left("") == [8, 200], "not more than the most");
    assert!(!limiter.allows("size=300"));
    assert!(limiter.allows("size=much") && limiter.left("") == [7, 199], "what is no number costs the default");
    let given =
        limiter.engine.check_request(&Text("size=300"), Some(5), CheckOptions::default()).expect("a call that makes sense");
    assert!(given.cost() == 5 && limiter.left("") == [2, 194], "a cost that is given counts everywhere");
}

#[test]
fn a_cost_of_zero_takes_nothing_and_still_says_whether_there_is_room() {
    let limiter = Ruled::new(&[json!({"quotas": "2/minute", "cost": {"attribute": "size", "default": 1, "max": null}})]);
    assert!(limiter.allows("size=0") && limiter.left("") == [2]);
    let free = limiter.check("size=0");
    assert_eq!(limiter.engine.refund_decision(&free, None), Err(UsageError::NothingTaken { why: "a check with cost 0" }));
}

#[test]
fn calls_that_make_no_sense_are_refused() {
    let limiter = Ruled::new(&[json!({})]);
    let cost = (1 << 53) + 1;
    let refused = limiter.engine.check_request(&Text(""), Some(cost), CheckOptions::default()).map(drop);
    assert_eq!(refused, Err(UsageError::CostTooLarge { cost }));
    assert_eq!(limiter.engine.debit_request(&Text(""), cost).map(drop), Err(UsageError::CostTooLarge { cost }));
}

#[test]
fn a_debit_takes_from_every_rule_that_matches() {
    let limiter = Ruled::new(&[
        json!({"name": "wide", "quotas": "100/hour"}),
        json!({"name": "narrow", "per": ["client"], "quotas": "3/minute"}),
        json!({"name": "other", "match": [exact("client", "b")]}),
    ]);
    limiter.engine.debit_request(&Text("client=a"), 5).expect("a call that makes sense");
    assert_eq!(limiter.left("client=a"), [95, 0]);
    assert_eq!(limiter.left("client=b"), [95, 3, 10]);
}

#[test]
fn a_reset_forgets_the_keys_of_a_request_under_the_rules_that_match() {
    let limiter = Ruled::new(&[json!({"name": "a", "per": ["client"]}), json!({"name": "b", "per": ["user"]})]);
    let before = limiter.check("client=x user=u");
    limiter.check("client=y user=v");
    assert_eq!(limiter.engine.reset_request(&Text("client=x user=w")), Ok(true));
    assert_eq!(limiter.left("client=x user=u"), [10, 9]);
    assert_eq!(limiter.left("client=y user=v"), [9, 9]);
    assert_eq!(limiter.engine.reset_request(&Text("client=nobody")), Ok(false));
    limiter.engine.refund_decision(&before, None).expect("a call that makes sense");
    assert_eq!(limiter.left("client=x user=u"), [10, 9], "a receipt from before the reset gives nothing back");
}

#[test]
fn of_many_threads_exactly_as_many_are_allowed_as_the_narrowest_rule_admits() {
    // Four clients in different shards, under one global rule: some requests lock two shards, and in either order.
    let limiter = Ruled::new(&[
        json!({"name": "all", "quotas": "1000/hour"}),
        json!({"name": "each", "per": ["client"], "quotas": "300/hour"}),
        json!({"name": "pair", "per": ["pair"], "quotas": "100000/hour"}),
    ]);
    let facts = |thread: usize, call: usize| format!("client={} pair={}", (thread + call) % 4, call % 7);
    let allowed: usize = thread::scope(|scope| {
        let call = |thread: usize| (0..1_000).filter(|&call| limiter.allows(&facts(thread, call))).count();
        let threads: Vec<_> = (0..8).map(|thread| scope.spawn(move || call(thread))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a thread that returns")).sum()
    });
    assert_eq!(allowed, 1_000);
    let used: u64 = (0..4).map(|client| 300 - limiter.left(&format!("client={client}"))[1]).sum();
    assert_eq!((used, limiter.left("")), (1_000, vec![0]), "every allowed request was charged to its client, and no other");
}

const QUOTAS: [&str; 7] = [
    "3/10s",
    "4/40s sliding_window_log",
    "4/12s sliding_window_counter",
    "3/20s fixed_window",
    "4/20s burst 2",
    "unlimited",
    "5/30s",
];
const PER: [&[&str]; 4] = [&[], &["client"], &["user"], &["client", "user"]];

fn a_rule() -> impl Strategy<Value = Value> {
    (select(&PER[..]), vec(select(&QUOTAS[..]), 1..3), 1..=2_u64)
        .prop_map(|(per, quotas, units)| json!({"per": per, "quotas": quotas.join(", "), "cost": {"units": units}}))
}

proptest! {
    #![proptest_config(cases(1_000))]

    /// Allowed if each rule alone would allow it, charged then to each as if it were alone, and otherwise to none.
    #[test]
    fn several_rules_answer_as_each_would_alone(
        rules in vec(a_rule(), 1..5),
        steps in vec((select(vec!["client=a", "client=b user=u", "client=a user=u", "user=v", ""]), 0..15_000_u64), 1..60),
    ) {
        let named: Vec<Value> = rules.into_iter().enumerate().map(|(number, mut rule)| {
            rule["name"] = json!(format!("rule-{number}"));
            rule
        }).collect();
        let together = Ruled::new(&named);
        let alone: Vec<Ruled> = named.iter().map(|rule| Ruled::new(std::slice::from_ref(rule))).collect();
        for (facts, millis) in steps {
            let is_allowed = alone.iter().all(|limiter| limiter.peek(facts).is_allowed());
            prop_assert_eq!(together.peek(facts).is_allowed(), is_allowed);
            prop_assert_eq!(together.allows(facts), is_allowed);
            if is_allowed {
                prop_assert!(alone.iter().all(|limiter| limiter.allows(facts)));
            }
            let left: Vec<u64> = alone.iter().flat_map(|limiter| limiter.left(facts)).collect();
            prop_assert_eq!(together.left(facts), left);
            for limiter in alone.iter().chain([&together]) {
                limiter.advance(millis / 10 * (SECOND / 1_000));
            }
        }
    }
}

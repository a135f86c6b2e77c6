//! Descriptors through the engine: threads, a store that cannot decide, and new limits. What is answered is held to `testdata/descriptors`.

use std::sync::Arc;
use std::thread;

use serde_json::{Value, json};
use tidegate_core::descriptors::answer::{Code, Modes};
use tidegate_core::descriptors::{Entry, Unit};
use tidegate_core::rules::RuleSetSpec;
use tidegate_engine::engine::{
    DescriptorAsk, DescriptorsDecision, DescriptorsRequest, Engine, OnStoreError, OwnLimit, UsageError,
};
use tidegate_engine::plan::Transition;
use tidegate_store::clock::{Clock, ManualClock};
use tidegate_store::memory::MemoryStore;

const SECRET: [u8; 16] = [7; 16];

/// One domain with one limited key.
fn spec(requests_per_unit: u32, is_atomic: bool) -> RuleSetSpec {
    let text = format!("{requests_per_unit}/minute fixed_window max_debt 4503599627370496");
    let limit = json!({"unlimited": false, "quotas": [{"text": text}], "requests_per_unit": requests_per_unit, "unit": "MINUTE"});
    let domain = json!({"domain": "d", "atomic": is_atomic, "descriptors": [{"key": "k", "limit": limit}]});
    document(&json!([domain]))
}

fn document(domains: &Value) -> RuleSetSpec {
    serde_json::from_value(json!({"version": 1, "domain": "default", "domains": domains})).expect("a document of the right shape")
}

fn engine(spec: RuleSetSpec, keys_max: usize, on_store_error: OnStoreError) -> Engine {
    let store = MemoryStore::new(Clock::Manual(ManualClock::new(1_200_000_000_000)), keys_max);
    Engine::new(spec, Arc::new(store), SECRET, on_store_error).expect("rules that can be loaded")
}

fn check(engine: &Engine, value: &str, hits: Option<u64>, limit: Option<OwnLimit>) -> Result<DescriptorsDecision, UsageError> {
    let entries = [Entry { key: "k", value }];
    let ask = DescriptorAsk { entries: &entries, limit, hits, is_negative: false };
    engine.check_descriptors(&DescriptorsRequest {
        domain: "d",
        descriptors: &[ask, ask],
        hits_addend: 0,
        modes: Modes::default(),
    })
}

#[test]
fn many_threads_are_let_through_as_often_as_the_limit_says() {
    for is_atomic in [false, true] {
        let engine = engine(spec(1_000, is_atomic), 1_000, OnStoreError::Deny);
        let statuses = |_| check(&engine, "a", None, None).unwrap().answer.statuses;
        let passed = || (0..400).flat_map(statuses).filter(|status| status.code() == Code::Ok).count();

        let total: usize = thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(passed)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });

        assert_eq!(total, 1_000);
    }
}

#[test]
fn a_store_that_cannot_decide_leaves_it_to_the_policy() {
    for (policy, expected) in [(OnStoreError::Deny, Code::OverLimit), (OnStoreError::Allow, Code::Ok)] {
        let engine = engine(spec(1, false), 1, policy);
        // A state that limits somebody is not forgotten for another one.
        check(&engine, "a", Some(5), None).unwrap();

        let decision = check(&engine, "b", None, None).unwrap();

        assert_eq!(decision.answer.overall, expected);
        assert!(decision.degraded.is_some());
        assert_eq!(decision.answer.statuses[0].reset_after_s, Some(60));
        assert_eq!(engine.stats().degraded, 1);
    }
}

#[test]
fn a_new_limit_keeps_the_count_whatever_the_transition() {
    for transition in [Transition::Safe, Transition::Immediate] {
        let engine = engine(spec(5, false), 100, OnStoreError::Deny);
        check(&engine, "a", Some(2), None).unwrap();

        let generation = engine.load(spec(10, false), transition).unwrap();

        let decision = check(&engine, "a", Some(0), None).unwrap();
        assert_eq!((decision.generation, decision.answer.statuses[0].remaining), (generation, 6));
    }
}

#[test]
fn wrong_requests_count_nothing() {
    let engine = engine(spec(5, false), 100, OnStoreError::Deny);
    let unknown = OwnLimit { requests_per_unit: 5, unit: Unit::Unknown };
    let of = |domain, descriptors: &[DescriptorAsk<'_>]| {
        engine
            .check_descriptors(&DescriptorsRequest { domain, descriptors, hits_addend: 0, modes: Modes::default() })
            .unwrap_err()
    };

    assert_eq!(check(&engine, "a", None, Some(unknown)).unwrap_err(), UsageError::LimitWithoutUnit { descriptor: 0 });
    assert_eq!(check(&engine, "a", Some(u64::MAX), None).unwrap_err(), UsageError::CostTooLarge { cost: u64::MAX });
    assert_eq!(of("d", &[]), UsageError::NoDescriptors);
    let ask = DescriptorAsk { entries: &[], limit: None, hits: None, is_negative: false };
    assert_eq!(of("", &[ask]), UsageError::EmptyDomain);
    assert_eq!(of("d", &vec![ask; 1_001]), UsageError::TooManyDescriptors { count: 1_001 });
    let greedy = DescriptorAsk { hits: Some((1 << 53) + 1), ..ask };
    assert_eq!(of("unknown", &[ask, greedy]), UsageError::CostTooLarge { cost: (1 << 53) + 1 });
    assert_eq!(engine.stats().store.keys, 0);
}

#[test]
fn trees_that_nobody_checked_are_refused_and_the_old_ones_stay() {
    let engine = engine(spec(5, false), 100, OnStoreError::Deny);
    let broken = document(&json!([{"domain": "d", "descriptors": []}, {"domain": "d", "descriptors": []}]));

    let error = engine.load(broken, Transition::Safe).unwrap_err();

    assert_eq!(error.to_string(), "duplicate domain d");
    assert_eq!(check(&engine, "a", None, None).unwrap().generation, 1);
}

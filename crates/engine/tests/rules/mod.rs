//! An engine that decides by rules, on a memory store with a clock that is moved by hand, and short ways to ask it.

use std::sync::Arc;

use proptest::test_runner::{Config, FileFailurePersistence};
use serde_json::{Value, json};
use tidegate_core::rules::{Request, RuleSetSpec};
use tidegate_core::time::Ticks;
use tidegate_engine::decision::Decision;
use tidegate_engine::engine::{CheckOptions, Engine, Facts, OnStoreError};
use tidegate_engine::plan::Transition;
use tidegate_store::clock::{Clock, ManualClock};
use tidegate_store::memory::MemoryStore;

pub(crate) const SECOND: u64 = 1_000_000_000;
/// 2026-01-01T00:00:00Z.
pub(crate) const START: Ticks = 1_767_225_600 * SECOND;

pub(crate) struct Ruled {
    pub(crate) engine: Arc<Engine>,
    pub(crate) clock: ManualClock,
}

/// Facts by name, as a short text: `client=a path=/login`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Text<'t>(pub(crate) &'t str);

impl Facts for Text<'_> {
    fn state<'a>(&'a self, request: &mut Request<'a>) {
        for (name, value) in self.0.split(' ').filter_map(|fact| fact.split_once('=')) {
            request.set(name, value);
        }
    }
}

#[allow(dead_code, reason = "each test program uses what it needs")]
impl Ruled {
    pub(crate) fn new(rules: &[Value]) -> Self {
        Self::with_room_for(rules, 1_000_000, OnStoreError::Deny)
    }

    pub(crate) fn with_room_for(rules: &[Value], keys_max: usize, on_store_error: OnStoreError) -> Self {
        let clock = ManualClock::new(START);
        let store = MemoryStore::new(Clock::Manual(clock.clone()), keys_max);
        let engine = Engine::new(document(rules), Arc::new(store), *b"a secret of keys", on_store_error)
            .expect("rules that can be loaded");
        Self { engine: Arc::new(engine), clock }
    }

    pub(crate) fn advance(&self, nanos: u64) {
        self.clock.advance(i64::try_from(nanos).expect("less than three hundred years"));
    }

    /// Checks a request at the cost that the rules say.
    pub(crate) fn check(&self, facts: &str) -> Decision {
        self.engine.check_request(&Text(facts), None, CheckOptions::default()).expect("a call that makes sense")
    }

    pub(crate) fn allows(&self, facts: &str) -> bool {
        self.check(facts).is_allowed()
    }

    /// How many of so many requests are allowed.
    pub(crate) fn count(&self, facts: &str, requests: usize) -> usize {
        (0..requests).filter(|_| self.allows(facts)).count()
    }

    pub(crate) fn peek(&self, facts: &str) -> Decision {
        self.engine.peek_request(&Text(facts), None).expect("a call that makes sense")
    }

    /// What is left for a request, rule by rule and quota by quota.
    pub(crate) fn left(&self, facts: &str) -> Vec<u64> {
        let decision = self.engine.peek_request(&Text(facts), Some(0)).expect("a call that makes sense");
        decision.verdict().statuses().iter().map(|status| status.remaining.unwrap_or(u64::MAX)).collect()
    }

    /// What every rule that counts somebody has left for them.
    pub(crate) fn usage(&self, facts: &str) -> Decision {
        self.engine.begin_usage(&Text(facts)).expect("a call that makes sense").wait()
    }

    pub(crate) fn load(&self, rules: &[Value], transition: Transition) {
        self.engine.load(document(rules), transition).expect("rules that can be loaded");
    }
}

/// A document of rules, each with what is given and else the least that a rule needs. Quotas are one text.
pub(crate) fn document(rules: &[Value]) -> RuleSetSpec {
    let rules: Vec<Value> = rules.iter().map(rule).collect();
    serde_json::from_value(json!({"version": 1, "domain": "test", "rules": rules})).expect("a document")
}

fn rule(given: &Value) -> Value {
    let mut rule = json!({
        "name": "rule", "per": [], "quotas": "10/minute", "cost": {"units": 1}, "mode": "enforce", "rollout": 10_000,
        "priority": 0, "stop": false, "headers": true,
    });
    for (key, value) in given.as_object().expect("a mapping") {
        rule[key] = value.clone();
    }
    rule["quotas"] = quotas(&rule["quotas"]);
    for plans in ["tiers", "overrides"] {
        match rule.get_mut(plans) {
            Some(Value::Object(tiers)) => tiers.values_mut().for_each(|plan| *plan = quotas(plan)),
            Some(Value::Array(overrides)) => {
                overrides.iter_mut().filter_map(|plan| plan.get_mut("quotas")).for_each(|plan| *plan = quotas(plan));
            }
            _ => {}
        }
    }
    rule
}

fn quotas(text: &Value) -> Value {
    match text.as_str() {
        Some("") => json!([]),
        Some(text) => json!([{"text": text}]),
        None => text.clone(),
    }
}

/// A condition on one exact text.
#[allow(dead_code, reason = "each test program uses what it needs")]
pub(crate) fn exact(attribute: &str, text: &str) -> Value {
    json!({"attribute": attribute, "test": {"exact": [text]}, "not": false, "ignore_case": false})
}

/// So many random cases. What a property fails on is kept beside its source, and tried first ever after.
#[allow(dead_code, reason = "each test program uses what it needs")]
pub(crate) fn cases(cases: u32) -> Config {
    let failure_persistence = FileFailurePersistence::WithSource("regressions");
    Config { cases, failure_persistence: Some(Box::new(failure_persistence)), ..Config::default() }
}

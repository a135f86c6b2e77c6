//! What each rule said, found by its number.
//!
//! A generation of rules has one table. Rules of the same name in the next generation go on with the same counters, so that no count is lost or taken
//! back by a reload; those that are gone leave the page, but not the table: they may come back, and what they said last is still to be added up.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::{ArcSwap, Guard};
use parking_lot::Mutex;
use tidegate_core::descriptors::answer::Status;
use tidegate_core::rules::Members;
use tidegate_engine::decision::Decision;
use tidegate_engine::engine::{DescriptorsDecision, DescriptorsRequest, Engine};
use tidegate_engine::plan::Plan;

use super::is_charge;
use super::shard::{shards_of, thread_number};

/// The name under which limits are counted that descriptors bring along. No rule can have it.
const OWN_LIMITS: &str = "(override)";
/// How many rules that are gone are remembered: one that were made anew all the time would otherwise fill the memory.
const GONE_MAX: usize = 10_000;

/// What a rule said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It had room.
    Allowed,
    /// It denied the request.
    Denied,
    /// It would have denied the request, were it not in shadow.
    ShadowDenied,
}

impl Outcome {
    pub(super) const ALL: [Self; 3] = [Self::Allowed, Self::Denied, Self::ShadowDenied];

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Denied => "denied",
            Self::ShadowDenied => "shadow_denied",
        }
    }
}

/// What all rules said.
#[derive(Debug)]
pub(super) struct RuleCounters {
    shards: usize,
    table: ArcSwap<Table>,
    /// Held by who makes the next table.
    making: Mutex<()>,
}

/// The counters of one generation.
#[derive(Debug, Default)]
struct Table {
    generation: u64,
    rules: Vec<Arc<Counter>>,
    /// Those of rules, and those of limits of descriptors by their path.
    by_name: BTreeMap<Arc<str>, Arc<Counter>>,
    /// Those of rules that are not in force any more, at most [`GONE_MAX`].
    gone: BTreeMap<Arc<str>, Arc<Counter>>,
}

/// What one rule said, by worker.
#[derive(Debug)]
struct Counter {
    shards: Box<[Line]>,
}

/// A cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Line([AtomicU64; Outcome::ALL.len()]);

impl RuleCounters {
    pub(super) fn new(workers: usize) -> Self {
        Self { shards: shards_of(workers), table: ArcSwap::default(), making: Mutex::new(()) }
    }

    /// Counts what the rules of a decision said; `false` if none applies.
    pub(super) fn count(&self, engine: &Engine, decision: &Decision) -> bool {
        let numbers = decision.rule_numbers();
        let table = self.table(engine, decision.generation());
        for &number in numbers {
            if let Some(counter) = table.of_rule(decision, number) {
                counter.add(outcome_of_rule(decision, number));
            }
        }
        !numbers.is_empty()
    }

    /// Counts what the limits of descriptors said; `false` if none was met.
    pub(super) fn count_descriptors(
        &self,
        engine: &Engine,
        request: &DescriptorsRequest<'_>,
        decision: &DescriptorsDecision,
    ) -> bool {
        let statuses = &decision.answer.statuses;
        let table = self.table(engine, decision.generation);
        for (status, _) in statuses.iter().zip(request.descriptors).filter(|(_, ask)| is_charge(ask)) {
            let own = || status.current_limit.is_some().then_some(OWN_LIMITS);
            if let Some(counter) = status.path.as_deref().or_else(own).and_then(|path| table.by_name.get(path)) {
                counter.add(outcome_of_limit(status));
            }
        }
        statuses.iter().any(|status| status.current_limit.is_some() || status.is_unlimited)
    }

    /// What the rules in force said, by name and outcome.
    pub(super) fn totals(&self, engine: &Engine) -> Vec<(Arc<str>, [u64; Outcome::ALL.len()])> {
        let table = self.table(engine, engine.plan().generation());
        table.by_name.iter().map(|(name, counter)| (Arc::clone(name), counter.totals())).collect()
    }

    /// The same with the rules that are not in force any more: numbers that never go back.
    pub(super) fn all_totals(&self, engine: &Engine) -> BTreeMap<String, [u64; Outcome::ALL.len()]> {
        let table = self.table(engine, engine.plan().generation());
        table.by_name.iter().chain(&table.gone).map(|(name, counter)| (name.to_string(), counter.totals())).collect()
    }

    /// The table of a generation, or that of a later one.
    fn table(&self, engine: &Engine, generation: u64) -> Guard<Arc<Table>> {
        let table = self.table.load();
        if table.generation >= generation {
            return table;
        }
        drop(table);
        self.make(&engine.plan());
        self.table.load()
    }

    fn make(&self, plan: &Plan) {
        let _making = self.making.lock();
        let before = self.table.load();
        if before.generation < plan.generation() {
            let table = Table::new(plan, &before, self.shards);
            self.table.store(Arc::new(table));
        }
    }
}

impl Table {
    fn new(plan: &Plan, before: &Self, shards: usize) -> Self {
        let mut by_name = BTreeMap::new();
        let mut counter = |name: &Arc<str>| {
            let old = || before.of_name(name).map_or_else(|| Arc::new(Counter::new(shards)), Arc::clone);
            Arc::clone(by_name.entry(Arc::clone(name)).or_insert_with(old))
        };
        let mut rules = Vec::new();
        if let Some(in_force) = plan.rules() {
            rules = in_force.set.rules().iter().map(|rule| counter(&rule.name)).collect();
            if plan.members().is_some_and(Members::has_blocks) {
                rules.push(counter(&in_force.set.rule(in_force.set.blocked()).name));
            }
            for (_, limit) in in_force.domains.limits() {
                counter(&limit.path);
            }
            if !in_force.domains.is_empty() {
                counter(&Arc::from(OWN_LIMITS));
            }
        }
        let left = before.by_name.iter().chain(&before.gone).filter(|(name, _)| !by_name.contains_key(*name)).take(GONE_MAX);
        let gone = left.map(|(name, counter)| (Arc::clone(name), Arc::clone(counter))).collect();
        Self { generation: plan.generation(), rules, by_name, gone }
    }

    fn of_name(&self, name: &str) -> Option<&Arc<Counter>> {
        self.by_name.get(name).or_else(|| self.gone.get(name))
    }

    /// The counter of a rule, by its number in the generation that decided. If that is not in force any more, the name is the same.
    fn of_rule(&self, decision: &Decision, number: usize) -> Option<&Arc<Counter>> {
        if self.generation == decision.generation() {
            return self.rules.get(number);
        }
        self.of_name(&decision.plan().rules()?.set.rule(number).name)
    }
}

impl Counter {
    fn new(shards: usize) -> Self {
        Self { shards: (0..shards).map(|_| Line::default()).collect() }
    }

    fn add(&self, outcome: Outcome) {
        // The number of shards is a power of two.
        self.shards[thread_number() & (self.shards.len() - 1)].0[outcome as usize].fetch_add(1, Ordering::Relaxed);
    }

    fn totals(&self) -> [u64; Outcome::ALL.len()] {
        std::array::from_fn(|outcome| self.shards.iter().map(|line| line.0[outcome].load(Ordering::Relaxed)).sum())
    }
}

/// What one of the rules of a decision said. A rule without quotas, or one that was not asked because another denial was known, had room.
fn outcome_of_rule(decision: &Decision, number: usize) -> Outcome {
    let denials = decision.verdict().statuses().iter().filter(|status| !status.is_allowed());
    let mut of_rule = denials.filter(|status| decision.counted(status).0 == Some(number));
    match of_rule.next() {
        None => Outcome::Allowed,
        Some(status) if status.is_shadow => Outcome::ShadowDenied,
        Some(_) => Outcome::Denied,
    }
}

fn outcome_of_limit(status: &Status) -> Outcome {
    match (status.is_over, status.is_shadowed) {
        (true, _) => Outcome::Denied,
        (false, true) => Outcome::ShadowDenied,
        (false, false) => Outcome::Allowed,
    }
}

//! An engine on a memory store with a clock that is moved by hand, and short ways to ask it.

use std::sync::Arc;

use proptest::test_runner::{Config, FileFailurePersistence};
use tidegate_core::quota::{Quota, parse};
use tidegate_core::time::Ticks;
use tidegate_engine::decision::Decision;
use tidegate_engine::engine::{CheckOptions, Engine, OnStoreError};
use tidegate_engine::plan::Transition;
use tidegate_store::clock::{Clock, ManualClock};
use tidegate_store::memory::MemoryStore;

pub(crate) const SECOND: u64 = 1_000_000_000;
/// 2026-01-01T00:00:00Z.
pub(crate) const START: Ticks = 1_767_225_600 * SECOND;

pub(crate) struct Limiter {
    pub(crate) engine: Engine,
    pub(crate) clock: ManualClock,
}

#[allow(dead_code, reason = "each test program uses what it needs")]
impl Limiter {
    /// Quotas in one text, separated by commas or semicolons.
    pub(crate) fn new(quotas: &str) -> Self {
        Self::of(self::quotas(quotas))
    }

    pub(crate) fn of(quotas: Vec<Quota>) -> Self {
        Self::with_room_for(quotas, 1_000_000, OnStoreError::Deny)
    }

    pub(crate) fn with_room_for(quotas: Vec<Quota>, keys_max: usize, on_store_error: OnStoreError) -> Self {
        let clock = ManualClock::new(START);
        let store = MemoryStore::new(Clock::Manual(clock.clone()), keys_max);
        let engine =
            Engine::new(quotas, Arc::new(store), *b"a secret of keys", on_store_error).expect("quotas that can be loaded");
        Self { engine, clock }
    }

    pub(crate) fn advance(&self, nanos: u64) {
        self.clock.advance(i64::try_from(nanos).expect("less than three hundred years"));
    }

    pub(crate) fn check(&self, key: &str, cost: u64) -> Decision {
        self.engine.check(key.as_bytes(), cost, CheckOptions::default()).expect("a call that makes sense")
    }

    pub(crate) fn allows(&self, key: &str, cost: u64) -> bool {
        self.check(key, cost).is_allowed()
    }

    pub(crate) fn peek(&self, key: &str, cost: u64) -> Decision {
        self.engine.peek(key.as_bytes(), cost).expect("a call that makes sense")
    }

    pub(crate) fn remaining(&self, key: &str) -> u64 {
        self.peek(key, 0).verdict().remaining().expect("a limited quota")
    }

    pub(crate) fn load(&self, quotas: &str, transition: Transition) {
        self.engine.load(self::quotas(quotas), transition).expect("quotas that can be loaded");
    }
}

pub(crate) fn quotas(text: &str) -> Vec<Quota> {
    parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// So many random cases. What a property fails on is kept beside its source, and tried first ever after.
#[allow(dead_code, reason = "each test program uses what it needs")]
pub(crate) fn cases(cases: u32) -> Config {
    let failure_persistence = FileFailurePersistence::WithSource("regressions");
    Config { cases, failure_persistence: Some(Box::new(failure_persistence)), ..Config::default() }
}

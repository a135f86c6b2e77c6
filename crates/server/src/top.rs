//! The keys that are denied most.
//!
//! | module | holds |
//! | --- | --- |
//! | [`summary`] | Space-Saving: the most frequent of any number of keys, in a fixed number of counters |
//! | [`shown`] | how a key is shown |
//!
//! Denials of this hour and of the one before are counted apart, so that who was denied yesterday does not stay on top for ever. A key is known by its
//! digest; its text is worked out when it is first noted, and no more than [`TEXTS_PER_SECOND`] times a second, whatever an attacker sends.

pub(crate) mod shown;
mod summary;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::Serialize;
use tidegate_core::rules::explain::Outcome;
use tidegate_engine::decision::Decision;
use tidegate_engine::engine::{DescriptorsDecision, DescriptorsRequest, Engine, Facts, random_id};
use tidegate_store::clock::SystemClock;
use tidegate_store::digest::{Digest, Digester};

use self::summary::{Entry, Summary};
use crate::metrics::is_charge;
use crate::settings::ShownKeys;

/// How long denials are counted together.
const WINDOW_NS: u64 = 3_600 * SECOND_NS;
const SECOND_NS: u64 = 1_000_000_000;
/// How often the text of a key is worked out at most.
const TEXTS_PER_SECOND: u32 = 200;

/// The keys that are denied most.
#[derive(Debug)]
pub struct Top {
    shown: ShownKeys,
    clock: SystemClock,
    digester: Digester,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    current: Summary,
    previous: Summary,
    /// When the current hour of counting began, and the one before.
    current_since_ns: u64,
    previous_since_ns: u64,
    /// Texts that were worked out in this second.
    texts: u32,
    second: u64,
}

/// The list as it is served.
#[derive(Debug, Serialize)]
struct Listed<'a> {
    /// Seconds since the epoch from which on denials are counted.
    since: f64,
    /// How many were.
    denied: u64,
    keys: Vec<ListedKey<'a>>,
}

/// One key of the list.
#[derive(Debug, Serialize)]
struct ListedKey<'a> {
    rule: &'a str,
    key: Cow<'a, str>,
    denied: u64,
    /// So many of `denied` may have been others.
    error: u64,
    last_seen: f64,
}

impl Top {
    /// Watches so many keys.
    pub fn new(size: usize, shown: ShownKeys) -> Self {
        let clock = SystemClock::new();
        let now = clock.now();
        Self {
            shown,
            clock,
            digester: Digester::new(random_id().to_le_bytes()),
            state: Mutex::new(State {
                current: Summary::new(size),
                previous: Summary::new(0),
                current_since_ns: now,
                previous_since_ns: now,
                texts: 0,
                second: 0,
            }),
        }
    }

    /// Notes whom a decision denied.
    pub fn note(&self, engine: &Engine, facts: &impl Facts, decision: &Decision) {
        let Some((planned, status)) = decision.binding() else { return };
        let Some(rule) = &planned.rule else { return };
        let key = decision.counted(status).1;
        self.put(rule, key, || {
            let (_, explained) = engine.explain(facts).ok()?;
            let found = explained.into_iter().find(|explained| explained.rule == *rule)?;
            match found.outcome {
                Outcome::Applies { key, .. } => Some(shown::masked(self.shown, &key)),
                _ => None,
            }
        });
    }

    /// Notes which descriptors a decision denied.
    pub fn note_descriptors(&self, request: &DescriptorsRequest<'_>, decision: &DescriptorsDecision) {
        let asked = decision.answer.statuses.iter().zip(request.descriptors);
        for (status, asked) in asked.filter(|(status, ask)| status.is_over && is_charge(ask)) {
            let own = || format!("{}.(override)", request.domain).into();
            let path = status.path.clone().unwrap_or_else(own);
            let entries: Vec<String> = asked.entries.iter().map(|entry| format!("{}={}", entry.key, entry.value)).collect();
            let key = self.digester.digest(entries.join("\n").as_bytes());
            self.put(&path, key, || Some(shown::masked(self.shown, &entries)));
        }
    }

    /// The keys that were denied most, as JSON: at most so many.
    pub fn to_json(&self, count: usize) -> String {
        let (entries, since, denied) = {
            let mut state = self.state.lock();
            state.turn(self.clock.now());
            let entries: Vec<Entry> = state.current.entries().chain(state.previous.entries()).cloned().collect();
            (entries, seconds(state.previous_since_ns), state.current.total() + state.previous.total())
        };
        let mut keys: HashMap<Digest, ListedKey<'_>> = HashMap::with_capacity(entries.len());
        for entry in &entries {
            let last_seen = seconds(entry.last_seen_ns);
            let text = || entry.text.as_deref().map_or_else(|| shown::digest(entry.key).into(), Cow::Borrowed);
            keys.entry(entry.id)
                .and_modify(|listed| {
                    listed.denied += entry.count;
                    listed.error += entry.error;
                })
                .or_insert(ListedKey { rule: &entry.rule, key: text(), denied: entry.count, error: entry.error, last_seen });
        }
        let mut keys: Vec<_> = keys.into_values().collect();
        keys.sort_by(|a, b| b.denied.cmp(&a.denied).then_with(|| (a.rule, &a.key).cmp(&(b.rule, &b.key))));
        keys.truncate(count);
        let listed = Listed { since, denied, keys };
        serde_json::to_string(&listed).unwrap_or_default()
    }

    fn put(&self, rule: &Arc<str>, key: Digest, text: impl FnOnce() -> Option<String>) {
        let id = key ^ self.digester.digest(rule.as_bytes());
        let now = self.clock.now();
        let is_text_wanted = {
            let mut state = self.state.lock();
            state.turn(now);
            let has_text = state.current.note(id, now, || (Arc::clone(rule), key));
            !has_text && self.shown != ShownKeys::Digest && state.may_work_out_text(now)
        };
        // Without the lock: this takes as long as several decisions.
        if let Some(text) = is_text_wanted.then(text).flatten() {
            self.state.lock().current.name(id, text.into());
        }
    }
}

impl State {
    /// Begins another hour if this one is over.
    fn turn(&mut self, now: u64) {
        if now < self.current_since_ns.saturating_add(WINDOW_NS) {
            return;
        }
        let next = Summary::new(self.current.size());
        self.previous = std::mem::replace(&mut self.current, next);
        self.previous_since_ns = std::mem::replace(&mut self.current_since_ns, now);
    }

    fn may_work_out_text(&mut self, now: u64) -> bool {
        let second = now / SECOND_NS;
        if self.second != second {
            (self.second, self.texts) = (second, 0);
        }
        self.texts += 1;
        self.texts <= TEXTS_PER_SECOND
    }
}

#[allow(clippy::cast_precision_loss, reason = "milliseconds since the epoch are exact for a long time")]
fn seconds(ns: u64) -> f64 {
    (ns / 1_000_000) as f64 / 1_000.0
}

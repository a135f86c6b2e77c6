//! Single decisions, for the control plane: every denied one, a share of those that were allowed, and facts to decide some of them again.
//!
//! | module | holds |
//! | --- | --- |
//! | [`event`] | one decision, as it is told |
//! | [`ring`] | where events wait: bounded, a lane for each worker |
//! | [`sampler`] | a share that shrinks while there is too much |
//!
//! No decision waits for any of this. What does not fit is dropped and counted before anything is worked out for it. Who asked is told as the list of
//! keys shows it, and so are the recorded facts, except for those that the settings name; so what leaves this module holds no key, unless that was
//! chosen.

mod event;
mod ring;
mod sampler;

use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_core::descriptors::answer::Code;
use tidegate_core::rules::members::key_of;
use tidegate_core::rules::{Request, Slot};
use tidegate_engine::decision::{Decision, Origin};
use tidegate_engine::engine::{DescriptorsDecision, DescriptorsRequest, Engine, Facts};
use tidegate_store::clock::SystemClock;
use tidegate_store::digest::Digest;
use tidegate_store::store::StoreError;

use self::event::{Event, Recording, Told, method, text};
use self::ring::Ring;
use self::sampler::Sampler;
use crate::chance::random;
use crate::metrics::{Protocol, is_charge};
use crate::settings::{EventSettings, ShownKeys};
use crate::top::shown;

/// The most facts of one recording.
const FACTS_MAX: usize = 32;
/// How much room one event usually takes as JSON.
const LINE_BYTES: usize = 400;

/// Decisions that wait to be told.
#[derive(Debug)]
pub struct Events {
    shown: ShownKeys,
    /// Facts that are recorded as they are.
    recorded: Vec<String>,
    /// Which of the allowed decisions are told.
    samples: Sampler,
    /// The requests of which keys are recorded.
    recordings: Sampler,
    ring: Ring<Event>,
    clock: SystemClock,
    /// The second half of an event's id: the first is its time.
    next_id: AtomicU64,
    taken: AtomicU64,
}

/// Why a decision is told.
#[derive(Debug, Clone, Copy)]
struct Reason {
    /// How many of its kind it stands for.
    weight: u64,
    /// How many requests its recording stands for, if it is recorded.
    recorded: Option<u64>,
}

impl Events {
    /// Nothing waits yet.
    pub fn new(settings: &EventSettings, shown: ShownKeys, workers: usize) -> Self {
        Self {
            shown,
            recorded: settings.attributes.clone(),
            samples: Sampler::new(settings.share, settings.per_second),
            recordings: Sampler::new(1.0, settings.recordings_per_second),
            ring: Ring::new(settings.buffer, workers),
            clock: SystemClock::new(),
            next_id: AtomicU64::new(random()),
            taken: AtomicU64::new(0),
        }
    }

    /// Notes a decision by rules, if it is one that is told.
    pub(crate) fn note(&self, engine: &Engine, protocol: Protocol, facts: &impl Facts, decision: &Decision) {
        if decision.origin() != Origin::Check {
            return;
        }
        // All requests of a key are recorded or none is: rules that count by it then say the same when they are asked again.
        let recorded = self.recordings.weight(decision.narrowest_key().map_or_else(random, |key| key.0[1]));
        let Some(reason) = self.reason(decision.is_allowed(), recorded) else { return };
        self.put(
            |at_ns| {
                engine.with_facts(decision, facts, |request| Event {
                    at_ns,
                    ..self.event(engine, protocol, request, decision, reason)
                })
            },
            reason,
            decision.is_allowed(),
        );
    }

    /// Notes a decision by descriptors, if it is one that is told.
    pub(crate) fn note_descriptors(
        &self,
        engine: &Engine,
        protocol: Protocol,
        request: &DescriptorsRequest<'_>,
        decision: &DescriptorsDecision,
    ) {
        if !request.descriptors.iter().any(is_charge) {
            return;
        }
        let is_allowed = decision.answer.overall == Code::Ok;
        let Some(reason) = self.reason(is_allowed, None) else { return };
        self.put(
            |at_ns| Some(Event { at_ns, ..self.described(engine, protocol, request, decision, reason) }),
            reason,
            is_allowed,
        );
    }

    /// Takes at most so many events, each as a line of JSON.
    pub fn take(&self, limit: usize) -> Vec<u8> {
        let now = self.clock.now();
        self.samples.turn(now);
        self.recordings.turn(now);
        let mut events = self.ring.take(limit);
        // Each worker's are in order, but not those of all.
        events.sort_by_key(|event| event.at_ns);
        self.taken.fetch_add(events.len() as u64, Ordering::Relaxed);
        let mut lines = Vec::with_capacity(events.len() * LINE_BYTES);
        for event in &events {
            let low = self.next_id.fetch_add(1, Ordering::Relaxed);
            let id = (u128::from(event.at_ns) << 64) | u128::from(low);
            // To write to memory does not fail, and neither do texts and numbers.
            let _ = serde_json::to_writer(&mut lines, &Told { id, event });
            lines.push(b'\n');
        }
        lines
    }

    /// How many were taken since the start.
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// How many were dropped since the start, because nobody took those before them.
    pub fn dropped(&self) -> u64 {
        self.ring.dropped()
    }

    /// How many wait to be taken.
    pub fn waiting(&self) -> usize {
        self.ring.waiting()
    }

    /// Why a decision is told; `None` if it is not.
    #[inline]
    fn reason(&self, is_allowed: bool, recorded: Option<u64>) -> Option<Reason> {
        let weight = if is_allowed { self.samples.weight(random()).unwrap_or(0) } else { 1 };
        (weight > 0 || recorded.is_some()).then_some(Reason { weight, recorded })
    }

    fn put(&self, make: impl FnOnce(u64) -> Option<Event>, reason: Reason, is_allowed: bool) {
        self.ring.put(|| {
            let now = self.clock.now();
            if is_allowed && reason.weight > 0 {
                self.samples.took(now);
            }
            if reason.recorded.is_some() {
                self.recordings.took(now);
            }
            make(now)
        });
    }

    fn event(&self, engine: &Engine, protocol: Protocol, request: &Request<'_>, decision: &Decision, reason: Reason) -> Event {
        let binding = decision.binding();
        let fact = |slot| request.get(slot).unwrap_or_default();
        let rule = binding.and_then(|(planned, _)| planned.rule.clone());
        let (client, digest) = self.client(engine, request, decision);
        Event {
            at_ns: 0,
            protocol,
            client,
            digest,
            method: method(fact(Slot::METHOD)),
            path: text(fact(Slot::PATH)),
            tier: text(fact(Slot::TIER)),
            rule,
            is_allowed: decision.is_allowed(),
            shadowed: decision.shadowed().into_iter().cloned().collect(),
            degraded: decision.degraded().map(StoreError::kind),
            used: binding.and_then(|(_, status)| Some((status.limit?, status.remaining?))).map(used),
            cost: decision.cost(),
            weight: reason.weight,
            recording: reason.recorded.map(|weight| Box::new(self.recording(engine, request, weight))),
        }
    }

    fn described(
        &self,
        engine: &Engine,
        protocol: Protocol,
        request: &DescriptorsRequest<'_>,
        decision: &DescriptorsDecision,
        reason: Reason,
    ) -> Event {
        let answer = &decision.answer;
        let told = answer.tightest();
        let status = told.map(|index| &answer.statuses[index]);
        let ask = told.and_then(|index| request.descriptors.get(index));
        let entries = ask.map(|ask| ask.entries).unwrap_or_default();
        let parts: Vec<String> = entries.iter().map(|entry| format!("{}={}", entry.key, entry.value)).collect();
        let digest = (!parts.is_empty()).then(|| engine.digest(parts.join("\n").as_bytes()));
        let limit = status
            .and_then(|status| Some((u64::from(status.current_limit.as_ref()?.requests_per_unit), status.remaining.into())));
        Event {
            at_ns: 0,
            protocol,
            client: match (self.shown, digest) {
                (ShownKeys::Digest, Some(digest)) => shown::digest(digest).into(),
                _ => shown::masked(self.shown, &parts).into(),
            },
            digest,
            method: "".into(),
            // A domain that nobody configured may be anything.
            path: text(if decision.is_domain_known { request.domain } else { "" }),
            tier: "".into(),
            rule: status.and_then(|status| status.path.clone()),
            is_allowed: answer.overall == Code::Ok,
            shadowed: answer
                .statuses
                .iter()
                .filter(|status| status.is_shadowed)
                .filter_map(|status| status.path.clone())
                .collect(),
            degraded: decision.degraded.as_ref().map(StoreError::kind),
            used: limit.map(used),
            cost: ask.and_then(|ask| ask.hits).unwrap_or_else(|| request.hits_addend.max(1)),
            weight: reason.weight,
            recording: None,
        }
    }

    /// Who asked: as it is shown, and as the control plane knows its members.
    fn client(&self, engine: &Engine, request: &Request<'_>, decision: &Decision) -> (Box<str>, Option<Digest>) {
        let Some(key) = key_of(request) else {
            // Rules may count by something else; the digest of that is known.
            let key = decision.narrowest_key();
            return (key.map(shown::digest).unwrap_or_default().into(), key);
        };
        let digest = engine.digest(key.as_bytes());
        let identity = decision.plan().rules().map(|rules| rules.set.identity());
        let client = identity.filter(|_| request.get(Slot::API_KEY).is_none()).map(|identity| identity.parts(key));
        let text = match client {
            Some((Some(tag), name)) => format!("{tag}:{}", shown::value(self.shown, name, digest)),
            _ => shown::value(self.shown, key, digest),
        };
        (text.into(), Some(digest))
    }

    fn recording(&self, engine: &Engine, request: &Request<'_>, weight: u64) -> Recording {
        let facts = request.facts().take(FACTS_MAX).map(|(name, value)| {
            let is_plain = self.shown == ShownKeys::Plain || self.recorded.iter().any(|plain| plain == name);
            // Each has one digest, so that counters by it are the same ones when the request is decided again.
            let value = if is_plain { text(&value) } else { shown::digest(engine.digest(value.as_bytes())).into() };
            (name.into(), value)
        });
        Recording { weight, attributes: facts.collect() }
    }
}

/// Used and limit, of limit and remaining.
fn used((limit, remaining): (u64, u64)) -> (u64, u64) {
    (limit.saturating_sub(remaining), limit)
}

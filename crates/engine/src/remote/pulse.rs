//! What happens without being asked: heartbeats, probes of servers that failed, and debits of what was admitted without them.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use tidegate_core::meter::Ask;
use tidegate_core::quota::Quota;
use tidegate_core::time::Ticks;
use tidegate_store::clock::{boot_ns, monotonic_ns};
use tidegate_store::digest::{Digest, Digester};
use tidegate_store::redis::script::Op;
use tidegate_store::redis::topology::ShardId;
use tidegate_store::store::{Charge, Part, Place, Store as _, StoreError};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::waiting::{deadline, wait_for};
use super::{Guard, Parts};
use crate::failure::breaker::{Admit, BreakerState, Outcome, Token};
use crate::failure::random::Random;
use crate::failure::share::InstanceId;

/// How often things are looked at, on average.
const PULSE_NS: Ticks = 50_000_000;
/// How often the other instances are told.
const HEARTBEAT_NS: Ticks = 1_000_000_000;
/// How many parts of what was taken in advance are looked at in one pulse: all of them in four.
const SWEPT: usize = 16;
/// How many counters are debited in one pulse.
const DEBITS: usize = 100;
/// The pause between a recovery and the first debit, on average, so that instances do not all come at once.
const DEBIT_PAUSE_NS: Ticks = 1_000_000_000;
/// How often a key is made up until one lies on the server that is to be probed.
const PROBE_KEYS: u64 = 2_000;

/// What the probe charges: a counter of its own that never denies.
static PROBE: LazyLock<Quota> = LazyLock::new(|| "1000000/second burst 1000000".parse().expect("a quota"));

/// What is remembered from one pulse to the next.
struct Memory {
    random: Random,
    next_beat: Ticks,
    /// When debits may begin; 0 while there is an outage.
    debits_from: Ticks,
    changes: watch::Receiver<u64>,
}

/// Begins; ends by itself when nobody needs the store any more.
pub(super) fn start(parts: &Arc<Parts>) {
    let weak = Arc::downgrade(parts);
    let mut random = Random::new(crate::engine::random_seed());
    let next_beat = monotonic_ns();
    let changes = parts.store.topology().changes();
    let pause = |random: &mut Random| Duration::from_nanos(random.around(PULSE_NS));
    parts.store.io().run(Box::pin(async move {
        let first = pause(&mut random);
        let mut memory = Memory { random, next_beat, debits_from: 0, changes };
        sleep(first).await;
        while let Some(parts) = weak.upgrade().filter(|parts| !parts.is_closed()) {
            parts.pulse(&mut memory);
            drop(parts);
            sleep(pause(&mut memory.random)).await;
        }
    }));
}

/// Sends the first heartbeat and waits for its answer, with which the connection is made and the servers' clock known.
pub(super) fn first(parts: &Arc<Parts>, patience: Duration) {
    let handle = parts.store.io().handle().clone();
    let _context = handle.enter();
    let mut beat = std::pin::pin!(Arc::clone(parts).beat());
    // In vain if the servers are away: then decisions are taken without them.
    let _ = wait_for(&mut beat, deadline(patience));
}

impl Parts {
    fn pulse(self: &Arc<Self>, memory: &mut Memory) {
        let now = monotonic_ns();
        if memory.next_beat <= now {
            memory.next_beat = now + memory.random.around(HEARTBEAT_NS);
            tokio::spawn(Arc::clone(self).beat());
        }
        let guards: Vec<(ShardId, Arc<Guard>)> =
            self.breakers.read().iter().map(|(shard, guard)| (*shard, Arc::clone(guard))).collect();
        if memory.changes.has_changed().unwrap_or(false) {
            memory.changes.mark_unchanged();
            for (_, guard) in &guards {
                guard.breaker.trial();
            }
            // Who serves nothing any more is not asked, and so would never be found to answer.
            let serving = self.store.topology().shards();
            self.breakers.write().retain(|shard, _| serving.contains(shard));
        }
        let mut are_all_closed = true;
        for (shard, guard) in guards {
            are_all_closed &= guard.is_answering();
            match guard.breaker.state(now) {
                BreakerState::Closed => continue,
                BreakerState::Open { .. } | BreakerState::HalfOpen => are_all_closed = false,
                BreakerState::Ramp { .. } => {
                    are_all_closed = false;
                    continue;
                }
            }
            if let Admit::Probe(token) = guard.breaker.admit(now) {
                self.probe(shard, guard, token);
            }
        }
        self.debit(memory, are_all_closed, now);
        for unspent in self.advances.sweep(boot_ns(), SWEPT) {
            tokio::spawn(Arc::clone(self).give_back(unspent));
        }
    }

    /// Says that this instance lives.
    async fn beat(self: Arc<Self>) {
        let instances = self.fallback.instances();
        match self.store.beat(u128::from_be_bytes(instances.own().0)).await {
            Ok(alive) => {
                let alive: Vec<InstanceId> = alive.into_iter().map(|id| InstanceId(id.to_be_bytes())).collect();
                instances.hear(monotonic_ns(), &alive);
                *self.heartbeat_error.lock() = None;
            }
            Err(error) => *self.heartbeat_error.lock() = Some(error),
        }
    }

    /// Asks a server that failed the real question, about a key of nobody. Its answer decides whether others ask.
    pub(super) fn probe(self: &Arc<Self>, shard: ShardId, guard: Arc<Guard>, token: Token) {
        let parts = Arc::clone(self);
        self.store.io().run(Box::pin(async move {
            let started = monotonic_ns();
            match parts.probe_call(shard) {
                Some(answer) => {
                    let reply = timeout(parts.budget, answer).await.unwrap_or(Err(StoreError::Timeout));
                    let now = monotonic_ns();
                    guard.record(now, token, reply.as_ref().map(|_| now.saturating_sub(started)));
                }
                // It serves nothing any more.
                None => guard.breaker.record(monotonic_ns(), token, Outcome::NotAFailure),
            }
        }));
    }

    fn probe_call(&self, shard: ShardId) -> Option<tidegate_store::redis::store::Answer> {
        if !self.store.topology().shards().contains(&shard) {
            return None;
        }
        let digester = Digester::new(*b"tidegate/a probe");
        let meter = self.store.meter(&PROBE, None).ok()?;
        let charge = |number: u64| {
            let key = digester.digest(&number.to_le_bytes());
            Charge {
                meter: &meter,
                key,
                place: Place::of(key),
                namespace: Digest::default(),
                ask: Ask::cost(1),
                until: None,
                part: Part::Enforced,
            }
        };
        let first = crate::engine::random_seed() >> 1;
        let found = (first..first + PROBE_KEYS).map(charge).find(|charge| self.store.shards_of(&[*charge])[..] == [shard])?;
        Some(self.store.begin(Op::Check, &[found]))
    }

    /// Tells the store what was admitted without it, a little at a time: of those counters that nobody asks for.
    fn debit(self: &Arc<Self>, memory: &mut Memory, are_all_closed: bool, now: Ticks) {
        let debts = self.fallback.debts();
        if !are_all_closed || debts.is_empty() {
            memory.debits_from = 0;
            return;
        }
        if memory.debits_from == 0 {
            memory.debits_from = now + memory.random.around(DEBIT_PAUSE_NS);
        }
        if now < memory.debits_from {
            return;
        }
        for debt in debts.send_batch(DEBITS) {
            tokio::spawn(Arc::clone(self).pay(debt));
        }
    }
}

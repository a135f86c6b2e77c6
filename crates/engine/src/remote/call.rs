//! One call: what is noted of it, and what its answer changes.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use smallvec::SmallVec;
use tidegate_core::algorithm::Receipt;
use tidegate_core::decision::{Status, Verdict};
use tidegate_core::meter::Ask;
use tidegate_core::time::Ticks;
use tidegate_store::clock::monotonic_ns;
use tidegate_store::digest::Digest;
use tidegate_store::redis::script::{Op, Reply};
use tidegate_store::redis::store::Answer;
use tidegate_store::store::{Charge, Part, StoreError};
use tokio::time::timeout;

use super::Parts;
use super::waiting::waiting;
use crate::failure::breaker::{Admit, Breaker, Outcome, Token};
use crate::failure::deny_cache::DenialKey;

/// What becomes of a call.
#[derive(Debug)]
pub(crate) enum Prepared {
    /// Its outcome is known: it was denied a moment ago, or a server that it needs is not asked at present.
    Known(Result<Verdict, StoreError>),
    /// It has to be sent.
    Ready(Ready),
}

/// A call that was made up and not sent yet.
pub(crate) struct Ready {
    parts: Arc<Parts>,
    call: Call,
    answer: Answer,
    budget: Duration,
}

impl std::fmt::Debug for Ready {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ready").field("call", &self.call).finish_non_exhaustive()
    }
}

/// What has to be known of a call when its answer comes.
#[derive(Debug)]
struct Call {
    op: Op,
    sent_at: Ticks,
    notes: SmallVec<[Note; 1]>,
    watch: Arc<Watch>,
}

/// What has to be known of a charge when its answer comes.
#[derive(Debug, Clone, Copy)]
struct Note {
    counter: Digest,
    cost: u64,
    part: Part,
    /// Under what a denial is remembered; `None` if it does not hold until it says: of slots, and of quotas that end.
    denial: Option<DenialKey>,
}

/// The breakers that learn from a call how its servers are doing, once.
#[derive(Debug)]
struct Watch {
    sent_at: Ticks,
    breakers: SmallVec<[(Arc<Breaker>, Token); 1]>,
    is_told: AtomicBool,
}

impl Parts {
    /// Makes up a call, unless it is answered or refused without being sent.
    pub(super) fn prepare(self: Arc<Self>, op: Op, charges: &[Charge<'_>], budget: Duration) -> Prepared {
        let sent_at = monotonic_ns();
        let notes: SmallVec<[Note; 1]> = charges.iter().map(note).collect();
        let denied = if op == Op::Check { self.denied(&notes, sent_at) } else { None };
        if let Some(verdict) = denied {
            self.store.count(&verdict);
            return Prepared::Known(Ok(verdict));
        }
        match self.watch(charges, sent_at) {
            Ok(watch) => {
                let debits = self.debits_of(charges);
                let answer = self.store.begin(op, charges);
                let answer = if debits.is_empty() { answer } else { after(debits, answer) };
                Prepared::Ready(Ready { parts: self, call: Call { op, sent_at, notes, watch }, answer, budget })
            }
            Err(error) => Prepared::Known(Err(error)),
        }
    }

    /// The same for what gives back: a refund, a release, a renewal or, without `op`, forgetting the counter. Afterwards nothing that was denied need
    /// be denied.
    pub(super) fn prepare_return(self: Arc<Self>, op: Option<Op>, charge: &Charge<'_>) -> Result<Ready, StoreError> {
        let sent_at = monotonic_ns();
        if let Some(denials) = &self.denials {
            denials.forget(charge.counter());
        }
        let watch = self.watch(&[*charge], sent_at)?;
        let answer = match op {
            Some(op) => self.store.begin(op, &[*charge]),
            None => self.store.begin_reset(charge),
        };
        let budget = self.budget;
        Ok(Ready { parts: self, call: Call { op: Op::Peek, sent_at, notes: SmallVec::new(), watch }, answer, budget })
    }

    /// What is owed to the counters that are about to be asked: the store has to know it before it answers.
    fn debits_of(&self, charges: &[Charge<'_>]) -> SmallVec<[Answer; 1]> {
        let debts = self.fallback.debts();
        if debts.is_empty() {
            return SmallVec::new();
        }
        let owed = charges.iter().filter_map(|charge| debts.take(charge.counter()));
        owed.map(|debt| self.store.begin(Op::Debit, &[Charge { ask: Ask::cost(debt.units), ..debt.handle.charge() }])).collect()
    }

    /// What the cache of denials says to a request: the denials of its quotas, if there are any.
    fn denied(&self, notes: &[Note], now: Ticks) -> Option<Verdict> {
        let denials = self.denials.as_ref()?;
        // What stands for itself is charged in any case.
        if notes.iter().any(|note| note.part == Part::Counted) {
            return None;
        }
        let statuses: SmallVec<[Status; 1]> = notes
            .iter()
            .enumerate()
            .filter_map(|(index, note)| {
                let denial = denials.get(now, &note.denial?)?;
                Some(denial.status(now, u16::try_from(index).unwrap_or(u16::MAX)))
            })
            .collect();
        (!statuses.is_empty()).then(|| Verdict::new(statuses))
    }

    /// Asks the breakers of all servers that the charges need.
    fn watch(self: &Arc<Self>, charges: &[Charge<'_>], now: Ticks) -> Result<Arc<Watch>, StoreError> {
        let mut watch = Watch { sent_at: now, breakers: SmallVec::new(), is_told: AtomicBool::new(false) };
        for shard in self.store.shards_of(charges) {
            let breaker = self.breaker(shard);
            match breaker.admit(now) {
                Admit::Send(token) => watch.breakers.push((breaker, token)),
                refused => {
                    watch.tell(now, Outcome::NotAFailure);
                    let retry_after = match refused {
                        Admit::Refuse { retry_after } => retry_after,
                        // Not with somebody's request: the probe may take its time.
                        Admit::Send(token) | Admit::Probe(token) => {
                            self.probe(shard, breaker, token);
                            self.budget_ns()
                        }
                    };
                    return Err(StoreError::Open { retry_after });
                }
            }
        }
        Ok(Arc::new(watch))
    }

    /// Takes in an answer, whether somebody waits for it or not.
    fn take_in(&self, call: &Call, reply: &Result<Reply, StoreError>) {
        let Ok(Reply::Verdict { verdict, .. }) = reply else { return };
        let now = monotonic_ns();
        if call.op == Op::Check {
            self.store.count(verdict);
        }
        for status in verdict.statuses() {
            let Some(note) = call.notes.get(usize::from(status.quota)) else { continue };
            if let Some(remaining) = status.remaining {
                self.fallback.saw(now, note.counter, remaining, status.reset_after);
            }
            if let (Op::Check, Some(key), Some(denials)) = (call.op, note.denial, &self.denials) {
                denials.put(key, status, call.sent_at, now);
            }
        }
    }
}

impl Parts {
    /// Takes in an answer whose caller was told that there is none.
    fn take_in_late(&self, call: &Call, reply: &Result<Reply, StoreError>) {
        self.late.fetch_add(1, Ordering::Relaxed);
        self.take_in(call, reply);
        // What the store did charge after all is not owed to it any more.
        if let (Op::Check, Ok(Reply::Verdict { verdict, .. })) = (call.op, reply) {
            let charged = verdict.statuses().iter().filter(|status| status.receipt != Receipt::Nothing);
            for note in charged.filter_map(|status| call.notes.get(usize::from(status.quota))) {
                self.fallback.pay(note.counter, note.cost);
            }
        }
    }
}

impl Watch {
    /// Tells the breakers how it went, unless they know.
    fn tell(&self, now: Ticks, outcome: Outcome) {
        if !self.is_told.swap(true, Ordering::SeqCst) {
            for (breaker, token) in &self.breakers {
                breaker.record(now, *token, outcome);
            }
        }
    }

    fn tell_reply(&self, now: Ticks, reply: &Result<Reply, StoreError>) {
        let took_ns = now.saturating_sub(self.sent_at);
        self.tell(now, outcome(reply, took_ns));
    }
}

/// What a breaker makes of an answer.
pub(super) fn outcome(reply: &Result<Reply, StoreError>, took_ns: Ticks) -> Outcome {
    match reply {
        Ok(_) => Outcome::Ok { took_ns },
        // The server works; one value is wrong.
        Err(StoreError::Foreign { .. }) => Outcome::NotAFailure,
        Err(_) => Outcome::Failed,
    }
}

impl Ready {
    /// Sends it and waits, on a thread that may wait. The budget is kept by the caller itself, whatever the store's thread does.
    pub(crate) fn wait(self) -> Result<Reply, StoreError> {
        let Self { parts, call, answer, budget } = self;
        let (delivery, waiting) = waiting();
        let (watch, at_work) = (Arc::clone(&call.watch), Arc::clone(&parts));
        parts.store.io().run(Box::pin(async move {
            let reply = answer.await;
            if call.watch.is_told.load(Ordering::SeqCst) {
                at_work.take_in_late(&call, &reply);
            } else {
                at_work.take_in(&call, &reply);
                call.watch.tell_reply(monotonic_ns(), &reply);
            }
            delivery.put(reply);
        }));
        waiting.take_within(budget).unwrap_or_else(|| {
            watch.tell(monotonic_ns(), Outcome::Failed);
            parts.store.topology().suspect();
            Err(StoreError::Timeout)
        })
    }

    /// The same for a verdict.
    pub(crate) fn verdict(self) -> Result<Verdict, StoreError> {
        self.wait().and_then(verdict)
    }

    /// Sends it, and calls `deliver` with the answer or, when the budget is over, with the news that there is none.
    pub(crate) fn deliver(self, deliver: impl FnOnce(Result<Verdict, StoreError>) + Send + 'static) {
        let Self { parts, call, mut answer, budget } = self;
        let io = parts.store.io().clone();
        io.run(Box::pin(async move {
            if let Ok(reply) = timeout(budget, &mut answer).await {
                parts.take_in(&call, &reply);
                call.watch.tell_reply(monotonic_ns(), &reply);
                return deliver(reply.and_then(verdict));
            }
            call.watch.tell(monotonic_ns(), Outcome::Failed);
            parts.store.topology().suspect();
            deliver(Err(StoreError::Timeout));
            let reply = answer.await;
            parts.take_in_late(&call, &reply);
        }));
    }
}

fn verdict(reply: Reply) -> Result<Verdict, StoreError> {
    match reply {
        Reply::Verdict { verdict, .. } => Ok(verdict),
        _ => Err(StoreError::protocol("a verdict was expected")),
    }
}

/// Sends the debits first, on the same connections, and does not wait for their answers.
fn after(debits: SmallVec<[Answer; 1]>, answer: Answer) -> Answer {
    Box::pin(async move {
        for mut debit in debits {
            // The first poll puts it into the queue of its connection.
            let sent = poll_fn(|context| Poll::Ready(debit.as_mut().poll(context))).await;
            if sent.is_pending() {
                tokio::spawn(debit);
            }
        }
        answer.await
    })
}

fn note(charge: &Charge<'_>) -> Note {
    let is_exact = charge.part == Part::Enforced && !charge.meter.retry_is_hint() && charge.until.is_none();
    // A denial belongs to the meter that said it: another generation with the same limit may use it, one with another limit may not.
    let denial = || DenialKey::new(charge.meter.fingerprint(), charge.counter(), charge.ask);
    Note { counter: charge.counter(), cost: charge.ask.cost, part: charge.part, denial: is_exact.then(denial) }
}

//! One call, and what its answer changes.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use smallvec::SmallVec;
use tidegate_core::algorithm::Receipt;
use tidegate_core::decision::{Status, Verdict};
use tidegate_core::meter::Ask;
use tidegate_core::time::Ticks;
use tidegate_store::clock::{boot_ns, monotonic_ns};
use tidegate_store::redis::io::{Io, Job};
use tidegate_store::redis::node::Lanes;
use tidegate_store::redis::script::{Op, Reply};
use tidegate_store::redis::store::Answer;
use tidegate_store::store::{Charge, OwnedCharge, Part, StoreError};
use tokio::time::timeout;

use super::advance::Payment;
use super::note::{Note, Watch};
use super::unheard::{Slots, slots_of};
use super::waiting::{deadline, wait_for};
use super::{Parts, Terms};
use crate::failure::breaker::Admit;
use crate::failure::debts::Debt;
use crate::word::Word;

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
pub(super) struct Call {
    pub(super) op: Op,
    pub(super) sent_at: Ticks,
    pub(super) notes: SmallVec<[Note; 1]>,
    pub(super) watch: Arc<Watch>,
    /// What of the request was paid without the store.
    pub(super) payment: Option<Box<Payment>>,
    /// What of it is given back if nobody hears the answer.
    pub(super) slots: Slots,
}

impl Parts {
    /// Makes up a call, unless it is answered or refused without being sent.
    pub(super) fn prepare(self: Arc<Self>, op: Op, charges: &[Charge<'_>], terms: Terms) -> Prepared {
        let sent_at = monotonic_ns();
        let notes: SmallVec<[Note; 1]> = charges.iter().map(Note::of).collect();
        let denied = if op == Op::Check { self.denied(&notes, sent_at) } else { None };
        if let Some(verdict) = denied {
            self.store.count(&verdict);
            return Prepared::Known(Ok(verdict));
        }
        let Some(payment) = self.pay_in_advance(op, charges) else {
            return self.prepare_call(op, charges, (sent_at, notes), None, terms);
        };
        if payment.is_all(charges.len()) {
            let verdict = payment.verdict();
            if op == Op::Check {
                self.store.count(&verdict);
                self.advances.count(1);
            }
            return Prepared::Known(Ok(verdict));
        }
        let rest = payment.rest(charges);
        let notes = rest.iter().map(Note::of).collect();
        self.prepare_call(op, &rest, (sent_at, notes), Some(Box::new(payment)), terms)
    }

    /// Makes up the call for charges that only the store can make.
    fn prepare_call(
        self: Arc<Self>,
        op: Op,
        charges: &[Charge<'_>],
        (sent_at, notes): (Ticks, SmallVec<[Note; 1]>),
        payment: Option<Box<Payment>>,
        terms: Terms,
    ) -> Prepared {
        match self.watch(charges, sent_at) {
            Ok(watch) => {
                let answer = self.begin(op, charges, &watch);
                let (slots, budget) = (slots_of(op, charges, terms), terms.within(self.budget));
                let call = Call { op, sent_at, notes, watch, payment, slots };
                Prepared::Ready(Ready { parts: self, call, answer, budget })
            }
            Err(error) => {
                if let Some(payment) = payment {
                    self.put_back(&payment);
                }
                Prepared::Known(Err(error))
            }
        }
    }

    /// Begins a call, behind what its counters are owed.
    pub(super) fn begin(self: &Arc<Self>, op: Op, charges: &[Charge<'_>], watch: &Watch) -> Answer {
        let answer = self.store.begin(op, charges);
        if watch.is_answering() { Arc::clone(self).after_debts(charges, answer) } else { answer }
    }

    /// The same for what gives back: a refund, a release, a renewal or, without `op`, forgetting the counter. Afterwards nothing that was denied need
    /// be denied.
    pub(super) fn prepare_return(self: Arc<Self>, op: Option<Op>, charge: &Charge<'_>) -> Result<Ready, StoreError> {
        let sent_at = monotonic_ns();
        if let Some(denials) = &self.denials {
            denials.forget(charge.counter());
        }
        let watch = self.watch(&[*charge], sent_at)?;
        let answer = if let Some(op) = op {
            self.store.begin(op, &[*charge])
        } else {
            // What was taken of it before is not charged any more.
            self.advances.forget(charge.counter());
            self.store.begin_reset(charge)
        };
        let budget = self.budget;
        let call = Call { op: Op::Peek, sent_at, notes: SmallVec::new(), watch, payment: None, slots: Slots::new() };
        Ok(Ready { parts: self, call, answer, budget })
    }

    /// Tells the store first what the counters are owed that are about to be asked, and waits until it knows. What somebody else has just sent it is
    /// not waited for: behind that on the connection of all, and not on a line of its own, the question finds it charged.
    fn after_debts(self: Arc<Self>, charges: &[Charge<'_>], answer: Answer) -> Answer {
        let debts = self.fallback.debts();
        if debts.is_empty() || charges.iter().all(|charge| debts.of(charge.counter()) == 0) {
            return answer;
        }
        let owed: SmallVec<[Debt<OwnedCharge>; 1]> = charges.iter().filter_map(|charge| debts.send(charge.counter())).collect();
        Answer::new(async move {
            for debt in owed {
                Arc::clone(&self).pay(debt).await;
            }
            answer.await
        })
    }

    /// Tells the store what was admitted without it. If it does not answer, the debt stays: it may be paid twice, but is never forgotten.
    pub(super) async fn pay(self: Arc<Self>, debt: Debt<OwnedCharge>) {
        let answer = self.store.begin(Op::Debit, &[Charge { ask: Ask::cost(debt.units), ..debt.handle.charge() }]);
        match answer.await {
            Ok(_) => self.fallback.debts().charged(&debt),
            Err(_) => self.fallback.debts().refused(&debt),
        }
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
    pub(super) fn watch(self: &Arc<Self>, charges: &[Charge<'_>], now: Ticks) -> Result<Arc<Watch>, StoreError> {
        let mut watch = Watch::new(now);
        let key = charges.first().map_or(0, |charge| charge.place.tag.0[0]);
        for shard in self.store.shards_of(charges) {
            let guard = self.guard(shard);
            match guard.breaker.admit_key(now, key) {
                Admit::Send(token) => watch.guards.push((guard, token)),
                refused => {
                    watch.give_back(now);
                    let retry_after = match refused {
                        Admit::Refuse { retry_after } => retry_after,
                        // Not with somebody's request: the probe may take its time.
                        Admit::Send(token) | Admit::Probe(token) => {
                            self.probe(shard, guard, token);
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
    pub(super) fn take_in(&self, call: &Call, reply: &Result<Reply, StoreError>) {
        let Ok(Reply::Verdict { verdict, now_ns }) = reply else { return };
        let now = monotonic_ns();
        for status in verdict.statuses() {
            let Some(note) = call.notes.get(usize::from(status.quota)) else { continue };
            if let Some(left) = status.remaining {
                let word = Word { said_at: *now_ns, left, reset_after: status.reset_after };
                // Between two requests that have to keep a distance nothing remains, and a moment later everything.
                if left > 0 || !note.is_spaced {
                    self.fallback.saw(now, note.counter, word);
                }
                if let Some(holding) = note.holding {
                    self.advances.saw(boot_ns(), holding, word);
                }
            }
            if let (Op::Check, Some(key), Some(denials)) = (call.op, note.denial, &self.denials) {
                denials.put(key, status, call.sent_at, now);
            }
        }
    }
}

impl Parts {
    /// Takes in an answer that somebody waits for, and says what it is for the whole request.
    fn take_in_time(&self, call: &Call, reply: Result<Reply, StoreError>) -> Result<Reply, StoreError> {
        if let (Op::Check, Ok(Reply::Verdict { verdict, .. })) = (call.op, &reply) {
            self.store.count(verdict);
        }
        self.take_in(call, &reply);
        match &call.payment {
            Some(payment) => self.joined(payment, reply),
            None => reply,
        }
    }

    /// Takes in an answer that came in time, and that nobody waits for any more. What it took stays taken, but for slots.
    fn take_in_unheard(&self, call: &Call, reply: Result<Reply, StoreError>) {
        self.take_in(call, &reply);
        self.give_back_slots(call, &reply);
        call.watch.tell(monotonic_ns(), reply.as_ref().map(drop));
        if let Some(payment) = &call.payment {
            // What was paid here for a request that the store refuses, or cannot decide, is put back.
            let _ = self.joined(payment, reply);
        }
    }

    /// The store did not answer a call in time.
    fn is_late(&self, call: &Call) {
        call.watch.tell(monotonic_ns(), Err(&StoreError::Timeout));
        if let Some(payment) = &call.payment {
            self.put_back(payment);
        }
        self.store.topology().suspect();
    }

    /// Takes in an answer whose caller was told that there is none.
    fn take_in_late(&self, call: &Call, reply: &Result<Reply, StoreError>) {
        self.late.fetch_add(1, Ordering::Relaxed);
        self.take_in(call, reply);
        self.give_back_slots(call, reply);
        // What the store did charge after all is not owed to it any more.
        if let (Op::Check, Ok(Reply::Verdict { verdict, .. })) = (call.op, reply) {
            let charged = verdict.statuses().iter().filter(|status| status.receipt != Receipt::Nothing);
            for note in charged.filter_map(|status| call.notes.get(usize::from(status.quota))) {
                self.fallback.pay(note.counter, note.cost);
            }
        }
    }
}

impl Ready {
    /// Sends it and waits, on a thread that may wait. The budget is kept by the caller itself, whatever the store's thread does.
    pub(crate) fn wait(self) -> Result<Reply, StoreError> {
        let Self { parts, call, answer, budget } = self;
        let handle = parts.store.io().handle().clone();
        // What waits on the way, for a slot that moves perhaps, waits by the timers of the store's thread.
        let _context = handle.enter();
        let mut asked = Asked { parts, call: Some((call, answer)), budget };
        let Some((_, answer)) = &mut asked.call else { return Err(StoreError::Timeout) };
        let deadline = deadline(budget);
        match answer.wait(deadline).or_else(|| wait_for(answer, deadline)) {
            Some(reply) => asked.take_in(reply),
            None => asked.give_up(),
        }
    }

    /// The same for a verdict.
    pub(crate) fn verdict(self) -> Result<Verdict, StoreError> {
        self.wait().and_then(verdict)
    }

    /// The thread that sends it.
    pub(crate) fn io(&self) -> &Io {
        self.parts.store.io()
    }

    /// Sends it and waits, in a task. Whoever waits may give up at any time: the answer is taken in all the same.
    pub(crate) async fn ask(self) -> Result<Verdict, StoreError> {
        self.reply().await.and_then(verdict)
    }

    /// The same for every kind of answer.
    pub(crate) async fn reply(self) -> Result<Reply, StoreError> {
        let Self { parts, call, answer, budget } = self;
        let mut asked = Asked { parts, call: Some((call, answer)), budget };
        let Some((_, answer)) = &mut asked.call else { return Err(StoreError::Timeout) };
        match timeout(before(budget), answer).await {
            Ok(reply) => asked.take_in(reply),
            Err(_) => asked.give_up(),
        }
    }

    /// Adds it to the lanes of an event loop, if that can have a connection for itself: see [`Answer::push`].
    pub(crate) fn push(&mut self, lanes: &mut Lanes) -> bool {
        self.answer.push(lanes)
    }

    /// The answer to what was sent so, if it has come. Otherwise it is still to be waited for.
    pub(crate) fn look(&mut self) -> Option<Result<Verdict, StoreError>> {
        let reply = self.answer.look()?;
        // Who looks late was busy with something else: that is not held against the store, which would have been left to others by then.
        let seen_at = monotonic_ns().min(self.call.sent_at.saturating_add(nanoseconds(self.budget / 2)));
        self.call.watch.tell(seen_at, reply.as_ref().map(drop));
        Some(self.parts.take_in_time(&self.call, reply).and_then(verdict))
    }

    /// Whether it is under way so, and not answered.
    pub(crate) fn is_coming(&self) -> bool {
        self.answer.is_under_way() && !self.answer.is_answered()
    }

    /// How much longer to look: half the budget. The rest is for the store's thread, whose timers are exact.
    pub(crate) fn patience(&self) -> Duration {
        (self.budget / 2).saturating_sub(self.elapsed())
    }

    fn elapsed(&self) -> Duration {
        Duration::from_nanos(monotonic_ns().saturating_sub(self.call.sent_at))
    }

    /// A job that sends it, unless it was sent, and calls `deliver` with the answer or, when the budget is over, with the news that there is none.
    pub(crate) fn job(self, deliver: impl FnOnce(Result<Verdict, StoreError>) + Send + 'static) -> Job {
        // What was sent already has begun to use its budget up.
        let used = if self.answer.is_under_way() { self.elapsed() } else { Duration::ZERO };
        let Self { parts, call, mut answer, budget } = self;
        let budget = budget.saturating_sub(used);
        Box::pin(async move {
            if let Ok(reply) = timeout(before(budget), &mut answer).await {
                call.watch.tell(monotonic_ns(), reply.as_ref().map(drop));
                return deliver(parts.take_in_time(&call, reply).and_then(verdict));
            }
            parts.is_late(&call);
            deliver(Err(StoreError::Timeout));
            let reply = answer.await;
            parts.take_in_late(&call, &reply);
        })
    }
}

/// A call that somebody waits for. If that ends before the answer comes, the store's thread waits instead.
struct Asked {
    parts: Arc<Parts>,
    call: Option<(Call, Answer)>,
    budget: Duration,
}

impl Asked {
    /// Takes in the answer that was waited for.
    fn take_in(mut self, reply: Result<Reply, StoreError>) -> Result<Reply, StoreError> {
        let Some((call, _)) = self.call.take() else { return reply };
        call.watch.tell(monotonic_ns(), reply.as_ref().map(drop));
        self.parts.take_in_time(&call, reply)
    }

    /// The budget is over.
    fn give_up(self) -> Result<Reply, StoreError> {
        if let Some((call, _)) = &self.call {
            self.parts.is_late(call);
        }
        Err(StoreError::Timeout)
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        let Some((call, mut answer)) = self.call.take() else { return };
        let (parts, budget) = (Arc::clone(&self.parts), self.budget);
        self.parts.store.io().run(Box::pin(async move {
            if !call.watch.is_told.load(Ordering::SeqCst) {
                // Who asked went away, which says nothing about the store: that has its time all the same.
                if let Ok(reply) = timeout(before(budget), &mut answer).await {
                    return parts.take_in_unheard(&call, reply);
                }
                parts.is_late(&call);
            }
            let reply = answer.await;
            parts.take_in_late(&call, &reply);
        }));
    }
}

fn nanoseconds(time: Duration) -> Ticks {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn verdict(reply: Reply) -> Result<Verdict, StoreError> {
    match reply {
        Reply::Verdict { verdict, .. } => Ok(verdict),
        _ => Err(StoreError::protocol("a verdict was expected")),
    }
}

/// Timers count whole milliseconds and go off up to one late: one that is asked for earlier goes off in time.
fn before(budget: Duration) -> Duration {
    const TICK: Duration = Duration::from_millis(1);
    if budget > 2 * TICK { budget.saturating_sub(TICK) } else { budget }
}

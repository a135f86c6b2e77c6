//! Questions whose answers take time: they are put first and waited for later, on this thread or on none.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tidegate_core::decision::Verdict;
use tidegate_core::meter::Ask;
use tidegate_core::time::Ticks;
use tidegate_store::redis::io::{Io, Job};
use tidegate_store::redis::node::Lanes;
use tidegate_store::redis::script::Op;
use tidegate_store::store::Charge;

use super::{CheckOptions, Engine, Facts, UsageError, charges, random_id, request};
use crate::decision::{Asked, Decision, Origin, Question};
use crate::remote::{Prepared, Ready, Terms};

/// A question that was put, or is about to be: one of the two methods gets its decision.
#[derive(Debug)]
pub struct Pending {
    engine: Arc<Engine>,
    question: Question,
    ready: Ready,
}

/// What became of a question.
#[derive(Debug)]
pub enum Begun {
    /// It is decided.
    Decided(Decision),
    /// The store has to be waited for.
    Pending(Pending),
}

impl Engine {
    /// Begins to check, to peek or to debit a key.
    ///
    /// # Errors
    /// See [`UsageError`]. A denial is not an error, and neither is a store that cannot answer.
    pub fn begin(self: &Arc<Self>, origin: Origin, key: &[u8], cost: u64, options: CheckOptions) -> Result<Begun, UsageError> {
        let key = self.key(key, cost)?;
        // Read before anything is charged: a reset in between must void the receipt.
        let resets = self.resets.load(Ordering::SeqCst);
        let plan = self.plan();
        let lends = origin == Origin::Check && plan.lease_ttl_ns().is_some();
        let lease = lends.then(|| options.lease.unwrap_or_else(random_id));
        let question = Question { plan, origin, asked: Asked::Key(key), cost, resets, lease };
        Ok(self.put(question, options))
    }

    /// Begins to check, to peek or to debit a request.
    ///
    /// # Errors
    /// See [`begin`](Self::begin).
    pub fn begin_request(
        self: &Arc<Self>,
        origin: Origin,
        facts: &impl Facts,
        cost: Option<u64>,
        options: CheckOptions,
    ) -> Result<Begun, UsageError> {
        let resets = self.resets.load(Ordering::SeqCst);
        let plan = self.plan();
        // What is debited was done already.
        let requested = if origin == Origin::Debit { self.ask_all(&plan, facts, cost)? } else { self.ask(&plan, facts, cost)? };
        let lends = origin == Origin::Check && request::lends(&plan, &requested);
        let lease = lends.then(|| options.lease.unwrap_or_else(random_id));
        let cost = request::total(&requested, cost);
        let question = Question { plan, origin, asked: Asked::Request(requested), cost, resets, lease };
        Ok(self.put(question, options))
    }

    /// Begins to ask what each rule that counts the sender of a request has left for it, whatever else the rule asks of a request: a peek with
    /// cost 0, for people. Who is blocked is told all the same.
    ///
    /// # Errors
    /// See [`begin`](Self::begin).
    pub fn begin_usage(self: &Arc<Self>, facts: &impl Facts) -> Result<Begun, UsageError> {
        let plan = self.plan();
        let requested = self.counting(&plan, facts)?;
        Ok(self.put(Question::new(plan, Origin::Peek, Asked::Request(requested), 0), CheckOptions::default()))
    }

    fn put(self: &Arc<Self>, question: Question, options: CheckOptions) -> Begun {
        if let Asked::Request(requested) = &question.asked
            && let Some(blocked) = requested.blocked
        {
            let verdict = if question.origin == Origin::Check { self.refuse(blocked) } else { blocked.verdict() };
            return Begun::Decided(self.answer(question, Ok(verdict)));
        }
        let max_delay = options.max_delay.unwrap_or(Ticks::MAX);
        let op = match question.origin {
            Origin::Check => Op::Check,
            Origin::Peek => Op::Peek,
            Origin::Debit => Op::Debit,
        };
        let terms = || Terms { budget: budget(&question), patience: options.patience, is_lease_chosen: options.lease.is_some() };
        let prepared = with_charges(&question, max_delay, |charges| match &self.remote {
            Some(remote) => remote.prepare(op, charges, terms()),
            None if charges.is_empty() => Prepared::Known(Ok(Verdict::default())),
            None => Prepared::Known(match question.origin {
                Origin::Check => self.store.check(charges),
                Origin::Peek => self.store.peek(charges),
                Origin::Debit => self.store.debit(charges),
            }),
        });
        match prepared {
            Prepared::Known(outcome) => Begun::Decided(self.answer(question, outcome)),
            Prepared::Ready(ready) => Begun::Pending(Pending { engine: Arc::clone(self), question, ready }),
        }
    }
}

/// The shortest budget of the rules that apply; `None` if none says one.
fn budget(question: &Question) -> Option<Duration> {
    let (Asked::Request(requested), Some(rules)) = (&question.asked, question.plan.rules()) else { return None };
    let budgets = requested.rules.iter().filter_map(|&rule| rules.set.rule(rule).budget_ms);
    budgets.min().map(|budget_ms| Duration::from_millis(budget_ms.into()))
}

impl Begun {
    /// The decision, waited for by this task if need be. If it is given up, the store's answer is still taken in.
    pub async fn decide(self) -> Decision {
        match self {
            Self::Decided(decision) => decision,
            Self::Pending(Pending { engine, question, ready }) => {
                let outcome = ready.ask().await;
                engine.answer(question, outcome)
            }
        }
    }

    /// The decision, waited for on this thread if need be.
    pub fn wait(self) -> Decision {
        match self {
            Self::Decided(decision) => decision,
            Self::Pending(pending) => pending.wait(),
        }
    }
}

impl Pending {
    /// Waits on this thread, as long as the budget lasts.
    pub fn wait(self) -> Decision {
        let Self { engine, question, ready } = self;
        engine.answer(question, ready.verdict())
    }

    /// The thread that puts the question.
    pub fn io(&self) -> &Io {
        self.ready.io()
    }

    /// Adds the question to the lanes of an event loop, if that can have a connection for itself. Otherwise [`job`](Self::job) is the way.
    pub fn push(&mut self, lanes: &mut Lanes) -> bool {
        self.ready.push(lanes)
    }

    /// Whether it is on a lane, and not answered: there is nothing to [look](Self::look) for.
    pub fn is_coming(&self) -> bool {
        self.ready.is_coming()
    }

    /// The decision, if the answer to what was sent so has come. What is given back otherwise is a job for the store's thread, unless it
    /// [is coming](Self::is_coming).
    ///
    /// # Errors
    /// It has not come.
    #[allow(clippy::result_large_err, reason = "it is the same value that was passed in")]
    pub fn look(mut self) -> Result<Decision, Self> {
        match self.ready.look() {
            Some(outcome) => Ok(self.engine.answer(self.question, outcome)),
            None => Err(self),
        }
    }

    /// How much longer to look before it is made a job.
    pub fn patience(&self) -> Duration {
        self.ready.patience()
    }

    /// A job for that thread, which puts the question and calls `deliver` with the decision: it must not wait for anything.
    pub fn job(self, deliver: impl FnOnce(Decision) + Send + 'static) -> Job {
        let Self { engine, question, ready } = self;
        ready.job(move |outcome| deliver(engine.answer(question, outcome)))
    }
}

fn with_charges<R>(question: &Question, max_delay: Ticks, act: impl FnOnce(&[Charge<'_>]) -> R) -> R {
    let Question { plan, asked, cost, lease, .. } = question;
    match asked {
        Asked::Key(key) => act(&charges(plan, *key, Ask { cost: *cost, lease: *lease, max_delay })),
        Asked::Request(requested) => Engine::with_requested(plan, requested, *lease, max_delay, act),
    }
}

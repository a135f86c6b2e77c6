//! The way to a store that many processes share: within a budget, and around its failures.
//!
//! A call is made up on the caller's thread, sent by the store's own thread, and waited for no longer than the budget. When the budget is over, the
//! engine decides by policy, and the answer is still taken in when it comes: a denial into the cache of denials, what remains into the memory of the
//! fallback. A charge is never sent twice.
//!
//! | module | holds |
//! | --- | --- |
//! | [`advance`] | units that are taken before anybody asks for them |
//! | [`call`], [`note`] | one call and what its answer changes; what is noted of it until then |
//! | [`fallback`] | this instance's share of every quota, while the store is away |
//! | [`unheard`] | slots that were lent while nobody waited any more |
//! | [`pulse`] | what happens without being asked: heartbeats, probes, debits after an outage |
//! | [`health`] | how the store and the way to it are doing |

mod advance;
mod call;
mod fallback;
mod health;
mod note;
mod pulse;
mod unheard;
mod waiting;

pub use health::{Health, ShardHealth};

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::{Mutex, RwLock};
use tidegate_core::decision::Verdict;
use tidegate_core::meter::{Meter, MeterError, Refund};
use tidegate_core::quota::Quota;
use tidegate_core::time::{Calendar, Tick, Ticks};
use tidegate_store::redis::io::{self, Io};
use tidegate_store::redis::script::{Op, Reply};
use tidegate_store::redis::store::RedisStore;
use tidegate_store::redis::topology::ShardId;
use tidegate_store::redis::url::RedisConfig;
use tidegate_store::store::{Charge, Store, StoreError, StoreStats};

use self::advance::Handle;
pub(crate) use self::call::{Prepared, Ready};
pub(crate) use self::fallback::{Fallback, Local};
use crate::advance::Advances;
use crate::failure::breaker::{Breaker, Outcome, Token};
use crate::failure::deny_cache::DenyCache;
use crate::together::{Coming, all};

/// How a shared store is reached.
#[derive(Debug, Clone)]
pub struct RemoteOptions {
    /// Where it is.
    pub config: RedisConfig,
    /// How long a decision may take, with all waiting.
    pub budget: Duration,
    /// How many denials are remembered; 0 switches the cache off.
    pub denials_max: usize,
    /// How many keys are counted locally while the store is away.
    pub fallback_keys_max: usize,
    /// How many instances share the store at least, whatever heartbeats tell: the answer for who starts while the store is away.
    pub instances_min: u32,
}

/// A shared store, and what is known about it.
#[derive(Debug)]
pub struct Remote {
    options: RemoteOptions,
    parts: ArcSwap<Parts>,
}

/// Everything that a forked child has to make anew: threads, connections, and locks that somebody may have held.
#[derive(Debug)]
pub(crate) struct Parts {
    forks: u64,
    store: RedisStore,
    budget: Duration,
    breakers: RwLock<HashMap<ShardId, Arc<Guard>>>,
    traffic: Arc<Traffic>,
    /// `None` if it is switched off.
    denials: Option<DenyCache>,
    /// What was taken of counters and not spent yet.
    advances: Advances<Handle>,
    pub(crate) fallback: Fallback,
    /// Answers that came after their caller had gone.
    late: AtomicU64,
    is_closed: AtomicBool,
    /// Why the last heartbeat failed.
    heartbeat_error: Mutex<Option<StoreError>>,
}

/// What stands between callers and one server.
#[derive(Debug)]
struct Guard {
    breaker: Breaker,
    traffic: Arc<Traffic>,
    /// What the last call that failed was told, for people.
    last_error: Mutex<Option<StoreError>>,
    /// When a call last failed, and when one was last answered.
    failed_at: AtomicU64,
    answered_at: AtomicU64,
}

/// How calls to all servers went.
#[derive(Debug, Default)]
struct Traffic {
    answered: AtomicU64,
    answered_ns: AtomicU64,
    failed: [AtomicU64; StoreError::KINDS.len()],
}

impl Traffic {
    fn count(&self, reply: Result<Ticks, &StoreError>) {
        match reply {
            Ok(took_ns) => {
                self.answered.fetch_add(1, Ordering::Relaxed);
                self.answered_ns.fetch_add(took_ns, Ordering::Relaxed);
            }
            Err(error) => _ = self.failed[error.kind_index()].fetch_add(1, Ordering::Relaxed),
        }
    }
}

impl Guard {
    fn record(&self, now: Ticks, token: Token, reply: Result<Ticks, &StoreError>) {
        self.traffic.count(reply);
        let outcome = outcome(reply);
        self.breaker.record(now, token, outcome);
        // Who complains of one value has answered.
        let heard_at = if outcome == Outcome::Failed { &self.failed_at } else { &self.answered_at };
        heard_at.store(now, Ordering::Relaxed);
        if let Err(error) = reply {
            *self.last_error.lock() = Some(error.clone());
        }
    }

    /// Whether the last thing that was heard of the server is an answer. Calls are answered in order: those before it were answered too, or lost.
    fn is_answering(&self) -> bool {
        self.answered_at.load(Ordering::Relaxed) > self.failed_at.load(Ordering::Relaxed)
    }
}

/// What a breaker makes of an answer, or of how long it took.
fn outcome(reply: Result<Ticks, &StoreError>) -> Outcome {
    match reply {
        Ok(took_ns) => Outcome::Ok { took_ns },
        // The server works; one value is wrong.
        Err(StoreError::Foreign { .. }) => Outcome::NotAFailure,
        Err(_) => Outcome::Failed,
    }
}

/// On what terms a call is made.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Terms {
    /// What a rule says instead of the budget of all.
    pub(crate) budget: Option<Duration>,
    /// How long its caller waits at most.
    pub(crate) patience: Option<Duration>,
    /// Whether its caller chose the id of the lease, and may ask again under it.
    pub(crate) is_lease_chosen: bool,
}

impl Terms {
    fn within(self, budget: Duration) -> Duration {
        let budget = self.budget.unwrap_or(budget);
        self.patience.map_or(budget, |patience| patience.min(budget))
    }
}

impl Remote {
    /// A way to the store at this address. It need not be there yet.
    pub fn open(options: RemoteOptions) -> Arc<Self> {
        let parts = ArcSwap::new(Parts::start(&options));
        Arc::new(Self { options, parts })
    }

    /// Makes up a call, unless its outcome is known without one. Nothing borrows the charges afterwards.
    pub(crate) fn prepare(&self, op: Op, charges: &[Charge<'_>], terms: Terms) -> Prepared {
        if charges.is_empty() {
            return Prepared::Known(Ok(Verdict::default()));
        }
        Arc::clone(&self.parts()).prepare(op, charges, terms)
    }

    /// The thread that talks to the store.
    pub fn io(&self) -> Io {
        self.parts().store.io().clone()
    }

    /// How the store is doing.
    pub fn health(&self) -> Health {
        self.parts().health(&self.options)
    }

    /// Ends the connections. What is counted stays.
    pub fn close(&self) {
        let parts = self.parts();
        parts.is_closed.store(true, Ordering::Relaxed);
        parts.give_all_back();
        parts.store.close();
    }

    /// What is counted here while the store is away.
    pub(crate) fn parts(&self) -> arc_swap::Guard<Arc<Parts>> {
        let parts = self.parts.load();
        if parts.forks == io::forks() {
            return parts;
        }
        // To drop the parent's parts would close its connections and wait for its locks.
        std::mem::forget(self.parts.swap(Parts::start(&self.options)));
        self.parts.load()
    }

    /// Charges all or none, under a lease that its caller chose.
    pub(crate) fn check_under_chosen_lease(&self, charges: &[Charge<'_>]) -> Result<Verdict, StoreError> {
        self.call(Op::Check, charges, Terms { is_lease_chosen: true, ..Terms::default() })
    }

    /// Waits for the answer to a call, as long as the budget lasts.
    fn call(&self, op: Op, charges: &[Charge<'_>], terms: Terms) -> Result<Verdict, StoreError> {
        match self.prepare(op, charges, terms) {
            Prepared::Known(outcome) => outcome,
            Prepared::Ready(ready) => ready.verdict(),
        }
    }

    /// Gives back, waited for by a task.
    pub(crate) async fn refund_in_task(&self, charge: &Charge<'_>, refund: Refund) -> Result<(), StoreError> {
        let ready = Arc::clone(&self.parts()).prepare_return(Some(Op::Refund(refund)), charge)?;
        ready.reply().await.map(drop)
    }

    /// Makes up a call that gives back or renews, for a task that waits for it.
    pub(crate) fn prepare_return(&self, op: Op, charge: &Charge<'_>) -> Result<Ready, StoreError> {
        Arc::clone(&self.parts()).prepare_return(Some(op), charge)
    }

    /// Renews, releases or, without `op`, forgets several counters, waited for by a task. All are asked at once: a store that is away costs one budget.
    pub(crate) async fn done_in_task(&self, op: Option<Op>, charges: &[Charge<'_>]) -> Vec<Result<bool, StoreError>> {
        let ask = |charge: &Charge<'_>| -> Coming<Result<bool, StoreError>> {
            let ready = Arc::clone(&self.parts()).prepare_return(op, charge);
            Box::pin(async move { done(&ready?.reply().await?) })
        };
        all(charges.iter().map(ask).collect::<Vec<_>>()).await
    }

    /// The same for calls that are answered by yes or no. `None` forgets the counter.
    fn done(&self, charge: &Charge<'_>, op: Option<Op>) -> Result<bool, StoreError> {
        Arc::clone(&self.parts()).prepare_return(op, charge)?.wait().and_then(|reply| done(&reply))
    }
}

fn done(reply: &Reply) -> Result<bool, StoreError> {
    match reply {
        Reply::Done(is_done) => Ok(*is_done),
        _ => Err(StoreError::protocol("no verdict was expected")),
    }
}

impl Parts {
    fn start(options: &RemoteOptions) -> Arc<Self> {
        let parts = Arc::new(Self {
            forks: io::forks(),
            store: RedisStore::open(&options.config),
            budget: options.budget,
            breakers: RwLock::default(),
            traffic: Arc::default(),
            denials: (options.denials_max > 0).then(|| DenyCache::new(options.denials_max)),
            advances: Advances::new(crate::engine::random_seed()),
            fallback: Fallback::new(options.fallback_keys_max, options.instances_min),
            late: AtomicU64::new(0),
            is_closed: AtomicBool::new(false),
            heartbeat_error: Mutex::new(None),
        });
        pulse::start(&parts);
        // The first decision should not have to wait for the connection. A server that is down does not hold up the start for longer.
        pulse::first(&parts, options.config.login.connect_timeout);
        parts
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    fn guard(&self, shard: ShardId) -> Arc<Guard> {
        if let Some(guard) = self.breakers.read().get(&shard) {
            return Arc::clone(guard);
        }
        let new = || {
            let breaker = Breaker::new(self.budget_ns(), crate::engine::random_seed());
            Arc::new(Guard {
                breaker,
                traffic: Arc::clone(&self.traffic),
                last_error: Mutex::new(None),
                failed_at: AtomicU64::new(0),
                answered_at: AtomicU64::new(0),
            })
        };
        Arc::clone(self.breakers.write().entry(shard).or_insert_with(new))
    }

    fn budget_ns(&self) -> u64 {
        u64::try_from(self.budget.as_nanos()).unwrap_or(u64::MAX)
    }
}

/// Every method but `clear`, which is not for decisions, takes at most the budget.
impl Store for Remote {
    fn now(&self) -> Ticks {
        self.parts().store.now()
    }

    fn tick(&self) -> Tick {
        Tick::NANOSECOND
    }

    fn meter(&self, quota: &Quota, calendar: Option<Arc<dyn Calendar>>) -> Result<Meter, MeterError> {
        self.parts().store.meter(quota, calendar)
    }

    fn check(&self, charges: &[Charge<'_>]) -> Result<Verdict, StoreError> {
        self.call(Op::Check, charges, Terms::default())
    }

    fn peek(&self, charges: &[Charge<'_>]) -> Result<Verdict, StoreError> {
        self.call(Op::Peek, charges, Terms::default())
    }

    fn debit(&self, charges: &[Charge<'_>]) -> Result<Verdict, StoreError> {
        self.call(Op::Debit, charges, Terms::default())
    }

    fn refund(&self, charge: &Charge<'_>, refund: Refund) -> Result<(), StoreError> {
        self.done(charge, Some(Op::Refund(refund))).map(drop)
    }

    fn renew(&self, charge: &Charge<'_>) -> Result<bool, StoreError> {
        self.done(charge, Some(Op::Renew))
    }

    fn release(&self, charge: &Charge<'_>) -> Result<bool, StoreError> {
        self.done(charge, Some(Op::Release))
    }

    fn reset(&self, charge: &Charge<'_>) -> Result<bool, StoreError> {
        self.done(charge, None)
    }

    /// Deletes the counters of all processes.
    fn clear(&self) {
        let parts = self.parts();
        if let Some(denials) = &parts.denials {
            denials.clear();
        }
        parts.advances.clear();
        parts.store.clear();
    }

    fn stats(&self) -> StoreStats {
        self.parts().store.stats()
    }
}

//! The engine: quotas or rules, a store, and what the library, the service and the proxy ask of them.

mod descriptors;
mod lease;
mod lease_task;
mod members;
mod policy;
mod question;
mod receipt;
mod request;
mod returned;
mod usage;

pub use descriptors::{DescriptorAsk, DescriptorsDecision, DescriptorsRequest, OwnLimit};
pub(crate) use members::Blocked;
pub use members::member_digester;
pub use question::{Begun, Pending};
pub use request::{CountersOf, Explained, Facts};
pub use returned::Done;
pub use usage::UsageError;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use smallvec::SmallVec;
use tidegate_core::decision::Verdict;
use tidegate_core::meter::Ask;
use tidegate_core::quota::UNITS_MAX;
use tidegate_core::time::Ticks;
use tidegate_store::digest::{Digest, Digester};
use tidegate_store::store::{Charge, Part, Place, Store, StoreError, StoreStats};

use crate::decision::{Asked, Decision, Origin, Question};
use crate::plan::{LoadError, Plan, Planned, Source, Transition};
use crate::remote::Remote;

/// What is decided when the store cannot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnStoreError {
    /// Count in this process what is this instance's share of a shared store. A store in this process has no other share: there it denies.
    #[default]
    Local,
    /// Let the request pass.
    Allow,
    /// Refuse it.
    Deny,
}

/// What a check may say beyond key and cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CheckOptions {
    /// The id for concurrency quotas; one is made up when it is absent.
    pub lease: Option<u128>,
    /// The longest delay of a leaky bucket that is of use: a later start is denied instead of charged.
    pub max_delay: Option<Ticks>,
    /// How long the caller waits for a shared store at most, if that is less than the budget.
    pub patience: Option<Duration>,
}

/// Decides by quotas or rules, on a store.
#[derive(Debug)]
pub struct Engine {
    /// Tells decisions of this engine from those of others.
    id: Digest,
    store: Arc<dyn Store>,
    /// The same store, if other processes share it.
    remote: Option<Arc<Remote>>,
    digester: Digester,
    /// Makes the digests of members.
    members: Digester,
    plan: ArcSwap<Plan>,
    on_store_error: OnStoreError,
    degraded: Degraded,
    /// Requests of members who are blocked.
    blocked: AtomicU64,
    resets: AtomicU64,
}

/// What an engine holds and has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EngineStats {
    /// What the store says; `allowed` and `denied` include degraded decisions, and `denied` those on members who are blocked.
    pub store: StoreStats,
    /// Decisions taken without the store.
    pub degraded: u64,
    /// The same by reason: see [`StoreError::KINDS`].
    pub degraded_by: [u64; StoreError::KINDS.len()],
    /// The generation in force.
    pub generation: u64,
}

/// Decisions taken without the store.
#[derive(Debug, Default)]
struct Degraded {
    allowed: AtomicU64,
    denied: AtomicU64,
    by: [AtomicU64; StoreError::KINDS.len()],
}

impl Degraded {
    fn count(&self, is_allowed: bool, error: &StoreError) {
        let counter = if is_allowed { &self.allowed } else { &self.denied };
        counter.fetch_add(1, Ordering::Relaxed);
        self.by[error.kind_index()].fetch_add(1, Ordering::Relaxed);
    }
}

/// The charges of one request.
type Charges<'a> = SmallVec<[Charge<'a>; 2]>;

impl Engine {
    /// An engine for these quotas or rules. `secret` keys the digests; it must be the same wherever a store is shared.
    ///
    /// # Errors
    /// See [`LoadError`].
    pub fn new(
        source: impl Into<Source>,
        store: Arc<dyn Store>,
        secret: [u8; 16],
        on_store_error: OnStoreError,
    ) -> Result<Self, LoadError> {
        let digester = Digester::new(secret);
        let plan = Plan::first(source.into(), &*store, &digester)?;
        Ok(Self {
            id: Digest([random().0, random().1]),
            store,
            remote: None,
            digester,
            members: member_digester(secret),
            plan: ArcSwap::from_pointee(plan),
            on_store_error,
            degraded: Degraded::default(),
            blocked: AtomicU64::new(0),
            resets: AtomicU64::new(0),
        })
    }

    /// An engine on a store that other processes share.
    ///
    /// # Errors
    /// See [`LoadError`].
    pub fn shared(
        source: impl Into<Source>,
        remote: Arc<Remote>,
        secret: [u8; 16],
        on_store_error: OnStoreError,
    ) -> Result<Self, LoadError> {
        let engine = Self::new(source, Arc::clone(&remote) as Arc<dyn Store>, secret, on_store_error)?;
        Ok(Self { remote: Some(remote), ..engine })
    }

    /// The way to the store, if other processes share it.
    pub fn remote(&self) -> Option<&Arc<Remote>> {
        self.remote.as_ref()
    }

    /// Takes `cost` from every quota if it fits into all, otherwise takes nothing.
    ///
    /// # Errors
    /// See [`UsageError`]. A denial is not an error, and neither is a store that cannot answer.
    pub fn check(&self, key: &[u8], cost: u64, options: CheckOptions) -> Result<Decision, UsageError> {
        let key = self.key(key, cost)?;
        // Read before anything is charged: a reset in between must void the receipt.
        let resets = self.resets.load(Ordering::SeqCst);
        let plan = self.plan();
        let lease = plan.lease_ttl_ns().map(|_| options.lease.unwrap_or_else(random_id));
        let max_delay = options.max_delay.unwrap_or(Ticks::MAX);
        let ask = Ask { cost, lease, max_delay };
        let outcome = Self::with_charges(&plan, key, ask, |charges| self.charge_all(charges, options));
        Ok(self.answer(Question { plan, origin: Origin::Check, asked: Asked::Key(key), cost, resets, lease }, outcome))
    }

    /// The same as `check`, but answers only whether it took.
    ///
    /// # Errors
    /// See [`check`](Self::check).
    pub fn allow(&self, key: &[u8], cost: u64) -> Result<bool, UsageError> {
        let key = self.key(key, cost)?;
        let plan = self.plan.load();
        let lease = plan.lease_ttl_ns().map(|_| random_id());
        match Self::with_charges(&plan, key, Ask { lease, ..Ask::cost(cost) }, |charges| self.store.allow(charges)) {
            Ok(is_allowed) => Ok(is_allowed),
            Err(error) => {
                let plan = Arc::clone(&plan);
                let question = Question { plan, origin: Origin::Check, asked: Asked::Key(key), cost, resets: 0, lease };
                Ok(self.without_store(&question, &error).is_allowed())
            }
        }
    }

    /// Answers what `check` would, and changes nothing.
    ///
    /// # Errors
    /// See [`check`](Self::check).
    pub fn peek(&self, key: &[u8], cost: u64) -> Result<Decision, UsageError> {
        let key = self.key(key, cost)?;
        let plan = self.plan();
        let outcome = self.store.peek(&charges(&plan, key, Ask::cost(cost)));
        Ok(self.answer(Question::new(plan, Origin::Peek, Asked::Key(key), cost), outcome))
    }

    /// Takes `cost` without asking, up to each quota's `max_debt`.
    ///
    /// # Errors
    /// See [`check`](Self::check).
    pub fn debit(&self, key: &[u8], cost: u64) -> Result<Decision, UsageError> {
        Ok(self.debit_digest(self.key(key, cost)?, cost))
    }

    /// Forgets a key; `false` when nothing was known of it.
    ///
    /// Refunds of decisions from before are dropped, of any key: what they took from this one is forgotten already, and would be given back from
    /// what was taken since.
    ///
    /// # Errors
    /// See [`UsageError`].
    pub fn reset(&self, key: &[u8]) -> Result<bool, UsageError> {
        let key = self.key(key, 0)?;
        self.note_reset();
        let plan = self.plan.load();
        let forgotten =
            charges(&plan, key, Ask::cost(0)).iter().filter(|charge| self.store.reset(charge).unwrap_or(false)).count();
        Ok(forgotten > 0)
    }

    /// Replaces the quotas or rules for all following decisions at once; returns the new generation.
    ///
    /// # Errors
    /// See [`LoadError`]; then the old ones stay in force.
    pub fn load(&self, source: impl Into<Source>, transition: Transition) -> Result<u64, LoadError> {
        let source = source.into();
        self.replace(|old| old.next(source.clone(), transition, &*self.store, &self.digester))
    }

    /// Puts what follows the generation in force into its place.
    fn replace(&self, next: impl Fn(&Plan) -> Result<Plan, LoadError>) -> Result<u64, LoadError> {
        // Loads are rare. One that was overtaken by another is made again, so that no generation is lost.
        loop {
            let old = self.plan.load_full();
            let new = Arc::new(next(&old)?);
            let generation = new.generation();
            let before = self.plan.compare_and_swap(&old, new);
            if Arc::ptr_eq(&before, &old) {
                return Ok(generation);
            }
        }
    }

    /// Frees what the engine holds: the counters of this process, or the connections to those that others share.
    pub fn close(&self) {
        match &self.remote {
            Some(remote) => remote.close(),
            None => self.store.clear(),
        }
    }

    /// What is in force.
    pub fn plan(&self) -> Arc<Plan> {
        let plan = self.plan.load_full();
        match plan.after_transition(&*self.store) {
            None => plan,
            Some(after) => {
                // If somebody loaded something else meanwhile, that stays.
                self.plan.compare_and_swap(&plan, Arc::new(after));
                self.plan.load_full()
            }
        }
    }

    /// The store's time, in nanoseconds since 1970.
    pub fn now_ns(&self) -> u64 {
        self.store.now().saturating_mul(self.store.tick().nanos())
    }

    /// What the engine and its store hold and have done.
    pub fn stats(&self) -> EngineStats {
        let (allowed, denied) = (self.degraded.allowed.load(Ordering::Relaxed), self.degraded.denied.load(Ordering::Relaxed));
        let (store, blocked) = (self.store.stats(), self.blocked.load(Ordering::Relaxed));
        EngineStats {
            store: StoreStats { allowed: store.allowed + allowed, denied: store.denied + denied + blocked, ..store },
            degraded: allowed + denied,
            degraded_by: std::array::from_fn(|kind| self.degraded.by[kind].load(Ordering::Relaxed)),
            generation: self.plan.load().generation(),
        }
    }

    /// Charges all or none. A shared store has to know whose the lease is.
    #[inline]
    fn charge_all(&self, charges: &[Charge<'_>], options: CheckOptions) -> Result<Verdict, StoreError> {
        match (&self.remote, options.lease) {
            (Some(remote), Some(_)) => remote.check_under_chosen_lease(charges),
            _ => self.store.check(charges),
        }
    }

    /// Calls the store with the charges of a request. Most have one quota, and need no list.
    #[inline]
    fn with_charges<R>(plan: &Plan, key: Digest, ask: Ask, call: impl FnOnce(&[Charge<'_>]) -> R) -> R {
        match plan.quotas() {
            [planned] => call(&[charge(planned, key, ask)]),
            _ => call(&charges(plan, key, ask)),
        }
    }

    /// Voids the receipts of before.
    fn note_reset(&self) {
        self.resets.fetch_add(1, Ordering::SeqCst);
    }

    fn key(&self, key: &[u8], cost: u64) -> Result<Digest, UsageError> {
        if key.is_empty() {
            return Err(UsageError::EmptyKey);
        }
        if cost > UNITS_MAX {
            return Err(UsageError::CostTooLarge { cost });
        }
        Ok(self.digester.digest(key))
    }

    /// Makes an answer of what the store said or, if it could not, of what the policy says.
    fn answer(&self, question: Question, outcome: Result<Verdict, StoreError>) -> Decision {
        let (verdict, degraded) = match outcome {
            Ok(verdict) => (verdict, None),
            Err(error) => (self.without_store(&question, &error), Some(error)),
        };
        let Question { plan, origin, asked, cost, resets, lease } = question;
        let decision = Decision {
            verdict,
            plan,
            origin,
            engine: self.id,
            asked,
            cost,
            lease: None,
            resets,
            degraded,
            refundable: AtomicU64::new(0),
        };
        if origin == Origin::Check { decision.taken(lease) } else { decision }
    }

    fn debit_digest(&self, key: Digest, cost: u64) -> Decision {
        let plan = self.plan.load_full();
        let outcome = self.store.debit(&charges(&plan, key, Ask::cost(cost)));
        self.answer(Question::new(plan, Origin::Debit, Asked::Key(key), cost), outcome)
    }
}

fn charge(planned: &Planned, key: Digest, ask: Ask) -> Charge<'_> {
    Charge {
        meter: &planned.meter,
        key,
        place: Place::of(key),
        namespace: planned.namespace,
        ask,
        until: planned.until,
        part: Part::Enforced,
    }
}

fn charges(plan: &Plan, key: Digest, ask: Ask) -> Charges<'_> {
    plan.quotas().iter().map(|planned| charge(planned, key, ask)).collect()
}

fn random() -> (u64, u64) {
    let id = random_id();
    #[allow(clippy::cast_possible_truncation, reason = "the two halves")]
    ((id >> 64) as u64, id as u64)
}

/// Randomness for what needs no secret.
pub(crate) fn random_seed() -> u64 {
    random().0
}

/// 128 random bits: ids must not collide between processes that share a store.
///
/// # Panics
/// The operating system has no randomness.
pub fn random_id() -> u128 {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the operating system has randomness");
    u128::from_le_bytes(bytes)
}

//! The store itself: charges in, verdicts out.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::task::{Context, Poll};
use std::time::Duration;

use smallvec::SmallVec;
use tidegate_core::decision::Verdict;
use tidegate_core::meter::{Meter, MeterError, Refund};
use tidegate_core::quota::Quota;
use tidegate_core::time::{Calendar, Tick, Ticks};

use super::clock::ServerClock;
use super::heartbeat;
use super::io::Io;
use super::node::{Lanes, UnderWay};
use super::resp::{Command, Value};
use super::script::{Build, Call, Op, Reply, Scripts, key};
use super::spread;
use super::topology::{Exchange, ShardId, Slot, Topology, TopologyHealth};
use super::url::RedisConfig;
use crate::clock::monotonic_ns;
use crate::store::{Charge, Store, StoreError, StoreStats};

/// How long a caller that has no budget of its own waits.
const PATIENCE_NS: Ticks = 10_000_000_000;

/// A call that was made up. As a future it sends the call and waits for the answer, which will come or not; it is to be polled where the timers of the
/// store's thread are: see [`RedisStore::io`].
pub struct Answer {
    /// Of one call that was not sent yet, or on a lane.
    made: Option<Box<Made>>,
    /// Its place there.
    under_way: Option<UnderWay>,
    /// Of a call that is on its way, or of several.
    waiting: Option<Waiting>,
}

type Waiting = Pin<Box<dyn Future<Output = Result<Reply, StoreError>> + Send>>;

struct Made {
    inner: Arc<Inner>,
    slot: Slot,
    call: Call,
}

impl Answer {
    /// What this will say.
    pub fn new(answer: impl Future<Output = Result<Reply, StoreError>> + Send + 'static) -> Self {
        Self { made: None, under_way: None, waiting: Some(Box::pin(answer)) }
    }

    fn of_call(inner: Arc<Inner>, slot: Slot, call: Call) -> Self {
        Self { made: Some(Box::new(Made { inner, slot, call })), under_way: None, waiting: None }
    }

    /// Sends the call, and waits for the answer on this very thread, if it can have a connection for itself. `None` if there is no answer yet: then
    /// this is still a future, to be awaited.
    pub fn wait(&mut self, deadline: Ticks) -> Option<Result<Reply, StoreError>> {
        let made = self.made.take()?;
        if let Some(reply) = made.call.answer(made.inner.clock.now()) {
            return Some(Ok(reply));
        }
        match made.inner.topology.exchange(made.slot, &made.call, deadline) {
            Exchange::Answer(answer) => return Some(answer.and_then(|value| made.inner.understand(&made.call, &value))),
            Exchange::Nothing => self.made = Some(made),
            Exchange::Late(value) => *self = Self::new(async move { made.inner.understand(&made.call, &value.await?) }),
        }
        None
    }

    /// Adds the call to the lanes of an event loop, if that can have a connection for itself; they are to be flushed. Then somebody has to
    /// [look](Self::look) when something came. In any case this is still a future.
    pub fn push(&mut self, lanes: &mut Lanes) -> bool {
        let Some(made) = &self.made else { return false };
        if self.under_way.is_none() && made.call.answer(made.inner.clock.now()).is_none() {
            self.under_way = made.inner.topology.push(made.slot, &made.call, lanes);
        }
        self.under_way.is_some()
    }

    /// The answer to a call that was sent so. `None` if it has not come, or if the call has to go another way: this is still a future.
    pub fn look(&mut self) -> Option<Result<Reply, StoreError>> {
        let answer = self.under_way.as_mut()?.look()?;
        self.under_way = None;
        let made = self.made.take()?;
        let judged = made.inner.topology.judge(answer);
        if judged.is_none() {
            self.made = Some(made);
            return None;
        }
        judged.map(|answer| answer.and_then(|value| made.inner.understand(&made.call, &value)))
    }

    /// Whether a call is under way that was sent so.
    pub fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }

    /// Whether it was answered.
    pub fn is_answered(&self) -> bool {
        self.under_way.as_ref().is_some_and(UnderWay::is_answered)
    }
}

impl Future for Answer {
    type Output = Result<Reply, StoreError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(made) = self.made.take() {
            *self = match self.under_way.take() {
                None => Self::new(async move { made.inner.send(made.slot, &made.call).await }),
                Some(under_way) => {
                    let value = made.inner.topology.await_later(under_way);
                    Self::new(async move { made.inner.understand(&made.call, &value.await?) })
                }
            };
        }
        // After its end a future is not polled again.
        self.waiting.as_mut().map_or(Poll::Pending, |answer| answer.as_mut().poll(context))
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer").field("is_sent", &self.made.is_none()).finish_non_exhaustive()
    }
}

/// Counters on servers that many processes share.
#[derive(Debug)]
pub struct RedisStore {
    inner: Arc<Inner>,
    io: Io,
    allowed: AtomicU64,
    denied: AtomicU64,
}

/// What calls under way share.
#[derive(Debug)]
pub(super) struct Inner {
    scripts: Scripts,
    topology: Arc<Topology>,
    clock: ServerClock,
    prefix: Box<[u8]>,
}

impl Inner {
    pub(super) fn call(&self, op: Op, charges: &[Charge<'_>]) -> Call {
        self.scripts.call(op, charges, &self.prefix, self.clock.now())
    }

    pub(super) async fn send(&self, slot: Slot, call: &Call) -> Result<Reply, StoreError> {
        if let Some(reply) = call.answer(self.clock.now()) {
            return Ok(reply);
        }
        self.understand(call, &self.topology.call(slot, call).await?)
    }

    fn understand(&self, call: &Call, value: &Value) -> Result<Reply, StoreError> {
        let reply = call.decode(value)?;
        match reply {
            Reply::Verdict { now_ns, .. } => self.clock.observe(now_ns),
            Reply::Done(_) => {}
            Reply::Clock { now_ns } => {
                self.clock.observe(now_ns);
                return Err(StoreError::Refused {
                    why: "the server's clock was not known well enough for a calendar; it is now".into(),
                });
            }
        }
        Ok(reply)
    }

    pub(super) fn topology(&self) -> &Topology {
        &self.topology
    }

    pub(super) fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    pub(super) fn observe(&self, server_now: Ticks) {
        self.clock.observe(server_now);
    }

    fn slot_of(&self, charge: &Charge<'_>) -> Slot {
        self.topology.slot_of(&key::tag(charge.place))
    }
}

impl RedisStore {
    /// A store at this address. Connects in the background: a server that is down now may come later.
    pub fn open(config: &RedisConfig) -> Self {
        Self::with(config, Build::Production, ServerClock::new())
    }

    /// A store whose scripts are told the time, for tests.
    #[cfg(feature = "contract")]
    pub fn with_clock(config: &RedisConfig, clock: crate::clock::ManualClock) -> Self {
        Self::with(config, Build::Injected, ServerClock::Told(clock))
    }

    fn with(config: &RedisConfig, build: Build, clock: ServerClock) -> Self {
        let io = Io::of_process();
        let prefix = config.prefix.clone().into();
        let topology = Topology::start(config, io.handle());
        let inner = Arc::new(Inner { scripts: Scripts::new(build), topology, clock, prefix });
        Self { inner, io, allowed: AtomicU64::new(0), denied: AtomicU64::new(0) }
    }

    /// The servers that charges go to.
    pub fn shards_of(&self, charges: &[Charge<'_>]) -> SmallVec<[ShardId; 1]> {
        let mut shards: SmallVec<[ShardId; 1]> =
            charges.iter().map(|charge| self.inner.topology.shard_of(self.inner.slot_of(charge))).collect();
        shards.sort_unstable();
        shards.dedup();
        shards
    }

    /// Makes up a call. Nothing borrows the charges afterwards.
    pub fn begin(&self, op: Op, charges: &[Charge<'_>]) -> Answer {
        let inner = Arc::clone(&self.inner);
        let slot_of = |charge: &Charge<'_>| inner.slot_of(charge);
        if let Some(slot) = spread::single(charges, slot_of) {
            let call = inner.call(op, charges);
            return Answer::of_call(inner, slot, call);
        }
        let groups = spread::groups(charges, slot_of);
        Answer::new(async move {
            let verdict = match op {
                Op::Check => spread::check(Arc::clone(&inner), groups).await?,
                _ => spread::each(Arc::clone(&inner), op, groups).await?,
            };
            Ok(Reply::Verdict { now_ns: inner.clock.now(), verdict })
        })
    }

    /// Makes up the deletion of a counter.
    pub fn begin_reset(&self, charge: &Charge<'_>) -> Answer {
        let inner = Arc::clone(&self.inner);
        let mut name = Vec::new();
        key::write(&mut name, &inner.prefix, charge);
        let (slot, command) = (inner.slot_of(charge), Command::new(&[b"DEL", &name]));
        Answer::new(async move {
            let value = inner.topology.command(slot, command).await?;
            match (value.store_error(), value.int()) {
                (Some(error), _) => Err(error),
                (None, Some(deleted)) => Ok(Reply::Done(deleted > 0)),
                (None, None) => Err(StoreError::protocol("DEL was not answered by a number")),
            }
        })
    }

    /// Says that this instance lives, and answers who else does. To be polled on the store's thread.
    ///
    /// # Errors
    /// The store could not answer.
    pub fn beat(&self, instance: u128) -> impl Future<Output = Result<Vec<u128>, StoreError>> + Send + 'static {
        let inner = Arc::clone(&self.inner);
        async move { heartbeat::beat(&inner, instance).await }
    }

    /// The thread on which answers are waited for.
    pub fn io(&self) -> &Io {
        &self.io
    }

    /// Who serves what, and how it is doing.
    pub fn topology(&self) -> &Arc<Topology> {
        &self.inner.topology
    }

    /// The state of the servers.
    pub fn health(&self) -> TopologyHealth {
        self.inner.topology.health()
    }

    /// How far the servers' clock is ahead of this process's, in nanoseconds, as far as replies have told.
    pub fn skew_ns(&self) -> i64 {
        self.inner.clock.skew()
    }

    /// Counts a decision.
    pub fn count(&self, verdict: &Verdict) {
        let counter = if verdict.is_allowed() { &self.allowed } else { &self.denied };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Ends the connections. What is counted stays.
    pub fn close(&self) {
        self.inner.topology.close();
    }

    /// Waits for an answer on a thread that may wait.
    fn wait(&self, mut answer: Answer) -> Result<Reply, StoreError> {
        if let Some(reply) = answer.wait(monotonic_ns() + PATIENCE_NS) {
            return reply;
        }
        let (done, is_done) = mpsc::sync_channel(1);
        self.io.run(Box::pin(async move {
            // Nobody waits any more if the receiver is gone.
            let _ = done.send(answer.await);
        }));
        is_done.recv_timeout(Duration::from_nanos(PATIENCE_NS)).unwrap_or(Err(StoreError::Timeout))
    }

    fn ask(&self, op: Op, charges: &[Charge<'_>]) -> Result<Verdict, StoreError> {
        if charges.is_empty() {
            return Ok(Verdict::default());
        }
        match self.wait(self.begin(op, charges))? {
            Reply::Verdict { verdict, .. } => Ok(verdict),
            _ => Err(StoreError::protocol("a verdict was expected")),
        }
    }

    fn done(&self, answer: Answer) -> Result<bool, StoreError> {
        match self.wait(answer)? {
            Reply::Done(is_done) => Ok(is_done),
            _ => Err(StoreError::protocol("no verdict was expected")),
        }
    }
}

/// Waits for each answer as long as it takes; the engine has a budget and asks by [`RedisStore::begin`].
impl Store for RedisStore {
    fn now(&self) -> Ticks {
        self.inner.clock.now()
    }

    fn tick(&self) -> Tick {
        Tick::NANOSECOND
    }

    fn meter(&self, quota: &Quota, calendar: Option<Arc<dyn Calendar>>) -> Result<Meter, MeterError> {
        self.inner.scripts.meter(quota, calendar)
    }

    fn check(&self, charges: &[Charge<'_>]) -> Result<Verdict, StoreError> {
        let verdict = self.ask(Op::Check, charges)?;
        self.count(&verdict);
        Ok(verdict)
    }

    fn peek(&self, charges: &[Charge<'_>]) -> Result<Verdict, StoreError> {
        self.ask(Op::Peek, charges)
    }

    fn debit(&self, charges: &[Charge<'_>]) -> Result<Verdict, StoreError> {
        self.ask(Op::Debit, charges)
    }

    fn refund(&self, charge: &Charge<'_>, refund: Refund) -> Result<(), StoreError> {
        self.done(self.begin(Op::Refund(refund), &[*charge])).map(drop)
    }

    fn renew(&self, charge: &Charge<'_>) -> Result<bool, StoreError> {
        self.done(self.begin(Op::Renew, &[*charge]))
    }

    fn release(&self, charge: &Charge<'_>) -> Result<bool, StoreError> {
        self.done(self.begin(Op::Release, &[*charge]))
    }

    fn reset(&self, charge: &Charge<'_>) -> Result<bool, StoreError> {
        self.done(self.begin_reset(charge))
    }

    /// Deletes the counters of all processes.
    fn clear(&self) {
        let (topology, prefix) = (Arc::clone(&self.inner.topology), self.inner.prefix.clone());
        // There is nobody to tell: what could not be deleted expires by itself.
        let _ = self.wait(Answer::new(async move { topology.delete_all(&prefix).await.map(|()| Reply::Done(true)) }));
    }

    /// What this process was told. How many keys the servers hold, they say themselves.
    fn stats(&self) -> StoreStats {
        StoreStats {
            allowed: self.allowed.load(Ordering::Relaxed),
            denied: self.denied.load(Ordering::Relaxed),
            ..StoreStats::default()
        }
    }
}

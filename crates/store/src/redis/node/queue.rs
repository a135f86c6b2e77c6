//! Where callers, on any thread, and the task that has the connection meet.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use super::line::{Line, Lines, Taken};
use super::{CallError, NodeState, ServerInfo};
use crate::redis::resp::{Command, Value};
use crate::store::StoreError;

/// The most calls that wait for an answer. More than a server answers within any budget, and few enough to be held in memory.
const CALLS_MAX: usize = 65_536;

/// The answer to a call.
pub(super) type Answer = Result<Value, CallError>;

/// A call that nothing was sent of.
#[derive(Debug)]
pub(super) struct Queued {
    pub(super) command: Command,
    pub(super) asking: bool,
    pub(super) reply: oneshot::Sender<Answer>,
}

/// What the node wants of its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Another connection.
    Reconnect,
    /// None.
    Close,
}

/// Calls on their way to the connection, orders to it, and what it says of itself.
#[derive(Debug)]
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    state: watch::Sender<NodeState>,
}

#[derive(Debug, Default)]
struct Waiting {
    calls: Vec<Queued>,
    lines: Lines,
    /// Calls here and calls in flight.
    load: usize,
    gate: Gate,
    reconnect: bool,
    /// The task, while it sleeps. Taken by who wakes it, so that of the calls of one batch only the first pays for that.
    sleeper: Option<Waker>,
}

/// Whether calls may wait for a connection.
#[derive(Debug, Default)]
enum Gate {
    /// There is one, or will be in a moment.
    #[default]
    Open,
    /// There is none.
    Shut(StoreError),
    /// There will be none.
    Closed,
}

impl Default for Queue {
    fn default() -> Self {
        Self { waiting: Mutex::default(), state: watch::Sender::new(NodeState::Connecting) }
    }
}

/// The side of the callers.
impl Queue {
    /// Queues a call; the receiver gets its answer.
    pub(super) fn push(&self, command: Command, asking: bool) -> Result<oneshot::Receiver<Answer>, CallError> {
        let mut waiting = self.waiting.lock();
        match &waiting.gate {
            Gate::Open => {}
            Gate::Shut(why) => return Err(CallError::NotSent(why.clone())),
            Gate::Closed => return Err(CallError::NotSent(closed())),
        }
        if waiting.load >= CALLS_MAX {
            return Err(CallError::NotSent(StoreError::Refused { why: "too many calls in flight".into() }));
        }
        let (reply, answer) = oneshot::channel();
        waiting.load += 1;
        waiting.calls.push(Queued { command, asking, reply });
        wake(waiting);
        Ok(answer)
    }

    /// Whether nothing is under way here: a call on the line must not overtake anything.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.lock().load == 0
    }

    /// The line, if nobody has it and nothing else is under way: a call must not overtake what its caller asked before, such as a refund that nobody
    /// waits for.
    pub(super) fn take_line(&self) -> Taken {
        let mut waiting = self.waiting.lock();
        if waiting.load > 0 { Taken::Nothing } else { waiting.lines.take(Instant::now()) }
    }

    /// Takes a line back, or the news that there is none any more.
    pub(super) fn put_line(&self, line: Option<Line>, epoch: u64) {
        self.waiting.lock().lines.put(line, epoch, Instant::now());
    }

    pub(super) fn reconnect(&self) {
        let mut waiting = self.waiting.lock();
        waiting.reconnect = true;
        wake(waiting);
    }

    /// Fails what is queued; what is in flight is left to the task.
    pub(super) fn close(&self) {
        let mut waiting = self.waiting.lock();
        waiting.gate = Gate::Closed;
        let calls = std::mem::take(&mut waiting.calls);
        waiting.load -= calls.len();
        wake(waiting);
        fail(calls, &closed());
        self.down(&closed());
    }

    pub(super) fn state(&self) -> &watch::Sender<NodeState> {
        &self.state
    }
}

/// The side of the task.
impl Queue {
    /// Moves all calls to `into`, after saying how many others have ended. The task is woken when more come.
    pub(super) fn take(&self, into: &mut Vec<Queued>, ended: usize, context: &Context<'_>) -> Option<Order> {
        let mut waiting = self.waiting.lock();
        waiting.load -= ended;
        into.append(&mut waiting.calls);
        order(&mut waiting, context)
    }

    /// Says how many calls have ended.
    pub(super) fn ended(&self, calls: usize) {
        self.waiting.lock().load -= calls;
    }

    /// Waits for an order.
    pub(super) async fn ordered(&self) -> Order {
        std::future::poll_fn(|context| order(&mut self.waiting.lock(), context).map_or(Poll::Pending, Poll::Ready)).await
    }

    /// There is a connection.
    pub(super) fn up(&self, server: ServerInfo) {
        let mut waiting = self.waiting.lock();
        if !matches!(waiting.gate, Gate::Closed) {
            waiting.gate = Gate::Open;
        }
        // It is as new as was asked for.
        waiting.reconnect = false;
        waiting.lines.allow();
        drop(waiting);
        self.state.send_replace(NodeState::Up { since: Instant::now(), server: Arc::new(server) });
    }

    /// There is no connection. Calls may still wait for the next one.
    pub(super) fn down(&self, why: &StoreError) {
        self.waiting.lock().lines.hang_up();
        let now = Instant::now();
        self.state.send_modify(|state| {
            let since = if let NodeState::Down { since, .. } = state { *since } else { now };
            *state = NodeState::Down { why: why.clone(), since };
        });
    }

    /// There is no connection, and no reason to wait for one.
    pub(super) fn shut(&self, why: &StoreError) {
        let mut waiting = self.waiting.lock();
        if !matches!(waiting.gate, Gate::Closed) {
            waiting.gate = Gate::Shut(why.clone());
        }
        let calls = std::mem::take(&mut waiting.calls);
        waiting.load -= calls.len();
        drop(waiting);
        fail(calls, why);
    }
}

/// What there is to do; the task sleeps if it is nothing.
fn order(waiting: &mut Waiting, context: &Context<'_>) -> Option<Order> {
    if matches!(waiting.gate, Gate::Closed) {
        return Some(Order::Close);
    }
    if std::mem::take(&mut waiting.reconnect) {
        return Some(Order::Reconnect);
    }
    match &mut waiting.sleeper {
        Some(sleeper) => sleeper.clone_from(context.waker()),
        none => *none = Some(context.waker().clone()),
    }
    None
}

/// Wakes the task, outside of the lock that it takes first.
fn wake(mut waiting: parking_lot::MutexGuard<'_, Waiting>) {
    let sleeper = waiting.sleeper.take();
    drop(waiting);
    if let Some(sleeper) = sleeper {
        sleeper.wake();
    }
}

fn fail(calls: Vec<Queued>, why: &StoreError) {
    for call in calls {
        // Who does not wait any more need not know.
        let _ = call.reply.send(Err(CallError::NotSent(why.clone())));
    }
}

/// What calls get after the end.
pub(super) fn closed() -> StoreError {
    StoreError::unavailable("the connection was closed")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ping() -> Command {
        Command::new(&[b"PING"])
    }

    #[test]
    fn calls_beyond_the_most_are_refused_until_others_have_ended() {
        let queue = Queue::default();
        let mut taken = Vec::new();
        let answers: Vec<_> = (0..CALLS_MAX).map(|_| queue.push(ping(), false).unwrap()).collect();
        assert_eq!(answers.len(), CALLS_MAX);

        let Err(CallError::NotSent(why)) = queue.push(ping(), false) else { panic!("there is no room") };
        assert_eq!(why.kind(), "store_refused");
        queue.take(&mut taken, 0, &Context::from_waker(Waker::noop()));
        assert!(queue.push(ping(), false).is_err(), "calls in flight count too");
        queue.ended(1);
        assert!(queue.push(ping(), false).is_ok());
        assert!(queue.push(ping(), false).is_err());
    }

    #[test]
    fn of_the_calls_of_one_batch_only_the_first_wakes_the_task() {
        struct Count(std::sync::atomic::AtomicUsize);
        impl std::task::Wake for Count {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            }
        }
        let count = Arc::new(Count(0.into()));
        let waker = Waker::from(Arc::clone(&count));
        let queue = Queue::default();
        let mut taken = Vec::new();

        for batch in 1..=3 {
            assert_eq!(queue.take(&mut taken, 0, &Context::from_waker(&waker)), None);
            for _ in 0..10 {
                queue.push(ping(), false).unwrap();
            }
            assert_eq!(count.0.load(std::sync::atomic::Ordering::Relaxed), batch);
        }
    }

    #[test]
    fn an_end_outlasts_everything() {
        let queue = Queue::default();
        queue.close();
        queue.up(ServerInfo::default());
        queue.shut(&StoreError::Timeout);

        assert_eq!(queue.push(ping(), false).unwrap_err(), CallError::NotSent(closed()));
        assert_eq!(queue.take(&mut Vec::new(), 0, &Context::from_waker(Waker::noop())), Some(Order::Close));
    }
}

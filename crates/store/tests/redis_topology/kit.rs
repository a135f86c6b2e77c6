//! A runtime as the store has one, and scripts that count.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tidegate_store::redis::resp::{Command, Value};
use tidegate_store::redis::topology::{Calls, Slot, Topology};
use tidegate_store::redis::url::RedisConfig;
use tidegate_store::store::StoreError;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};

/// One thread that all connections live on; tests call from theirs, as callers of the store do.
pub(crate) struct Io {
    pub(crate) handle: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Io {
    pub(crate) fn start() -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            let _ = runtime.block_on(stopped);
        });
        Self { handle, stop: Some(stop), thread: Some(thread) }
    }

    pub(crate) fn topology(&self, url: &str) -> Arc<Topology> {
        Topology::start(&RedisConfig::parse(url).unwrap(), &self.handle)
    }

    pub(crate) fn run<T>(&self, future: impl Future<Output = T>) -> T {
        self.handle.block_on(future)
    }

    /// Lets time pass. The timer belongs to the runtime, so that is where it is made.
    pub(crate) fn pause(&self, duration: Duration) {
        self.run(async { sleep(duration).await });
    }

    /// Waits until a condition holds, and says how long that took.
    pub(crate) fn eventually(&self, what: &str, within: Duration, condition: impl Fn() -> bool) -> Duration {
        let start = Instant::now();
        while !condition() {
            assert!(start.elapsed() < within, "not within {within:?}: {what}");
            self.pause(Duration::from_millis(5));
        }
        start.elapsed()
    }
}

impl Drop for Io {
    fn drop(&mut self) {
        drop(self.stop.take());
        let _ = self.thread.take().unwrap().join();
    }
}

/// A script and what it is told.
#[derive(Debug, Clone)]
pub(crate) struct Script {
    text: String,
    keys: Vec<String>,
}

impl Script {
    pub(crate) fn new(text: impl Into<String>, keys: &[&str]) -> Self {
        Self { text: text.into(), keys: keys.iter().map(ToString::to_string).collect() }
    }

    /// Adds one to every key, and answers the count of the first.
    pub(crate) fn count(keys: &[&str]) -> Self {
        let text = "local first = redis.call('INCR', KEYS[1])
            for i = 2, #KEYS do redis.call('INCR', KEYS[i]) end
            return first";
        Self::new(text, keys)
    }

    /// A script that no server has seen before.
    pub(crate) fn unheard_of(keys: &[&str], name: &str) -> Self {
        let mut script = Self::count(keys);
        script.text.push_str(" -- ");
        script.text.push_str(name);
        script
    }

    pub(crate) fn slot(&self, topology: &Topology) -> Slot {
        if topology.is_spread() { Slot::of_key(self.keys[0].as_bytes()) } else { Slot::ZERO }
    }

    fn command(&self, name: &str, script: &str) -> Command {
        let count = self.keys.len().to_string();
        let mut words = vec![name.as_bytes(), script.as_bytes(), count.as_bytes()];
        words.extend(self.keys.iter().map(String::as_bytes));
        Command::new(&words)
    }
}

impl Calls for Script {
    fn by_hash(&self) -> Command {
        self.command("EVALSHA", &sha1_smol::Sha1::from(&self.text).hexdigest())
    }

    fn by_text(&self) -> Command {
        self.command("EVAL", &self.text)
    }
}

pub(crate) async fn call(topology: &Topology, script: &Script) -> Result<Value, StoreError> {
    topology.call(script.slot(topology), script).await
}

/// Calls once, with patience.
pub(crate) fn count(io: &Io, topology: &Topology, script: &Script) -> Result<i64, StoreError> {
    let limit = Duration::from_secs(10);
    io.run(async {
        let answer = tokio::time::timeout(limit, call(topology, script)).await.unwrap_or(Err(StoreError::Timeout))?;
        Ok(answer.int().unwrap_or_else(|| panic!("a number, not {answer:?}")))
    })
}

/// Waits until a call succeeds.
pub(crate) fn count_eventually(io: &Io, topology: &Topology, script: &Script, within: Duration) -> Duration {
    io.eventually("a call succeeds", within, || count(io, topology, script).is_ok())
}

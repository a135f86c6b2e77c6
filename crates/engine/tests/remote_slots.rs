//! Slots of a real shared store: nobody loses one by going away, and who gave one back has it.

#[path = "../../store/tests/servers/mod.rs"]
mod servers;

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock, mpsc};
use std::task::{Context, Waker};
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_core::quota::parse;
use tidegate_engine::decision::{Decision, Origin};
use tidegate_engine::engine::{Begun, CheckOptions, Engine, OnStoreError};
use tidegate_engine::remote::{Remote, RemoteOptions};
use tidegate_store::redis::url::RedisConfig;
use tidegate_store::store::StoreError;
use tokio::runtime::Builder;

use servers::Servers;

static SINGLE: LazyLock<Servers> = LazyLock::new(|| Servers::start(&["single"]));
static CLUSTER: LazyLock<Servers> = LazyLock::new(|| Servers::start(&["cluster"]));

/// How long a test waits for what has to happen. Far shorter than the leases.
const PATIENCE: Duration = Duration::from_secs(20);
const TTL: &str = "ttl 10m";

/// A way to the server of all tests that can be broken, and a prefix for what is counted.
struct Way {
    url: String,
    proxy: u64,
    prefix: String,
}

impl Way {
    fn new() -> Self {
        let proxy = SINGLE.command(&json!({"do": "proxy"}));
        let url = proxy["url"].as_str().expect("it has an address").to_owned();
        Self { url, proxy: proxy["proxy"].as_u64().expect("it has a number"), prefix: prefix() }
    }

    /// An engine at the end of it.
    fn engine(&self, quotas: &str, budget: Duration) -> Arc<Engine> {
        // A server that does not know the script would only say so.
        assert!(self.witness(quotas).allow(b"another", 1).expect("a call that makes sense"));
        engine(&format!("{}?prefix={}", self.url, self.prefix), quotas, budget)
    }

    /// An engine beside it, which sees how things stand on the server.
    fn witness(&self, quotas: &str) -> Arc<Engine> {
        engine(&format!("{}?prefix={}", SINGLE.url, self.prefix), quotas, PATIENCE)
    }

    /// Questions arrive, and answers do not.
    fn hold_answers_back(&self) {
        self.fault("black_hole");
    }

    /// They arrive now.
    fn pass_through(&self) {
        self.fault("pass_through");
    }

    fn fault(&self, fault: &str) -> Value {
        SINGLE.command(&json!({"do": "fault", "proxy": self.proxy, "fault": fault}))
    }
}

fn prefix() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("t{}:", NEXT.fetch_add(1, Ordering::Relaxed))
}

fn engine(url: &str, quotas: &str, budget: Duration) -> Arc<Engine> {
    let config = RedisConfig::parse(url).expect("the address of a test server");
    let options = RemoteOptions { config, budget, denials_max: 0, fallback_keys_max: 1_000, instances_min: 1 };
    let quotas = parse(quotas).expect("quotas");
    let engine = Engine::shared(quotas, Remote::open(options), *b"a secret of keys", OnStoreError::Deny);
    Arc::new(engine.expect("quotas that can be loaded"))
}

fn begin(engine: &Arc<Engine>, options: CheckOptions) -> Begun {
    engine.begin(Origin::Check, b"a", 1, options).expect("a call that makes sense")
}

async fn check(engine: &Arc<Engine>) -> Decision {
    begin(engine, CheckOptions::default()).decide().await
}

/// Asks, and goes away before the answer comes.
fn ask_and_leave(engine: &Arc<Engine>, options: CheckOptions) {
    let deciding = pin!(begin(engine, options).decide());
    assert!(deciding.poll(&mut Context::from_waker(Waker::noop())).is_pending(), "there is no answer yet");
}

fn remaining(engine: &Arc<Engine>) -> Option<u64> {
    engine.peek(b"a", 0).expect("a call that makes sense").verdict().remaining()
}

fn answered(engine: &Arc<Engine>) -> u64 {
    engine.remote().expect("a shared store").health().answered
}

async fn eventually(what: &str, is_true: impl Fn() -> bool) {
    let waiting = async {
        while !is_true() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("not in time: {what}"));
}

fn run(test: impl Future<Output = ()>) {
    Builder::new_current_thread().enable_all().build().expect("an event queue").block_on(test);
}

#[test]
fn a_client_that_goes_away_while_the_store_is_asked_keeps_no_slot() {
    run(async {
        let (way, quotas) = (Way::new(), format!("3 concurrent {TTL}, 100/hour"));
        let (engine, witness) = (way.engine(&quotas, PATIENCE), way.witness(&quotas));

        way.hold_answers_back();
        (0..3).for_each(|_| ask_and_leave(&engine, CheckOptions::default()));
        eventually("all slots are taken", || remaining(&witness) == Some(0)).await;
        way.pass_through();

        eventually("all slots are back", || remaining(&witness) == Some(3)).await;
        let left = witness.peek(b"a", 0).expect("a call that makes sense").verdict().statuses()[1].remaining;
        assert_eq!(left, Some(97), "what is no slot stays taken");
    });
}

#[test]
fn a_slot_that_is_lent_after_the_budget_is_given_back() {
    type Ask = fn(&Arc<Engine>) -> Decision;
    let in_task: Ask = |engine| {
        let runtime = Builder::new_current_thread().enable_all().build().expect("an event queue");
        runtime.block_on(check(engine))
    };
    let on_thread: Ask = |engine| engine.check(b"a", 1, CheckOptions::default()).expect("a call that makes sense");
    let by_job: Ask = |engine| {
        let Begun::Pending(pending) = begin(engine, CheckOptions::default()) else { panic!("the store is asked") };
        let (deliver, delivered) = mpsc::channel();
        let io = pending.io().clone();
        io.run(pending.job(move |decision| deliver.send(decision).expect("somebody waits")));
        delivered.recv_timeout(PATIENCE).expect("a decision within the budget")
    };
    for (name, ask) in [("in a task", in_task), ("on a thread", on_thread), ("by a job", by_job)] {
        let (way, quotas) = (Way::new(), format!("1 concurrent {TTL}"));
        let (engine, witness) = (way.engine(&quotas, Duration::from_millis(100)), way.witness(&quotas));

        way.hold_answers_back();
        let decision = ask(&engine);
        assert_eq!((decision.is_allowed(), decision.degraded()), (false, Some(&StoreError::Timeout)), "{name}");
        run(async {
            eventually("the slot is taken", || remaining(&witness) == Some(0)).await;
            way.pass_through();

            eventually("the slot is back", || remaining(&witness) == Some(1)).await;
        });
    }
}

#[test]
fn who_asks_again_under_its_own_lease_does_not_lose_the_slot_to_its_first_question() {
    run(async {
        let (way, quotas) = (Way::new(), format!("1 concurrent {TTL}"));
        let (engine, options) = (way.engine(&quotas, PATIENCE), CheckOptions { lease: Some(7), ..CheckOptions::default() });

        way.hold_answers_back();
        ask_and_leave(&engine, options);
        let before = answered(&engine);
        let mut again = pin!(begin(&engine, options).decide());
        assert!(again.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending(), "there is no answer yet");
        way.pass_through();

        assert_eq!(again.await.lease(), Some(7));
        eventually("both were answered", || answered(&engine) >= before + 2).await;
        assert!(!check(&engine).await.is_allowed(), "it is held");
    });
}

#[test]
fn a_denied_client_that_goes_away_uses_up_no_unit_that_was_taken_in_advance() {
    run(async {
        let (way, quotas) = (Way::new(), "50/day, 20000/day advance 1m");
        let engine = way.engine(quotas, PATIENCE);
        for number in 0..500 {
            assert_eq!(check(&engine).await.is_allowed(), number < 50);
        }
        assert!(engine.remote().expect("a shared store").health().advance_units > 0);

        let before = answered(&engine);
        (0..20).for_each(|_| ask_and_leave(&engine, CheckOptions::default()));
        eventually("all were answered", || answered(&engine) >= before + 20).await;
        assert!(!check(&engine).await.is_allowed());
        engine.close();

        let left = way.witness(quotas).peek(b"a", 0).expect("a call that makes sense").verdict().statuses()[1].remaining;
        assert_eq!(left, Some(19_950));
    });
}

#[test]
fn who_asks_after_giving_a_slot_back_has_it() {
    for servers in [&SINGLE, &CLUSTER] {
        let separator = if servers.url.contains('?') { '&' } else { '?' };
        let url = format!("{}{separator}prefix={}", servers.url, prefix());
        let engine = engine(&url, &format!("1 concurrent {TTL}"), PATIENCE);
        run(async {
            // A server that does not know the scripts yet is told them first, and a release is overtaken meanwhile.
            assert_eq!(engine.release_decision(&check(&engine).await), Ok(true));
            for number in 0..300 {
                let decision = check(&engine).await;
                assert!(decision.is_allowed(), "question {number} on {url}: {:?}", decision.verdict());
                engine.release_soon(&decision).expect("a decision of this engine");
            }
        });
    }
}

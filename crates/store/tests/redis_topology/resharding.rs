//! Slots that move while they are used: every call is made, and none twice.

use std::time::Duration;

use serde_json::json;
use tidegate_store::redis::topology::Slot;
use tidegate_store::store::StoreError;
use tokio::time::Instant;

use super::kit::{Io, Script, count};
use super::traffic::{Call, Traffic, failures};
use crate::servers::Servers;

/// Two keys of one tag: a script needs both, wherever they are.
fn script(tag: &str) -> Script {
    Script::count(&[&format!("{{{tag}}}first"), &format!("{{{tag}}}second")])
}

/// How long calls try again while their keys are apart.
const PATIENCE: Duration = Duration::from_millis(63);

/// Every call was answered, and ran once.
fn assert_each_ran_once(calls: &[Call]) {
    assert_eq!(failures(calls), Vec::<&StoreError>::new(), "of {} calls", calls.len());
    assert_each_answered_ran_once(calls);
}

/// Every count from 1 to the last one was answered to exactly one caller: what was answered ran once, and what was refused did not run.
fn assert_each_answered_ran_once(calls: &[Call]) -> i64 {
    let mut counts: Vec<_> = calls.iter().filter_map(|call| call.answer.as_ref().ok()).copied().collect();
    counts.sort_unstable();
    let last = i64::try_from(counts.len()).unwrap();
    assert_eq!(counts, (1..=last).collect::<Vec<_>>());
    last
}

struct Move {
    servers: Servers,
    slot: Slot,
    source: String,
    target: String,
}

impl Move {
    fn new(arguments: &[&str], tag: &str) -> Option<Self> {
        let servers = Servers::start_if_installed(arguments)?;
        let slot = Slot::of_tag(tag.as_bytes());
        let source = servers.command(&json!({"do": "primary_of", "slot": slot.number()})).as_str().unwrap().to_owned();
        let target =
            (0..3).map(|part| servers.command(&json!({"do": "primary_of", "slot": part * 8_000})).as_str().unwrap().to_owned());
        let target = target.into_iter().find(|node| *node != source).unwrap();
        Some(Self { servers, slot, source, target })
    }

    fn begin(&self) {
        let slots = [self.slot.number()];
        self.servers.command(&json!({"do": "begin_migration", "slots": slots, "source": self.source, "target": self.target}));
    }

    fn move_keys(&self, count: Option<u32>) {
        self.servers
            .command(&count.map_or_else(|| json!({"do": "move_keys"}), |count| json!({"do": "move_keys", "count": count})));
    }

    /// How often the two servers have answered with this error.
    fn answered(&self, error: &str) -> u64 {
        [&self.source, &self.target].map(|node| self.errors_of(node, error)).iter().sum()
    }

    fn errors_of(&self, node: &str, error: &str) -> u64 {
        let info = self.servers.command(&json!({"do": "command", "node": node, "args": ["INFO", "errorstats"]}));
        let prefix = format!("errorstat_{error}:count=");
        let count = info.as_str().unwrap().lines().find_map(|line| line.strip_prefix(&prefix)?.split(',').next()?.parse().ok());
        count.unwrap_or(0)
    }

    fn finish(&self) {
        self.servers.command(&json!({"do": "finish_migration"}));
    }
}

/// Moves a slot step by step under the load of eight callers of one pair of keys, which are apart for at least `at_least`.
fn reshard(arguments: &[&str], at_least: Duration) {
    let Some(step) = Move::new(arguments, "user") else { return };
    let io = Io::start();
    let topology = io.topology(&step.servers.url);
    let traffic = Traffic::start_patient(&io, &topology, &vec![script("user"); 8]);
    traffic.flow(&io, 100);

    step.begin();
    traffic.flow(&io, 100);
    let start = Instant::now();
    step.move_keys(Some(1));
    io.eventually("a call finds its keys apart", Duration::from_secs(5), || step.answered("TRYAGAIN") > 0);
    io.pause(at_least);
    step.move_keys(None);
    // From before the first key went until after the last has come: the servers saw at most that.
    let apart = start.elapsed();
    traffic.flow(&io, 100);
    step.finish();
    traffic.flow(&io, 100);

    let calls = traffic.stop(&io);
    let failures = failures(&calls);
    let [ask, try_again, moved] = ["ASK", "TRYAGAIN", "MOVED"].map(|error| step.answered(error));
    println!(
        "{arguments:?}: {} calls, {} refused, {ask} ASK, {try_again} TRYAGAIN, {moved} MOVED, keys apart for {apart:?}",
        calls.len(),
        failures.len()
    );
    assert!(ask > 0 && try_again > 0 && moved > 0, "all of it was met");
    let is_refusal = |error: &&StoreError| matches!(error, StoreError::Refused { why } if why.starts_with("TRYAGAIN"));
    assert!(failures.iter().all(is_refusal), "{failures:?}");
    // A machine that is busy enough keeps the keys apart for longer than was asked for.
    assert!(failures.is_empty() || apart >= PATIENCE, "{} refused after {apart:?}", failures.len());
    // One that stands still does so without asking.
    assert!(!failures.is_empty() || at_least < 4 * PATIENCE, "nothing refused after {apart:?}");
    let last = assert_each_answered_ran_once(&calls);
    assert_eq!(*topology.shard_name(topology.shard_of(step.slot)), *step.target);
    assert_eq!(count(&io, &topology, &script("user")), Ok(last + 1));
}

#[test]
fn a_slot_that_moves_under_load_loses_no_call_and_repeats_none() {
    reshard(&["cluster"], Duration::ZERO);
}

#[test]
fn a_slot_that_moves_under_load_on_redis_6_2_loses_no_call_and_repeats_none() {
    reshard(&["cluster", "--server", "redis62"], Duration::ZERO);
}

#[test]
fn a_slot_that_moves_under_load_on_redis_7_0_loses_no_call_and_repeats_none() {
    reshard(&["cluster", "--server", "redis70"], Duration::ZERO);
}

#[test]
fn calls_whose_keys_stay_apart_are_refused_and_do_not_run() {
    reshard(&["cluster"], 24 * PATIENCE);
}

#[test]
fn calls_whose_keys_stay_apart_on_redis_6_2_are_refused_and_do_not_run() {
    reshard(&["cluster", "--server", "redis62"], 24 * PATIENCE);
}

#[test]
fn a_slot_that_has_moved_is_followed_by_the_first_call() {
    let step = Move::new(&["cluster"], "user").unwrap();
    let io = Io::start();
    let topology = io.topology(&step.servers.url);
    assert_eq!(count(&io, &topology, &script("user")), Ok(1));
    let shard = topology.shard_of(step.slot);

    step.begin();
    step.move_keys(None);
    step.finish();

    assert_eq!(count(&io, &topology, &script("user")), Ok(2));
    assert_ne!(topology.shard_of(step.slot), shard);
    assert_eq!(*topology.shard_name(topology.shard_of(step.slot)), *step.target);
}

#[test]
fn a_new_key_of_a_slot_on_its_way_is_made_at_the_target() {
    let step = Move::new(&["cluster"], "user").unwrap();
    let io = Io::start();
    let topology = io.topology(&step.servers.url);
    step.begin();

    let one = Script::count(&["{user}new"]);
    assert_eq!(count(&io, &topology, &one), Ok(1));
    assert_eq!(count(&io, &topology, &one), Ok(2));

    assert_eq!(*topology.shard_name(topology.shard_of(step.slot)), *step.source, "asking does not change the map");
    step.move_keys(None);
    step.finish();
    assert_eq!(count(&io, &topology, &one), Ok(3));
}

#[test]
fn several_new_keys_of_a_slot_on_its_way_are_refused_until_it_has_arrived() {
    let step = Move::new(&["cluster"], "user").unwrap();
    let io = Io::start();
    let topology = io.topology(&step.servers.url);
    step.begin();

    // No server knows of keys that do not exist whether they are still to come. That is how clusters are; nothing was charged.
    let error = count(&io, &topology, &script("user")).unwrap_err();
    assert!(matches!(&error, StoreError::Refused { why } if why.starts_with("TRYAGAIN")), "{error}");
    step.move_keys(None);
    step.finish();

    assert_eq!(count(&io, &topology, &script("user")), Ok(1));
}

#[test]
fn many_slots_move_under_load() {
    let step = Move::new(&["cluster"], "user").unwrap();
    let io = Io::start();
    let topology = io.topology(&step.servers.url);
    let tags: Vec<_> = (0..8_u32).map(|index| format!("tag{index}")).collect();
    let traffics: Vec<_> = tags.iter().map(|tag| Traffic::start_patient(&io, &topology, &vec![script(tag); 2])).collect();
    for traffic in &traffics {
        traffic.flow(&io, 20);
    }

    for tag in &tags {
        let slot = Slot::of_tag(tag.as_bytes()).number();
        let source = step.servers.command(&json!({"do": "primary_of", "slot": slot}));
        let target = if source == step.target.as_str() { &step.source } else { &step.target };
        step.servers.command(&json!({"do": "migrate_slots", "slots": [slot], "source": source, "target": target}));
    }
    for traffic in &traffics {
        traffic.flow(&io, 20);
    }

    for traffic in traffics {
        assert_each_ran_once(&traffic.stop(&io));
    }
}

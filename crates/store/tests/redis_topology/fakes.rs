//! Servers that answer what real ones answer rarely, or at the worst moment.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use tidegate_store::redis::resp::{Parser, Value};
use tidegate_store::redis::topology::Slot;
use tidegate_store::store::StoreError;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::kit::{Io, Script, count};

type Answer = dyn Fn(&[&str]) -> Option<String> + Send + Sync;

/// A server that answers as it is told; `None` hangs up. The handshake it knows by itself.
struct Fake {
    port: u16,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Fake {
    fn start(io: &Io, mode: &'static str, answer: impl Fn(&[&str]) -> Option<String> + Send + Sync + 'static) -> Self {
        let listener = io.run(TcpListener::bind("127.0.0.1:0")).unwrap();
        let port = listener.local_addr().unwrap().port();
        let heard = Arc::<Mutex<Vec<String>>>::default();
        let answer: Arc<Answer> = Arc::new(answer);
        let log = heard.clone();
        io.handle.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                // Each reply is a write of its own: without this, the second one waits for 40 ms.
                stream.set_nodelay(true).unwrap();
                tokio::spawn(serve(stream, mode, answer.clone(), log.clone()));
            }
        });
        Self { port, heard }
    }

    fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The names of all commands about keys.
    fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }
}

async fn serve(mut stream: TcpStream, mode: &str, answer: Arc<Answer>, heard: Arc<Mutex<Vec<String>>>) {
    let mut parser = Parser::default();
    let mut buffer = [0; 4096];
    loop {
        while let Ok(Some(Value::Array(words))) = parser.next_value() {
            let words: Vec<_> = words.iter().map(|word| std::str::from_utf8(word.text().unwrap()).unwrap()).collect();
            if ["EVAL", "EVALSHA", "ASKING"].contains(&words[0]) {
                heard.lock().unwrap().push(words[0].to_owned());
            }
            let reply = match words[0] {
                "PING" => "+PONG\r\n".to_owned(),
                "CLIENT" | "ASKING" => "+OK\r\n".to_owned(),
                "INFO" => bulk(&format!("redis_version:7.0.15\r\nredis_mode:{mode}\r\nrole:master\r\n")),
                _ => match answer(&words) {
                    Some(reply) => reply,
                    None => return,
                },
            };
            if stream.write_all(reply.as_bytes()).await.is_err() {
                return;
            }
        }
        match stream.read(&mut buffer).await {
            Ok(length) if length > 0 => parser.feed(&buffer[..length]),
            _ => return,
        }
    }
}

fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

fn array(items: &[String]) -> String {
    format!("*{}\r\n{}", items.len(), items.concat())
}

#[allow(clippy::unnecessary_wraps, reason = "an answer, of which hanging up is another")]
fn error(text: &str) -> Option<String> {
    Some(format!("-{text}\r\n"))
}

/// A server of a cluster that says that all slots, or those up to `last`, belong to a port of its own host, and answers scripts.
fn member(
    io: &Io,
    owner: &Arc<OnceLock<u16>>,
    last: u16,
    script: impl Fn(&[&str]) -> Option<String> + Send + Sync + 'static,
) -> Fake {
    let owner = owner.clone();
    Fake::start(io, "cluster", move |words| match words {
        ["CLUSTER", "SLOTS"] => {
            let server = array(&[bulk(""), format!(":{}\r\n", owner.wait()), bulk("id")]);
            Some(array(&[array(&[":0\r\n".to_owned(), format!(":{last}\r\n"), server])]))
        }
        ["CLUSTER", "INFO"] => Some(bulk("cluster_state:ok\r\n")),
        words => script(words),
    })
}

#[allow(clippy::unnecessary_wraps, reason = "an answer, of which hanging up is another")]
fn one() -> Option<String> {
    Some(":1\r\n".to_owned())
}

fn owner_to_come() -> Arc<OnceLock<u16>> {
    Arc::new(OnceLock::new())
}

#[test]
fn servers_that_send_a_call_in_circles_are_left_in_the_end() {
    let io = Io::start();
    let (owner, other) = (owner_to_come(), owner_to_come());
    let to = |port: &Arc<OnceLock<u16>>| {
        let port = port.clone();
        move |_: &[&str]| error(&format!("MOVED 15495 127.0.0.1:{}", port.wait()))
    };
    let (one, two) = (member(&io, &owner, 16_383, to(&other)), member(&io, &owner, 16_383, to(&owner)));
    owner.set(one.port).unwrap();
    other.set(two.port).unwrap();
    let topology = io.topology(&format!("redis+cluster://{}", one.address()));

    let error = count(&io, &topology, &Script::count(&["a"])).unwrap_err();

    assert!(matches!(&error, StoreError::Refused { why } if why.contains("in circles")), "{error}");
    assert_eq!(one.heard().len() + two.heard().len(), 6, "once, and five times after being sent away");
}

#[test]
fn a_slot_on_its_way_is_asked_for_at_its_target_and_the_map_stays() {
    let io = Io::start();
    let owner = owner_to_come();
    let target =
        Fake::start(&io, "cluster", |words| if words[0] == "EVALSHA" { error("NOSCRIPT No matching script.") } else { one() });
    let ask = format!("ASK 15495 :{}", target.port);
    let source = member(&io, &owner, 16_383, move |_| error(&ask));
    owner.set(source.port).unwrap();
    let topology = io.topology(&format!("redis+cluster://{}", source.address()));
    let script = Script::count(&["a"]);

    assert_eq!(count(&io, &topology, &script), Ok(1));
    assert_eq!(count(&io, &topology, &script), Ok(1));

    assert_eq!(source.heard(), ["EVALSHA", "EVALSHA"], "the map has not changed");
    let once = ["ASKING", "EVALSHA", "ASKING", "EVAL"];
    assert_eq!(target.heard(), [once, once].concat());
    assert_eq!(&*topology.shard_name(topology.shard_of(script.slot(&topology))), source.address());
}

#[test]
fn a_slot_that_has_moved_is_remembered() {
    let io = Io::start();
    let owner = owner_to_come();
    let target = Fake::start(&io, "cluster", |words| if words[0] == "CLUSTER" { error("ERR busy") } else { one() });
    let moved = format!("MOVED 15495 :{}", target.port);
    let source = member(&io, &owner, 16_383, move |_| error(&moved));
    owner.set(source.port).unwrap();
    let topology = io.topology(&format!("redis+cluster://{}", source.address()));
    let script = Script::count(&["a"]);
    let changes = topology.changes();
    io.eventually("the map is there", Duration::from_secs(5), || *changes.borrow() == 1);

    assert_eq!(count(&io, &topology, &script), Ok(1));

    assert_eq!(&*topology.shard_name(topology.shard_of(script.slot(&topology))), target.address());
    assert_eq!(source.heard(), ["EVALSHA"]);
    assert!(changes.has_changed().unwrap());
}

#[test]
fn keys_that_do_not_arrive_are_waited_for_and_then_given_up() {
    let io = Io::start();
    let owner = owner_to_come();
    let source = member(&io, &owner, 16_383, |_| error("TRYAGAIN Multiple keys request during rehashing of slot"));
    owner.set(source.port).unwrap();
    let topology = io.topology(&format!("redis+cluster://{}", source.address()));

    let error = count(&io, &topology, &Script::count(&["a"])).unwrap_err();

    assert!(matches!(&error, StoreError::Refused { why } if why.starts_with("TRYAGAIN")), "{error}");
    assert_eq!(source.heard().len(), 7);
}

#[test]
fn a_call_that_may_have_run_is_never_sent_again() {
    let io = Io::start();
    let fake = Fake::start(&io, "standalone", |_| None);
    let topology = io.topology(&format!("redis://{}", fake.address()));

    let error = count(&io, &topology, &Script::count(&["a"])).unwrap_err();

    assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
    assert_eq!(fake.heard(), ["EVALSHA"]);
}

#[test]
fn a_slot_that_nobody_serves_is_refused() {
    let io = Io::start();
    let owner = owner_to_come();
    let fake = member(&io, &owner, 99, |_| one());
    owner.set(fake.port).unwrap();
    let topology = io.topology(&format!("redis+cluster://{}", fake.address()));

    let error = count(&io, &topology, &Script::count(&["a"])).unwrap_err();

    assert!(matches!(&error, StoreError::Refused { why } if why.starts_with("CLUSTERDOWN")), "{error}");
    assert_eq!(fake.heard(), [""; 0]);
    let health = topology.health();
    assert_eq!(health.shards[0].slots, 100);
    assert!(health.warnings.iter().any(|warning| warning == "16284 slots of the cluster have no primary"), "{health:?}");
}

#[test]
fn a_map_that_makes_no_sense_is_not_used() {
    let io = Io::start();
    let fake = Fake::start(&io, "cluster", |_| Some("*1\r\n*2\r\n:0\r\n:99999\r\n".to_owned()));
    let topology = io.topology(&format!("redis+cluster://{}", fake.address()));

    let error = count(&io, &topology, &Script::count(&["a"])).unwrap_err();

    assert!(matches!(&error, StoreError::Protocol { why } if why.contains("CLUSTER SLOTS")), "{error}");
}

/// A server that says which role it has.
fn server(io: &Io, role: &'static str, script: impl Fn() -> Option<String> + Send + Sync + 'static) -> Fake {
    Fake::start(io, "standalone", move |words| match words[0] {
        "ROLE" => Some(array(&[bulk(role), ":0\r\n".to_owned(), array(&[])])),
        _ => script(),
    })
}

/// A sentinel that names a primary.
fn sentinel(io: &Io, epoch: u64, primary: impl Fn() -> u16 + Send + Sync + 'static) -> Fake {
    Fake::start(io, "sentinel", move |words| match words {
        ["SENTINEL", "get-master-addr-by-name", _] => Some(array(&[bulk("127.0.0.1"), bulk(&primary().to_string())])),
        ["SENTINEL", "master", _] => Some(array(&[bulk("config-epoch"), bulk(&epoch.to_string())])),
        _ => Some(array(&[])),
    })
}

#[test]
fn of_two_sentinels_the_one_that_knows_of_the_last_failover_is_believed() {
    let io = Io::start();
    let (old, new) = (server(&io, "master", one), server(&io, "master", one));
    let (old_port, new_port) = (old.port, new.port);
    let (behind, ahead) = (sentinel(&io, 7, move || old_port), sentinel(&io, 8, move || new_port));
    let topology = io.topology(&format!("redis+sentinel://{},{}/mymaster", behind.address(), ahead.address()));

    assert_eq!(count(&io, &topology, &Script::count(&["a"])), Ok(1));

    assert_eq!(&*topology.shard_name(topology.shard_of(Slot::ZERO)), new.address());
    assert_eq!(old.heard(), [""; 0]);
}

#[test]
fn a_primary_that_says_that_it_is_a_replica_is_not_used() {
    let io = Io::start();
    let (demoted, other) = (server(&io, "slave", one), server(&io, "master", one));
    let (demoted_port, other_port) = (demoted.port, other.port);
    let is_over = Arc::new(AtomicBool::new(false));
    let knows = is_over.clone();
    let watcher = sentinel(&io, 0, move || if knows.load(Ordering::Relaxed) { other_port } else { demoted_port });
    let topology = io.topology(&format!("redis+sentinel://{}/mymaster", watcher.address()));
    let script = Script::count(&["a"]);

    let error = count(&io, &topology, &script).unwrap_err();
    assert!(matches!(&error, StoreError::Refused { why } if why.contains("it is a replica")), "{error}");
    is_over.store(true, Ordering::Relaxed);

    io.eventually("the other one is found", Duration::from_secs(5), || count(&io, &topology, &script) == Ok(1));
    assert_eq!(demoted.heard(), [""; 0]);
}

#[test]
fn a_call_to_a_demoted_primary_goes_on_to_its_successor_once() {
    let io = Io::start();
    let new = server(&io, "master", one);
    let is_over = Arc::new(AtomicBool::new(false));
    let knows = is_over.clone();
    let old = server(&io, "master", move || {
        // From this moment on the sentinel knows.
        is_over.store(true, Ordering::Relaxed);
        error("READONLY You can't write against a read only replica.")
    });
    let (old_port, new_port) = (old.port, new.port);
    let watcher = sentinel(&io, 0, move || if knows.load(Ordering::Relaxed) { new_port } else { old_port });
    let topology = io.topology(&format!("redis+sentinel://{}/mymaster", watcher.address()));
    let changes = topology.changes();
    io.eventually("the old one is found", Duration::from_secs(5), || *changes.borrow() == 1);
    // The pause after the first look is over then, and the second begins when it is asked for.
    io.pause(Duration::from_millis(100));

    assert_eq!(count(&io, &topology, &Script::count(&["a"])), Ok(1));

    assert_eq!(old.heard(), ["EVALSHA"]);
    assert_eq!(new.heard(), ["EVALSHA"]);
}

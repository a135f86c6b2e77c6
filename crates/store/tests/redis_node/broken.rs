//! Connections that break, and what their calls are told.

use std::sync::Arc;
use std::time::Duration;

use tidegate_store::redis::node::{CallError, Node, NodeState};
use tidegate_store::redis::resp::Value;
use tidegate_store::redis::url::Login;
use tokio::runtime::Builder;
use tokio::task::yield_now;
use tokio::time::{Instant, timeout};

use super::peer::{Guest, PATIENCE, Peer, SocketPath, answer, call, command, down, start, up};

fn not_sent(answer: Result<Value, CallError>) -> String {
    match answer {
        Err(CallError::NotSent(why)) => why.to_string(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_server_that_is_down_at_the_start_is_found_when_it_comes() {
    let path = SocketPath::new("late");
    let node = start(&path.address(), Login::default());

    let waiting = call(&node, &["PING"]);
    assert!(not_sent(waiting.await.unwrap()).contains("cannot connect"));
    assert!(matches!(node.settled().await, NodeState::Down { .. }));
    let at_once =
        timeout(Duration::ZERO, node.call(command(&["PING"]), false)).await.expect("while nothing is there, nobody waits");
    assert!(not_sent(at_once).contains("cannot connect"));

    let listener = path.listen();
    let (stream, _) = timeout(PATIENCE, listener.accept()).await.unwrap().unwrap();
    let mut guest = Guest::new(stream);
    guest.greet().await;
    up(&node).await;
    let call = call(&node, &["PING"]);
    assert_eq!(guest.command().await, ["PING"]);
    guest.say("+PONG\r\n").await;
    assert_eq!(call.await.unwrap(), Ok(Value::Status("PONG".into())));
}

#[tokio::test]
async fn calls_wait_for_the_first_attempt() {
    let peer = Peer::bind().await;
    let node = start(&peer.address, Login::default());
    let call = call(&node, &["PING"]);
    yield_now().await;

    let mut guest = peer.welcome().await;

    assert_eq!(guest.command().await, ["PING"]);
    guest.say("+PONG\r\n").await;
    assert!(call.await.unwrap().is_ok());
}

#[tokio::test]
async fn what_was_sent_is_lost_when_the_connection_breaks() {
    let peer = Peer::bind().await;
    let (node, mut guest) = peer.connected(Login::default()).await;

    let calls: Vec<_> = (0..10).map(|_| call(&node, &["INCR", "a"])).collect();
    guest.command().await;
    drop(guest);

    for call in calls {
        let answer = call.await.unwrap();
        assert!(matches!(answer, Err(CallError::Lost(_))), "{answer:?}");
    }
    assert_eq!(down(&node).await.kind(), "store_unavailable");
}

#[tokio::test]
async fn what_was_not_sent_is_told_from_what_was_sent_in_part() {
    let peer = Peer::bind().await;
    let (node, guest) = peer.connected(Login::default()).await;

    // More than the buffers of both ends take, and nobody reads.
    let long = "x".repeat(1 << 20);
    let calls: Vec<_> = (0..64).map(|_| call(&node, &["SET", "a", &long])).collect();
    for _ in 0..100 {
        yield_now().await;
    }
    drop(guest);

    let mut lost = 0;
    let mut unsent = 0;
    for call in calls {
        match call.await.unwrap() {
            Err(CallError::Lost(_)) => {
                assert_eq!(unsent, 0, "whatever follows an unsent call is unsent");
                lost += 1;
            }
            Err(CallError::NotSent(_)) => unsent += 1,
            Ok(value) => panic!("{value:?}"),
        }
    }
    assert!(lost >= 1 && unsent >= 1, "{lost} lost, {unsent} unsent");
}

/// Loses a connection; says when.
async fn lose(node: &Node, guest: Guest) -> Instant {
    // Only a connection that lasted is followed by another at once.
    tokio::time::sleep(Duration::from_millis(1_050)).await;
    let begin = Instant::now();
    drop(guest);
    down(node).await;
    begin
}

/// Whether all of it happened while calls wait: a machine that stands still may let that moment pass.
async fn waits_for_the_next_connection() -> bool {
    let peer = Peer::bind().await;
    let (node, guest) = peer.connected(Login::default()).await;
    let begin = lose(&node, guest).await;

    let waiting = call(&node, &["ECHO", "1"]);
    let mut guest = peer.welcome().await;
    up(&node).await;
    if begin.elapsed() >= Duration::from_millis(200) {
        return false;
    }
    assert_eq!(guest.command().await, ["ECHO", "1"]);
    guest.say(":1\r\n").await;
    assert_eq!(waiting.await.unwrap(), Ok(Value::Int(1)));
    true
}

/// Whether a call gave up in time, again unless the machine stood still.
async fn gives_up_a_connection_that_is_slow_to_greet() -> bool {
    let peer = Peer::bind().await;
    let (node, guest) = peer.connected(Login::default()).await;
    let begin = lose(&node, guest).await;

    let waiting = call(&node, &["ECHO", "2"]);
    let mut guest = peer.accept().await;
    assert!(not_sent(waiting.await.unwrap()).contains("closed the connection"));
    let took = begin.elapsed();
    assert!(took >= Duration::from_millis(200), "{took:?}");
    not_sent(node.call(command(&["ECHO", "3"]), false).await);

    guest.greet().await;
    up(&node).await;
    took < Duration::from_millis(900)
}

#[tokio::test]
async fn calls_wait_a_moment_for_the_connection_that_follows_a_broken_one() {
    let mut attempts = 0;
    while !waits_for_the_next_connection().await {
        attempts += 1;
        assert!(attempts < 10, "it takes too long each time");
    }
}

#[tokio::test]
async fn calls_wait_no_longer_than_a_moment_for_a_connection_that_is_slow_to_greet() {
    let mut attempts = 0;
    while !gives_up_a_connection_that_is_slow_to_greet().await {
        attempts += 1;
        assert!(attempts < 10, "it takes too long each time");
    }
}

#[tokio::test]
async fn another_connection_can_be_asked_for() {
    let peer = Peer::bind().await;
    let (node, mut guest) = peer.connected(Login::default()).await;
    let lost = call(&node, &["PING"]);
    guest.command().await;

    node.force_reconnect();
    let mut next = peer.welcome().await;

    assert!(matches!(lost.await.unwrap(), Err(CallError::Lost(_))));
    assert_eq!(guest.next_command().await, None);
    let waiting = call(&node, &["PING"]);
    next.command().await;
    next.say("+PONG\r\n").await;
    assert!(waiting.await.unwrap().is_ok());
}

#[tokio::test]
async fn asking_for_another_connection_ends_a_pause() {
    let path = SocketPath::new("pause");
    let node = start(&path.address(), Login::default());
    let mut state = node.watch();
    // The pause after the seventh attempt is 1 s at least.
    for _ in 0..7 {
        timeout(PATIENCE, state.changed()).await.unwrap().unwrap();
    }
    let listener = path.listen();

    let begin = Instant::now();
    node.force_reconnect();
    timeout(PATIENCE, listener.accept()).await.unwrap().unwrap();
    assert!(begin.elapsed() < Duration::from_millis(950), "{:?}", begin.elapsed());
}

#[tokio::test]
async fn after_the_end_nothing_is_sent_and_nobody_waits() {
    let peer = Peer::bind().await;
    let (node, mut guest) = peer.connected(Login::default()).await;
    let lost = call(&node, &["PING"]);
    guest.command().await;

    node.close();

    assert!(matches!(lost.await.unwrap(), Err(CallError::Lost(_))));
    assert!(not_sent(node.call(command(&["PING"]), false).await).contains("was closed"));
    assert!(matches!(node.state(), NodeState::Down { .. }));
    assert_eq!(guest.next_command().await, None);
}

#[tokio::test]
async fn a_node_that_is_dropped_hangs_up() {
    let peer = Peer::bind().await;
    let (node, mut guest) = peer.connected(Login::default()).await;

    drop(node);

    assert_eq!(guest.next_command().await, None);
}

#[test]
fn callers_learn_that_the_runtime_was_stopped() {
    let ours = Builder::new_current_thread().enable_all().build().unwrap();
    let theirs = Builder::new_current_thread().enable_all().build().unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let peer = ours.block_on(Peer::bind());
    let node = Node::start(peer.address.clone(), Arc::default(), theirs.handle());
    let thread = std::thread::spawn(move || drop(theirs.block_on(stopped)));

    ours.block_on(async {
        let mut guest = peer.welcome().await;
        up(&node).await;
        let lost = call(&node, &["PING"]);
        guest.command().await;
        stop.send(()).unwrap();

        assert!(matches!(timeout(PATIENCE, lost).await.unwrap().unwrap(), Err(CallError::Lost(_))));
        thread.join().unwrap();
        assert!(matches!(timeout(PATIENCE, node.call(command(&["PING"]), false)).await.unwrap(), Err(CallError::NotSent(_))));
    });
}

#[tokio::test]
async fn states_are_told_to_who_watches() {
    let peer = Peer::bind().await;
    let node = start(&peer.address, Login::default());
    let mut watch = node.watch();
    assert_eq!(*watch.borrow(), NodeState::Connecting);

    let guest = peer.welcome().await;
    let server = up(&node).await;
    assert_eq!((server.name.as_deref(), server.version.as_deref()), (Some("redis"), Some("7.0.15")));
    assert_eq!(server.maxmemory_policy.as_deref(), Some("noeviction"));
    watch.mark_unchanged();
    drop(guest);
    timeout(PATIENCE, watch.changed()).await.unwrap().unwrap();

    assert!(matches!(*watch.borrow(), NodeState::Down { .. }));
    let mut guest = peer.welcome().await;
    up(&node).await;
    tokio::spawn(async move {
        guest.command().await;
        guest.say("+PONG\r\n").await;
        guest.next_command().await;
    });
    answer(&node, &["PING"]).await;
}

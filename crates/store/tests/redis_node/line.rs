//! Threads that wait have a connection for themselves, one at a time.

use std::sync::Arc;
use std::time::Duration;

use tidegate_store::clock::monotonic_ns;
use tidegate_store::redis::node::{CallError, Exchange, Node};
use tidegate_store::redis::resp::Value;
use tidegate_store::redis::url::Login;
use tokio::io::AsyncReadExt;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::timeout;

use super::peer::{Guest, PATIENCE, Peer, call, command, up};

/// Asks on a thread that waits.
fn exchange(node: &Arc<Node>, words: &[&str], limit: Duration) -> JoinHandle<Exchange> {
    let (node, command) = (Arc::clone(node), command(words));
    spawn_blocking(move || node.exchange(&command, monotonic_ns() + u64::try_from(limit.as_nanos()).unwrap()))
}

/// A node with a line, the guest of all others, and that of the line.
pub(crate) async fn with_line(peer: &Peer) -> (Arc<Node>, Guest, Guest) {
    let (node, guest) = peer.connected(Login::default()).await;
    // Who asks first has one made for those who come after.
    assert!(matches!(exchange(&node, &["PING"], PATIENCE).await.unwrap(), Exchange::Nothing));
    let mut line = peer.welcome().await;
    // It is there a moment after the greeting: until then there is nothing.
    loop {
        let mut asked = exchange(&node, &["PING"], PATIENCE);
        tokio::select! {
            asked = &mut asked => assert!(matches!(asked.unwrap(), Exchange::Nothing)),
            _ = line.command() => {
                line.say("+PONG\r\n").await;
                assert!(matches!(asked.await.unwrap(), Exchange::Answer(Ok(Value::Status(_)))));
                break;
            }
        }
    }
    (node, guest, line)
}

#[tokio::test]
async fn a_thread_that_waits_has_a_connection_for_itself() {
    let peer = Peer::bind().await;
    let (node, mut guest, mut line) = with_line(&peer).await;

    let asked = exchange(&node, &["ECHO", "1"], PATIENCE);
    assert_eq!(line.command().await, ["ECHO", "1"]);
    // Another thread, meanwhile, has to take the other way.
    assert!(matches!(exchange(&node, &["ECHO", "2"], PATIENCE).await.unwrap(), Exchange::Nothing));
    let other = call(&node, &["ECHO", "2"]);
    assert_eq!(guest.command().await, ["ECHO", "2"]);
    guest.say(":2\r\n").await;
    // An answer in pieces.
    line.say(":").await;
    line.say("1\r\n").await;

    assert!(matches!(asked.await.unwrap(), Exchange::Answer(Ok(Value::Int(1)))));
    assert_eq!(other.await.unwrap(), Ok(Value::Int(2)));
    let again = exchange(&node, &["ECHO", "3"], PATIENCE);
    assert_eq!(line.command().await, ["ECHO", "3"]);
    line.say("-ERR no\r\n").await;
    assert!(matches!(again.await.unwrap(), Exchange::Answer(Ok(Value::Error(_)))), "an error is an answer");
}

#[tokio::test]
async fn a_call_does_not_overtake_one_that_was_asked_before() {
    let peer = Peer::bind().await;
    let (node, mut guest, _line) = with_line(&peer).await;

    let refund = call(&node, &["DECR", "a"]);
    guest.command().await;
    assert!(matches!(exchange(&node, &["GET", "a"], PATIENCE).await.unwrap(), Exchange::Nothing));
    guest.say(":1\r\n").await;

    assert_eq!(refund.await.unwrap(), Ok(Value::Int(1)));
}

#[tokio::test]
async fn a_late_answer_reaches_who_still_wants_it() {
    let peer = Peer::bind().await;
    let (node, mut guest, mut line) = with_line(&peer).await;

    // More than the buffers of both ends take: a part is still to be sent when the time is over.
    let long = "x".repeat(16 << 20);
    let asked = exchange(&node, &["ECHO", &long], Duration::from_millis(30));
    let Exchange::Late(late) = asked.await.unwrap() else { panic!("nobody answered") };
    let mut seen = vec![0; command(&["ECHO", &long]).as_bytes().len()];
    line.stream.read_exact(&mut seen).await.unwrap();
    assert!(seen == command(&["ECHO", &long]).as_bytes());
    line.say(":1\r\n").await;

    assert_eq!(late.await.unwrap(), Ok(Value::Int(1)));
    // A server that is slow gets no other connection at once; the one of all others works.
    assert!(matches!(exchange(&node, &["PING"], PATIENCE).await.unwrap(), Exchange::Nothing));
    let other = call(&node, &["PING"]);
    guest.command().await;
    guest.say(":2\r\n").await;
    assert_eq!(other.await.unwrap(), Ok(Value::Int(2)));
}

#[tokio::test]
async fn what_was_sent_is_lost_with_the_line() {
    let peer = Peer::bind().await;
    let (node, _guest, mut line) = with_line(&peer).await;

    let asked = exchange(&node, &["INCR", "a"], PATIENCE);
    line.command().await;
    drop(line);

    let Exchange::Answer(Err(CallError::Lost(why))) = asked.await.unwrap() else { panic!("it may have run") };
    assert!(why.to_string().contains(&peer.address.to_string()), "{why}");
}

#[tokio::test]
async fn garbage_is_no_answer() {
    let peer = Peer::bind().await;
    let (node, _guest, mut line) = with_line(&peer).await;

    let asked = exchange(&node, &["INCR", "a"], PATIENCE);
    line.command().await;
    line.say("HTTP/1.1 400 Bad Request\r\n").await;

    assert!(matches!(asked.await.unwrap(), Exchange::Answer(Err(CallError::Lost(_)))));
}

#[tokio::test]
async fn a_line_that_ended_or_says_too_much_is_not_trusted_with_another_call() {
    for says in [":1\r\n", ":1\r\n:7\r\n"] {
        let peer = Peer::bind().await;
        let (node, mut guest, mut line) = with_line(&peer).await;
        let asked = exchange(&node, &["INCR", "a"], PATIENCE);
        line.command().await;
        line.say(says).await;
        assert!(matches!(asked.await.unwrap(), Exchange::Answer(Ok(Value::Int(1)))));
        if says.len() < 5 {
            drop(line);
            // Until the news of the end has come, a call would be lost.
            tokio::time::sleep(Duration::from_millis(50)).await;
        }

        let asked = exchange(&node, &["INCR", "a"], PATIENCE).await.unwrap();
        assert!(matches!(asked, Exchange::Nothing), "{says:?}: {asked:?}");
        let other = call(&node, &["INCR", "a"]);
        assert_eq!(guest.command().await, ["INCR", "a"]);
        guest.say(":2\r\n").await;
        assert_eq!(other.await.unwrap(), Ok(Value::Int(2)));
    }
}

#[tokio::test]
async fn a_line_ends_with_the_connection_of_all_others() {
    let peer = Peer::bind().await;
    let (node, guest, mut line) = with_line(&peer).await;
    drop(guest);
    let mut guest = peer.welcome().await;

    assert_eq!(timeout(PATIENCE, line.next_command()).await.expect("it is hung up"), None);
    up(&node).await;
    let asked = call(&node, &["PING"]);
    guest.command().await;
    guest.say(":1\r\n").await;
    assert_eq!(asked.await.unwrap(), Ok(Value::Int(1)));
    node.close();
    assert!(matches!(exchange(&node, &["PING"], PATIENCE).await.unwrap(), Exchange::Nothing));
}

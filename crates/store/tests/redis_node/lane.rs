//! An event loop has the line for all of its calls, and waits for none of them.

use std::sync::Arc;
use std::time::Duration;

use tidegate_store::redis::node::{CallError, Lanes, Node, UnderWay};
use tidegate_store::redis::resp::Value;
use tokio::io::AsyncReadExt;
use tokio::time::timeout;

use super::line::with_line;
use super::peer::{Guest, PATIENCE, Peer, call, command};

/// Adds a call.
fn push(lanes: &mut Lanes, node: &Arc<Node>, words: &[&str]) -> UnderWay {
    lanes.push(node, &command(words)).expect("the line is free")
}

/// Sends calls, and has the peer read them.
async fn send<const N: usize>(lanes: &mut Lanes, node: &Arc<Node>, line: &mut Guest, calls: [&[&str]; N]) -> [UnderWay; N] {
    let sent = calls.map(|words| push(lanes, node, words));
    assert!(lanes.flush(|_| true));
    for words in calls {
        assert_eq!(line.command().await, words);
    }
    sent
}

/// Looks until the answer has come, as an event loop does that watches the line.
async fn look(lanes: &mut Lanes, sent: &mut UnderWay) -> Result<Value, CallError> {
    let answered = async {
        loop {
            lanes.receive();
            match sent.look() {
                Some(answer) => return answer,
                None => tokio::time::sleep(Duration::from_millis(1)).await,
            }
        }
    };
    timeout(PATIENCE, answered).await.expect("an answer comes")
}

#[tokio::test]
async fn calls_travel_together_and_are_answered_in_order() {
    let peer = Peer::bind().await;
    let (node, _guest, mut line) = with_line(&peer).await;
    let (mut lanes, mut others) = (Lanes::default(), Lanes::default());

    let [mut first, mut second] = send(&mut lanes, &node, &mut line, [&["ECHO", "1"], &["ECHO", "2"]]).await;
    lanes.receive();
    assert!(!first.is_answered() && first.look().is_none(), "nobody has answered");
    assert!(others.push(&node, &command(&["ECHO", "3"])).is_none(), "another loop takes the other way");
    // An answer in pieces, and a call between them.
    line.say(":1\r").await;
    let [mut third] = send(&mut lanes, &node, &mut line, [&["ECHO", "3"]]).await;
    line.say("\n:2\r\n:3\r\n").await;

    assert_eq!(look(&mut lanes, &mut third).await, Ok(Value::Int(3)));
    assert_eq!(first.look(), Some(Ok(Value::Int(1))));
    assert_eq!(second.look(), Some(Ok(Value::Int(2))));
    assert!(first.look().is_none() && !first.is_answered(), "an answer comes once");
    lanes.rest(|_| {});
    let [mut fourth] = send(&mut others, &node, &mut line, [&["ECHO", "4"]]).await;
    line.say(":4\r\n").await;
    assert_eq!(look(&mut others, &mut fourth).await, Ok(Value::Int(4)));
}

#[tokio::test]
async fn a_loop_keeps_the_line_only_while_something_is_under_way() {
    let peer = Peer::bind().await;
    let (node, _guest, mut line) = with_line(&peer).await;
    let mut lanes = Lanes::default();
    let forgotten = std::cell::Cell::new(0);
    let forget = |_: std::os::fd::BorrowedFd<'_>| forgotten.set(forgotten.get() + 1);

    let [mut sent] = send(&mut lanes, &node, &mut line, [&["ECHO", "1"]]).await;
    lanes.rest(forget);
    assert_eq!(forgotten.get(), 0, "it is under way");
    line.say(":1\r\n").await;
    assert_eq!(look(&mut lanes, &mut sent).await, Ok(Value::Int(1)));
    lanes.rest(forget);

    assert_eq!(forgotten.get(), 1);
    assert!(Lanes::default().push(&node, &command(&["PING"])).is_some(), "others can have it");
}

#[tokio::test]
async fn a_call_does_not_overtake_what_is_under_way_elsewhere() {
    let peer = Peer::bind().await;
    let (node, mut guest, mut line) = with_line(&peer).await;
    let mut lanes = Lanes::default();

    let [mut sent] = send(&mut lanes, &node, &mut line, [&["ECHO", "1"]]).await;
    let refund = call(&node, &["DECR", "a"]);
    guest.command().await;

    assert!(lanes.push(&node, &command(&["GET", "a"])).is_none());
    guest.say(":1\r\n").await;
    assert_eq!(refund.await.unwrap(), Ok(Value::Int(1)));
    line.say(":1\r\n").await;
    assert_eq!(look(&mut lanes, &mut sent).await, Ok(Value::Int(1)));
}

#[tokio::test]
async fn answers_that_are_left_to_tasks_still_come() {
    let peer = Peer::bind().await;
    let (node, _guest, mut line) = with_line(&peer).await;
    let mut lanes = Lanes::default();

    // More than the buffers of both ends take: a part is still to be sent when the task takes over.
    let long = "x".repeat(16 << 20);
    let (first, second) = (push(&mut lanes, &node, &["ECHO", &long]), push(&mut lanes, &node, &["INCR", "a"]));
    assert!(lanes.flush(|_| true));
    lanes.leave(|_| {});
    let (first, second) = (first.leave(), second.leave());
    let mut seen = vec![0; command(&["ECHO", &long]).as_bytes().len()];
    line.stream.read_exact(&mut seen).await.unwrap();
    assert_eq!(line.command().await, ["INCR", "a"]);
    line.say(":6\r\n:7\r\n").await;

    assert_eq!(timeout(PATIENCE, first).await.expect("it comes").unwrap(), Ok(Value::Int(6)));
    assert_eq!(timeout(PATIENCE, second).await.expect("it comes").unwrap(), Ok(Value::Int(7)));
    assert!(lanes.push(&node, &command(&["PING"])).is_none(), "a server that is slow gets no other connection at once");
}

#[tokio::test]
async fn what_was_sent_is_lost_with_the_line_and_what_was_not_may_go_elsewhere() {
    let peer = Peer::bind().await;
    let (node, _guest, mut line) = with_line(&peer).await;
    let mut lanes = Lanes::default();

    let [mut sent] = send(&mut lanes, &node, &mut line, [&["INCR", "a"]]).await;
    let mut unsent = push(&mut lanes, &node, &["INCR", "b"]);
    drop(line);

    assert!(matches!(look(&mut lanes, &mut sent).await, Err(CallError::Lost(_))));
    assert!(matches!(unsent.look(), Some(Err(CallError::NotSent(_)))));
}

#[tokio::test]
async fn a_line_that_ended_or_cannot_be_watched_is_not_trusted_with_a_call() {
    for can_be_watched in [true, false] {
        let peer = Peer::bind().await;
        let (node, _guest, line) = with_line(&peer).await;
        let mut lanes = Lanes::default();
        if can_be_watched {
            drop(line);
            // Until the news of the end has come, a call would be lost.
            tokio::time::sleep(Duration::from_millis(50)).await;
        }

        let mut sent = push(&mut lanes, &node, &["INCR", "a"]);
        assert!(!lanes.flush(|_| can_be_watched), "the loop has to look at once");

        assert!(matches!(sent.look(), Some(Err(CallError::NotSent(_)))));
    }
}

#[tokio::test]
async fn a_reply_that_nobody_asked_for_ends_the_line() {
    let peer = Peer::bind().await;
    let (node, _guest, mut line) = with_line(&peer).await;
    let mut lanes = Lanes::default();

    let [mut sent] = send(&mut lanes, &node, &mut line, [&["INCR", "a"]]).await;
    line.say(":1\r\n:2\r\n").await;
    assert_eq!(look(&mut lanes, &mut sent).await, Ok(Value::Int(1)));
    drop(lanes);

    assert_eq!(timeout(PATIENCE, line.next_command()).await.expect("it is hung up"), None);
}

#[tokio::test]
async fn the_answer_to_a_call_that_was_forgotten_goes_to_nobody_else() {
    let peer = Peer::bind().await;
    let (node, _guest, mut line) = with_line(&peer).await;
    let mut lanes = Lanes::default();

    let [forgotten, mut sent] = send(&mut lanes, &node, &mut line, [&["INCR", "a"], &["INCR", "b"]]).await;
    drop(forgotten);
    line.say(":1\r\n:2\r\n").await;

    assert_eq!(look(&mut lanes, &mut sent).await, Ok(Value::Int(2)));
}

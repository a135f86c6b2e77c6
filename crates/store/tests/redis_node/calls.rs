//! Calls and their answers.

use std::sync::Arc;
use std::time::Duration;

use tidegate_store::redis::node::CallError;
use tidegate_store::redis::resp::Value;
use tidegate_store::redis::url::Login;
use tokio::io::AsyncReadExt;
use tokio::task::yield_now;

use super::peer::{Peer, answer, call, command, start, up};

#[tokio::test]
async fn answers_go_to_their_calls_in_the_order_of_the_calls() {
    let peer = Peer::bind().await;
    let (node, mut guest) = peer.connected(Login::default()).await;

    let calls: Vec<_> = (0..1_000).map(|i| call(&node, &["ECHO", &i.to_string()])).collect();
    for i in 0..1_000 {
        assert_eq!(guest.command().await, ["ECHO", &i.to_string()]);
        guest.say(&format!(":{i}\r\n")).await;
    }

    for (i, call) in (0..).zip(calls) {
        assert_eq!(call.await.unwrap(), Ok(Value::Int(i)));
    }
}

#[tokio::test]
async fn calls_in_flight_together_travel_together() {
    let peer = Peer::bind().await;
    let (node, mut guest) = peer.connected(Login::default()).await;

    let _calls: Vec<_> = (0..64).map(|_| call(&node, &["PING"])).collect();
    let mut buffer = [0; 4_096];
    let length = guest.stream.read(&mut buffer).await.unwrap();

    assert_eq!(length, 64 * command(&["PING"]).as_bytes().len());
}

#[tokio::test]
async fn a_caller_that_left_does_not_disturb_the_order() {
    let peer = Peer::bind().await;
    let (node, mut guest) = peer.connected(Login::default()).await;

    let calls = [1, 2, 3].map(|i| call(&node, &["ECHO", &i.to_string()]));
    for _ in &calls {
        guest.command().await;
    }
    calls[1].abort();
    guest.say(":1\r\n:2\r\n:3\r\n").await;

    let [first, second, third] = calls;
    assert_eq!(first.await.unwrap(), Ok(Value::Int(1)));
    assert!(second.await.unwrap_err().is_cancelled());
    assert_eq!(third.await.unwrap(), Ok(Value::Int(3)));
}

#[tokio::test]
async fn a_call_is_not_sent_when_its_caller_left_before() {
    let peer = Peer::bind().await;
    let node = start(&peer.address, Login::default());
    let mut guest = peer.accept().await;

    let left = call(&node, &["ECHO", "left"]);
    let stayed = call(&node, &["ECHO", "stayed"]);
    yield_now().await;
    left.abort();
    guest.greet().await;

    assert_eq!(guest.command().await, ["ECHO", "stayed"]);
    guest.say("+OK\r\n").await;
    assert_eq!(stayed.await.unwrap(), Ok(Value::Status("OK".into())));
}

#[tokio::test]
async fn asking_is_sent_right_before_and_its_answer_is_nobodys() {
    let peer = Peer::bind().await;
    let (node, mut guest) = peer.connected(Login::default()).await;

    let before = call(&node, &["ECHO", "before"]);
    yield_now().await;
    let asked = {
        let node = Arc::clone(&node);
        tokio::spawn(async move { node.call(command(&["ECHO", "asked"]), true).await })
    };
    yield_now().await;
    let after = call(&node, &["ECHO", "after"]);

    for expected in [&["ECHO", "before"][..], &["ASKING"], &["ECHO", "asked"], &["ECHO", "after"]] {
        assert_eq!(guest.command().await, expected);
    }
    guest.say(":1\r\n+OK\r\n:2\r\n:3\r\n").await;
    for (number, call) in (1..).zip([before, asked, after]) {
        assert_eq!(call.await.unwrap(), Ok(Value::Int(number)));
    }
}

#[tokio::test]
async fn an_error_of_the_server_is_an_answer() {
    let peer = Peer::bind().await;
    let (node, mut guest) = peer.connected(Login::default()).await;

    let call = call(&node, &["EVALSHA", "0"]);
    guest.command().await;
    guest.say("-NOSCRIPT No matching script\r\n").await;

    assert_eq!(call.await.unwrap(), Ok(Value::Error("NOSCRIPT No matching script".into())));
}

#[tokio::test]
async fn answers_in_pieces_are_put_together() {
    let peer = Peer::bind().await;
    let (node, mut guest) = peer.connected(Login::default()).await;

    let call = call(&node, &["GET", "a"]);
    guest.command().await;
    for piece in ["$1", "1\r\nhel", "lo world\r", "\n"] {
        guest.say(piece).await;
        yield_now().await;
    }

    assert_eq!(call.await.unwrap(), Ok(Value::Bulk((*b"hello world").into())));
}

#[tokio::test]
async fn a_server_that_stops_answering_is_given_up() {
    let peer = Peer::bind().await;
    let login = Login { stall_limit: Duration::from_secs(2), ..Login::default() };
    let (node, mut guest) = peer.connected(login).await;

    // Answers in time do not count as silence, however many there are.
    for i in 0..3 {
        let call = call(&node, &["PING"]);
        guest.command().await;
        tokio::time::sleep(Duration::from_millis(800)).await;
        guest.say(&format!(":{i}\r\n")).await;
        assert_eq!(call.await.unwrap(), Ok(Value::Int(i)));
    }
    let call = call(&node, &["PING"]);
    guest.command().await;

    let Err(CallError::Lost(why)) = call.await.unwrap() else { panic!("there was no answer") };
    assert!(why.to_string().contains("no answer within 2s"), "{why}");
    peer.welcome().await;
}

#[tokio::test]
async fn an_answer_that_nobody_asked_for_ends_the_connection() {
    let peer = Peer::bind().await;
    let (node, mut guest) = peer.connected(Login::default()).await;

    guest.say("+HELLO\r\n").await;

    assert_eq!(guest.next_command().await, None);
    let mut guest = peer.welcome().await;
    up(&node).await;
    let call = call(&node, &["PING"]);
    guest.command().await;
    guest.say("+PONG\r\n").await;
    assert_eq!(call.await.unwrap(), Ok(Value::Status("PONG".into())));
}

#[tokio::test]
async fn calls_from_other_threads_are_answered() {
    let peer = Peer::bind().await;
    let (node, mut guest) = peer.connected(Login::default()).await;
    let server = tokio::spawn(async move {
        while guest.next_command().await.is_some() {
            guest.say(":1\r\n").await;
        }
    });

    let threads: Vec<_> = (0..4)
        .map(|_| {
            let node = Arc::clone(&node);
            tokio::task::spawn_blocking(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
                runtime.block_on(async {
                    for _ in 0..250 {
                        assert_eq!(answer(&node, &["PING"]).await, Value::Int(1));
                    }
                });
            })
        })
        .collect();
    for thread in threads {
        thread.await.unwrap();
    }
    node.close();
    server.await.unwrap();
}

//! Calls that travel alone: their callers write them.

use std::io::Read;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use tidegate_store::redis::node::{CallError, Node};
use tidegate_store::redis::resp::Value;
use tidegate_store::redis::url::Login;
use tokio::io::AsyncReadExt;

use super::peer::{Guest, Peer, call, command};

/// A first call, after which callers may write.
async fn first_call(node: &std::sync::Arc<Node>, guest: &mut Guest) {
    let call = call(node, &["PING"]);
    guest.command().await;
    guest.say(":0\r\n").await;
    assert_eq!(call.await.unwrap(), Ok(Value::Int(0)));
}

#[tokio::test]
async fn a_call_that_is_alone_does_not_wait_for_the_task_of_the_connection() {
    let peer = Peer::bind().await;
    let (node, mut guest) = peer.connected(Login::default()).await;
    first_call(&node, &mut guest).await;

    // Nothing else runs between asking and reading, because nothing is awaited.
    let mut asked = pin!(node.call(command(&["ECHO", "1"]), false));
    assert!(asked.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    let mut stream = guest.stream.into_std().unwrap();
    let mut seen = [0; 64];
    let length = stream.read(&mut seen).unwrap();
    assert_eq!(&seen[..length], command(&["ECHO", "1"]).as_bytes());

    // The next one has company and leaves with the task.
    let mut next = pin!(node.call(command(&["ECHO", "2"]), false));
    assert!(next.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    assert_eq!(stream.read(&mut seen).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    let mut guest = Guest::new(tokio::net::TcpStream::from_std(stream).unwrap());
    assert_eq!(guest.command().await, ["ECHO", "2"]);
    guest.say(":1\r\n:2\r\n").await;
    assert_eq!((asked.await, next.await), (Ok(Value::Int(1)), Ok(Value::Int(2))));
}

#[tokio::test]
async fn what_the_connection_does_not_take_at_once_follows() {
    let peer = Peer::bind().await;
    let (node, mut guest) = peer.connected(Login::default()).await;
    first_call(&node, &mut guest).await;

    // More than the buffers of both ends take.
    let long = "x".repeat(16 << 20);
    let sent = call(&node, &["ECHO", &long]);

    let mut seen = vec![0; command(&["ECHO", &long]).as_bytes().len()];
    guest.stream.read_exact(&mut seen).await.unwrap();
    assert!(seen == command(&["ECHO", &long]).as_bytes());
    guest.say(":1\r\n").await;
    assert_eq!(sent.await.unwrap(), Ok(Value::Int(1)));
}

#[tokio::test]
async fn a_call_that_was_alone_is_lost_with_the_connection() {
    let peer = Peer::bind().await;
    let (node, mut guest) = peer.connected(Login::default()).await;
    first_call(&node, &mut guest).await;

    let mut asked = pin!(node.call(command(&["INCR", "a"]), false));
    assert_eq!(asked.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Pending);
    drop(guest);

    assert!(matches!(asked.await, Err(CallError::Lost(_))));
}

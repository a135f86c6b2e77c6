//! Peers that are no Redis, or none that can be used.

use std::time::Duration;

use tidegate_store::redis::node::{CallError, NodeState};
use tidegate_store::redis::url::{Login, Secret};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout};

use super::peer::{PATIENCE, Peer, answer, call, command, down, start, up};

fn with_password() -> Login {
    Login { username: Some("ada".into()), password: Some(Secret::new("hunter2")), ..Login::default() }
}

#[tokio::test]
async fn whatever_answers_instead_of_a_redis_is_described() {
    let cases: [(&[u8], &str, &str); 11] = [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "store_protocol", "answers HTTP"),
        (b"ERROR\r\n", "store_protocol", "Memcached"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "store_protocol", "SSH"),
        (b"\x15\x03\x01\x00\x02\x02\x46", "store_protocol", "rediss://"),
        (b"220 mail.example ESMTP\r\n", "store_protocol", "220 mail.example"),
        (b"\x00\xff\x00\xff", "store_protocol", "\\x00\\xff"),
        (b"*1\r\n$4\r\nPING\r\n", "store_protocol", "something else"),
        (b"$99999999\r\n", "store_protocol", "too long"),
        (b"", "store_unavailable", "closed the connection"),
        (b"-DENIED Redis is running in protected mode\r\n", "store_access", "protected mode"),
        (b"-ERR max number of clients reached\r\n", "store_refused", "max number of clients"),
    ];
    for (bytes, kind, text) in cases {
        let peer = Peer::bind().await;
        let node = start(&peer.address, with_password());
        let mut guest = peer.accept().await;
        assert_eq!(guest.command().await, ["PING"]);
        guest.stream.write_all(bytes).await.unwrap();
        guest.stream.shutdown().await.unwrap();

        let why = down(&node).await;
        assert_eq!(why.kind(), kind, "{why}");
        assert!(why.to_string().contains(text), "{text}: {why}");
        assert!(why.to_string().contains(&peer.address.to_string()), "{why}");
        let mut rest = Vec::new();
        let _ = guest.stream.read_to_end(&mut rest).await;
        assert!(rest.is_empty(), "a stranger is not told the password");
        assert_eq!(node.call(command(&["PING"]), false).await, Err(CallError::NotSent(why)));
    }
}

#[tokio::test]
async fn refusals_of_the_handshake_say_what_to_mend() {
    let cases = [
        ("AUTH", "-WRONGPASS invalid username-password pair or user is disabled.\r\n", "store_access", "WRONGPASS"),
        ("AUTH", "-NOPERM this user has no permissions\r\n", "store_access", "NOPERM"),
        ("AUTH", "-ERR AUTH <password> called without any password configured\r\n", "store_access", "without any password"),
        (
            "AUTH",
            "-ERR unknown command 'AUTH', with args beginning with: 'ada' 'hunter2'\r\n",
            "store_access",
            "does not know AUTH",
        ),
        ("AUTH", "*0\r\n", "store_protocol", "something else"),
        ("SELECT", "-ERR DB index is out of range\r\n", "store_protocol", "database 3 cannot be used: ERR DB index"),
        ("SELECT", "-NOAUTH Authentication required.\r\n", "store_access", "NOAUTH"),
        ("INFO", "-NOAUTH Authentication required.\r\n", "store_access", "NOAUTH"),
        ("INFO", "-LOADING Redis is loading the dataset in memory\r\n", "store_refused", "LOADING"),
        ("INFO", "$9\r\nloading:1\r\n", "store_refused", "LOADING"),
        ("INFO", ":1\r\n", "store_protocol", "something else"),
    ];
    for (step, reply, kind, text) in cases {
        let peer = Peer::bind().await;
        let node = start(&peer.address, Login { database: 3, ..with_password() });
        let mut guest = peer.accept().await;
        guest.command().await;
        guest.say("-NOAUTH Authentication required.\r\n").await;
        while guest.command().await[0] != step {
            guest.say("+OK\r\n").await;
        }
        guest.say(reply).await;

        let why = down(&node).await;
        assert_eq!(why.kind(), kind, "{step} {reply:?}: {why}");
        assert!(why.to_string().contains(text), "{step} {reply:?}: {why}");
        assert!(!format!("{why:?} {node:?}").contains("hunter2"));
    }
}

#[tokio::test]
async fn the_handshake_says_who_we_are_and_what_we_want() {
    let peer = Peer::bind().await;
    let node = start(&peer.address, Login { database: 3, client_name: "web".into(), ..with_password() });
    let mut guest = peer.accept().await;

    assert_eq!(guest.command().await, ["PING"]);
    guest.say("-NOAUTH Authentication required.\r\n").await;
    assert_eq!(guest.command().await, ["AUTH", "ada", "hunter2"]);
    guest.say("+OK\r\n").await;
    assert_eq!(guest.command().await, ["CLIENT", "SETNAME", "web"]);
    guest.say("-ERR unknown command 'CLIENT'\r\n").await;
    assert_eq!(guest.command().await, ["SELECT", "3"]);
    guest.say("+OK\r\n").await;
    assert_eq!(guest.command().await, ["INFO"]);
    guest.say("-NOPERM this user has no permissions to run the 'info' command\r\n").await;

    let server = up(&node).await;
    assert_eq!(server.version, None, "whoever may not ask does not know");
}

#[tokio::test]
async fn a_peer_that_never_answers_is_left() {
    let login = Login { connect_timeout: Duration::from_millis(100), ..Login::default() };
    let peer = Peer::bind().await;
    let node = start(&peer.address, login);
    let _guest = peer.accept().await;

    let waiting = call(&node, &["PING"]);
    let Err(CallError::NotSent(why)) = waiting.await.unwrap() else { panic!("nobody answered") };
    assert!(why.to_string().contains("no answer within 100ms"), "{why}");
    assert_eq!(why.kind(), "store_unavailable");
}

#[tokio::test]
async fn a_host_that_does_not_exist_is_said_to() {
    let node = start(&tidegate_store::redis::url::Address::tcp("no-such-host.invalid", 6379), Login::default());

    assert_eq!(down(&node).await.kind(), "store_unavailable");
}

#[tokio::test]
async fn a_peer_that_hangs_up_is_not_dialled_in_a_loop() {
    let peer = Peer::bind().await;
    let node = start(&peer.address, Login::default());
    let begin = Instant::now();

    // The pauses before these attempts are at least 25, 50, 100 and 200 ms.
    for _ in 0..3 {
        drop(peer.accept().await);
    }
    for _ in 0..2 {
        drop(peer.welcome().await);
    }

    assert!(begin.elapsed() >= Duration::from_millis(375), "{:?}", begin.elapsed());
    let mut guest = peer.welcome().await;
    up(&node).await;
    tokio::spawn(async move {
        guest.command().await;
        guest.say("+PONG\r\n").await;
        guest.command().await;
    });
    answer(&node, &["PING"]).await;
}

#[tokio::test]
async fn garbage_on_a_connection_that_worked_loses_what_was_in_flight() {
    let peer = Peer::bind().await;
    let (node, mut guest) = peer.connected(Login::default()).await;

    let calls = [1, 2].map(|i| call(&node, &["ECHO", &i.to_string()]));
    guest.command().await;
    guest.command().await;
    guest.say(":1\r\nHTTP/1.1 500\r\n").await;

    let [first, second] = calls;
    assert!(first.await.unwrap().is_ok());
    let Err(CallError::Lost(why)) = second.await.unwrap() else { panic!("it was garbage") };
    assert_eq!(why.kind(), "store_protocol");
    let state = timeout(PATIENCE, node.settled()).await.unwrap();
    assert!(matches!(state, NodeState::Down { .. }), "{state:?}");
}

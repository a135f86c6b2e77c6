//! How a server ends: nothing that was begun is lost, and nothing is left behind.

mod serving;

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use tidegate_server::server::{Address, Server};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::timeout;

use serving::{Client, Door, answer, app, ask, connect, rest, start, try_start};

const NONE: Duration = Duration::ZERO;
const LONG: Duration = Duration::from_mins(1);

/// Who hears nothing for so long is not connected: on one machine that takes microseconds.
const UNHEARD: Duration = Duration::from_millis(200);

/// How long requests that are on their way when a server closes have to arrive.
const LINGER: Duration = Duration::from_millis(500);

/// Drains beside the test; how many connections were cut.
fn drain(server: &Arc<Server>, grace: Duration, limit: Duration) -> JoinHandle<usize> {
    let server = Arc::clone(server);
    spawn_blocking(move || server.drain(grace, limit))
}

/// Waits until nobody listens any more: who connects is refused, or hears nothing because the server is about to close.
async fn is_closed(address: Option<&Address>) {
    let address = tcp(address);
    while let Ok(Ok(_)) = timeout(UNHEARD, TcpStream::connect(address)).await {
        tokio::task::yield_now().await;
    }
}

fn tcp(address: Option<&Address>) -> SocketAddr {
    match address {
        Some(Address::Tcp(address)) => *address,
        other => panic!("{other:?} is no address"),
    }
}

/// Connects and asks, again and again, until nobody listens any more; what became of those who were connected and not answered.
fn ask_until_closed(address: SocketAddr, answered: &AtomicUsize) -> Vec<String> {
    let mut lost = Vec::new();
    while let Ok(mut stream) = std::net::TcpStream::connect_timeout(&address, UNHEARD) {
        let mut said = String::new();
        let asked = stream.write_all(b"GET /x HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n");
        let asked = asked.and_then(|()| stream.read_to_string(&mut said));
        if said.starts_with("HTTP/1.1 200 ") {
            answered.fetch_add(1, Ordering::Relaxed);
        } else {
            lost.push(format!("{asked:?} {said:?}"));
        }
    }
    lost
}

#[tokio::test]
async fn who_connects_while_a_server_closes_is_answered_or_not_connected() {
    for _ in 0..10 {
        let server = Arc::new(start(&json!({})));
        let address = tcp(server.addresses().http.as_ref());
        let answered = Arc::new(AtomicUsize::new(0));
        let client = |answered: Arc<AtomicUsize>| std::thread::spawn(move || ask_until_closed(address, &answered));
        let clients: Vec<_> = (0..8).map(|_| client(Arc::clone(&answered))).collect();
        while answered.load(Ordering::Relaxed) < 50 {
            tokio::task::yield_now().await;
        }
        assert_eq!(drain(&server, NONE, LONG).await.expect("no panic"), 0);
        let lost: Vec<String> = clients.into_iter().flat_map(|client| client.join().expect("no panic")).collect();
        assert_eq!(lost, [""; 0]);
    }
}

#[tokio::test]
async fn requests_under_way_are_answered() {
    let server = Arc::new(start(&json!({})));
    let mut old = connect(&server).await;
    old.write_all(b"GET /wait/end HTTP/1.1\r\nhost: test\r\n\r\n").await.expect("a server that reads");
    let mut new = Client::new(server.addresses().grpc.as_ref()).await;
    let new = tokio::spawn(async move { new.ask("/wait/end").await });
    Door::named("end").is_waited_for(2).await;
    let drained = drain(&server, NONE, LONG);
    is_closed(server.addresses().http.as_ref()).await;
    is_closed(server.addresses().grpc.as_ref()).await;
    Door::named("end").open();
    let said = answer(&mut old).await;
    assert!(said.starts_with("http/1.1 200 ") && said.contains("connection: close"), "{said}");
    assert_eq!(rest(&mut old).await, "");
    assert_eq!(new.await.expect("no panic").expect("an answer").0, 200);
    assert_eq!(drained.await.expect("no panic"), 0);
}

#[tokio::test]
#[allow(clippy::disallowed_methods, reason = "what is promised is promised for a time")]
async fn a_request_on_its_way_is_not_lost() {
    for _ in 0..20 {
        let server = Arc::new(start(&json!({})));
        let mut idle = connect(&server).await;
        assert!(ask(&mut idle, "/x").await.starts_with("http/1.1 200 "));
        let mut fresh = connect(&server).await;
        let begun = Instant::now();
        let drained = drain(&server, NONE, LONG);
        is_closed(server.addresses().http.as_ref()).await;
        // Neither client can know yet.
        let said = [ask_last(&mut idle).await, ask_last(&mut fresh).await];
        let is_in_time = begun.elapsed() < LINGER;
        assert_eq!(drained.await.expect("no panic"), 0);
        if said.iter().all(|said| said.contains("connection: close")) {
            return;
        }
        // If the machine stood still meanwhile, nobody promised anything.
        assert!(!is_in_time, "{said:?}");
    }
    panic!("the machine is never fast enough to say anything");
}

/// Asks, and hears whatever comes until the server ends the connection, which it may have done.
async fn ask_last(stream: &mut TcpStream) -> String {
    let _ = stream.write_all(b"GET /x HTTP/1.1\r\nhost: test\r\n\r\n").await;
    rest(stream).await
}

#[tokio::test]
async fn idle_clients_are_sent_away() {
    let server = Arc::new(start(&json!({})));
    let mut old = connect(&server).await;
    assert!(ask(&mut old, "/x").await.starts_with("http/1.1 200 "));
    let mut new = Client::new(server.addresses().grpc.as_ref()).await;
    assert_eq!(new.ask("/x").await.expect("an answer").0, 200);
    let mut silent = connect(&server).await;
    assert_eq!(drain(&server, NONE, LONG).await.expect("no panic"), 0);
    assert_eq!((rest(&mut old).await, rest(&mut silent).await), (String::new(), String::new()));
    new.connection.await.expect("no panic").expect("an end in peace");
}

#[tokio::test]
async fn during_the_grace_everything_is_served() {
    let app = app(&json!({}));
    let server = Arc::new(Server::start_with::<serving::Echo<false>, serving::Echo<true>>(&app).expect("a server"));
    let mut new = Client::new(server.addresses().grpc.as_ref()).await;
    assert_eq!(new.ask("/x").await.expect("an answer").0, 200);
    let drained = drain(&server, LONG, LONG);
    while !app.is_draining() {
        tokio::task::yield_now().await;
    }
    assert_eq!(new.ask("/x").await.expect("an answer").0, 200);
    let mut old = connect(&server).await;
    // A client that comes back often is told to look elsewhere each time.
    assert!(ask(&mut old, "/x").await.contains("connection: close"));
    server.stop();
    drained.await.expect("no panic");
}

#[tokio::test]
async fn what_does_not_end_in_time_is_cut() {
    let server = Arc::new(start(&json!({})));
    let mut client = connect(&server).await;
    client.write_all(b"GET /wait/never HTTP/1.1\r\nhost: test\r\n\r\n").await.expect("a server that reads");
    Door::named("never").is_waited_for(1).await;
    assert_eq!(drain(&server, NONE, Duration::from_millis(100)).await.expect("no panic"), 1);
    assert_eq!(rest(&mut client).await, "");
}

#[tokio::test]
async fn a_second_word_ends_it_at_once() {
    let server = Arc::new(start(&json!({"workers": 2})));
    let mut client = connect(&server).await;
    client.write_all(b"GET /wait/forever HTTP/1.1\r\nhost: test\r\n\r\n").await.expect("a server that reads");
    Door::named("forever").is_waited_for(1).await;
    let drained = drain(&server, NONE, LONG);
    is_closed(server.addresses().http.as_ref()).await;
    server.stop();
    server.stop();
    drained.await.expect("no panic");
    assert_eq!(rest(&mut client).await, "");
}

#[cfg(unix)]
mod unix {
    use super::*;
    use std::path::PathBuf;
    use tokio::net::UnixStream;

    /// A path that no other test uses.
    fn path(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("tidegate-{}-{name}", std::process::id()))
    }

    #[tokio::test]
    async fn a_socket_in_the_file_system_is_served_and_removed() {
        let path = path("served");
        let server = start(&json!({"http.listen": {"unix": {"path": path}}, "workers": 2}));
        assert_eq!(server.addresses().http.as_ref().expect("an address").to_string(), format!("unix:{}", path.display()));
        for _ in 0..2 {
            let mut stream = UnixStream::connect(&path).await.expect("somebody who listens");
            assert!(ask(&mut stream, "/x").await.ends_with("http http/1.1 /x unix"));
        }
        drop(server);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_socket_is_replaced_only_if_nobody_listens() {
        let path = path("replaced");
        let listen = json!({"http.listen": {"unix": {"path": path}}});
        drop(std::os::unix::net::UnixListener::bind(&path).expect("a socket that is left over"));
        let server = start(&listen);
        let error = try_start(&listen).expect_err("somebody listens").to_string();
        assert!(error.contains("is in use"), "{error}");
        let mut stream = UnixStream::connect(&path).await.expect("somebody who listens");
        assert!(ask(&mut stream, "/x").await.ends_with("/x unix"));
        // Somebody else's file is left alone at the end.
        std::fs::remove_file(&path).expect("a socket");
        std::fs::write(&path, "mine").expect("a folder for temporary files");
        drop(server);
        let error = try_start(&listen).expect_err("a file").to_string();
        assert!(error.ends_with("is there and no socket; remove it, or choose another path"), "{error}");
        std::fs::remove_file(&path).expect("my file");
    }
}

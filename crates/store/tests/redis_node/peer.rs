//! A server that does what a test tells it, and what tests ask of a node.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tidegate_store::redis::node::{CallError, Node, NodeState, ServerInfo};
use tidegate_store::redis::resp::{Command, Parser, Value};
use tidegate_store::redis::url::{Address, Login};
use tidegate_store::store::StoreError;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::runtime::Handle;
use tokio::time::timeout;

/// No test waits longer for anything.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// A server in this process.
pub(crate) struct Peer {
    listener: TcpListener,
    pub(crate) address: Address,
}

/// One connection of it.
pub(crate) struct Guest<S = TcpStream> {
    pub(crate) stream: S,
    parser: Parser,
}

impl Peer {
    pub(crate) async fn bind() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        Self { listener, address: Address::tcp("127.0.0.1", port) }
    }

    /// A connection to which nothing was said.
    pub(crate) async fn accept(&self) -> Guest {
        let (stream, _) = timeout(PATIENCE, self.listener.accept()).await.expect("somebody connects").unwrap();
        Guest { stream, parser: Parser::default() }
    }

    /// A connection that was greeted as a Redis does.
    pub(crate) async fn welcome(&self) -> Guest {
        let mut guest = self.accept().await;
        guest.greet().await;
        guest
    }

    /// A node that is connected to this server, and the connection.
    pub(crate) async fn connected(&self, login: Login) -> (Arc<Node>, Guest) {
        let node = start(&self.address, login);
        let guest = self.welcome().await;
        assert!(matches!(node.settled().await, NodeState::Up { .. }));
        (node, guest)
    }
}

impl<S: AsyncReadExt + AsyncWriteExt + Unpin> Guest<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, parser: Parser::default() }
    }

    pub(crate) async fn greet(&mut self) {
        assert_eq!(self.command().await, ["PING"]);
        self.say("+PONG\r\n").await;
        self.log_in().await;
    }

    /// Says yes to everything up to `INFO`.
    pub(crate) async fn log_in(&mut self) {
        while self.command().await != ["INFO"] {
            self.say("+OK\r\n").await;
        }
        let info = "redis_version:7.0.15\r\nredis_mode:standalone\r\nrole:master\r\nmaxmemory_policy:noeviction\r\nloading:0\r\n";
        self.say(&format!("${}\r\n{info}\r\n", info.len())).await;
    }

    /// The next command.
    pub(crate) async fn command(&mut self) -> Vec<String> {
        timeout(PATIENCE, self.next_command()).await.expect("a command comes").expect("the connection is open")
    }

    /// The next command; `None` when the connection ends.
    pub(crate) async fn next_command(&mut self) -> Option<Vec<String>> {
        loop {
            // Commands look like answers.
            if let Some(value) = self.parser.next_value().unwrap() {
                let words = value.items().unwrap().iter().map(|word| String::from_utf8_lossy(word.text().unwrap()).into_owned());
                return Some(words.collect());
            }
            let length = self.stream.read(self.parser.space()).await.ok().filter(|length| *length > 0)?;
            self.parser.filled(length);
        }
    }

    pub(crate) async fn say(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).await.unwrap();
    }
}

/// A path for a socket that no other test uses. Nothing is there at first.
pub(crate) struct SocketPath(PathBuf);

impl SocketPath {
    pub(crate) fn new(test: &str) -> Self {
        Self(std::env::temp_dir().join(format!("tidegate-{}-{test}.sock", std::process::id())))
    }

    pub(crate) fn address(&self) -> Address {
        Address::Unix(self.0.clone())
    }

    pub(crate) fn listen(&self) -> UnixListener {
        UnixListener::bind(&self.0).unwrap()
    }
}

impl Drop for SocketPath {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

pub(crate) fn start(address: &Address, login: Login) -> Arc<Node> {
    Node::start(address.clone(), Arc::new(login), &Handle::current())
}

/// Calls with these words, in the background.
pub(crate) fn call(node: &Arc<Node>, words: &[&str]) -> tokio::task::JoinHandle<Result<Value, CallError>> {
    let (node, command) = (Arc::clone(node), command(words));
    tokio::spawn(async move { node.call(command, false).await })
}

pub(crate) fn command(words: &[&str]) -> Command {
    Command::new(&words.iter().map(|word| word.as_bytes()).collect::<Vec<_>>())
}

/// The answer to a call, which must come.
pub(crate) async fn answer(node: &Node, words: &[&str]) -> Value {
    timeout(PATIENCE, node.call(command(words), false)).await.expect("an answer comes").unwrap()
}

/// Waits until the node is connected.
pub(crate) async fn up(node: &Node) -> Arc<ServerInfo> {
    let mut state = node.watch();
    let state = timeout(PATIENCE, state.wait_for(|state| matches!(state, NodeState::Up { .. }))).await;
    match &*state.unwrap_or_else(|_| panic!("it connects: {:?}", node.state())).unwrap() {
        NodeState::Up { server, .. } => Arc::clone(server),
        state => panic!("{state:?}"),
    }
}

/// Waits until the node is not connected, and says why.
pub(crate) async fn down(node: &Node) -> StoreError {
    let mut state = node.watch();
    let state = timeout(PATIENCE, state.wait_for(|state| matches!(state, NodeState::Down { .. }))).await;
    match &*state.expect("it fails").unwrap() {
        NodeState::Down { why, .. } => why.clone(),
        state => panic!("{state:?}"),
    }
}

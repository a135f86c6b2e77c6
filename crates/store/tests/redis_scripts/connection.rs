//! A connection that asks one thing at a time.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex};

use tidegate_store::redis::resp::{Command, Parser, Value};
use tidegate_store::redis::script::{Call, Reply};
use tidegate_store::store::StoreError;

use crate::servers::Servers;

/// One server for all tests of this program. Each test has a database of its own.
static SERVER: LazyLock<Servers> = LazyLock::new(|| start(&server_name(), &[]));

/// What the names of counters begin with.
pub(crate) const PREFIX: &[u8] = b"tg:";

/// Which server the tests run on: `valkey`, `redis70`, ...
pub(crate) fn server_name() -> String {
    std::env::var("TIDEGATE_TEST_SERVER").unwrap_or_else(|_| "valkey".to_owned())
}

pub(crate) fn start(name: &str, more: &[&str]) -> Servers {
    let arguments = ["single", "--server", name, "--config", "databases 20000"];
    Servers::start(&[&arguments[..], more].concat())
}

/// A connection to a server, with a database that nobody else uses.
pub(crate) struct Connection {
    stream: Mutex<(TcpStream, Parser)>,
}

impl Connection {
    /// To the server that all tests share.
    pub(crate) fn new() -> Self {
        Self::to(&SERVER.url)
    }

    pub(crate) fn to(url: &str) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let connection = Self::plain(url);
        connection.ask(&["SELECT", &NEXT.fetch_add(1, Ordering::Relaxed).to_string()]);
        connection
    }

    /// With the only database that a cluster has.
    pub(crate) fn plain(url: &str) -> Self {
        let address = url.strip_prefix("redis://").expect("the address of a single server");
        let stream = TcpStream::connect(address).expect("a server that listens");
        stream.set_nodelay(true).expect("a socket with options");
        Self { stream: Mutex::new((stream, Parser::default())) }
    }

    /// Sends many commands before it reads an answer, and checks that none is an error.
    pub(crate) fn send_all(&self, commands: &[Command]) {
        let mut both = self.stream.lock().expect("no test panics while it sends");
        let (stream, parser) = &mut *both;
        for some in commands.chunks(64) {
            let bytes: Vec<u8> = some.iter().flat_map(tidegate_store::redis::resp::Command::as_bytes).copied().collect();
            stream.write_all(&bytes).expect("a server that reads");
            some.iter().for_each(|_| {
                let value = receive(stream, parser);
                assert!(!matches!(value, Value::Error(_)), "{value:?}");
            });
        }
    }

    pub(crate) fn send(&self, command: &Command) -> Value {
        let mut both = self.stream.lock().expect("no test panics while it sends");
        let (stream, parser) = &mut *both;
        stream.write_all(command.as_bytes()).expect("a server that reads");
        receive(stream, parser)
    }

    pub(crate) fn ask(&self, words: &[&str]) -> Value {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        self.ask_bytes(&words)
    }

    /// # Panics
    /// The server answers an error.
    pub(crate) fn ask_bytes(&self, words: &[&[u8]]) -> Value {
        let value = self.send(&Command::new(words));
        assert!(!matches!(value, Value::Error(_)), "{value:?}");
        value
    }

    /// Calls a script as a client does.
    pub(crate) fn call(&self, call: &Call) -> Result<Reply, StoreError> {
        let value = self.send(&call.by_hash());
        match value {
            Value::Error(text) if text.starts_with("NOSCRIPT") => call.decode(&self.send(&call.by_text())),
            value => call.decode(&value),
        }
    }

    /// What is under a key, and for how many milliseconds.
    pub(crate) fn stored(&self, key: &[u8]) -> Option<(Vec<u8>, i64)> {
        let value = self.ask_bytes(&[b"GET", key]);
        let ttl = self.ask_bytes(&[b"PTTL", key]).int().expect("a number");
        value.text().map(|text| (text.to_vec(), ttl))
    }
}

fn receive(stream: &mut TcpStream, parser: &mut Parser) -> Value {
    loop {
        if let Some(value) = parser.next_value().expect("a server that speaks the protocol") {
            return value;
        }
        let mut buffer = [0; 16_384];
        let count = stream.read(&mut buffer).expect("a server that answers");
        assert!(count > 0, "the server closed the connection");
        parser.feed(&buffer[..count]);
    }
}

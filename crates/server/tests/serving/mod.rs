//! A server with handlers that do what a test needs, and short ways to talk to it.
#![allow(dead_code, reason = "each test program uses what it needs")]

#[path = "../setup/mod.rs"]
mod setup;

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tidegate_core::rules::RuleSetSpec;
use tidegate_engine::engine::{Engine, OnStoreError};
use tidegate_server::app::{App, Peer};
use tidegate_server::body::Body;
use tidegate_server::server::{Address, Handler, Server, StartError};
use tidegate_store::clock::{Clock, SystemClock};
use tidegate_store::memory::MemoryStore;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

/// Answers by path: `/panic`, `/wait/<door>`, `/stream/<door>`, `/thread`; anything else is said back.
pub(crate) struct Echo<const IS_GRPC: bool>;

/// A door that requests wait behind.
#[derive(Debug, Clone)]
pub(crate) struct Door(Arc<watch::Sender<(usize, bool)>>);

static DOORS: LazyLock<Mutex<HashMap<String, Door>>> = LazyLock::new(Mutex::default);

impl Door {
    /// The door of that name; closed at first.
    pub(crate) fn named(name: &str) -> Self {
        DOORS.lock().entry(name.to_owned()).or_insert_with(|| Self(Arc::new(watch::Sender::new((0, false))))).clone()
    }

    /// Lets everybody pass.
    pub(crate) fn open(&self) {
        self.0.send_modify(|(_, is_open)| *is_open = true);
    }

    /// Waits until so many wait.
    pub(crate) async fn is_waited_for(&self, count: usize) {
        self.0.subscribe().wait_for(|(waiting, _)| *waiting >= count).await.expect("doors stay");
    }

    async fn pass(&self) {
        self.0.send_modify(|(waiting, _)| *waiting += 1);
        self.0.subscribe().wait_for(|(_, is_open)| *is_open).await.expect("doors stay");
    }
}

impl<const IS_GRPC: bool> Handler for Echo<IS_GRPC> {
    async fn serve(_: Arc<App>, peer: Peer, request: Request<Incoming>) -> Response<Body> {
        let path = request.uri().path();
        if let Some(door) = path.strip_prefix("/wait/") {
            Door::named(door).pass().await;
        }
        if let Some(door) = path.strip_prefix("/stream/") {
            let (sender, stream) = mpsc::channel(1);
            let door = Door::named(door);
            tokio::spawn(async move {
                door.pass().await;
                sender.send(Bytes::from("news")).await
            });
            return Response::new(Body::stream(stream));
        }
        assert!(path != "/panic", "as it was asked to");
        if path == "/thread" {
            return Response::new(Body::full(std::thread::current().name().unwrap_or("?").to_owned()));
        }
        let port = if IS_GRPC { "grpc" } else { "http" };
        let peer = peer.address.map_or_else(|| "unix".to_owned(), |address| address.to_string());
        Response::new(Body::full(format!("{port} {:?} {path} {peer}", request.version())))
    }

    fn broken() -> Response<Body> {
        let mut response = Response::new(Body::full("broken"));
        *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        response
    }
}

/// An app on two free ports, with some settings changed: `{"limits.streams": 10}`.
pub(crate) fn app(changes: &Value) -> Arc<App> {
    app_with(&json!([]), changes)
}

/// The same with some rules.
pub(crate) fn app_with(rules: &Value, changes: &Value) -> Arc<App> {
    let usual = json!({"limits.body_bytes": 1_048_576, "limits.read_timeout": 10, "limits.idle_timeout": 20});
    let rules: RuleSetSpec = serde_json::from_value(json!({"version": 1, "domain": "test", "rules": rules})).expect("rules");
    let store = Arc::new(MemoryStore::new(Clock::System(SystemClock::new()), 1_000));
    let engine = Engine::new(rules, store, *b"a secret of keys", OnStoreError::Deny).expect("rules that can be loaded");
    Arc::new(App::new(Arc::new(engine), setup::settings(&[&usual, changes])))
}

/// Starts a server, or does not.
pub(crate) fn try_start(changes: &Value) -> Result<Server, StartError> {
    Server::start_with::<Echo<false>, Echo<true>>(&app(changes))
}

/// Starts a server.
pub(crate) fn start(changes: &Value) -> Server {
    try_start(changes).expect("a server that starts")
}

/// A new connection to the port of HTTP.
pub(crate) async fn connect(server: &Server) -> TcpStream {
    connect_to(server.addresses().http.as_ref()).await
}

/// A new connection to a port.
pub(crate) async fn connect_to(address: Option<&Address>) -> TcpStream {
    let Some(Address::Tcp(address)) = address else { panic!("{address:?} is no address") };
    TcpStream::connect(address).await.expect("somebody who listens")
}

/// Asks over HTTP/1; returns the head and the body.
pub(crate) async fn ask(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), path: &str) -> String {
    stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: test\r\n\r\n").as_bytes()).await.expect("a server that reads");
    answer(stream).await
}

/// Reads one answer over HTTP/1.
pub(crate) async fn answer(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut read = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&read).to_lowercase();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok()).unwrap_or(0);
            if body.len() >= length {
                return text;
            }
        }
        assert!(stream.read_buf(&mut read).await.expect("an answer") > 0, "the server ended the connection after {text:?}");
    }
}

/// Whatever comes until the server ends the connection.
pub(crate) async fn rest(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut read = Vec::new();
    // It may also be cut.
    let _ = stream.read_to_end(&mut read).await;
    String::from_utf8_lossy(&read).to_lowercase()
}

/// A client of HTTP/2, and what its connection ends with.
pub(crate) struct Client {
    pub(crate) requests: SendRequest<Body>,
    pub(crate) connection: JoinHandle<hyper::Result<()>>,
}

impl Client {
    /// Connects to a port.
    pub(crate) async fn new(address: Option<&Address>) -> Self {
        let stream = TokioIo::new(connect_to(address).await);
        let (requests, connection) = http2::handshake(TokioExecutor::new(), stream).await.expect("a server that speaks HTTP/2");
        Self { requests, connection: tokio::spawn(connection) }
    }

    /// Asks; returns status and body.
    pub(crate) async fn ask(&mut self, path: &str) -> hyper::Result<(u16, String)> {
        self.requests.ready().await?;
        let request = Request::get(format!("http://test{path}")).body(Body::empty()).expect("a request");
        let response = self.requests.send_request(request).await?;
        let status = response.status().as_u16();
        let mut body = response.into_body();
        let mut text = Vec::new();
        while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
            text.extend(frame?.into_data().unwrap_or_default());
        }
        Ok((status, String::from_utf8(text).expect("text")))
    }
}

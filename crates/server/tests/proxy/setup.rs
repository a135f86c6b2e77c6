//! A proxy, servers behind it that do what a test needs, and short ways to talk to both.

use std::convert::Infallible;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::client::{self, conn::http2::SendRequest};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tidegate_core::rules::RuleSetSpec;
use tidegate_engine::engine::{Engine, OnStoreError};
use tidegate_server::app::App;
use tidegate_server::body::Body;
use tidegate_server::server::{Address, Server};
use tidegate_store::clock::{Clock, ManualClock};
use tidegate_store::memory::MemoryStore;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;

use super::usual;

/// How long anything may take that a test waits for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A server behind the proxy, until it is dropped.
pub(crate) struct Upstream {
    pub(crate) address: SocketAddr,
    /// Requests that came.
    pub(crate) asked: Arc<AtomicUsize>,
    /// Connections that came.
    pub(crate) connections: Arc<AtomicUsize>,
    /// Lets those pass who asked for `/wait`.
    pub(crate) door: Arc<Notify>,
    task: JoinHandle<()>,
}

impl Upstream {
    /// One that speaks HTTP/1.
    pub(crate) async fn start() -> Self {
        Self::speaking(false).await
    }

    /// One that speaks HTTP/2 without asking first.
    pub(crate) async fn start_http2() -> Self {
        Self::speaking(true).await
    }

    async fn speaking(is_http2: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let (asked, connections, door) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
        let (counted, came, opened) = (Arc::clone(&asked), Arc::clone(&connections), Arc::clone(&door));
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.expect("a connection");
                came.fetch_add(1, Ordering::SeqCst);
                let (counted, opened) = (Arc::clone(&counted), Arc::clone(&opened));
                let service = service_fn(move |request| {
                    counted.fetch_add(1, Ordering::SeqCst);
                    let opened = Arc::clone(&opened);
                    async move { Ok::<_, Infallible>(answer(request, &opened).await) }
                });
                let io = TokioIo::new(stream);
                if is_http2 {
                    tokio::spawn(http2::Builder::new(TokioExecutor::new()).serve_connection(io, service));
                } else {
                    tokio::spawn(http1::Builder::new().serve_connection(io, service).with_upgrades());
                }
            }
        });
        Self { address, asked, connections, door, task }
    }

    /// Its address, as settings have it.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// How many requests came.
    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    /// How many connections came.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Answers by path; anything else is told back as JSON.
async fn answer(mut request: Request<Incoming>, door: &Arc<Notify>) -> Response<Body> {
    match request.uri().path() {
        "/wait" => {
            door.notified().await;
            Response::new(Body::full("waited"))
        }
        "/stream" => {
            let (sender, stream) = mpsc::channel(1);
            sender.send(Bytes::from("first ")).await.expect("somebody who listens");
            let door = Arc::clone(door);
            tokio::spawn(async move {
                door.notified().await;
                sender.send(Bytes::from("last")).await
            });
            Response::new(Body::stream(stream))
        }
        "/endless" => {
            let (sender, stream) = mpsc::channel(1);
            tokio::spawn(async move { while sender.send(Bytes::from_static(&[b'x'; 8_192])).await.is_ok() {} });
            Response::new(Body::stream(stream))
        }
        "/trailers" => {
            let mut trailers = HeaderMap::new();
            trailers.insert("x-sum", HeaderValue::from_static("42"));
            let mut response = Response::new(Body::full("content").with_trailers(trailers));
            response.headers_mut().insert("trailer", HeaderValue::from_static("x-sum"));
            response
        }
        "/early" => Response::new(Body::full("no need to read that")),
        "/cost" => {
            let mut response = Response::new(Body::full("done"));
            response.headers_mut().insert("x-cost", HeaderValue::from_static("4"));
            response
        }
        "/echo" => {
            let upgrading = hyper::upgrade::on(&mut request);
            tokio::spawn(async move {
                let mut stream = TokioIo::new(upgrading.await.expect("a client that switches"));
                let mut bytes = [0; 1024];
                while let Ok(read @ 1..) = stream.read(&mut bytes).await {
                    stream.write_all(&bytes[..read]).await.expect("a client that reads");
                }
            });
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
            response.headers_mut().insert("connection", HeaderValue::from_static("upgrade"));
            response.headers_mut().insert("upgrade", HeaderValue::from_static("websocket"));
            response
        }
        _ => told_back(request).await,
    }
}

async fn told_back(request: Request<Incoming>) -> Response<Body> {
    let (head, mut body) = request.into_parts();
    let mut bytes = Vec::new();
    let mut trailers = json!({});
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let Ok(frame) = frame else { return Response::new(Body::full("broken")) };
        match frame.into_data() {
            Ok(data) => bytes.extend(data),
            Err(frame) => trailers = fields(&frame.into_trailers().expect("data or trailers")),
        }
    }
    let told = json!({
        "method": head.method.as_str(),
        "uri": head.uri.to_string(),
        "version": format!("{:?}", head.version),
        "headers": fields(&head.headers),
        "bytes": bytes.len(),
        "body": String::from_utf8_lossy(&bytes[..bytes.len().min(1_000)]),
        "trailers": trailers,
    });
    let mut response = Response::new(Body::full(told.to_string()));
    response.headers_mut().insert("connection", HeaderValue::from_static("x-of-one-hop"));
    response.headers_mut().insert("x-of-one-hop", HeaderValue::from_static("secret"));
    response.headers_mut().insert("x-kept", HeaderValue::from_static("yes"));
    response
}

fn fields(headers: &HeaderMap) -> Value {
    let field = |name: &http::HeaderName| {
        let values: Vec<&str> = headers.get_all(name).iter().map(|value| value.to_str().expect("text")).collect();
        (name.to_string(), Value::from(values.join(" | ")))
    };
    headers.keys().map(field).collect::<serde_json::Map<_, _>>().into()
}

/// A group of servers, with some settings changed.
pub(crate) fn group(name: &str, servers: &[String], changes: &Value) -> Value {
    let servers: Vec<_> = servers.iter().map(|url| json!({"url": url, "weight": 1})).collect();
    let mut group = json!({
        "name": name, "servers": servers, "protocol": "http1", "host": "preserve", "tls_ca": null, "tls_cert": null, "tls_key": null,
        "connect_timeout": 5, "first_byte_timeout": 20, "idle_timeout": 20, "total_timeout": 0,
        "keep_alive": 5, "idle_connections": 8, "retries": 2, "balance": "round_robin", "resolve_interval": 0, "check": null,
        "ejection": {"after": 0, "time": 1, "time_max": 1, "counts_5xx": false}, "panic_below": 0.0, "slow_start": 0,
    });
    for (name, value) in changes.as_object().expect("changes are an object") {
        group[name] = value.clone();
    }
    group
}

/// The settings of a proxy that sends everything to one group.
pub(crate) fn to(group: &Value) -> Value {
    json!({
        "listener": {"listen": {"tcp": {"host": "127.0.0.1", "port": 0}}, "tls": null, "token": null},
        "upstreams": [group], "trusted_proxies": [], "proxy_protocol": [], "cost_header": null, "request_id": "x-request-id", "access_log": null,
        "routes": [{"hosts": [], "path": "/", "upstream": group["name"], "rewrite": null}],
    })
}

/// A rule for everybody with this quota, and some members changed.
pub(crate) fn rule(quota: &str, changes: &Value) -> Value {
    let mut rule = json!({
        "name": "rule", "per": [], "quotas": [{"text": quota}], "cost": {"units": 1}, "mode": "enforce", "rollout": 10_000,
        "priority": 0, "stop": false, "headers": true,
    });
    for (name, value) in changes.as_object().expect("changes are an object") {
        rule[name] = value.clone();
    }
    rule
}

/// A proxy, and the clock that its counters go by.
pub(crate) struct Running {
    pub(crate) server: Server,
    pub(crate) app: Arc<App>,
    pub(crate) clock: ManualClock,
}

impl Running {
    /// Starts one. `rules` are as Python compiles them.
    pub(crate) fn start(proxy: &Value, rules: &Value) -> Self {
        Self::start_with(proxy, &json!({"version": 1, "domain": "test", "rules": rules}), &json!({}))
    }

    /// The same with a whole document of rules, and other settings of the service.
    pub(crate) fn start_with(proxy: &Value, rules: &Value, changes: &Value) -> Self {
        let settings = usual::settings(&[&json!({"http": null, "grpc": null, "proxy": proxy}), changes]);
        let rules: RuleSetSpec = serde_json::from_value(rules.clone()).expect("rules of a test");
        let clock = ManualClock::new(1_000_000_000_000);
        let store = Arc::new(MemoryStore::new(Clock::Manual(clock.clone()), 1_000));
        let engine = Engine::new(rules, store, *b"a secret of keys", OnStoreError::Deny).expect("rules that load");
        let app = Arc::new(App::new(Arc::new(engine), settings));
        Self { server: Server::start(Arc::clone(&app)).expect("a proxy that starts"), app, clock }
    }

    /// One without rules before one group.
    pub(crate) fn before(group: &Value) -> Self {
        Self::start(&to(group), &json!([]))
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        match self.server.addresses().proxy {
            Some(Address::Tcp(address)) => address,
            ref other => panic!("{other:?} is no address"),
        }
    }

    /// A new client of HTTP/1.
    pub(crate) async fn client(&self) -> Client {
        Client(TcpStream::connect(self.address()).await.expect("a proxy that listens"))
    }

    /// A new client of HTTP/2.
    pub(crate) async fn http2_client(&self) -> SendRequest<Body> {
        let stream = TokioIo::new(TcpStream::connect(self.address()).await.expect("a proxy that listens"));
        let (client, connection) = client::conn::http2::handshake(TokioExecutor::new(), stream).await.expect("HTTP/2");
        tokio::spawn(connection);
        client
    }
}

/// A client of HTTP/1 that sends bytes as they are.
pub(crate) struct Client(pub(crate) TcpStream);

/// An answer of HTTP/1, with its head in lower case.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Client {
    pub(crate) async fn send(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).await.expect("a proxy that reads");
    }

    /// Sends a request, and reads the answer.
    pub(crate) async fn ask(&mut self, text: &str) -> Answer {
        self.send(text).await;
        self.answer().await
    }

    /// Asks for a path.
    pub(crate) async fn get(&mut self, path: &str) -> Answer {
        self.ask(&format!("GET {path} HTTP/1.1\r\nhost: shop.example.com\r\n\r\n")).await
    }

    /// Reads an answer.
    pub(crate) async fn answer(&mut self) -> Answer {
        tokio::time::timeout(PATIENCE, self.read_answer()).await.expect("an answer in time")
    }

    /// Whatever comes until the proxy ends the connection.
    pub(crate) async fn rest(&mut self) -> String {
        let mut read = Vec::new();
        // It may also be cut.
        let _ = tokio::time::timeout(PATIENCE, self.0.read_to_end(&mut read)).await.expect("an end in time");
        String::from_utf8_lossy(&read).into_owned()
    }

    async fn read_answer(&mut self) -> Answer {
        let mut read = Vec::new();
        let end = loop {
            if let Some(end) = read.windows(4).position(|window| window == b"\r\n\r\n") {
                break end;
            }
            let more = self.0.read_buf(&mut read).await.expect("an answer");
            assert!(more > 0, "the proxy ended the connection after {:?}", String::from_utf8_lossy(&read));
        };
        let head = String::from_utf8_lossy(&read[..end]).to_lowercase();
        let mut body = read.split_off(end + 4);
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        let is_whole = |body: &[u8]| match length {
            Some(length) => body.len() >= length,
            None if head.contains("transfer-encoding: chunked") => body.ends_with(b"0\r\n\r\n") || ends_with_trailers(body),
            None => true,
        };
        while !is_whole(&body) {
            let more = self.0.read_buf(&mut body).await.expect("a body");
            assert!(more > 0, "the body broke off after {} bytes", body.len());
        }
        Answer { head, body }
    }
}

fn ends_with_trailers(body: &[u8]) -> bool {
    let text = String::from_utf8_lossy(body);
    text.contains("\r\n0\r\n") && text.ends_with("\r\n\r\n")
}

impl Answer {
    pub(crate) fn status(&self) -> u16 {
        self.head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status")
    }

    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// Waits until something is true.
pub(crate) async fn eventually(what: &str, is_true: impl Fn() -> bool) {
    let waiting = async {
        while !is_true() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("not in time: {what}"));
}

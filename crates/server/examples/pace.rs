//! Calls at a steady pace, whatever becomes of those before, and how long each took from the moment at which it was due.
//!
//! `pace h1|h2 HOST:PORT PATH RATE SECONDS CONNECTIONS STREAMS BODY|- [NAME:VALUE ...]`
//!
//! Generators that send what is due every ten milliseconds measure how long their own bursts take. This one has a core of its own and never sleeps.
//! Prints one line of JSON: the calls after the first second, those of them that were not answered with 200, and percentiles in microseconds.

#![allow(clippy::print_stdout, reason = "a program whose answer is what it prints")]
#![allow(clippy::disallowed_methods, reason = "it measures real time")]
#![allow(clippy::unwrap_used, reason = "what goes wrong ends it, with the place where it did")]

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Request, Response};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::{LocalSet, spawn_local, yield_now};

const WARM_UP: Duration = Duration::from_secs(1);
const CUTS: [(&str, f64); 4] = [("50", 0.5), ("90", 0.9), ("99", 0.99), ("99.9", 0.999)];

/// A body of some bytes.
struct Whole(Option<Bytes>);

impl Body for Whole {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Poll::Ready(self.0.take().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.as_ref().map_or(0, Bytes::len) as u64)
    }
}

/// A way into a connection.
enum Way {
    Http1(http1::SendRequest<Whole>),
    Http2(http2::SendRequest<Whole>),
}

impl Way {
    async fn open(is_http2: bool, address: &str) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let io = TokioIo::new(stream);
        if is_http2 {
            let (sender, connection) = http2::handshake(TokioExecutor::new(), io).await.unwrap();
            spawn_local(connection);
            Self::Http2(sender)
        } else {
            let (sender, connection) = http1::handshake(io).await.unwrap();
            spawn_local(connection);
            Self::Http1(sender)
        }
    }

    async fn ask(&mut self, request: Request<Whole>) -> hyper::Result<Response<Incoming>> {
        match self {
            Self::Http1(sender) => {
                sender.ready().await?;
                sender.send_request(request).await
            }
            Self::Http2(sender) => sender.send_request(request).await,
        }
    }
}

struct Target {
    ways: RefCell<VecDeque<Way>>,
    room: Semaphore,
    uri: String,
    headers: Vec<(HeaderName, HeaderValue)>,
    body: Option<Bytes>,
    /// How long each call took, in microseconds, and whether it was answered with 200.
    calls: RefCell<Vec<(Instant, f64, bool)>>,
}

impl Target {
    async fn call(&self, due: Instant) {
        let _room = self.room.acquire().await.unwrap();
        let mut way = self.ways.borrow_mut().pop_front().unwrap();
        let mut request = Request::new(Whole(self.body.clone()));
        *request.method_mut() = if self.body.is_some() { Method::POST } else { Method::GET };
        *request.uri_mut() = self.uri.parse().unwrap();
        request.headers_mut().extend(self.headers.iter().cloned());
        let is_good = match way.ask(request).await {
            Ok(response) => {
                let is_good = response.status() == 200;
                let mut body = response.into_body();
                while poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await.is_some() {}
                is_good
            }
            Err(_) => false,
        };
        self.calls.borrow_mut().push((due, due.elapsed().as_secs_f64() * 1e6, is_good));
        self.ways.borrow_mut().push_back(way);
    }
}

async fn run(words: &[String]) {
    let [protocol, address, path, rate, seconds, connections, streams, body, fields @ ..] = words else {
        panic!("h1|h2 HOST:PORT PATH RATE SECONDS CONNECTIONS STREAMS BODY|- [NAME:VALUE ...]")
    };
    let (rate, seconds): (f64, f64) = (rate.parse().unwrap(), seconds.parse().unwrap());
    let (connections, streams): (usize, usize) = (connections.parse().unwrap(), streams.parse().unwrap());
    let is_http2 = protocol == "h2";
    let mut headers: Vec<(HeaderName, HeaderValue)> = fields
        .iter()
        .map(|field| field.split_once(':').unwrap())
        .map(|(n, v)| (n.parse().unwrap(), v.parse().unwrap()))
        .collect();
    if !is_http2 {
        headers.push((http::header::HOST, address.parse().unwrap()));
    }
    let mut ways = VecDeque::new();
    for _ in 0..connections {
        let way = Way::open(is_http2, address).await;
        if let Way::Http2(sender) = &way {
            ways.extend((1..streams).map(|_| Way::Http2(sender.clone())));
        }
        ways.push_back(way);
    }
    let target = Rc::new(Target {
        room: Semaphore::new(ways.len()),
        ways: RefCell::new(ways),
        uri: if is_http2 { format!("http://{address}{path}") } else { path.clone() },
        headers,
        body: (body != "-").then(|| std::fs::read(body).unwrap().into()),
        calls: RefCell::default(),
    });
    let begun = Instant::now();
    let (mut number, mut due) = (0.0, begun);
    while due < begun + Duration::from_secs_f64(seconds) {
        while Instant::now() < due {
            yield_now().await;
        }
        let target = Rc::clone(&target);
        spawn_local(async move { target.call(due).await });
        number += 1.0;
        due = begun + Duration::from_secs_f64(number / rate);
    }
    // All ways are back when all calls were answered.
    let all = u32::try_from(connections * if is_http2 { streams } else { 1 }).unwrap();
    drop(target.room.acquire_many(all).await.unwrap());
    report(&target.calls.borrow(), begun);
}

fn report(calls: &[(Instant, f64, bool)], begun: Instant) {
    let kept = || calls.iter().filter(|(due, ..)| *due >= begun + WARM_UP);
    let mut waits: Vec<f64> = kept().map(|(_, wait, _)| *wait).collect();
    waits.sort_by(f64::total_cmp);
    let last = calls.iter().map(|(due, ..)| *due).max().unwrap_or(begun);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "a part of a length")]
    let cut = |share: f64| waits[((waits.len() as f64 * share) as usize).min(waits.len() - 1)];
    #[allow(clippy::cast_precision_loss, reason = "few calls")]
    let per_second = waits.len() as f64 / (last - begun).saturating_sub(WARM_UP).as_secs_f64();
    let cuts: serde_json::Map<_, _> = CUTS.iter().map(|&(name, share)| (name.to_owned(), cut(share).into())).collect();
    let bad = calls.iter().filter(|(_, _, is_good)| !is_good).count();
    println!("{}", serde_json::json!({"calls": calls.len(), "bad": bad, "per_second": per_second, "cuts_us": cuts}));
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, run(&words));
}

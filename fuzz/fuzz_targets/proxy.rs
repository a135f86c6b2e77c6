//! Any bytes on a connection to the proxy: whatever of them reaches a server is one request, of which there is one reading only.
//!
//! The first byte of the input says how the rest is divided, the rest is what a client sends. hyper reads it as it does for the proxy, and writes what a
//! server would be sent; that is read here as the strictest of servers would. What the short way takes is held against what hyper reads.

#![no_main]

mod service;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll};

use http::header::{CONNECTION, TRANSFER_ENCODING};
use http::{HeaderMap, Request, Response};
use hyper::body::{Body as _, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use libfuzzer_sys::fuzz_target;
use tidegate_server::app::{App, Peer};
use tidegate_server::body::Body;
use tidegate_server::proxy::{rehearse, rehearse_short};
use tidegate_server::server::framing::Framing;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf};
use tokio::task::LocalSet;

static APP: LazyLock<Arc<App>> = LazyLock::new(service::proxy);

const PEER: Peer = Peer { address: Some(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7))) };

/// Fields for one connection only, which no server hears of.
const OF_ONE_HOP: [&str; 5] = ["keep-alive", "proxy-connection", "http2-settings", "proxy-authorization", "proxy-authenticate"];

/// Fields that a server hears of although `Connection` names them: a message needs them, or they are our own.
const NEVERTHELESS: [&str; 13] = [
    "host",
    "content-length",
    "expect",
    "connection",
    "upgrade",
    "te",
    "transfer-encoding",
    "via",
    "forwarded",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-request-id",
];

fuzz_target!(|input: &[u8]| {
    let Some((&division, bytes)) = input.split_first() else { return };
    service::RUNTIME.block_on(LocalSet::new().run_until(serve(bytes, usize::from(division))));
});

/// Serves a client that sends these bytes, so many at a time if that is not 0.
async fn serve(bytes: &[u8], at_once: usize) {
    let framing = Rc::new(RefCell::new((Framing::default(), 0)));
    let client = Client { rest: bytes.to_vec(), at_once, framing: Rc::clone(&framing) };
    let begun = Rc::new(Cell::new(0));
    let counted = Rc::clone(&begun);
    let plain = rehearse_short(bytes);
    let is_plain = plain.is_some();
    let service = service_fn(move |request: Request<Incoming>| {
        begun.set(begun.get() + 1);
        if let (1, Some((plain, _))) = (begun.get(), &plain) {
            assert_is_same(&request, plain);
        }
        let is_clear = begun.get() <= framing.borrow().1;
        if begun.get() == 1 && request.headers().contains_key(TRANSFER_ENCODING) {
            assert_eq!(is_clear, !has_length(bytes), "a length beside a coding");
        }
        async move {
            forward(request, is_clear).await;
            Ok::<_, Infallible>(Response::new(Body::empty()))
        }
    });
    let mut whole = Framing::default();
    let mut pieces = Framing::default();
    let clear = bytes.chunks(at_once.max(1)).fold(0, |_, piece| pieces.follow(piece));
    assert_eq!(whole.follow(bytes), clear, "it does not matter how bytes are divided");
    // Whatever hyper refuses is an error here.
    let _ = hyper::server::conn::http1::Builder::new().half_close(true).serve_connection(TokioIo::new(client), service).await;
    assert!(!is_plain || counted.get() > 0, "hyper refuses what the short way takes");
}

/// What the short way takes is what hyper reads.
fn assert_is_same(request: &Request<Incoming>, plain: &Request<()>) {
    assert_eq!((request.method(), request.uri(), request.version()), (plain.method(), plain.uri(), plain.version()));
    assert_eq!(request.headers(), plain.headers());
    assert!(request.body().is_end_stream(), "a body");
}

/// Whether the first request has a length, as it came.
fn has_length(bytes: &[u8]) -> bool {
    let lines = bytes.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii).skip_while(|line| line.is_empty());
    let mut fields = lines.skip(1).take_while(|line| !line.is_empty());
    fields.any(|line| line.to_ascii_lowercase().starts_with(b"content-length:"))
}

async fn forward(request: Request<Incoming>, is_clear: bool) {
    let named = named_by_connection(request.headers());
    let outgoing = match rehearse(&APP, PEER, request, is_clear) {
        Ok(outgoing) => outgoing,
        Err(status) => return assert!(matches!(status.as_u16(), 400 | 404 | 405 | 501 | 508), "{status}"),
    };
    let (near, far) = tokio::io::duplex(65_536);
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(near)).await.expect("a connection in memory");
    let upstream = tokio::task::spawn_local(hear(far, named));
    let connection = tokio::task::spawn_local(connection);
    // The body may be wrong: then it ends.
    let _ = sender.send_request(outgoing).await;
    drop(sender);
    let _ = connection.await;
    upstream.await.expect("a server that does not panic");
}

/// A server: reads one request, answers, and hears nothing else.
async fn hear(mut stream: DuplexStream, named: Vec<String>) {
    let mut heard = Vec::new();
    let mut is_answered = false;
    let mut is_told_to_go_on = false;
    loop {
        let mut piece = [0; 4_096];
        match stream.read(&mut piece).await {
            Ok(0) | Err(_) => break,
            Ok(read) => heard.extend_from_slice(&piece[..read]),
        }
        assert!(!is_answered, "something follows the request: {:?}", String::from_utf8_lossy(&heard));
        let Some(head) = Head::read(&heard) else { continue };
        head.assert_is_clear(&named);
        if head.fields.contains_key("expect") && !is_told_to_go_on {
            is_told_to_go_on = true;
            let _ = stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await;
        }
        if let Some(end) = head.end(&heard) {
            assert_eq!(end, heard.len(), "something follows the request: {:?}", String::from_utf8_lossy(&heard));
            is_answered = true;
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
        }
    }
}

/// The head of a request as a server hears it.
struct Head {
    length: usize,
    line: String,
    fields: BTreeMap<String, Vec<Vec<u8>>>,
}

impl Head {
    fn read(bytes: &[u8]) -> Option<Self> {
        let length = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
        let mut lines = bytes[..length - 4].split(|&byte| byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
        let line = String::from_utf8(lines.next()?.to_vec()).expect("text");
        let mut fields: BTreeMap<String, Vec<Vec<u8>>> = BTreeMap::new();
        for line in lines {
            assert!(!line.contains(&b'\r') && !line.contains(&0), "{line:?}");
            let colon = line.iter().position(|&byte| byte == b':').expect("a name");
            let name = String::from_utf8(line[..colon].to_vec()).expect("text");
            assert!(!name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic()), "{name:?}");
            fields.entry(name.to_ascii_lowercase()).or_default().push(line[colon + 1..].trim_ascii().to_vec());
        }
        Some(Self { length, line, fields })
    }

    fn one(&self, name: &str) -> Option<&[u8]> {
        let values = self.fields.get(name)?;
        assert_eq!(values.len(), 1, "one `{name}`");
        Some(&values[0])
    }

    fn assert_is_clear(&self, named: &[String]) {
        let words: Vec<&str> = self.line.split(' ').collect();
        assert!(matches!(words[..], [_, target, "HTTP/1.1"] if target.starts_with('/') || target == "*"), "{}", self.line);
        assert!(self.one("host").is_some());
        assert!(self.one("content-length").is_none() || self.one("transfer-encoding").is_none(), "two lengths");
        assert!(self.one("transfer-encoding").is_none_or(|coding| coding == b"chunked"));
        assert!(self.one("te").is_none_or(|te| te == b"trailers"));
        match (self.one("connection"), self.one("upgrade")) {
            (None, None) => {}
            (connection, upgrade) => assert_eq!((connection, upgrade), (Some(&b"upgrade"[..]), Some(&b"websocket"[..]))),
        }
        for name in OF_ONE_HOP.into_iter().chain(named.iter().map(String::as_str)) {
            assert!(!self.fields.contains_key(name), "{name}");
        }
        // Nobody is trusted.
        assert_eq!(self.one("x-forwarded-for"), Some(&b"192.0.2.7"[..]));
        assert!(self.one("forwarded").is_some_and(|forwarded| forwarded.starts_with(b"for=192.0.2.7;")));
        assert!(self.one("via").is_some_and(|via| via.ends_with(b" tidegate")));
    }

    /// Where the request ends, once all of it is there.
    fn end(&self, bytes: &[u8]) -> Option<usize> {
        if let Some(length) = self.one("content-length") {
            let length: usize = std::str::from_utf8(length).expect("text").parse().expect("a number that was taken");
            return Some(self.length.checked_add(length)?).filter(|&end| end <= bytes.len());
        }
        if self.one("transfer-encoding").is_none() {
            return Some(self.length);
        }
        let mut at = self.length;
        loop {
            let line = bytes[at..].windows(2).position(|window| window == b"\r\n")?;
            let size = usize::from_str_radix(std::str::from_utf8(&bytes[at..at + line]).expect("text"), 16)
                .expect("a size and nothing else");
            at += line + 2;
            if size == 0 {
                break;
            }
            at += size;
            assert!(bytes.get(at..at + 2)? == b"\r\n");
            at += 2;
        }
        loop {
            let line = bytes[at..].windows(2).position(|window| window == b"\r\n")?;
            at += line + 2;
            if line == 0 {
                return Some(at);
            }
        }
    }
}

/// Fields that `Connection` names, and that no server hears of therefore.
fn named_by_connection(headers: &HeaderMap) -> Vec<String> {
    let lists = headers.get_all(CONNECTION).iter().filter_map(|list| list.to_str().ok());
    let names = lists.flat_map(|list| list.split(',')).map(|name| name.trim().to_ascii_lowercase());
    names.filter(|name| !NEVERTHELESS.contains(&name.as_str())).collect()
}

/// What a client sends. It takes whatever comes.
struct Client {
    rest: Vec<u8>,
    at_once: usize,
    framing: Rc<RefCell<(Framing, u64)>>,
}

impl AsyncRead for Client {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        let most = if self.at_once == 0 { usize::MAX } else { self.at_once };
        let taken = self.rest.len().min(buffer.remaining()).min(most);
        let piece: Vec<u8> = self.rest.drain(..taken).collect();
        let (framing, clear) = &mut *self.framing.borrow_mut();
        *clear = framing.follow(&piece);
        buffer.put_slice(&piece);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Client {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

//! One connection, from the first byte to the last.

mod drive;
mod respond;
mod short;

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::activity::Activity;
use super::answer::{Handler, answer};
use super::crowd::Place;
use super::proxied::{self, NoHeader};
use super::stream::{First, Io, Plain, Stream};
use super::{Phase, Shared};
use crate::app::Peer;
use crate::metrics::{ConnectionFailure, Port};
use crate::proxy::Tunnel;
use crate::settings::Limits;
use drive::{Connection, End, LINGER, drive};
use short::{Ended, Short};

pub use short::Shortcut;

/// HTTP/2: the bytes that all requests of a connection, and one of them, may send ahead of their handlers.
const CONNECTION_WINDOW: u32 = 256 * 1_024;
const STREAM_WINDOW: u32 = 64 * 1_024;
/// The largest that the protocol allows.
const WINDOW_MAX: u32 = (1 << 31) - 1;

/// HTTP/2: the bytes that all requests of a connection may send ahead where a gateway carries those of many clients: as many as all of them together, so
/// that bodies that nobody reads hold up nobody else's.
fn window_of_many(streams: u32) -> u32 {
    streams.saturating_mul(STREAM_WINDOW).clamp(CONNECTION_WINDOW, WINDOW_MAX)
}

/// HTTP/2: the bytes of an answer that wait to be sent.
const SEND_BUFFER: usize = 64 * 1_024;

/// HTTP/2: requests that may be taken back before they were looked at. An honest gateway takes back many at a time when its own timeout strikes; who
/// takes back more than that is after our time.
const RESETS_MAX: usize = 256;

/// HTTP/2: requests with mistakes in them that one connection may make.
const ERRORS_MAX: usize = 1_024;

/// What is said to who sends the head of a request too slowly.
const TOO_SLOW: &[u8] = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// How both versions of HTTP are spoken.
#[derive(Debug)]
pub(super) struct Protocols {
    http1: http1::Builder,
    http2: http2::Builder<TokioExecutor>,
    /// For gateways.
    http2_of_many: http2::Builder<TokioExecutor>,
}

impl Protocols {
    pub(super) fn new(limits: &Limits) -> Self {
        let mut http1 = http1::Builder::new();
        // Its own timeout of heads would also end connections that are idle between two requests, and costs a timer for each request.
        // An answer is small: copied behind its head it leaves as one piece, which costs less than two.
        http1
            .writev(false)
            .header_read_timeout(None)
            .max_header_size(limits.head_bytes)
            .max_buf_size(limits.head_bytes.max(8_192));
        let mut http2 = http2::Builder::new(TokioExecutor::new());
        http2
            .max_concurrent_streams(limits.streams)
            .max_header_list_size(u32::try_from(limits.head_bytes).unwrap_or(u32::MAX))
            .initial_connection_window_size(CONNECTION_WINDOW)
            .initial_stream_window_size(STREAM_WINDOW)
            .max_send_buf_size(SEND_BUFFER)
            .max_pending_accept_reset_streams(RESETS_MAX)
            .max_local_error_reset_streams(ERRORS_MAX);
        let mut http2_of_many = http2.clone();
        http2_of_many.initial_connection_window_size(window_of_many(limits.streams));
        Self { http1, http2, http2_of_many }
    }
}

/// A connection of HTTP/1: on the short way as long as it can be, and then on the long one.
struct Http1<H, C, F> {
    way: Way<H, C>,
    /// Begins the long way.
    long: F,
}

#[allow(clippy::large_enum_variant, reason = "most connections stay on the short way, and are not to be looked for elsewhere")]
enum Way<H, C> {
    Short(Short<H>),
    Long(Box<C>),
    /// From the one to the other.
    Between,
}

impl<H: Handler, C: Connection, F: Fn(Io) -> C> Connection for Http1<H, C, F> {
    const CAN_TELL: bool = C::CAN_TELL;

    fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<Result<(), ConnectionFailure>> {
        if let Way::Short(short) = &mut self.way {
            match ready!(short.poll(context)) {
                Ok(Ended::Closed) => return Poll::Ready(Ok(())),
                Ok(Ended::Left) => {}
                Err(why) => return Poll::Ready(Err(why)),
            }
            if let Way::Short(short) = std::mem::replace(&mut self.way, Way::Between) {
                self.way = Way::Long(Box::new((self.long)(short.into_io())));
            }
        }
        match &mut self.way {
            Way::Long(connection) => connection.poll_end(context),
            Way::Short(_) | Way::Between => Poll::Ready(Ok(())),
        }
    }

    fn finish(&mut self) {
        match &mut self.way {
            Way::Short(short) => short.finish(),
            Way::Long(connection) => connection.finish(),
            Way::Between => {}
        }
    }
}

/// Serves a connection until it ends.
pub(super) async fn serve<H: Handler>(socket: Plain, peer: Peer, place: Place) {
    let shared = Arc::clone(place.shared());
    let greeted = tokio::select! {
        greeted = timeout(shared.app.settings.limits.read_timeout, greet(socket, peer, &place)) => greeted,
        // Who has said nothing by then has lost nothing.
        () = lingered(&shared) => return,
    };
    let Greeted { stream, first, is_http2, peer } = match greeted {
        Ok(Ok(Some(greeted))) => greeted,
        Ok(Ok(None)) => return,
        Ok(Err(why)) => return place.failed(why),
        Err(_) => return place.failed(ConnectionFailure::Timeout),
    };
    let activity = Activity::new(Arc::clone(&shared.app));
    let io = Io::new(stream, &first, Arc::clone(&activity));
    let port = place.port();
    let service = {
        let activity = Arc::clone(&activity);
        service_fn(move |request| answer::<H>(&activity, port, peer, request))
    };
    let end = if is_http2 {
        let is_of_many = port == Port::Proxy && shared.app.proxy.as_ref().is_some_and(|proxy| proxy.trusts(peer));
        let protocol = if is_of_many { &shared.protocols.http2_of_many } else { &shared.protocols.http2 };
        let mut connection = protocol.serve_connection(TokioIo::new(io), service);
        drive(&mut connection, &activity, &place).await
    } else {
        let long = |io: Io| {
            let io = if H::PASSES_ON { io.following() } else { io };
            shared.protocols.http1.serve_connection(TokioIo::new(io), service.clone())
        };
        let mut connection = Http1 { way: Way::Short(Short::<H>::new(io, Arc::clone(&activity), port, peer)), long };
        let end = drive(&mut connection, &activity, &place).await;
        if let Way::Long(connection) = connection.way {
            let parts = connection.into_parts();
            match (end, activity.take_tunnel()) {
                (End::SlowHead, _) => say_too_slow(parts.io.into_inner()).await,
                (End::Finished, Some(tunnel)) => {
                    // What is rare lies elsewhere: every connection has room for what does not.
                    Box::pin(drive_tunnel(parts.io.into_inner().not_following(), parts.read_buf, tunnel, &shared)).await;
                }
                _ => {}
            }
        }
        end
    };
    match end {
        End::Finished => {}
        End::Broken(why) => place.failed(why),
        End::SlowHead | End::Stuck => place.failed(ConnectionFailure::Timeout),
    }
}

/// A connection of which it is clear what is spoken.
struct Greeted {
    stream: Stream,
    first: First,
    is_http2: bool,
    peer: Peer,
}

/// Reads until it is clear what is spoken: TLS or not, HTTP/2 or not. `None` if the other side went without a word.
async fn greet(mut socket: Plain, peer: Peer, place: &Place) -> Result<Option<Greeted>, ConnectionFailure> {
    let peer = match introduced(&mut socket, peer, place).await {
        Ok(peer) => peer,
        Err(NoHeader::Nothing) => return Ok(None),
        Err(NoHeader::Garbage) => return Err(ConnectionFailure::Protocol),
    };
    let mut first = First::default();
    let mut stream = match place.shared().certificates_of(place.port()) {
        None => Stream::Plain(socket),
        Some(certificates) => {
            let acceptor = TlsAcceptor::from(certificates.current());
            let stream = acceptor.accept(socket).await.map_err(|_| ConnectionFailure::Tls)?;
            let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
            let stream = Stream::Tls(Box::new(stream));
            if is_http2 {
                return Ok(Some(Greeted { stream, first, is_http2, peer }));
            }
            stream
        }
    };
    let is_http2 = first.is_http2(&mut stream).await.map_err(|error| failure(&error))?;
    Ok(is_http2.map(|is_http2| Greeted { stream, first, is_http2, peer }))
}

/// Who is at the other end, if a load balancer stands between and has to say so.
async fn introduced(socket: &mut Plain, peer: Peer, place: &Place) -> Result<Peer, NoHeader> {
    let proxy = place.shared().app.settings.proxy.as_ref().filter(|_| place.port() == Port::Proxy);
    if !proxy.is_some_and(|proxy| proxy.is_introduced(peer)) {
        return Ok(peer);
    }
    let from = proxied::read(socket).await?;
    // The same client has the same name, however it was written.
    Ok(Peer { address: from.map(|address| address.to_canonical()).or(peer.address) })
}

/// Waits until the server closes, and then a little for requests that are on their way.
async fn lingered(shared: &Shared) {
    let mut phase = shared.phase.subscribe();
    // The sender lives in what is shared.
    let _ = phase.wait_for(|phase| *phase >= Phase::Closing).await;
    tokio::time::sleep(LINGER).await;
}

/// Passes bytes on until one side has ended, or the server cuts.
async fn drive_tunnel(io: Io, first: Bytes, tunnel: Tunnel, shared: &Shared) {
    let mut phase = shared.phase.subscribe();
    tokio::select! {
        biased;
        // The sender lives in what is shared.
        _ = phase.wait_for(|phase| *phase == Phase::Cut) => {}
        () = tunnel.run(io, first) => {}
    }
}

/// Says so and goes.
async fn say_too_slow(mut io: Io) {
    // What does not fit into the socket soon is not worth waiting for.
    let _ = timeout(LINGER, async { io.write_all(TOO_SLOW).await.and(io.shutdown().await) }).await;
}

fn failure(error: &io::Error) -> ConnectionFailure {
    match error.kind() {
        io::ErrorKind::InvalidData => ConnectionFailure::Tls,
        _ => ConnectionFailure::Io,
    }
}

//! From the address of a server to a connection that takes requests.

use std::io;
use std::time::Duration;

use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::rustls::{self, pki_types::ServerName};

use super::group::Group;
use super::heard::Heard;
use super::line::Line;
use super::request_body::RequestBody;
use super::server::Server;
use super::settings::UpstreamProtocol;

/// The most bytes of a response's head. Servers are trusted more than clients, and still not with all memory.
const HEAD_BYTES_MAX: u16 = u16::MAX;

/// HTTP/2: the bytes that a response may send ahead of its client, and all responses of a connection: as much as the protocol allows, because clients
/// that do not read would use up any less, and those that do would wait for them.
const STREAM_WINDOW: u32 = 128 * 1_024;
const CONNECTION_WINDOW: u32 = (1 << 31) - 1;

/// HTTP/2: after how much silence a server is asked whether it is still there, and how long it has to say so.
const PING_AFTER: Duration = Duration::from_secs(10);
const PONG_WITHIN: Duration = Duration::from_secs(10);

/// The most fields of a response. It is the bytes of a head that are scarce.
const FIELDS_MAX: usize = 1_024;

/// After how much silence the system asks whether a server is still there.
const KEEP_ALIVE: TcpKeepalive =
    TcpKeepalive::new().with_time(Duration::from_secs(30)).with_interval(Duration::from_secs(10)).with_retries(3);

/// Why there is no connection. Nothing was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DialError {
    /// Nobody is there, or it is somebody who does not speak HTTP.
    Refused,
    /// There is no TLS with it that could be trusted.
    Tls,
    /// It took too long.
    Late,
}

impl DialError {
    pub(crate) const ALL: [Self; 3] = [Self::Refused, Self::Tls, Self::Late];

    /// The word for metrics.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Tls => "tls",
            Self::Late => "late",
        }
    }

    pub(super) fn of(error: &io::Error) -> Self {
        match error.get_ref() {
            Some(inner) if inner.is::<rustls::Error>() => Self::Tls,
            _ => Self::Refused,
        }
    }
}

/// A connection of HTTP/1 for one request at a time.
pub(super) async fn http1(server: &Server, group: &Group) -> io::Result<Line> {
    connect(server, group).await.map(Line::new)
}

/// The same, driven by a task of its own.
pub(super) async fn driven(stream: Box<dyn Stream>) -> io::Result<http1::SendRequest<RequestBody>> {
    let stream = TokioIo::new(Heard::new(stream));
    let mut builder = http1::Builder::new();
    builder.max_header_size(HEAD_BYTES_MAX.into()).max_buf_size(HEAD_BYTES_MAX.into()).max_headers(FIELDS_MAX);
    let (sender, connection) = builder.handshake(stream).await.map_err(io::Error::other)?;
    // What breaks it is told to those who wait for an answer.
    tokio::spawn(async move { drop(connection.with_upgrades().await) });
    Ok(sender)
}

/// A connection of HTTP/2 for many requests at a time.
pub(super) async fn http2(server: &Server, group: &Group) -> io::Result<http2::SendRequest<RequestBody>> {
    let stream = TokioIo::new(connect(server, group).await?);
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .initial_connection_window_size(CONNECTION_WINDOW)
        .initial_stream_window_size(STREAM_WINDOW)
        .max_header_list_size(HEAD_BYTES_MAX.into())
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_AFTER)
        .keep_alive_timeout(PONG_WITHIN);
    let (sender, connection) = builder.handshake(stream).await.map_err(io::Error::other)?;
    tokio::spawn(async move { drop(connection.await) });
    Ok(sender)
}

/// A connection to a server, with TLS or without.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

async fn connect(server: &Server, group: &Group) -> io::Result<Box<dyn Stream>> {
    let stream = tcp(server).await?;
    let Some(connector) = group.connector(&server.url).map_err(io::Error::other)? else { return Ok(Box::new(stream)) };
    let name = ServerName::try_from(server.url.host.clone()).map_err(io::Error::other)?;
    let stream = connector.connect(name, stream).await?;
    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    // A server that does not know what was asked for would take the first request for garbage.
    if group.settings.protocol == UpstreamProtocol::Http2 && !is_http2 {
        return Err(io::Error::other("the server does not speak HTTP/2"));
    }
    Ok(Box::new(stream))
}

async fn tcp(server: &Server) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(server.address).await?;
    stream.set_nodelay(true)?;
    SockRef::from(&stream).set_tcp_keepalive(&KEEP_ALIVE)?;
    Ok(stream)
}

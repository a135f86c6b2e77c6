//! From the address of a server to a connection that takes requests.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::rustls::pki_types::ServerName;

use super::group::Group;
use super::or_never;
use super::request_body::RequestBody;
use super::settings::{ServerUrl, UpstreamProtocol};

/// The most bytes of a response's head. Servers are trusted more than clients, and still not with all memory.
const HEAD_BYTES_MAX: u16 = u16::MAX;

/// HTTP/2: the bytes that all responses of a connection, and one of them, may send ahead of their clients.
const CONNECTION_WINDOW: u32 = 1_024 * 1_024;
const STREAM_WINDOW: u32 = 128 * 1_024;

/// After how much silence the system asks whether a server is still there.
const KEEP_ALIVE: TcpKeepalive =
    TcpKeepalive::new().with_time(Duration::from_secs(30)).with_interval(Duration::from_secs(10)).with_retries(3);

/// Why there is no connection. Nothing was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DialError {
    /// Nobody is there, or it is somebody who does not speak HTTP.
    Refused,
    /// It took too long.
    Late,
}

/// A connection of HTTP/1 for one request at a time.
pub(super) async fn http1(url: &ServerUrl, group: &Group) -> Result<http1::SendRequest<RequestBody>, DialError> {
    within(group, async {
        let stream = TokioIo::new(connect(url, group).await?);
        let mut builder = http1::Builder::new();
        builder.max_header_size(HEAD_BYTES_MAX.into()).max_buf_size(HEAD_BYTES_MAX.into());
        let (sender, connection) = builder.handshake(stream).await.map_err(io::Error::other)?;
        // What breaks it is told to those who wait for an answer.
        tokio::spawn(async move { drop(connection.with_upgrades().await) });
        Ok(sender)
    })
    .await
}

/// A connection of HTTP/2 for many requests at a time.
pub(super) async fn http2(url: &ServerUrl, group: &Group) -> Result<http2::SendRequest<RequestBody>, DialError> {
    within(group, async {
        let stream = TokioIo::new(connect(url, group).await?);
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder
            .initial_connection_window_size(CONNECTION_WINDOW)
            .initial_stream_window_size(STREAM_WINDOW)
            .max_header_list_size(HEAD_BYTES_MAX.into());
        let (sender, connection) = builder.handshake(stream).await.map_err(io::Error::other)?;
        tokio::spawn(async move { drop(connection.await) });
        Ok(sender)
    })
    .await
}

async fn within<T>(group: &Group, dialling: impl Future<Output = io::Result<T>>) -> Result<T, DialError> {
    match timeout(or_never(group.settings.connect_timeout), dialling).await {
        Ok(Ok(sender)) => Ok(sender),
        Ok(Err(_)) => Err(DialError::Refused),
        Err(_) => Err(DialError::Late),
    }
}

/// A connection to a server, with TLS or without.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

async fn connect(url: &ServerUrl, group: &Group) -> io::Result<Box<dyn Stream>> {
    let stream = tcp(url).await?;
    let Some(connector) = group.connector(url).map_err(io::Error::other)? else { return Ok(Box::new(stream)) };
    let name = ServerName::try_from(url.host.clone()).map_err(io::Error::other)?;
    let stream = connector.connect(name, stream).await?;
    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    // A server that does not know what was asked for would take the first request for garbage.
    if group.settings.protocol == UpstreamProtocol::Http2 && !is_http2 {
        return Err(io::Error::other("the server does not speak HTTP/2"));
    }
    Ok(Box::new(stream))
}

/// Names are looked up for each connection, so a server that moved is found.
async fn tcp(url: &ServerUrl) -> io::Result<TcpStream> {
    let stream = match url.host.parse::<IpAddr>() {
        // Looking up names takes a thread.
        Ok(address) => TcpStream::connect((address, url.port)).await?,
        Err(_) => TcpStream::connect((url.host.as_str(), url.port)).await?,
    };
    stream.set_nodelay(true)?;
    SockRef::from(&stream).set_tcp_keepalive(&KEEP_ALIVE)?;
    Ok(stream)
}

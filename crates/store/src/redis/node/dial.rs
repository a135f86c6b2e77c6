//! From an address to a connection that is logged in.

use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
#[cfg(unix)]
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use super::ServerInfo;
use super::greet::{broken, greet};
use super::stream::Stream;
use crate::redis::resp::Parser;
use crate::redis::url::{Address, Login, Tls};
use crate::store::StoreError;

/// A connection that is silent for so long is asked whether it is still there. A peer that vanished without a word is noticed before the next call.
#[cfg(unix)]
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// A connection that is logged in.
#[derive(Debug)]
pub(super) struct Dialled {
    pub(super) stream: Stream,
    pub(super) parser: Parser,
    pub(super) server: ServerInfo,
}

/// Connects and logs in, each within `connect_timeout`.
pub(super) async fn dial(address: &Address, login: &Login) -> Result<Dialled, StoreError> {
    let patience = login.connect_timeout;
    let mut stream = connect(address, login).await?;
    let mut parser = Parser::default();
    let Ok(server) = timeout(patience, greet(&mut stream, &mut parser, login)).await else {
        return Err(StoreError::unavailable(format!(
            "connected, but no answer within {patience:?}; is this the address of a Redis?"
        )));
    };
    Ok(Dialled { server: server?, stream, parser })
}

async fn connect(address: &Address, login: &Login) -> Result<Stream, StoreError> {
    let patience = login.connect_timeout;
    let deadline = Instant::now() + patience;
    let late = |_| StoreError::unavailable(format!("no connection within {patience:?}"));
    let failed = |error| StoreError::unavailable(format!("cannot connect: {error}"));
    let (host, stream) = match address {
        Address::Unix(path) => return timeout_at(deadline, unix(path)).await.map_err(late)?.map_err(failed),
        Address::Tcp { host, port } => (host, timeout_at(deadline, tcp(host, *port)).await.map_err(late)?.map_err(failed)?),
    };
    let Some(tls) = &login.tls else { return Ok(Stream::Tcp(stream)) };
    // A Redis without TLS takes the greeting for the beginning of a long command, and waits for its end.
    let late = |_| StoreError::unavailable(format!("connected, but no answer within {patience:?}; does the port speak TLS?"));
    timeout_at(deadline, secured(stream, host, tls)).await.map_err(late)?
}

async fn tcp(host: &str, port: u16) -> io::Result<TcpStream> {
    let stream = match host.parse::<IpAddr>() {
        // Looking up names takes a thread.
        Ok(ip) => TcpStream::connect((ip, port)).await?,
        Err(_) => TcpStream::connect((host, port)).await?,
    };
    stream.set_nodelay(true)?;
    keep_alive(&stream)?;
    Ok(stream)
}

#[cfg(unix)]
fn keep_alive(stream: &TcpStream) -> io::Result<()> {
    use rustix::net::sockopt;

    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, SILENCE_MAX)?;
    sockopt::set_tcp_keepintvl(stream, SILENCE_MAX / 5)?;
    sockopt::set_tcp_keepcnt(stream, 3)?;
    Ok(())
}

#[cfg(not(unix))]
fn keep_alive(_stream: &TcpStream) -> io::Result<()> {
    Ok(())
}

#[cfg(unix)]
async fn unix(path: &Path) -> io::Result<Stream> {
    tokio::net::UnixStream::connect(path).await.map(Stream::Unix)
}

#[cfg(not(unix))]
#[allow(clippy::unused_async, reason = "where there are sockets, it waits")]
async fn unix(_path: &Path) -> io::Result<Stream> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "this system has no Unix sockets; write redis://host:6379"))
}

async fn secured(stream: TcpStream, host: &str, tls: &Tls) -> Result<Stream, StoreError> {
    let Ok(name) = ServerName::try_from(host.to_owned()) else {
        return Err(StoreError::protocol(format!("{host} is a name that no certificate can have")));
    };
    let stream =
        TlsConnector::from(Arc::clone(tls.config())).connect(name, stream).await.map_err(|error| broken(&error, true))?;
    Ok(Stream::Tls(Box::new(stream)))
}

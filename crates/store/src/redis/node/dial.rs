//! From an address to a connection that is logged in.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::{TlsConnector, rustls};

use super::ServerInfo;
use super::greet::greet;
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
    let Ok(stream) = timeout(patience, connect(address, login)).await else {
        return Err(StoreError::unavailable(format!("no connection within {patience:?}")));
    };
    let mut stream = stream?;
    let mut parser = Parser::default();
    let Ok(server) = timeout(patience, greet(&mut stream, &mut parser, login)).await else {
        return Err(StoreError::unavailable(format!(
            "connected, but no answer within {patience:?}; is this the address of a Redis?"
        )));
    };
    Ok(Dialled { server: server?, stream, parser })
}

async fn connect(address: &Address, login: &Login) -> Result<Stream, StoreError> {
    let (host, port) = match address {
        Address::Tcp { host, port } => (host, *port),
        Address::Unix(path) => return unix(path).await,
    };
    let stream = tcp(host, port).await.map_err(|error| StoreError::unavailable(format!("cannot connect: {error}")))?;
    match &login.tls {
        None => Ok(Stream::Tcp(stream)),
        Some(tls) => secured(stream, host, tls).await,
    }
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
async fn unix(path: &std::path::Path) -> Result<Stream, StoreError> {
    let stream = tokio::net::UnixStream::connect(path).await;
    stream.map(Stream::Unix).map_err(|error| StoreError::unavailable(format!("cannot connect: {error}")))
}

#[cfg(not(unix))]
async fn unix(_path: &std::path::Path) -> Result<Stream, StoreError> {
    Err(StoreError::unavailable("this system has no Unix sockets; write redis://host:6379"))
}

async fn secured(stream: TcpStream, host: &str, tls: &Tls) -> Result<Stream, StoreError> {
    let Ok(name) = ServerName::try_from(host.to_owned()) else {
        return Err(StoreError::protocol(format!("{host} is a name that no certificate can have")));
    };
    let stream = TlsConnector::from(Arc::clone(tls.config())).connect(name, stream).await.map_err(|error| {
        match error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>()) {
            Some(cause) => without_tls(cause),
            None => StoreError::unavailable(format!("the connection broke while TLS was agreed upon: {error}")),
        }
    })?;
    Ok(Stream::Tls(Box::new(stream)))
}

/// Why TLS could not be agreed upon. That nothing is wrong with the network makes it no better: until somebody mends it, it fails.
pub(super) fn without_tls(cause: &rustls::Error) -> StoreError {
    use rustls::{AlertDescription, Error};

    let why = match cause {
        Error::InvalidMessage(_) => {
            return StoreError::protocol(
                "the peer does not speak TLS; write redis:// if the server has none, or the port that has it",
            );
        }
        Error::InvalidCertificate(_) => {
            format!("the certificate of the server is not trusted ({cause}); tls_ca names a file of authorities")
        }
        Error::AlertReceived(AlertDescription::CertificateRequired) => {
            "the server wants a certificate; tls_cert and tls_key name its files".to_owned()
        }
        _ => format!("no agreement on TLS: {cause}"),
    };
    StoreError::Access { why: why.into() }
}

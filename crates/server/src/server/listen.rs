//! Sockets that listen, and where.

#[cfg(unix)]
mod file;

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::task::{Context, Poll};
use std::time::Duration;

#[cfg(target_os = "linux")]
use socket2::SockFilter;
use socket2::{Domain, SockRef, Socket, TcpKeepalive, Type};
use tokio::net::TcpListener;

use super::error::StartError;
use super::stream::{Loose, Plain};
use crate::app::Peer;
use crate::metrics::Port;
use crate::settings::Listen;

#[cfg(unix)]
pub(super) use file::SocketFile;

/// There are none.
#[cfg(not(unix))]
#[derive(Debug)]
pub(super) enum SocketFile {}

/// How many connections wait until they are taken. The system cuts it to what it allows.
const BACKLOG: i32 = 4_096;

/// After how much silence the system asks whether the other side is still there, and how often it asks before it gives up. That costs nothing on the
/// path of a request, and finds peers that vanished behind both versions of HTTP.
const KEEP_ALIVE: TcpKeepalive =
    TcpKeepalive::new().with_time(Duration::from_mins(1)).with_interval(Duration::from_secs(10)).with_retries(3);

/// A program for the filter of a socket (`man 7 socket`, `SO_ATTACH_FILTER`): drops what begins a connection, SYN without ACK. Who is not answered asks again
/// after a second, and is refused if nobody else listens then.
#[cfg(target_os = "linux")]
static NO_BEGINNING: [SockFilter; 5] = {
    const FLAGS_AT: u32 = 13;
    const SYN: u32 = 0x02;
    const ACK: u32 = 0x10;
    [
        // The flags of a segment, of them SYN and ACK, and whether that is SYN alone.
        SockFilter::new(0x30, 0, 0, FLAGS_AT),
        SockFilter::new(0x54, 0, 0, SYN | ACK),
        SockFilter::new(0x15, 0, 1, SYN),
        // None of its bytes are let through, or all.
        SockFilter::new(0x06, 0, 0, 0),
        SockFilter::new(0x06, 0, 0, u32::MAX),
    ]
};

/// Where a port listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// An address and a port.
    Tcp(SocketAddr),
    /// A socket in the file system.
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A socket that listens, and that no runtime knows yet.
pub(super) enum Listener {
    /// On an address.
    Tcp(std::net::TcpListener),
    /// In the file system.
    #[cfg(unix)]
    Unix(std::os::unix::net::UnixListener, Option<SocketFile>),
}

/// The same, known to a runtime.
pub(super) enum Accepting {
    Tcp(TcpListener),
    #[cfg(unix)]
    Unix(tokio::net::UnixListener),
}

/// Listens. A name may stand for several addresses; all of them are listened on.
pub(super) fn bind(port: Port, listen: &Listen, is_shared: bool) -> Result<Vec<Listener>, StartError> {
    match listen {
        Listen::Tcp { host, port: number } => bind_tcp(port, host, *number, is_shared),
        Listen::Unix { path } => bind_unix(port, path),
    }
}

fn bind_tcp(port: Port, host: &str, number: u16, is_shared: bool) -> Result<Vec<Listener>, StartError> {
    let unknown = |why| StartError::NoSuchName { port, host: host.to_owned(), why };
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let mut addresses: Vec<SocketAddr> = (bare, number).to_socket_addrs().map_err(unknown)?.collect();
    addresses.sort_by_key(|address| (address.is_ipv6(), *address));
    addresses.dedup();
    let mut bound: Vec<Listener> = Vec::new();
    let mut missing = None;
    for mut address in addresses {
        // A free port is chosen once, and is the same on all addresses of the name.
        if let Some(Ok(Address::Tcp(first))) = bound.first().map(Listener::address) {
            address.set_port(first.port());
        }
        match listen_on(address, is_shared) {
            Ok(listener) => bound.push(Listener::Tcp(listener)),
            // `localhost` also means ::1 on machines that have no IPv6.
            Err(why) if is_no_such_address(&why) => missing = Some(StartError::listen(port, address.to_string(), why)),
            Err(why) => return Err(StartError::listen(port, address.to_string(), why)),
        }
    }
    match missing {
        _ if !bound.is_empty() => Ok(bound),
        Some(error) => Err(error),
        None => Err(unknown(io::ErrorKind::NotFound.into())),
    }
}

/// Whether an address can be left out if the name has others.
fn is_no_such_address(error: &io::Error) -> bool {
    !matches!(error.kind(), io::ErrorKind::AddrInUse | io::ErrorKind::PermissionDenied)
}

fn listen_on(address: SocketAddr, is_shared: bool) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    if let SocketAddr::V6(address) = address {
        // [::] is everybody; other addresses are what they are.
        socket.set_only_v6(!address.ip().is_unspecified())?;
    }
    // Otherwise a restarted service would wait for a minute until the connections of its predecessor are forgotten.
    #[cfg(unix)]
    socket.set_reuse_address(true)?;
    #[cfg(unix)]
    socket.set_reuse_port(is_shared)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

#[cfg(unix)]
fn bind_unix(port: Port, path: &Path) -> Result<Vec<Listener>, StartError> {
    file::bind(port, path).map(|(listener, file)| vec![Listener::Unix(listener, Some(file))])
}

#[cfg(not(unix))]
fn bind_unix(port: Port, path: &Path) -> Result<Vec<Listener>, StartError> {
    Err(StartError::listen(port, path.display().to_string(), io::ErrorKind::Unsupported.into()))
}

impl Listener {
    /// Where it listens.
    pub(super) fn address(&self) -> io::Result<Address> {
        match self {
            Self::Tcp(listener) => listener.local_addr().map(Address::Tcp),
            #[cfg(unix)]
            Self::Unix(listener, _) => {
                listener.local_addr().map(|address| Address::Unix(address.as_pathname().unwrap_or(Path::new("")).to_owned()))
            }
        }
    }

    /// The file of a unix socket.
    pub(super) fn take_file(&mut self) -> Option<SocketFile> {
        match self {
            Self::Tcp(_) => None,
            #[cfg(unix)]
            Self::Unix(_, file) => file.take(),
        }
    }

    /// Takes a connection that waits, if there is one.
    pub(super) fn accept(&self) -> io::Result<(Loose, Peer)> {
        match self {
            Self::Tcp(listener) => {
                let (stream, address) = listener.accept()?;
                stream.set_nonblocking(true)?;
                set_options(&SockRef::from(&stream));
                Ok((Loose::Tcp(stream), Peer { address: Some(address.ip().to_canonical()) }))
            }
            #[cfg(unix)]
            Self::Unix(listener, _) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true)?;
                Ok((Loose::Unix(stream), Peer { address: None }))
            }
        }
    }

    /// Asks the system to begin no more connections, as far as it can be asked: those that it has can still be taken. Whether some may have begun that it
    /// does not have yet.
    #[cfg(target_os = "linux")]
    pub(super) fn begin_no_more(&self) -> bool {
        match self {
            Self::Tcp(listener) => SockRef::from(listener).attach_filter(&NO_BEGINNING).is_ok(),
            // Those that are connected stay in the queue, and others are refused.
            Self::Unix(listener, _) => {
                let _ = SockRef::from(listener).shutdown(std::net::Shutdown::Read);
                false
            }
        }
    }

    /// Other systems cannot be asked.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn begin_no_more(&self) -> bool {
        false
    }

    /// Makes it known to the runtime of the caller.
    pub(super) fn accepting(self) -> io::Result<Accepting> {
        match self {
            Self::Tcp(listener) => TcpListener::from_std(listener).map(Accepting::Tcp),
            #[cfg(unix)]
            Self::Unix(listener, _) => tokio::net::UnixListener::from_std(listener).map(Accepting::Unix),
        }
    }
}

/// A socket whose other end is gone already refuses options; that shows when it is read.
fn set_options(socket: &SockRef<'_>) {
    let _ = socket.set_tcp_nodelay(true);
    let _ = socket.set_tcp_keepalive(&KEEP_ALIVE);
}

impl Accepting {
    /// Takes it out of the runtime of the caller.
    pub(super) fn into_listener(self) -> io::Result<Listener> {
        match self {
            Self::Tcp(listener) => listener.into_std().map(Listener::Tcp),
            #[cfg(unix)]
            Self::Unix(listener) => listener.into_std().map(|listener| Listener::Unix(listener, None)),
        }
    }

    /// Takes the next connection.
    pub(super) fn poll_accept(&self, context: &mut Context<'_>) -> Poll<io::Result<(Plain, Peer)>> {
        match self {
            Self::Tcp(listener) => listener.poll_accept(context).map_ok(|(stream, address)| {
                set_options(&SockRef::from(&stream));
                (Plain::Tcp(stream), Peer { address: Some(address.ip().to_canonical()) })
            }),
            #[cfg(unix)]
            Self::Unix(listener) => {
                listener.poll_accept(context).map_ok(|(stream, _)| (Plain::Unix(stream), Peer { address: None }))
            }
        }
    }
}

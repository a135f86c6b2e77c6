//! Why a server does not start, and what to do about it.

use std::io;
use std::path::PathBuf;

use crate::metrics::Port;

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Somebody else listens there.
    #[error(
        "{}.listen: {address} is in use; stop the program that listens there, or choose another port (0 is any free one)",
        port.as_str()
    )]
    InUse {
        /// Which port.
        port: Port,
        /// Where.
        address: String,
    },
    /// The system forbids it.
    #[error(
        "{}.listen: no permission to listen on {address}; ports below 1024 need the capability CAP_NET_BIND_SERVICE, and a unix socket \
         a folder that may be written to",
        port.as_str()
    )]
    NoPermission {
        /// Which port.
        port: Port,
        /// Where.
        address: String,
    },
    /// The name of a host means nothing here.
    #[error("{}.listen: no address is known for {host:?} ({why}); name an address of this machine, such as 127.0.0.1 or 0.0.0.0", port.as_str())]
    NoSuchName {
        /// Which port.
        port: Port,
        /// The name.
        host: String,
        /// What the system says.
        why: io::Error,
    },
    /// The address belongs to another machine.
    #[error("{}.listen: {address} is no address of this machine; 127.0.0.1 is for itself only, 0.0.0.0 and [::] are for everybody", port.as_str())]
    NotHere {
        /// Which port.
        port: Port,
        /// Where.
        address: String,
    },
    /// The access log cannot be written.
    #[error("access_log.to: {0}; name a file in a folder that may be written to, or `stdout`")]
    AccessLog(io::Error),
    /// The path of a unix socket holds something else.
    #[error("{}.listen: {} is there and no socket; remove it, or choose another path", port.as_str(), path.display())]
    NoSocket {
        /// Which port.
        port: Port,
        /// Where.
        path: PathBuf,
    },
    /// Anything else that keeps a port from listening.
    #[error("{}.listen: cannot listen on {address} ({why})", port.as_str())]
    Listen {
        /// Which port.
        port: Port,
        /// Where.
        address: String,
        /// What the system says.
        why: io::Error,
    },
    /// A certificate cannot be used.
    #[error("{0}")]
    Tls(String),
    /// The system has no thread, or no event queue, left.
    #[error("the system has no thread or no event queue left ({0}); allow this process more of them, or set fewer workers")]
    System(io::Error),
}

impl StartError {
    pub(super) fn listen(port: Port, address: String, why: io::Error) -> Self {
        match why.kind() {
            io::ErrorKind::AddrInUse => Self::InUse { port, address },
            io::ErrorKind::PermissionDenied => Self::NoPermission { port, address },
            io::ErrorKind::AddrNotAvailable => Self::NotHere { port, address },
            _ => Self::Listen { port, address, why },
        }
    }
}

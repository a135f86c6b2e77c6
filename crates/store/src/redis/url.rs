//! What an address says: where the servers are, who we are to them, and how they are spoken to.
//!
//! | address | means |
//! | --- | --- |
//! | `redis://user:p%40ss@host:6379/0` | one server; user, password, port and database may be left out |
//! | `unix:///run/redis.sock?db=1` | one server on this machine; `unix://user:password@/run/redis.sock` with a password |
//! | `redis+sentinel://h1:26379,h2,h3/mymaster/0` | the primary that these sentinels call `mymaster`; the database may be left out |
//! | `redis+cluster://h1:7000,h2:7001` | a cluster, by some of its servers |
//!
//! `rediss` for `redis` speaks TLS, and `valkey` may be written for `redis`. An IPv6 address stands in brackets: `redis://[::1]:6379`.
//! Whatever has a meaning in an address (`@ : / ? # % ,` and spaces) is percent-encoded in users, passwords and names.
//!
//! | parameter | means | default |
//! | --- | --- | --- |
//! | `db` | the number of the database; not on a cluster | 0 |
//! | `prefix` | how the keys of the limiter begin: 1 to 32 printable ASCII characters without spaces and braces | `tg:` |
//! | `connect_timeout` | how long connecting may take, and the handshake again: `500ms`, `2s` | `1s` |
//! | `client_name` | the name in the server's list of clients | `tidegate` |
//! | `tls_ca` | a PEM file with the authorities to trust, instead of the system's | |
//! | `tls_cert`, `tls_key` | PEM files: the certificate by which the server knows us, and its key | |
//! | `tls_insecure` | `true`: any certificate of the server will do. Whoever is on the way can read and change everything, the password too | `false` |
//! | `sentinel_username`, `sentinel_password` | who we are to the sentinels | nobody |

mod error;
mod parameter;
mod parse;
mod secret;
mod show;
mod tls;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use error::UrlError;
pub use secret::Secret;
pub use tls::Tls;

/// The longest address that is read.
pub const URL_BYTES_MAX: usize = 4_096;

/// How keys begin unless the address says otherwise.
const PREFIX: &str = "tg:";

/// What an address says.
///
/// Neither [`Debug`] nor [`Display`](std::fmt::Display) shows a password.
///
/// ```
/// use tidegate_store::redis::url::{Address, RedisConfig, Topology};
///
/// let config = RedisConfig::parse("redis://ada:p%40ss@redis.example/3").unwrap();
/// assert_eq!(config.topology, Topology::Single(Address::tcp("redis.example", 6379)));
/// assert_eq!(config.login.database, 3);
/// assert_eq!(config.to_string(), "redis://ada:***@redis.example:6379/3");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedisConfig {
    /// Where the servers are.
    pub topology: Topology,
    /// How the servers that hold the counters are spoken to.
    pub login: Arc<Login>,
    /// How all keys begin.
    pub prefix: Vec<u8>,
}

/// Where the servers are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Topology {
    /// One server.
    Single(Address),
    /// A primary and its replicas, watched by sentinels.
    Sentinel {
        /// Where to ask for the primary; at least one.
        sentinels: Vec<Address>,
        /// What the sentinels call it.
        name: String,
        /// How the sentinels are spoken to.
        login: Arc<Login>,
    },
    /// Servers that share the slots.
    Cluster {
        /// Where to ask for all of them; at least one.
        seeds: Vec<Address>,
    },
}

/// Where one server is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Address {
    /// A host and a port.
    Tcp {
        /// A name or an IP address, without brackets.
        host: Box<str>,
        /// The port.
        port: u16,
    },
    /// A socket in the file system.
    Unix(PathBuf),
}

impl Address {
    /// A host and a port.
    pub fn tcp(host: impl Into<Box<str>>, port: u16) -> Self {
        Self::Tcp { host: host.into(), port }
    }
}

/// How a server is spoken to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    /// The user; without one, the server's default user.
    pub username: Option<String>,
    /// The password; without one, nothing is said about who we are.
    pub password: Option<Secret>,
    /// TLS, if it is spoken.
    pub tls: Option<Tls>,
    /// The number of the database.
    pub database: u32,
    /// The name in the server's list of clients.
    pub client_name: String,
    /// How long connecting may take, and the handshake again.
    pub connect_timeout: Duration,
    /// A connection on which the oldest call is unanswered for so long is given up.
    pub stall_limit: Duration,
}

impl Default for Login {
    fn default() -> Self {
        Self {
            username: None,
            password: None,
            tls: None,
            database: 0,
            client_name: "tidegate".to_owned(),
            connect_timeout: Duration::from_secs(1),
            stall_limit: Duration::from_secs(10),
        }
    }
}

impl RedisConfig {
    /// Reads an address. Files that it names are read too, so that a mistake is said here and not at the first decision.
    ///
    /// # Errors
    /// The address is no such address; the error says what to write instead, and never shows the password.
    pub fn parse(url: &str) -> Result<Self, UrlError> {
        parse::parse(url)
    }
}

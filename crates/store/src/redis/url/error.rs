//! What can be wrong with an address, and what to write instead.
//!
//! Of the address itself an error shows only what can be no part of a password: a scheme, the name of a parameter, the path of a file.

use std::path::PathBuf;

/// Why an address was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// Nothing is there.
    #[error("the address of the store is empty; write redis://host:6379/0")]
    Empty,
    /// Longer than [`URL_BYTES_MAX`](super::URL_BYTES_MAX).
    #[error(
        "the address of the store has {bytes} bytes, and may have 4096; name fewer servers, the others are found by asking these"
    )]
    TooLong {
        /// How long it is.
        bytes: usize,
    },
    /// A space or a control character.
    #[error("the address of the store has a space or a control character in it; write it percent-encoded, a space as %20")]
    Blank,
    /// No `://`.
    #[error("the address of the store has no scheme; write redis://host:6379/0")]
    NoScheme,
    /// A scheme that is none of ours.
    #[error(
        "the address of the store has the unknown scheme {scheme:?}; write one of redis, rediss, unix, redis+sentinel, rediss+sentinel, \
             redis+cluster, rediss+cluster, or valkey for redis"
    )]
    UnknownScheme {
        /// As it is written; empty if it can be no scheme at all.
        scheme: String,
    },
    /// A user, or a password in its place.
    #[error("the address of the store has a user without a password; write redis://:password@host or redis://user:password@host")]
    UserWithoutPassword,
    /// A character in the user, the password or elsewhere that means something else there.
    #[error("the address of the store has a {character:?} where it means something else; in a user or a password write it as %{:02X}", u32::from(*.character))]
    Unescaped {
        /// The character.
        character: char,
    },
    /// A `%` without two hexadecimal digits, or bytes that are no UTF-8.
    #[error("the address of the store has a wrong percent-encoding; a percent sign itself is written as %25")]
    PercentEncoding,
    /// No host.
    #[error("the address of the store has no host; write redis://host:6379/0")]
    MissingHost,
    /// Something that can be no host.
    #[error(
        "the address of the store has a host that can be none; write a name, an IPv4 address, or an IPv6 address in brackets as in redis://[::1]:6379"
    )]
    Host,
    /// Something that is no port.
    #[error(
        "the address of the store has a port that is no number from 1 to 65535; if it is meant as a password, write redis://user:password@host"
    )]
    Port,
    /// Several hosts where there can be one.
    #[error("the address of the store has several hosts; write redis+cluster:// or redis+sentinel:// for several servers")]
    SeveralHosts,
    /// Something after the host that has no meaning there.
    #[error(
        "the address of the store has a path that means nothing; write redis://host:6379/0, redis+sentinel://host/name/0 or redis+cluster://host"
    )]
    Path,
    /// No path where a socket should be.
    #[error("the address of the store has no path of a socket; write unix:///run/redis.sock, with three slashes")]
    SocketPath,
    /// A sentinel without the name of what it watches.
    #[error(
        "the address of the store does not say which primary the sentinels are asked for; write redis+sentinel://host:26379/mymaster"
    )]
    MissingName,
    /// A database that is no number.
    #[error("the address of the store has a database that is no number from 0 to 2147483647; write redis://host:6379/0")]
    Database,
    /// The database twice.
    #[error("the address of the store names the database twice; write it after the host, or as db=")]
    DatabaseTwice,
    /// A database other than 0 on a cluster.
    #[error("the address of the store names a database, and a cluster has only one; leave it out, or set a prefix= instead")]
    DatabaseOnCluster,
    /// A parameter that is not known.
    #[error("the address of the store has the unknown parameter {name:?}; known are {}", super::parameter::KNOWN.join(", "))]
    UnknownParameter {
        /// As it is written; empty if it can be no name at all.
        name: String,
    },
    /// A parameter without `=`.
    #[error("the address of the store has the parameter {name} without a value; write {name}=...")]
    ParameterWithoutValue {
        /// Its name.
        name: &'static str,
    },
    /// The same parameter again.
    #[error("the address of the store has the parameter {name} twice; write it once")]
    ParameterTwice {
        /// Its name.
        name: &'static str,
    },
    /// A parameter with a value that it cannot have.
    #[error("the address of the store has a wrong {name}; write {expected}")]
    ParameterValue {
        /// Its name.
        name: &'static str,
        /// What it may be.
        expected: &'static str,
    },
    /// A parameter for other addresses.
    #[error("the address of the store has the parameter {name}, which only belongs to {schemes}")]
    ParameterElsewhere {
        /// Its name.
        name: &'static str,
        /// Where it belongs.
        schemes: &'static str,
    },
    /// One of `tls_cert` and `tls_key`.
    #[error("the address of the store has {present} without {missing}; a certificate and its key belong together")]
    HalfCertificate {
        /// What is there.
        present: &'static str,
        /// What is not.
        missing: &'static str,
    },
    /// Authorities, and the wish not to look at them.
    #[error("the address of the store has tls_ca and tls_insecure; leave tls_insecure out, the file says whom to trust")]
    InsecureAuthorities,
    /// A file that cannot be used.
    #[error("{name} of the address of the store: {path:?} {why}")]
    File {
        /// The parameter that names it.
        name: &'static str,
        /// Which file.
        path: PathBuf,
        /// What is wrong with it, and what it should be.
        why: String,
    },
    /// No authorities of the system, and none named.
    #[error("this system trusts no authorities ({why}); name a file of them with tls_ca=")]
    NoAuthorities {
        /// What the system said.
        why: String,
    },
}

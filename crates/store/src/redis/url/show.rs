//! Addresses as text, without passwords.

use std::fmt;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::{Address, Login, RedisConfig, Topology};

/// What stands for itself in users and names.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// What stands for itself in paths.
const PATH: &AsciiSet = &PLAIN.remove(b'/');

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "{}", utf8_percent_encode(&path.to_string_lossy(), PATH)),
        }
    }
}

/// The address in its full form: with `***` for passwords, ports written out, and without parameters that only say how to connect.
impl fmt::Display for RedisConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let redis = if self.login.tls.is_some() { "rediss" } else { "redis" };
        let database = self.login.database;
        match &self.topology {
            Topology::Single(address @ Address::Tcp { .. }) => {
                write!(f, "{redis}://{}{address}/{database}", User(&self.login))
            }
            Topology::Single(address @ Address::Unix(_)) => write!(f, "unix://{}{address}?db={database}", User(&self.login)),
            Topology::Sentinel { sentinels, name, login } => {
                let name = utf8_percent_encode(name, PLAIN);
                write!(f, "{redis}+sentinel://{}{}/{name}/{database}", User(&self.login), Hosts(sentinels))?;
                let mut separator = '?';
                if let Some(user) = &login.username {
                    write!(f, "?sentinel_username={}", utf8_percent_encode(user, PLAIN))?;
                    separator = '&';
                }
                if login.password.is_some() { write!(f, "{separator}sentinel_password=***") } else { Ok(()) }
            }
            Topology::Cluster { seeds } => write!(f, "{redis}+cluster://{}{}", User(&self.login), Hosts(seeds)),
        }
    }
}

/// `user:***@`, or what there is of it.
struct User<'a>(&'a Login);

impl fmt::Display for User<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = utf8_percent_encode(self.0.username.as_deref().unwrap_or_default(), PLAIN);
        match &self.0.password {
            Some(password) => write!(f, "{user}:{password:?}@"),
            None if self.0.username.is_some() => write!(f, "{user}@"),
            None => Ok(()),
        }
    }
}

struct Hosts<'a>(&'a [Address]);

impl fmt::Display for Hosts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, address) in self.0.iter().enumerate() {
            let separator = if i == 0 { "" } else { "," };
            write!(f, "{separator}{address}")?;
        }
        Ok(())
    }
}

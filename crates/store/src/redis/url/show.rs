//! Addresses as text, without passwords.

use std::fmt;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::{Address, Login, PREFIX, RedisConfig, Topology};

/// What stands for itself in users and names.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// What stands for itself in paths and parameters.
const PATH: &AsciiSet = &PLAIN.remove(b'/').remove(b':');

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "{}", utf8_percent_encode(&path.to_string_lossy(), PATH)),
        }
    }
}

/// The address in its full form, with `***` for passwords and without parameters that are as they would be anyway.
impl fmt::Display for RedisConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let redis = if self.login.tls.is_some() { "rediss" } else { "redis" };
        let database = self.login.database;
        let user = User(&self.login);
        match &self.topology {
            Topology::Single(address @ Address::Tcp { .. }) => write!(f, "{redis}://{user}{address}/{database}")?,
            Topology::Single(address @ Address::Unix(_)) => write!(f, "unix://{user}{address}")?,
            Topology::Sentinel { sentinels, name, .. } => {
                let name = utf8_percent_encode(name, PLAIN);
                write!(f, "{redis}+sentinel://{user}{}/{name}/{database}", Hosts(sentinels))?;
            }
            Topology::Cluster { seeds } => write!(f, "{redis}+cluster://{user}{}", Hosts(seeds))?,
        }
        self.parameters().iter().enumerate().try_for_each(|(i, (name, value))| {
            let separator = if i == 0 { '?' } else { '&' };
            write!(f, "{separator}{name}={value}")
        })
    }
}

impl RedisConfig {
    /// The parameters that are not as they would be anyway, encoded.
    fn parameters(&self) -> Vec<(&'static str, String)> {
        let login = &*self.login;
        let defaults = Login::default();
        let encoded = |text: &str| utf8_percent_encode(text, PATH).to_string();
        let mut parameters = Vec::new();
        let mut add = |name, value: Option<String>| parameters.extend(value.map(|value| (name, value)));

        let is_unix = matches!(self.topology, Topology::Single(Address::Unix(_)));
        add("db", (is_unix && login.database != 0).then(|| login.database.to_string()));
        add("prefix", (self.prefix != PREFIX.as_bytes()).then(|| encoded(&String::from_utf8_lossy(&self.prefix))));
        let is_usual = login.connect_timeout == defaults.connect_timeout;
        add("connect_timeout", (!is_usual).then(|| format!("{}ms", login.connect_timeout.as_millis())));
        add("client_name", (login.client_name != defaults.client_name).then(|| encoded(&login.client_name)));
        if let Some(tls) = &login.tls {
            let path = |path: &Option<std::path::PathBuf>| path.as_ref().map(|path| encoded(&path.to_string_lossy()));
            add("tls_ca", path(&tls.files.ca));
            add("tls_cert", path(&tls.files.certificate));
            add("tls_key", path(&tls.files.key));
            add("tls_insecure", tls.is_insecure().then(|| "true".to_owned()));
        }
        if let Topology::Sentinel { login, .. } = &self.topology {
            add("sentinel_username", login.username.as_deref().map(encoded));
            add("sentinel_password", login.password.as_ref().map(|password| format!("{password:?}")));
        }
        parameters
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

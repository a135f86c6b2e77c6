//! From a text to what it says.

use std::net::Ipv6Addr;
use std::path::PathBuf;
use std::sync::Arc;

use percent_encoding::percent_decode_str;

use super::parameter::Parameters;
use super::tls::{Files, Tls};
use super::{Address, Login, PREFIX, RedisConfig, Secret, Topology, URL_BYTES_MAX, UrlError};

const PORT: u16 = 6_379;
const PORT_SENTINEL: u16 = 26_379;

/// What a scheme stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scheme {
    Single,
    Unix,
    Sentinel,
    Cluster,
}

/// An address, cut into its parts; nothing is decoded yet.
struct Parts<'a> {
    user: Option<&'a str>,
    hosts: &'a str,
    /// From its slash on.
    path: &'a str,
    query: &'a str,
}

pub(super) fn parse(url: &str) -> Result<RedisConfig, UrlError> {
    if url.is_empty() {
        return Err(UrlError::Empty);
    }
    if url.len() > URL_BYTES_MAX {
        return Err(UrlError::TooLong { bytes: url.len() });
    }
    if url.chars().any(|character| character.is_whitespace() || character.is_control()) {
        return Err(UrlError::Blank);
    }
    let (scheme, rest) = url.split_once("://").ok_or(UrlError::NoScheme)?;
    let (scheme, is_tls) = read_scheme(scheme)?;
    let parts = split(rest)?;
    let (username, password) = read_user(parts.user)?;
    let mut place = read_place(scheme, &parts)?;
    let parameters = Parameters::parse(parts.query)?;

    let database = match (place.database, parameters.db) {
        (Some(_), Some(_)) => return Err(UrlError::DatabaseTwice),
        (in_path, in_query) => in_path.or(in_query).unwrap_or(0),
    };
    if scheme == Scheme::Cluster && database != 0 {
        return Err(UrlError::DatabaseOnCluster);
    }
    let defaults = Login::default();
    let login = Login {
        username,
        password,
        tls: read_tls(is_tls, &parameters)?,
        database,
        client_name: parameters.client_name.clone().unwrap_or(defaults.client_name),
        connect_timeout: parameters.connect_timeout.unwrap_or(defaults.connect_timeout),
        stall_limit: defaults.stall_limit,
    };
    if let Topology::Sentinel { login: to_sentinel, .. } = &mut place.topology {
        let username = parameters.sentinel_username;
        let password = parameters.sentinel_password;
        *to_sentinel = Arc::new(Login { username, password, database: 0, ..login.clone() });
    } else if let Some(name) = parameters.sentinel() {
        return Err(UrlError::ParameterElsewhere { name, schemes: "redis+sentinel:// and rediss+sentinel://" });
    }
    let prefix = parameters.prefix.unwrap_or_else(|| PREFIX.to_owned()).into_bytes();
    Ok(RedisConfig { topology: place.topology, login: Arc::new(login), prefix })
}

/// The scheme, and whether it speaks TLS.
fn read_scheme(text: &str) -> Result<(Scheme, bool), UrlError> {
    let lower = text.to_ascii_lowercase();
    let (server, kind) = lower.split_once('+').map_or((lower.as_str(), None), |(server, kind)| (server, Some(kind)));
    let is_tls = match server {
        "redis" | "valkey" => Some(false),
        "rediss" | "valkeys" => Some(true),
        _ => None,
    };
    match (server, is_tls, kind) {
        ("unix", _, None) => Ok((Scheme::Unix, false)),
        (_, Some(is_tls), None) => Ok((Scheme::Single, is_tls)),
        (_, Some(is_tls), Some("sentinel")) => Ok((Scheme::Sentinel, is_tls)),
        (_, Some(is_tls), Some("cluster")) => Ok((Scheme::Cluster, is_tls)),
        _ => {
            let is_scheme = lower.len() <= 32 && lower.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
            Err(UrlError::UnknownScheme { scheme: if is_scheme { lower } else { String::new() } })
        }
    }
}

fn split(rest: &str) -> Result<Parts<'_>, UrlError> {
    // A password with such a character would be cut there, and its end taken for something else and perhaps shown.
    if rest.contains('#') {
        return Err(UrlError::Unescaped { character: '#' });
    }
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, behind) = rest.split_at(end);
    if behind.contains('@') {
        let character = if authority.contains('@') { '@' } else { behind.chars().next().unwrap_or('/') };
        return Err(UrlError::Unescaped { character });
    }
    let (user, hosts) = match authority.rsplit_once('@') {
        Some((user, _)) if user.contains('@') => return Err(UrlError::Unescaped { character: '@' }),
        Some((user, hosts)) => (Some(user), hosts),
        None => (None, authority),
    };
    let (path, query) = behind.split_once('?').unwrap_or((behind, ""));
    Ok(Parts { user, hosts, path, query })
}

/// User and password. An empty one of either is none, but a user may have an empty password.
fn read_user(text: Option<&str>) -> Result<(Option<String>, Option<Secret>), UrlError> {
    let Some(text) = text else { return Ok((None, None)) };
    let (user, password) = text.split_once(':').map_or((text, None), |(user, password)| (user, Some(password)));
    let user = Some(decode(user)?).filter(|user| !user.is_empty());
    // Most probably it is the password, which nobody would send.
    if password.is_none() && user.is_some() {
        return Err(UrlError::UserWithoutPassword);
    }
    let password = password.map(decode).transpose()?.filter(|password| !password.is_empty() || user.is_some());
    Ok((user, password.map(Secret::new)))
}

/// Where the servers are, and the database if the path names it.
struct Place {
    topology: Topology,
    database: Option<u32>,
}

fn read_place(scheme: Scheme, parts: &Parts<'_>) -> Result<Place, UrlError> {
    let path = parts.path.strip_prefix('/').unwrap_or_default();
    match scheme {
        Scheme::Unix => {
            if !parts.hosts.is_empty() || path.is_empty() {
                return Err(UrlError::SocketPath);
            }
            let socket = PathBuf::from(decode(parts.path)?);
            Ok(Place { topology: Topology::Single(Address::Unix(socket)), database: None })
        }
        Scheme::Single => {
            let mut hosts = read_hosts(parts.hosts, PORT)?.into_iter();
            match (hosts.next(), hosts.next()) {
                (Some(address), None) => Ok(Place { topology: Topology::Single(address), database: read_database(path)? }),
                (Some(_), Some(_)) => Err(UrlError::SeveralHosts),
                (None, _) => Err(UrlError::MissingHost),
            }
        }
        Scheme::Sentinel => {
            let sentinels = read_hosts(parts.hosts, PORT_SENTINEL)?;
            let (name, database) = path.split_once('/').unwrap_or((path, ""));
            let name = decode(name)?;
            if name.is_empty() {
                return Err(UrlError::MissingName);
            }
            // Who we are to the sentinels is known when the parameters are read.
            let topology = Topology::Sentinel { sentinels, name, login: Arc::default() };
            Ok(Place { topology, database: read_database(database)? })
        }
        Scheme::Cluster => {
            Ok(Place { topology: Topology::Cluster { seeds: read_hosts(parts.hosts, PORT)? }, database: read_database(path)? })
        }
    }
}

fn read_hosts(text: &str, port: u16) -> Result<Vec<Address>, UrlError> {
    text.split(',').map(|host| read_host(host, port)).collect()
}

fn read_host(text: &str, port: u16) -> Result<Address, UrlError> {
    let (host, given) = if let Some(rest) = text.strip_prefix('[') {
        let (host, behind) = rest.split_once(']').ok_or(UrlError::Host)?;
        host.parse::<Ipv6Addr>().map_err(|_| UrlError::Host)?;
        match behind.strip_prefix(':') {
            None if behind.is_empty() => (host, None),
            None => return Err(UrlError::Host),
            given => (host, given),
        }
    } else {
        let (host, given) = text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port)));
        if host.is_empty() && given.is_none_or(|port| !port.contains(':')) {
            return Err(UrlError::MissingHost);
        }
        // More colons: an IPv6 address without brackets.
        let is_host = host.len() <= 253 && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
        if !is_host || given.is_some_and(|port| port.contains(':')) {
            return Err(UrlError::Host);
        }
        (host, given)
    };
    let port = given.map_or(Ok(port), |given| number(given).and_then(|port| u16::try_from(port).ok()).ok_or(UrlError::Port))?;
    if port == 0 {
        return Err(UrlError::Port);
    }
    Ok(Address::tcp(host, port))
}

/// The database in a path; none if nothing is there.
fn read_database(path: &str) -> Result<Option<u32>, UrlError> {
    match path {
        "" => Ok(None),
        path if path.contains('/') => Err(UrlError::Path),
        path => database(path).map(Some),
    }
}

fn read_tls(is_tls: bool, parameters: &Parameters) -> Result<Option<Tls>, UrlError> {
    match (is_tls, parameters.tls()) {
        (false, None) => Ok(None),
        (false, Some(name)) => Err(UrlError::ParameterElsewhere {
            name,
            schemes: "addresses that speak TLS: rediss://, rediss+sentinel:// and rediss+cluster://",
        }),
        (true, _) => {
            let files = Files {
                ca: parameters.tls_ca.clone(),
                certificate: parameters.tls_cert.clone(),
                key: parameters.tls_key.clone(),
            };
            Tls::new(files, parameters.tls_insecure.unwrap_or(false)).map(Some)
        }
    }
}

/// The number of a database.
pub(super) fn database(text: &str) -> Result<u32, UrlError> {
    number(text).filter(|&database| database <= i32::MAX.unsigned_abs()).ok_or(UrlError::Database)
}

/// A number of digits only.
fn number(text: &str) -> Option<u32> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

/// The text that a percent-encoded one stands for.
pub(super) fn decode(text: &str) -> Result<String, UrlError> {
    let mut rest = text;
    while let Some((_, behind)) = rest.split_once('%') {
        if !behind.as_bytes().get(..2).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) {
            return Err(UrlError::PercentEncoding);
        }
        rest = behind;
    }
    percent_decode_str(text).decode_utf8().map(Into::into).map_err(|_| UrlError::PercentEncoding)
}

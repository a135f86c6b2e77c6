//! The parameters of an address.

use std::path::PathBuf;
use std::time::Duration;

use super::parse::{database, decode};
use super::{Secret, UrlError};

/// The names of all parameters.
pub(super) const KNOWN: [&str; 10] = [
    "db",
    "prefix",
    "connect_timeout",
    "client_name",
    "tls_ca",
    "tls_cert",
    "tls_key",
    "tls_insecure",
    "sentinel_username",
    "sentinel_password",
];

/// What the parameters say.
#[derive(Debug, Default)]
pub(super) struct Parameters {
    pub(super) db: Option<u32>,
    pub(super) prefix: Option<String>,
    pub(super) connect_timeout: Option<Duration>,
    pub(super) client_name: Option<String>,
    pub(super) tls_ca: Option<PathBuf>,
    pub(super) tls_cert: Option<PathBuf>,
    pub(super) tls_key: Option<PathBuf>,
    pub(super) tls_insecure: Option<bool>,
    pub(super) sentinel_username: Option<String>,
    pub(super) sentinel_password: Option<Secret>,
}

impl Parameters {
    /// Reads `name=value&name=value`.
    pub(super) fn parse(query: &str) -> Result<Self, UrlError> {
        let mut parameters = Self::default();
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            let (name, value) = parameter.split_once('=').map_or((parameter, None), |(name, value)| (name, Some(value)));
            let Some(name) = KNOWN.into_iter().find(|known| *known == name) else {
                return Err(UrlError::UnknownParameter { name: shown(name) });
            };
            let value = value.filter(|value| !value.is_empty()).ok_or(UrlError::ParameterWithoutValue { name })?;
            parameters.set(name, decode(value)?)?;
        }
        Ok(parameters)
    }

    fn set(&mut self, name: &'static str, value: String) -> Result<(), UrlError> {
        match name {
            "db" => once(&mut self.db, name, database(&value)?),
            "prefix" => once(&mut self.prefix, name, prefix(value)?),
            "connect_timeout" => once(&mut self.connect_timeout, name, connect_timeout(&value)?),
            "client_name" => once(&mut self.client_name, name, client_name(value)?),
            "tls_ca" => once(&mut self.tls_ca, name, value.into()),
            "tls_cert" => once(&mut self.tls_cert, name, value.into()),
            "tls_key" => once(&mut self.tls_key, name, value.into()),
            "tls_insecure" => once(&mut self.tls_insecure, name, tls_insecure(&value)?),
            "sentinel_username" => once(&mut self.sentinel_username, name, value),
            "sentinel_password" => once(&mut self.sentinel_password, name, Secret::new(value)),
            _ => Err(UrlError::UnknownParameter { name: shown(name) }),
        }
    }

    /// The first parameter of those that belong to TLS.
    pub(super) fn tls(&self) -> Option<&'static str> {
        let set = [
            ("tls_ca", self.tls_ca.is_some()),
            ("tls_cert", self.tls_cert.is_some()),
            ("tls_key", self.tls_key.is_some()),
            ("tls_insecure", self.tls_insecure.is_some()),
        ];
        set.into_iter().find(|(_, is_set)| *is_set).map(|(name, _)| name)
    }

    /// The first parameter of those that belong to sentinels.
    pub(super) fn sentinel(&self) -> Option<&'static str> {
        if self.sentinel_username.is_some() {
            return Some("sentinel_username");
        }
        self.sentinel_password.is_some().then_some("sentinel_password")
    }
}

fn once<T>(place: &mut Option<T>, name: &'static str, value: T) -> Result<(), UrlError> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(UrlError::ParameterTwice { name }),
    }
}

/// Braces would be a hash tag of their own, and move all counters to one slot.
fn prefix(value: String) -> Result<String, UrlError> {
    let is_plain = value.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'{' && byte != b'}');
    if is_plain && value.len() <= 32 {
        return Ok(value);
    }
    Err(UrlError::ParameterValue {
        name: "prefix",
        expected: "1 to 32 printable ASCII characters without spaces and braces, as in prefix=tg:",
    })
}

/// Servers refuse other names.
fn client_name(value: String) -> Result<String, UrlError> {
    if value.bytes().all(|byte| byte.is_ascii_graphic()) && value.len() <= 64 {
        return Ok(value);
    }
    Err(UrlError::ParameterValue {
        name: "client_name",
        expected: "1 to 64 printable ASCII characters without spaces, as in client_name=checkout",
    })
}

fn connect_timeout(value: &str) -> Result<Duration, UrlError> {
    let expected = "a time from 1ms to 60s, as in connect_timeout=500ms or connect_timeout=2s";
    let wrong = UrlError::ParameterValue { name: "connect_timeout", expected };
    let (number, millis) = match (value.strip_suffix("ms"), value.strip_suffix('s')) {
        (Some(number), _) => (number, 1),
        (None, Some(number)) => (number, 1_000),
        (None, None) => return Err(wrong),
    };
    if !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong);
    }
    let millis = number.parse::<u64>().ok().and_then(|number| number.checked_mul(millis));
    millis.filter(|millis| (1..=60_000).contains(millis)).map(Duration::from_millis).ok_or(wrong)
}

fn tls_insecure(value: &str) -> Result<bool, UrlError> {
    match value {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(UrlError::ParameterValue { name: "tls_insecure", expected: "tls_insecure=true, or leave it out" }),
    }
}

/// A name as far as it can be one; what else stands there may be anything.
fn shown(name: &str) -> String {
    let is_name = name.len() <= 32 && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    if is_name { name.to_owned() } else { String::new() }
}

//! How the service is set up, as Python hands it over: one JSON document.
//!
//! Python checks it, documents it and reads it from files, flags and the environment (`python/tidegate/service/settings.py`); what reaches this place
//! is complete. Times are in seconds.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Deserializer};
use tidegate_core::rules::address::Network;
use tidegate_engine::headers::{self, Profile};

pub use crate::proxy::ProxySettings;

/// Everything.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The port of HTTP; `None` is off.
    pub http: Option<Listener>,
    /// The port of gRPC; `None` is off.
    pub grpc: Option<Listener>,
    /// Threads that serve.
    pub workers: usize,
    /// How long a busy worker looks for the next request before it sleeps; 0 is not at all.
    #[serde(deserialize_with = "seconds")]
    pub busy_poll: Duration,
    /// Whether several processes may listen on one port.
    pub reuse_port: bool,
    /// What protects the service from its clients.
    pub limits: Limits,
    /// Which header fields are sent.
    pub headers: Headers,
    /// How descriptors are answered.
    pub rls: Rls,
    /// Who is believed that a request came from elsewhere: what they say in `X-Forwarded-*` counts.
    #[serde(deserialize_with = "networks")]
    pub trusted_gateways: Vec<Network>,
    /// The status of a denial by forward-auth, unless the caller says another.
    pub deny_status: u16,
    /// How many keys are watched for the list of those denied most.
    pub top_size: usize,
    /// How keys are shown in that list.
    pub top_keys: ShownKeys,
    /// Which decisions are kept for the control plane; `None` is none.
    #[serde(default)]
    pub events: Option<EventSettings>,
    /// Where traces go, such as `http://127.0.0.1:4318`; `None` is nowhere.
    pub otlp: Option<Otlp>,
    /// What is forwarded, and where; `None` is nothing.
    #[serde(default)]
    pub proxy: Option<ProxySettings>,
}

/// A port.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listener {
    /// Where it listens.
    pub listen: Listen,
    /// Certificates; `None` is plain text.
    pub tls: Option<Tls>,
    /// HTTP: what callers have to show in `Authorization: Bearer`; `None` is nothing.
    pub token: Option<Secret>,
    /// gRPC: whether clients may ask which services there are.
    #[serde(default)]
    pub reflection: bool,
}

/// Where a port listens.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Listen {
    /// A name or an address, and a port; 0 is any free one.
    Tcp {
        /// The name or address.
        host: String,
        /// The port.
        port: u16,
    },
    /// A socket in the file system.
    Unix {
        /// Where.
        path: PathBuf,
    },
}

/// Certificates. The files are read again when they change.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// The chain, in PEM.
    pub cert: PathBuf,
    /// The private key, in PEM.
    pub key: PathBuf,
    /// Who signs the certificates of clients; `None` asks for none.
    pub client_ca: Option<PathBuf>,
}

/// What protects the service from its clients.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// The most connections; more wait to be accepted.
    pub connections: usize,
    /// The most bytes of a request's head.
    pub head_bytes: usize,
    /// The most bytes of a request's body.
    pub body_bytes: usize,
    /// HTTP/2: the most requests at a time on one connection.
    pub streams: u32,
    /// The most checks of one batch.
    pub batch: usize,
    /// How long the head of a request, and then its body, may take; also the handshake of TLS.
    #[serde(deserialize_with = "seconds")]
    pub read_timeout: Duration,
    /// How long a connection may be idle.
    #[serde(deserialize_with = "seconds")]
    pub idle_timeout: Duration,
    /// How old a connection may become, so that clients spread over new instances; 0 is as old as it likes.
    #[serde(deserialize_with = "seconds")]
    pub connection_age: Duration,
}

/// Which header fields are sent.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Headers {
    /// `RateLimit` and `RateLimit-Policy`.
    pub standard: bool,
    /// `Retry-After` on denials.
    pub retry_after: bool,
    /// `X-RateLimit-Limit`, `-Remaining` and `-Reset`.
    pub x_ratelimit: XRateLimit,
}

/// The forms of `X-RateLimit-*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum XRateLimit {
    /// Not sent.
    Off,
    /// `Reset` is a time, in seconds since 1970.
    Epoch,
    /// `Reset` is a wait in seconds.
    Delta,
    /// As Envoy writes it: `Limit` also lists all quotas with their windows.
    Draft03,
}

impl Headers {
    /// The same, as the engine has it.
    pub fn profile(self) -> Profile {
        let x_ratelimit = match self.x_ratelimit {
            XRateLimit::Off => headers::XRateLimit::Off,
            XRateLimit::Epoch => headers::XRateLimit::Epoch,
            XRateLimit::Delta => headers::XRateLimit::Delta,
            XRateLimit::Draft03 => headers::XRateLimit::Draft03,
        };
        Profile { standard: self.standard, retry_after: self.retry_after, x_ratelimit }
    }
}

/// How descriptors are answered.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rls {
    /// When header fields, and a body on denials, are put into `response_headers_to_add` and `raw_body`.
    pub headers: Told,
    /// When `dynamic_metadata` is filled.
    pub metadata: Told,
    /// Whether nothing is ever over its limit.
    pub shadow_mode: bool,
    /// Whether a request is over only if all its descriptors are.
    pub quota_mode: bool,
}

/// When something is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Told {
    /// Never.
    Off,
    /// When the request is denied, would be denied by a rule in shadow, or was decided without the store.
    Notable,
    /// Always.
    All,
}

/// How keys are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShownKeys {
    /// As they are.
    Plain,
    /// Their first characters.
    Masked,
    /// A digest only.
    Digest,
}

/// Which decisions are kept for the control plane, until it takes them. Denied ones all are.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventSettings {
    /// The most that wait to be taken; more are dropped and counted.
    pub buffer: usize,
    /// The largest share of allowed ones, from 0 to 1.
    pub share: f64,
    /// About how many allowed ones a second: if it were more, the share becomes smaller.
    pub per_second: u32,
    /// About how many requests a second are recorded with their facts.
    pub recordings_per_second: u32,
    /// Facts that are recorded as they are; of others their digests.
    pub attributes: Vec<String>,
}

/// Where traces go.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Otlp {
    /// The base address of a collector that speaks OTLP over HTTP.
    #[serde(deserialize_with = "collector")]
    pub endpoint: ::http::Uri,
    /// The share of requests that are traced, from 0 to 1; those that were sampled before are always.
    pub share: f64,
}

/// A text that is never shown.
#[derive(Clone, Deserialize)]
#[serde(transparent)]
pub struct Secret(pub String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

pub(crate) fn networks<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Network>, D::Error> {
    let read =
        |text: String| Network::parse(&text).ok_or_else(|| serde::de::Error::custom(format_args!("{text:?} is no network")));
    Vec::<String>::deserialize(deserializer)?.into_iter().map(read).collect()
}

fn collector<'de, D: Deserializer<'de>>(deserializer: D) -> Result<::http::Uri, D::Error> {
    let text = String::deserialize(deserializer)?;
    let uri = text.parse::<::http::Uri>().ok().filter(|uri| uri.scheme_str() == Some("http") && uri.host().is_some());
    uri.ok_or_else(|| serde::de::Error::custom(format_args!("{text:?} is no address of a collector; it begins with http://")))
}

pub(crate) fn seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    Duration::try_from_secs_f64(f64::deserialize(deserializer)?).map_err(serde::de::Error::custom)
}

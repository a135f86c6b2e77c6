//! Where lines go, and how they look: the part `access_log` of the proxy's settings.

use std::path::PathBuf;

use serde::Deserialize;

/// The part.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccessLogSettings {
    /// Where lines go.
    pub to: Target,
    /// How they look.
    pub format: Format,
    /// Whether they have the query behind the path. Queries hold secrets more often than paths do.
    pub query: bool,
}

/// Where lines go.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Target {
    /// Standard output.
    Stdout,
    /// A file. It is opened again when it has been moved away.
    File {
        /// Where.
        path: PathBuf,
    },
}

/// How lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// One JSON object each.
    Json,
    /// The Common Log Format, with what it does not know behind it.
    Common,
}

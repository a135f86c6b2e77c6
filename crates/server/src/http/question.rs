//! What a check says, and the facts that it states.

use std::fmt;

use serde::de::Error;
use serde::{Deserialize, Deserializer};
use tidegate_core::rules::Request;
use tidegate_core::time::Ticks;
use tidegate_engine::engine::{CheckOptions, Facts};
use tidegate_engine::headers::Profile;

use super::number::Units;
use super::problem::Problem;
use super::text::{Map, Scalar, Text, each_parameter};
use crate::app::App;

/// The body of a check. All members are optional, and others are refused: a misspelt one would not be counted.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with the facts about a request")]
pub(super) struct Question<'a> {
    /// Who asks: the caller's word counts, whatever the rules' identity looks at.
    #[serde(borrow)]
    client_id: Option<Text<'a>>,
    /// The path of the original request, with its query if there is one.
    #[serde(borrow)]
    endpoint: Option<Text<'a>>,
    #[serde(borrow)]
    method: Option<Text<'a>>,
    #[serde(borrow)]
    host: Option<Text<'a>>,
    /// The peer of the original request.
    #[serde(borrow)]
    ip_address: Option<Text<'a>>,
    /// Anything else that rules ask for.
    #[serde(borrow, default)]
    attributes: Map<'a, Scalar<'a>>,
    /// Headers of the original request.
    #[serde(borrow, default)]
    headers: Map<'a, Option<Text<'a>>>,
    /// What it takes; if it is not said, the rules say it.
    cost: Option<Units>,
    /// The id of the slots that it takes or holds.
    #[serde(default, deserialize_with = "lease")]
    lease: Option<u128>,
    /// The longest delay of a leaky bucket that is of use.
    #[serde(default, deserialize_with = "nanoseconds")]
    max_delay: Option<Ticks>,
    /// Whether the answer tells the header fields for the client's response.
    fields: Option<bool>,
}

/// What a question says beside the facts, if its kind knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Member {
    Cost,
    Lease,
    MaxDelay,
    Fields,
}

impl Member {
    pub(super) const ALL: [Self; 4] = [Self::Cost, Self::Lease, Self::MaxDelay, Self::Fields];
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cost => "cost",
            Self::Lease => "lease",
            Self::MaxDelay => "max_delay",
            Self::Fields => "fields",
        })
    }
}

impl<'a> Question<'a> {
    pub(super) fn read(body: &'a [u8]) -> Result<Self, Problem> {
        serde_json::from_slice(body).map_err(|error| Problem::bad_json(&error))
    }

    pub(super) fn cost(&self) -> Option<u64> {
        self.cost.map(|Units(cost)| cost)
    }

    /// The header fields that the answer tells, if it is to tell any.
    pub(super) fn profile(&self, app: &App) -> Option<Profile> {
        (self.fields == Some(true)).then(|| app.settings.headers.profile())
    }

    pub(super) fn options(&self) -> CheckOptions {
        CheckOptions { lease: self.lease, max_delay: self.max_delay, patience: None }
    }

    pub(super) fn says(&self, member: Member) -> bool {
        match member {
            Member::Cost => self.cost.is_some(),
            Member::Lease => self.lease.is_some(),
            Member::MaxDelay => self.max_delay.is_some(),
            Member::Fields => self.fields.is_some(),
        }
    }
}

impl Facts for Question<'_> {
    fn state<'a>(&'a self, request: &mut Request<'a>) {
        // What has a member of its own is not what an attribute says it is.
        for (name, value) in &self.attributes.0 {
            if let Some(value) = &value.0 {
                request.set(&name.0, &**value);
            }
        }
        for (name, value) in &self.headers.0 {
            if let Some(value) = value {
                request.set_header(&name.0, &*value.0);
            }
        }
        if let Some(Text(client_id)) = &self.client_id {
            request.name_client(&**client_id);
        }
        if let Some(Text(endpoint)) = &self.endpoint {
            let endpoint = endpoint.split_once('#').map_or(&**endpoint, |(endpoint, _)| endpoint);
            let (path, query) = endpoint.split_once('?').unwrap_or((endpoint, ""));
            request.set("path", path);
            each_parameter(query, |name, value| request.add_query(&name, value));
        }
        for (name, value) in [("method", &self.method), ("host", &self.host), ("ip", &self.ip_address)] {
            if let Some(Text(value)) = value {
                request.set(name, &**value);
            }
        }
    }
}

/// An id of 128 bits in hexadecimal.
fn lease<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u128>, D::Error> {
    let Some(Text(text)) = Option::<Text<'de>>::deserialize(deserializer)? else { return Ok(None) };
    // The parser of the standard library would also take a sign.
    let is_hex = (1..=32).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let id = u128::from_str_radix(&text, 16).ok().filter(|_| is_hex);
    id.map(Some).ok_or_else(|| D::Error::custom("a lease has 1 to 32 hexadecimal digits"))
}

/// Seconds as whole nanoseconds, rounded down: a delay must not be longer than asked.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked, and casts of floats saturate")]
fn nanoseconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Ticks>, D::Error> {
    match Option::<f64>::deserialize(deserializer)? {
        Some(seconds) if seconds >= 0.0 => Ok(Some((seconds * 1e9) as Ticks)),
        Some(_) => Err(D::Error::custom("a delay is a number of seconds from 0 up")),
        None => Ok(None),
    }
}

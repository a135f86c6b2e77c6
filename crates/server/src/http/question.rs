//! What a check says, and the facts that it states.

use serde::Deserialize;
use tidegate_core::rules::Request;
use tidegate_engine::engine::Facts;

use super::number::Units;
use super::problem::Problem;
use super::text::{Map, Scalar, Text, each_parameter};

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
}

impl<'a> Question<'a> {
    pub(super) fn read(body: &'a [u8]) -> Result<Self, Problem> {
        serde_json::from_slice(body).map_err(|error| Problem::bad_json(&error))
    }

    pub(super) fn cost(&self) -> Option<u64> {
        self.cost.map(|Units(cost)| cost)
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
            each_parameter(query, |name, value| request.set_query(&name, value));
        }
        for (name, value) in [("method", &self.method), ("host", &self.host), ("ip", &self.ip_address)] {
            if let Some(Text(value)) = value {
                request.set(name, &**value);
            }
        }
    }
}

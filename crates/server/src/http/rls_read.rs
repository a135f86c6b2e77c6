//! A `RateLimitRequest` in the JSON form of protobuf: names in either spelling, numbers also as texts, units by name or number.

use std::fmt;

use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};
use tidegate_core::descriptors::Unit;

use super::number::Number;
use super::problem::Problem;
use crate::grpc::proto::rate_limit_descriptor::{self, RateLimitOverride};
use crate::grpc::proto::{RateLimitDescriptor, RateLimitRequest};

/// Reads a request.
pub(super) fn read(body: &[u8]) -> Result<RateLimitRequest, Problem> {
    let request: Request = serde_json::from_slice(body).map_err(|error| Problem::bad_json(&error))?;
    Ok(RateLimitRequest {
        domain: request.domain.unwrap_or_default(),
        descriptors: request.descriptors.unwrap_or_default().into_iter().map(RateLimitDescriptor::from).collect(),
        hits_addend: request.hits_addend.map_or(0, |Number(hits)| hits),
    })
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", expecting = "an object with a domain and descriptors")]
struct Request {
    domain: Option<String>,
    descriptors: Option<Vec<Descriptor>>,
    #[serde(alias = "hits_addend")]
    hits_addend: Option<Number<u32>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Descriptor {
    entries: Option<Vec<Entry>>,
    limit: Option<Limit>,
    #[serde(alias = "hits_addend")]
    hits_addend: Option<Number<u64>>,
    #[serde(alias = "is_negative_hits")]
    is_negative_hits: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    key: Option<String>,
    value: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Limit {
    #[serde(alias = "requests_per_unit")]
    requests_per_unit: Option<Number<u32>>,
    unit: Option<UnitNumber>,
}

/// A unit, by its name or its number.
#[derive(Debug, Clone, Copy)]
struct UnitNumber(i32);

impl From<Descriptor> for RateLimitDescriptor {
    fn from(read: Descriptor) -> Self {
        let entry = |Entry { key, value }: Entry| rate_limit_descriptor::Entry {
            key: key.unwrap_or_default(),
            value: value.unwrap_or_default(),
        };
        let limit = |Limit { requests_per_unit, unit }: Limit| RateLimitOverride {
            requests_per_unit: requests_per_unit.map_or(0, |Number(so_many)| so_many),
            unit: unit.map_or(0, |UnitNumber(unit)| unit),
        };
        Self {
            entries: read.entries.unwrap_or_default().into_iter().map(entry).collect(),
            limit: read.limit.map(limit),
            hits_addend: read.hits_addend.map(|Number(hits)| hits),
            is_negative_hits: read.is_negative_hits.unwrap_or_default(),
        }
    }
}

impl<'de> Deserialize<'de> for UnitNumber {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UnitVisitor).map(Self)
    }
}

struct UnitVisitor;

impl Visitor<'_> for UnitVisitor {
    type Value = i32;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a unit such as \"MINUTE\"")
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<i32, E> {
        i32::try_from(number).map_err(|_| E::invalid_value(Unexpected::Unsigned(number), &self))
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<i32, E> {
        Unit::from_name(name).map(Unit::number).ok_or_else(|| E::invalid_value(Unexpected::Str(name), &self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_protobuf_is_read() {
        let texts = [
            r#"{"domain":"d","descriptors":[{"entries":[{"key":"k","value":"v"}],"limit":{"requestsPerUnit":5,"unit":"MINUTE"},
                "hitsAddend":"3","isNegativeHits":true}],"hitsAddend":2}"#,
            r#"{"domain":"d","descriptors":[{"entries":[{"key":"k","value":"v"}],"limit":{"requests_per_unit":"5","unit":2},
                "hits_addend":3.0,"is_negative_hits":true}],"hits_addend":2}"#,
        ];
        let [one, other] = texts.map(|text| read(text.as_bytes()).expect("a request"));
        assert_eq!(one, other);
        let descriptor = &one.descriptors[0];
        assert_eq!((one.hits_addend, descriptor.hits_addend, descriptor.is_negative_hits), (2, Some(3), true));
        assert_eq!(descriptor.limit, Some(RateLimitOverride { requests_per_unit: 5, unit: 2 }));
        let empty = read(br#"{"domain":null,"descriptors":[{"entries":[{}],"limit":null,"hitsAddend":null}]}"#);
        assert_eq!(empty.expect("a request").descriptors[0].hits_addend, None);
    }

    #[test]
    fn what_is_no_request_is_refused() {
        let texts = [
            "",
            "[]",
            r#"{"domain":7}"#,
            r#"{"other":1}"#,
            r#"{"hitsAddend":-1}"#,
            r#"{"hitsAddend":1.5}"#,
            r#"{"hitsAddend":4294967296}"#,
            r#"{"hitsAddend":1,"hits_addend":1}"#,
            r#"{"descriptors":[{"limit":{"unit":"FORTNIGHT"}}]}"#,
            r#"{"descriptors":{}}"#,
        ];
        for text in texts {
            assert!(read(text.as_bytes()).is_err(), "{text}");
        }
    }
}

//! What is told to filters that come later, and to access logs.

use std::collections::BTreeMap;

use prost_types::value::Kind;
use prost_types::{ListValue, Struct, Value};
use tidegate_core::descriptors::Entry;
use tidegate_engine::decision::Decision;
use tidegate_engine::engine::DescriptorAsk;

use super::super::question::Question;
use super::{Decided, name_of};

/// The question as the reference service repeats it, who decided, and what was out of the ordinary.
pub(super) fn of(question: &Question<'_>, decided: &Decided) -> Struct {
    let mut fields = BTreeMap::new();
    let mut put = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            fields.insert(name.to_owned(), value);
        }
    };
    put("domain", Some(text(question.domain)));
    put("descriptors", Some(list(question.asks().map(|ask| descriptor(&ask)))));
    put("hitsAddend", Some(question.hits_addend).filter(|&hits| hits > 0).map(|hits| number(hits.into())));
    put("metadata", decided.answer.metadata().map(|metadata| json(&metadata)));
    put("rule", rule(decided).map(|rule| text(&rule)));
    let shadowed = shadowed(decided);
    put("shadowed", (!shadowed.is_empty()).then(|| list(shadowed.iter().map(|name| text(name)))));
    put("degraded", decided.degraded.map(text));
    Struct { fields }
}

/// The rule, or the limit of a file, that denied the request or has the least left.
fn rule(decided: &Decided) -> Option<String> {
    let by_rules =
        |decision: &Decision| decision.binding().and_then(|(planned, _)| planned.rule.as_ref()).map(ToString::to_string);
    match decided.tightest() {
        Some(decision) => by_rules(decision),
        None => decided.answer.tightest().and_then(|index| name_of(&decided.answer.statuses[index])).map(Into::into),
    }
}

/// What would have denied the request, were it not in shadow.
fn shadowed(decided: &Decided) -> Vec<String> {
    if decided.decisions.is_empty() {
        let names = decided.answer.statuses.iter().filter(|status| status.is_shadowed).filter_map(name_of);
        return names.map(Into::into).collect();
    }
    let of_decision = |decision: &Decision| decision.shadowed().into_iter().map(ToString::to_string).collect::<Vec<_>>();
    decided.decisions.iter().flatten().flat_map(of_decision).collect()
}

fn descriptor(ask: &DescriptorAsk<'_>) -> Value {
    let entry = |entry: &Entry<'_>| text(&format!("{}={}", entry.key, entry.value));
    let mut fields = BTreeMap::from([("entries".to_owned(), list(ask.entries.iter().map(entry)))]);
    if let Some(limit) = ask.limit {
        let limit = BTreeMap::from([
            ("requestsPerUnit".to_owned(), number(limit.requests_per_unit.into())),
            ("unit".to_owned(), text(limit.unit.name())),
        ]);
        fields.insert("limit".to_owned(), structure(limit));
    }
    if let Some(hits) = ask.hits {
        fields.insert("hitsAddend".to_owned(), number(approximately(hits)));
    }
    structure(fields)
}

/// Metadata of a file as it is sent.
fn json(value: &serde_json::Value) -> Value {
    match value {
        serde_json::Value::Null => Value { kind: Some(Kind::NullValue(0)) },
        serde_json::Value::Bool(is_true) => Value { kind: Some(Kind::BoolValue(*is_true)) },
        serde_json::Value::Number(value) => number(value.as_f64().unwrap_or(f64::NAN)),
        serde_json::Value::String(value) => text(value),
        serde_json::Value::Array(values) => list(values.iter().map(json)),
        serde_json::Value::Object(fields) => structure(fields.iter().map(|(name, value)| (name.clone(), json(value))).collect()),
    }
}

fn text(value: &str) -> Value {
    Value { kind: Some(Kind::StringValue(value.to_owned())) }
}

fn number(value: f64) -> Value {
    Value { kind: Some(Kind::NumberValue(value)) }
}

fn list(values: impl Iterator<Item = Value>) -> Value {
    Value { kind: Some(Kind::ListValue(ListValue { values: values.collect() })) }
}

fn structure(fields: BTreeMap<String, Value>) -> Value {
    Value { kind: Some(Kind::StructValue(Struct { fields })) }
}

#[allow(clippy::cast_precision_loss, reason = "the format has no other numbers")]
fn approximately(number: u64) -> f64 {
    number as f64
}

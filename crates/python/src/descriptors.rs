//! Descriptors as Python passes them, and the answer as it gets it: plain mappings with the names of the protocol.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyMapping, PyString};
use smallvec::SmallVec;
use tidegate_core::descriptors::answer::{Code, CurrentLimit, Modes, Status};
use tidegate_core::descriptors::{Entry, Unit};
use tidegate_engine::engine as rust;

use crate::convert::type_name;
use crate::errors::{from_usage, usage};
use crate::handle::Handle;

/// One descriptor, whose texts are copied: what Python holds could change under us.
struct Ask {
    entries: Vec<(String, String)>,
    limit: Option<rust::OwnLimit>,
    hits: Option<u64>,
    is_negative: bool,
}

/// Asks the engine.
pub(crate) fn check<'py>(
    handle: &Handle,
    domain: &str,
    descriptors: &Bound<'py, PyAny>,
    hits_addend: u64,
    modes: Modes,
) -> PyResult<Bound<'py, PyDict>> {
    let py = descriptors.py();
    let asks = descriptors.try_iter().map_err(|_| not("descriptors", "a list", descriptors))?;
    let asks = asks.map(|ask| read(&ask?)).collect::<PyResult<Vec<Ask>>>()?;
    let entries: Vec<SmallVec<[Entry<'_>; 4]>> =
        asks.iter().map(|ask| ask.entries.iter().map(|(key, value)| Entry { key, value }).collect()).collect();
    let descriptors: Vec<rust::DescriptorAsk<'_>> = asks
        .iter()
        .zip(&entries)
        .map(|(ask, entries)| rust::DescriptorAsk { entries, limit: ask.limit, hits: ask.hits, is_negative: ask.is_negative })
        .collect();
    let request = rust::DescriptorsRequest { domain, descriptors: &descriptors, hits_addend, modes };
    let decision = handle.call(py, |engine| engine.check_descriptors(&request))?.map_err(|error| from_usage(&error))?;
    to_dict(py, &decision)
}

fn read(ask: &Bound<'_, PyAny>) -> PyResult<Ask> {
    let Ok(ask) = ask.cast::<PyMapping>() else { return Err(not("a descriptor", "a mapping with entries", ask)) };
    let mut read = Ask { entries: Vec::new(), limit: None, hits: None, is_negative: false };
    for item in ask.items()?.iter() {
        let (name, value): (String, Bound<'_, PyAny>) = item.extract()?;
        match name.as_str() {
            _ if value.is_none() => {}
            "entries" => read.entries = entries(&value)?,
            "limit" => read.limit = Some(limit(&value)?),
            "hits_addend" => {
                read.hits = Some(value.extract().map_err(|_| not("hits_addend", "a whole number from 0 up", &value))?);
            }
            "is_negative_hits" => read.is_negative = value.extract().map_err(|_| not("is_negative_hits", "a bool", &value))?,
            _ => {
                return Err(usage(&format!(
                    "a descriptor has no {name:?}; it has entries, limit, hits_addend and is_negative_hits"
                )));
            }
        }
    }
    Ok(read)
}

fn entries(given: &Bound<'_, PyAny>) -> PyResult<Vec<(String, String)>> {
    let items = given.try_iter().map_err(|_| not("entries", "a list of pairs", given))?;
    items
        .map(|item| {
            let item = item?;
            let pair = match item.cast::<PyMapping>() {
                Ok(mapping) => mapping.get_item("key").and_then(|key| Ok((key, mapping.get_item("value")?))),
                Err(_) => item.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>(),
            };
            let (key, value) = pair.map_err(|_| not("an entry", "a pair of texts, or a mapping with key and value", &item))?;
            Ok((text(&key)?, text(&value)?))
        })
        .collect()
}

fn limit(given: &Bound<'_, PyAny>) -> PyResult<rust::OwnLimit> {
    let Ok(mapping) = given.cast::<PyMapping>() else {
        return Err(not("limit", "a mapping with requests_per_unit and unit", given));
    };
    let requests_per_unit = match mapping.get_item("requests_per_unit") {
        Ok(number) => number.extract().map_err(|_| not("requests_per_unit", "a whole number of 32 bits", &number))?,
        Err(_) => 0,
    };
    let unit = match mapping.get_item("unit") {
        Ok(unit) => unit
            .extract::<i32>()
            .map_or_else(
                |_| unit.extract::<String>().ok().and_then(|name| Unit::from_name(&name.to_ascii_uppercase())),
                Unit::from_number,
            )
            .ok_or_else(|| not("unit", "a unit such as MINUTE", &unit))?,
        Err(_) => Unit::Unknown,
    };
    Ok(rust::OwnLimit { requests_per_unit, unit })
}

/// A text with lone surrogates is still somebody's.
fn text(given: &Bound<'_, PyAny>) -> PyResult<String> {
    match given.cast::<PyString>() {
        Ok(text) => Ok(text.to_string_lossy().into_owned()),
        Err(_) => Err(not("keys and values of entries", "texts", given)),
    }
}

fn not(what: &str, wanted: &str, given: &Bound<'_, PyAny>) -> PyErr {
    usage(&format!("{what} must be {wanted}, not {}", type_name(given)))
}

fn to_dict<'py>(py: Python<'py>, decision: &rust::DescriptorsDecision) -> PyResult<Bound<'py, PyDict>> {
    let answer = &decision.answer;
    let statuses = answer.statuses.iter().map(|status| status_to_dict(py, status)).collect::<PyResult<Vec<_>>>()?;
    let dict = PyDict::new(py);
    dict.set_item("overall_code", code(answer.overall))?;
    dict.set_item("statuses", PyList::new(py, statuses)?)?;
    dict.set_item("tightest", answer.tightest())?;
    dict.set_item("metadata", answer.metadata().map(|metadata| json(py, &metadata)).transpose()?)?;
    dict.set_item("domain_known", decision.is_domain_known)?;
    dict.set_item("degraded", decision.degraded.as_ref().map(tidegate_store::store::StoreError::kind))?;
    dict.set_item("generation", decision.generation)?;
    Ok(dict)
}

fn status_to_dict<'py>(py: Python<'py>, status: &Status) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("code", code(status.code()))?;
    dict.set_item("current_limit", status.current_limit.as_ref().map(|limit| limit_to_dict(py, limit)).transpose()?)?;
    dict.set_item("limit_remaining", status.remaining)?;
    dict.set_item("duration_until_reset", status.reset_after_s)?;
    dict.set_item("shadowed", status.is_shadowed)?;
    dict.set_item("quota_mode", status.is_quota)?;
    dict.set_item("metadata", status.metadata.as_deref().map(|metadata| json(py, metadata)).transpose()?)?;
    Ok(dict)
}

fn limit_to_dict<'py>(py: Python<'py>, limit: &CurrentLimit) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("name", limit.name.as_deref().unwrap_or_default())?;
    dict.set_item("requests_per_unit", limit.requests_per_unit)?;
    dict.set_item("unit", limit.unit.name())?;
    Ok(dict)
}

fn json<'py>(py: Python<'py>, value: &serde_json::Value) -> PyResult<Bound<'py, PyAny>> {
    py.import("json")?.getattr("loads")?.call1((value.to_string(),))
}

fn code(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::OverLimit => "OVER_LIMIT",
    }
}

//! Quotas and options as they cross the boundary: one mapping each.

use std::sync::Arc;
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyMapping};
use tidegate_core::quota::{self, AlgorithmName, CalendarUnit, Quota, QuotaSpec};
use tidegate_engine::decision::Origin;
use tidegate_engine::engine::{Engine, OnStoreError, member_digester, random_id};
use tidegate_engine::plan::{LoadError, Source, Transition};
use tidegate_engine::remote::{Remote, RemoteOptions};
use tidegate_store::clock::{Clock, SystemClock};
use tidegate_store::memory::MemoryStore;
use tidegate_store::redis::url::RedisConfig;
use tidegate_store::store::Store;

use crate::clock::ManualClock;
use crate::errors::{self, usage};

/// What the options of an engine say.
pub(crate) struct Options {
    place: Place,
    on_store_error: OnStoreError,
    secret: [u8; 16],
    /// That of the operator, under which members are known whatever the store.
    member_secret: [u8; 16],
}

/// Where the counters are.
enum Place {
    Memory(Arc<dyn Store>),
    Shared(Box<RemoteOptions>),
}

impl Options {
    /// An engine with these options.
    pub(crate) fn engine(self, source: impl Into<Source>) -> Result<Engine, LoadError> {
        let Self { place, on_store_error, secret, member_secret } = self;
        let engine = match place {
            Place::Memory(store) => Engine::new(source, store, secret, on_store_error),
            Place::Shared(options) => Engine::shared(source, Remote::open(*options), secret, on_store_error),
        };
        engine.map(|engine| engine.with_member_secret(member_secret))
    }
}

/// Reads `100/minute burst 20, 5000/hour`.
#[pyfunction]
pub(crate) fn parse_quotas<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyList>> {
    let specs = quota::parse_specs(text).map_err(|error| errors::from_quota(&error))?;
    // Parsed once more as a whole: only then an error of the checks can point into the text.
    quota::parse(text).map_err(|error| errors::from_quota(&error))?;
    let mappings = specs.iter().map(|spec| to_mapping(py, spec)).collect::<PyResult<Vec<_>>>()?;
    PyList::new(py, mappings)
}

/// The digest by which a member with this API key is known, under the secret of an operator.
#[pyfunction]
pub(crate) fn member_digest(key: &[u8], secret: [u8; 16]) -> String {
    format!("{:?}", member_digester(secret).digest(key))
}

/// Checks a quota in its object form.
#[pyfunction]
pub(crate) fn format_quota(quota: &Bound<'_, PyAny>) -> PyResult<String> {
    Ok(build(quota)?.to_string())
}

pub(crate) fn quotas(quotas: &Bound<'_, PyList>) -> PyResult<Vec<Quota>> {
    quotas.iter().map(|quota| build(&quota)).collect()
}

pub(crate) fn options(options: &Bound<'_, PyAny>) -> PyResult<Options> {
    let options = options.cast::<PyMapping>()?;
    let on_store_error = match options.get_item("on_store_error")?.extract::<String>().as_deref() {
        Ok("local") => OnStoreError::Local,
        Ok("allow") => OnStoreError::Allow,
        Ok("deny") => OnStoreError::Deny,
        _ => return Err(usage("on_store_error must be 'local', 'allow' or 'deny'")),
    };
    let store: String = required(options, "store")?;
    let keys_max: usize = required(options, "max_keys")?;
    let member_secret: [u8; 16] = required(options, "secret")?;
    if store == "memory://" {
        let clock = match options.get_item("clock") {
            Ok(clock) if !clock.is_none() => Clock::Manual(clock.cast::<ManualClock>()?.get().clock.clone()),
            _ => Clock::System(SystemClock::new()),
        };
        // Nobody else sees these digests.
        let secret = random_id().to_le_bytes();
        return Ok(Options {
            place: Place::Memory(Arc::new(MemoryStore::new(clock, keys_max))),
            on_store_error,
            secret,
            member_secret,
        });
    }
    let remote = RemoteOptions {
        config: RedisConfig::parse(&store).map_err(|error| errors::from_url(&error))?,
        budget: Duration::from_nanos(required(options, "budget_ns")?),
        denials_max: required(options, "deny_cache")?,
        fallback_keys_max: keys_max,
        instances_min: required(options, "instances")?,
    };
    Ok(Options { place: Place::Shared(Box::new(remote)), on_store_error, secret: member_secret, member_secret })
}

/// What `begin_async` is to do.
pub(crate) fn origin(name: &str) -> PyResult<Origin> {
    match name {
        "check" => Ok(Origin::Check),
        "peek" => Ok(Origin::Peek),
        "debit" => Ok(Origin::Debit),
        other => Err(usage(&format!("there is no {other:?} to begin"))),
    }
}

pub(crate) fn transition(name: &str) -> PyResult<Transition> {
    match name {
        "safe" => Ok(Transition::Safe),
        "immediate" => Ok(Transition::Immediate),
        other => Err(usage(&format!("transition must be 'safe' or 'immediate', not {other:?}"))),
    }
}

fn build(quota: &Bound<'_, PyAny>) -> PyResult<Quota> {
    from_mapping(quota.cast::<PyMapping>()?)?.build().map_err(|error| errors::from_quota(&error))
}

fn from_mapping(mapping: &Bound<'_, PyMapping>) -> PyResult<QuotaSpec> {
    let mut spec = QuotaSpec::default();
    for item in mapping.items()?.iter() {
        let (key, value): (String, Bound<'_, PyAny>) = item.extract()?;
        let units = || value.extract::<u64>().map(Some).map_err(|_| not_whole(&key));
        let text = || value.extract::<String>().map(Some).map_err(|_| wrong(&key, "a text"));
        match key.as_str() {
            _ if value.is_none() => {}
            "name" => spec.name = text()?,
            "limit" => spec.limit = units()?,
            "unlimited" => spec.unlimited = value.extract().map_err(|_| wrong(&key, "true or false"))?,
            "period_ns" => spec.period_ns = units()?,
            "algorithm" => spec.algorithm = named(&key, text()?, "unknown-algorithm", AlgorithmName::from_name, &algorithms())?,
            "burst" => spec.burst = units()?,
            "queue_ns" => spec.queue_ns = units()?,
            "nodelay" => spec.nodelay = units()?,
            "max_cost" => spec.max_cost = units()?,
            "entries" => spec.entries = units()?,
            "buckets" => spec.buckets = units()?,
            "calendar" => spec.calendar = named(&key, text()?, "unknown-unit", CalendarUnit::from_name, &calendar_units())?,
            "zone" => spec.zone = text()?,
            "ttl_ns" => spec.ttl_ns = units()?,
            "min_interval_ns" => spec.min_interval_ns = units()?,
            "advance_ns" => spec.advance_ns = units()?,
            "max_debt" => spec.max_debt = units()?,
            _ => {
                return Err(errors::quota(
                    &format!("unknown parameter {key:?} of a quota"),
                    "unknown-parameter",
                    None,
                    None,
                    None,
                ));
            }
        }
    }
    Ok(spec)
}

fn to_mapping<'py>(py: Python<'py>, spec: &QuotaSpec) -> PyResult<Bound<'py, PyDict>> {
    let mapping = PyDict::new(py);
    let units = [
        ("limit", spec.limit),
        ("period_ns", spec.period_ns),
        ("burst", spec.burst),
        ("queue_ns", spec.queue_ns),
        ("nodelay", spec.nodelay),
        ("max_cost", spec.max_cost),
        ("entries", spec.entries),
        ("buckets", spec.buckets),
        ("ttl_ns", spec.ttl_ns),
        ("min_interval_ns", spec.min_interval_ns),
        ("advance_ns", spec.advance_ns),
        ("max_debt", spec.max_debt),
    ];
    for (key, value) in units.into_iter().filter_map(|(key, value)| Some((key, value?))) {
        mapping.set_item(key, value)?;
    }
    let texts = [
        ("name", spec.name.as_deref()),
        ("algorithm", spec.algorithm.map(AlgorithmName::as_str)),
        ("calendar", spec.calendar.map(CalendarUnit::as_str)),
        ("zone", spec.zone.as_deref()),
    ];
    for (key, value) in texts.into_iter().filter_map(|(key, value)| Some((key, value?))) {
        mapping.set_item(key, value)?;
    }
    if spec.unlimited {
        mapping.set_item("unlimited", true)?;
    }
    Ok(mapping)
}

fn required<'py, T: for<'a> FromPyObject<'a, 'py>>(options: &Bound<'py, PyMapping>, key: &str) -> PyResult<T> {
    let value = options.get_item(key)?;
    value.extract().map_err(|_| usage(&format!("{key} has the wrong type")))
}

fn named<T>(key: &str, name: Option<String>, code: &str, find: impl Fn(&str) -> Option<T>, known: &str) -> PyResult<Option<T>> {
    let name = name.unwrap_or_default();
    let unknown = || errors::quota(&format!("unknown {key} {name:?}\nhint: use one of {known}"), code, Some(known), None, None);
    find(&name).map(Some).ok_or_else(unknown)
}

fn algorithms() -> String {
    AlgorithmName::ALL.map(AlgorithmName::as_str).join(", ") + ", token_bucket"
}

fn calendar_units() -> String {
    CalendarUnit::ALL.map(CalendarUnit::as_str).join(", ")
}

fn not_whole(key: &str) -> PyErr {
    wrong(key, "a whole number from 0 to 2**53")
}

fn wrong(key: &str, expected: &str) -> PyErr {
    errors::quota(&format!("{key} must be {expected}"), "parameter-type", None, None, None)
}

//! Every Rust error becomes a Python exception here and nowhere else. No match has a catch-all: a new variant must be mapped to compile.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use tidegate_core::quota::QuotaError;
use tidegate_engine::engine::UsageError;
use tidegate_engine::plan::LoadError;
use tidegate_server::server::StartError;
use tidegate_store::redis::url::UrlError;

/// A class of `tidegate.errors` with a message. If the class cannot be had, that failure is what the caller sees.
fn raise(class: &str, message: &str, details: Option<&Bound<'_, PyDict>>) -> PyErr {
    Python::attach(|py| {
        let exception = py.import("tidegate.errors").and_then(|errors| errors.getattr(class)?.call((message,), details));
        exception.map_or_else(|error| error, PyErr::from_value)
    })
}

/// A call that makes no sense.
pub(crate) fn usage(message: &str) -> PyErr {
    raise("UsageError", message, None)
}

pub(crate) fn from_usage(error: &UsageError) -> PyErr {
    let class = match error {
        UsageError::EmptyKey
        | UsageError::NoRules
        | UsageError::TooManyQuotas { .. }
        | UsageError::EmptyDomain
        | UsageError::NoDescriptors
        | UsageError::TooManyDescriptors { .. }
        | UsageError::LimitWithoutUnit { .. }
        | UsageError::CreditWithoutWindow { .. }
        | UsageError::RepeatedParameter { .. }
        | UsageError::CostTooLarge { .. }
        | UsageError::ForeignDecision
        | UsageError::WrongKey
        | UsageError::NothingTaken { .. }
        | UsageError::AlreadyGivenBack { .. } => "UsageError",
    };
    raise(class, &error.to_string(), None)
}

pub(crate) fn from_quota(error: &QuotaError) -> PyErr {
    let span = error.span().map(|span| (span.start, span.end));
    quota(&error.to_string(), error.code().as_str(), Some(error.hint()), error.text(), span)
}

/// A quota in its object form that cannot be read.
pub(crate) fn quota(message: &str, code: &str, hint: Option<&str>, text: Option<&str>, span: Option<(usize, usize)>) -> PyErr {
    Python::attach(|py| {
        let details = PyDict::new(py);
        let filled = details
            .set_item("code", code)
            .and_then(|()| details.set_item("hint", hint))
            .and_then(|()| details.set_item("text", text))
            .and_then(|()| details.set_item("span", span));
        match filled {
            Ok(()) => raise("QuotaError", message, Some(&details)),
            Err(error) => error,
        }
    })
}

/// An address of a store that cannot be used.
pub(crate) fn from_url(error: &UrlError) -> PyErr {
    raise("ConfigError", &error.to_string(), None)
}

/// A rule set that `tidegate.rules` did not write.
pub(crate) fn from_document(error: &serde_json::Error) -> PyErr {
    raise("ConfigError", &format!("the rule set cannot be read: {error}"), None)
}

/// Members that `tidegate.control.members` did not write.
pub(crate) fn from_members(error: &serde_json::Error) -> PyErr {
    raise("ConfigError", &format!("the members cannot be read: {error}"), None)
}

/// Settings that `tidegate.service` did not write.
pub(crate) fn from_settings(error: &serde_json::Error) -> PyErr {
    raise("ConfigError", &format!("the settings cannot be read: {error}"), None)
}

/// A service that could not begin to listen.
pub(crate) fn from_start(error: &StartError) -> PyErr {
    raise("StartupError", &error.to_string(), None)
}

pub(crate) fn from_load(error: &LoadError) -> PyErr {
    let code = match error {
        LoadError::Empty => "no-quota",
        LoadError::TooMany { .. } => "too-many-quotas",
        LoadError::Zone(_) => "unknown-zone",
        LoadError::Meter(_) => "overflow",
        LoadError::NoRules | LoadError::Members(_) | LoadError::Rules(_) | LoadError::Domains(_) | LoadError::Jwt(_) => {
            return raise("ConfigError", &error.to_string(), None);
        }
    };
    let hint = match error {
        LoadError::Empty => "write at least one, such as 100/minute, or unlimited",
        LoadError::TooMany { .. } => "use several limiters",
        LoadError::Zone(_) => "use an IANA name such as Europe/Berlin or UTC",
        LoadError::Meter(_) => "use a smaller limit or a shorter period",
        LoadError::NoRules | LoadError::Members(_) | LoadError::Rules(_) | LoadError::Domains(_) | LoadError::Jwt(_) => {
            "see `tidegate rules lint`"
        }
    };
    quota(&format!("{error}\nhint: {hint}"), code, Some(hint), None, None)
}

//! Arguments from Python: hostile until checked.

use std::borrow::Cow;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::errors::usage;

/// Runs `act` with the bytes of a key.
///
/// Text is taken as UTF-8 without a copy. Lone surrogates, which UTF-8 cannot hold, are passed through: a strange key is still a key, and a client
/// must not be able to cause an error with it.
pub(crate) fn with_key<R>(key: &Bound<'_, PyAny>, act: impl FnOnce(&[u8]) -> PyResult<R>) -> PyResult<R> {
    if let Ok(text) = key.cast::<PyString>() {
        return match text.to_str() {
            Ok(text) => act(text.as_bytes()),
            Err(_) => act(key.call_method1("encode", ("utf-8", "surrogatepass"))?.cast::<PyBytes>()?.as_bytes()),
        };
    }
    match key.cast::<PyBytes>() {
        Ok(bytes) => act(bytes.as_bytes()),
        Err(_) => Err(usage(&format!("a key must be str or bytes, not {}", type_name(key)))),
    }
}

/// A cost: 1 when absent.
pub(crate) fn cost(cost: Option<&Bound<'_, PyAny>>) -> PyResult<u64> {
    match cost {
        None => Ok(1),
        Some(cost) => cost.extract().map_err(|_| {
            let shown = cost.repr().map_or_else(|_| type_name(cost).into_owned(), |repr| repr.to_string_lossy().into_owned());
            let shown: String = shown.chars().take(40).collect();
            usage(&format!("a cost must be a whole number from 0 to 2**53, not {shown}"))
        }),
    }
}

/// A 128-bit id in hexadecimal.
pub(crate) fn lease(text: &str) -> PyResult<u128> {
    let is_hex = text.len() <= 32 && !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let parsed = is_hex.then(|| u128::from_str_radix(text, 16).ok()).flatten();
    parsed.ok_or_else(|| usage("a lease must be 1 to 32 hexadecimal digits, such as secrets.token_hex(16) makes"))
}

/// Nanoseconds as seconds, for people.
#[allow(clippy::cast_precision_loss, reason = "the exact number is at hand under the name with _ns")]
pub(crate) fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

/// Seconds as whole nanoseconds, rounded down: a delay must not be longer than asked.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked, and casts of floats saturate")]
pub(crate) fn delay(seconds: &Bound<'_, PyAny>) -> PyResult<u64> {
    match seconds.extract::<f64>() {
        Ok(seconds) if seconds >= 0.0 => Ok((seconds * 1e9) as u64),
        _ => Err(usage("a delay is a number of seconds from 0 up")),
    }
}

/// The name of a value's type, for messages.
pub(crate) fn type_name(value: &Bound<'_, PyAny>) -> Cow<'static, str> {
    value.get_type().name().map_or(Cow::Borrowed("that"), |name| Cow::Owned(name.to_string_lossy().into_owned()))
}

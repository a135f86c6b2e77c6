//! The attributes of a request as Python passes them: a mapping of names to texts, with one level below `headers` and `query`.

use std::borrow::Cow;

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyInt, PyMapping, PyString};
use smallvec::SmallVec;
use tidegate_core::rules::Request;
use tidegate_engine::engine as rust;

use crate::convert::type_name;
use crate::errors::usage;

/// The most attributes, headers and query parameters of one request: what is more is an attack or a mistake.
const FACTS_MAX: usize = 1_000;

/// Attributes that are kept alive while a request is decided, so that their texts need not be copied.
pub(crate) struct PyFacts<'py> {
    items: SmallVec<[Item<'py>; 8]>,
}

struct Item<'py> {
    kind: Kind,
    name: Bound<'py, PyString>,
    value: Value<'py>,
}

#[derive(Clone, Copy)]
enum Kind {
    Attribute,
    Header,
    Query,
}

enum Value<'py> {
    Text(Bound<'py, PyString>),
    Made(String),
}

impl<'py> PyFacts<'py> {
    /// Takes the attributes of one call.
    pub(crate) fn new(attributes: &Bound<'py, PyAny>) -> PyResult<Self> {
        let mut facts = Self { items: SmallVec::new() };
        each(attributes, &mut |name, value| match name.to_str().unwrap_or_default() {
            "headers" => facts.nest(Kind::Header, "headers", &value),
            "query" => facts.nest(Kind::Query, "query", &value),
            _ => facts.push(Kind::Attribute, name, value),
        })?;
        Ok(facts)
    }

    fn nest(&mut self, kind: Kind, what: &str, values: &Bound<'py, PyAny>) -> PyResult<()> {
        if values.is_none() {
            return Ok(());
        }
        if values.cast::<PyMapping>().is_err() {
            return Err(usage(&format!("{what} must be a mapping of texts, not {}", type_name(values))));
        }
        each(values, &mut |name, value| self.push(kind, name, value))
    }

    fn push(&mut self, kind: Kind, name: Bound<'py, PyString>, value: Bound<'py, PyAny>) -> PyResult<()> {
        if self.items.len() == FACTS_MAX {
            return Err(usage(&format!("a request has at most {FACTS_MAX} attributes, headers and query parameters")));
        }
        if value.is_none() {
            return Ok(());
        }
        let value = match value.cast_into::<PyString>() {
            Ok(text) => Value::Text(text),
            Err(error) => Value::Made(text(&name, &error.into_inner())?),
        };
        self.items.push(Item { kind, name, value });
        Ok(())
    }
}

impl rust::Facts for PyFacts<'_> {
    fn state<'a>(&'a self, request: &mut Request<'a>) {
        for Item { kind, name, value } in &self.items {
            // A name that is no text is asked for by no rule.
            let Ok(name) = name.to_str() else { continue };
            let value: Cow<'a, str> = match value {
                Value::Made(text) => text.as_str().into(),
                // A value with lone surrogates is still somebody's.
                Value::Text(text) => text.to_str().map_or_else(|_| text.to_string_lossy().into_owned().into(), Cow::Borrowed),
            };
            match kind {
                Kind::Attribute => request.set(name, value),
                Kind::Header => request.set_header(name, value),
                Kind::Query => request.set_query(name, value),
            }
        }
    }
}

/// Walks a mapping whose keys are texts.
fn each<'py>(
    mapping: &Bound<'py, PyAny>,
    act: &mut dyn FnMut(Bound<'py, PyString>, Bound<'py, PyAny>) -> PyResult<()>,
) -> PyResult<()> {
    let name = |name: Bound<'py, PyAny>| {
        name.cast_into::<PyString>()
            .map_err(|error| usage(&format!("the name of an attribute must be a text, not {}", type_name(&error.into_inner()))))
    };
    if let Ok(dict) = mapping.cast::<PyDict>() {
        for (key, value) in dict {
            act(name(key)?, value)?;
        }
        return Ok(());
    }
    let Ok(mapping) = mapping.cast::<PyMapping>() else {
        return Err(usage(&format!(
            "the attributes must be a mapping such as {{\"method\": \"GET\"}}, not {}",
            type_name(mapping)
        )));
    };
    for item in mapping.items()?.iter() {
        let (key, value) = item.extract::<(Bound<'py, PyAny>, Bound<'py, PyAny>)>()?;
        act(name(key)?, value)?;
    }
    Ok(())
}

/// Whole numbers and booleans as rules write them.
fn text(name: &Bound<'_, PyString>, value: &Bound<'_, PyAny>) -> PyResult<String> {
    if let Ok(flag) = value.cast::<PyBool>() {
        return Ok(if flag.is_true() { "true" } else { "false" }.to_owned());
    }
    if value.is_instance_of::<PyInt>() {
        // Python itself refuses to spell a number of thousands of digits.
        let spelled = value.str().map_err(|_| usage("an attribute is too large a number"))?;
        return Ok(spelled.to_string_lossy().into_owned());
    }
    let name: String = name.to_string_lossy().chars().take(40).collect();
    Err(usage(&format!("the attribute {name:?} must be a text, a whole number or a bool, not {}", type_name(value))))
}

//! Decisions as Python sees them: values without a setter.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use tidegate_core::decision::Status;
use tidegate_engine::decision as rust;
use tidegate_engine::headers;
use tidegate_engine::plan::{Plan, Planned};

use crate::convert::seconds;
use crate::errors::usage;

#[pyclass(frozen, module = "tidegate._native")]
pub(crate) struct Decision {
    pub(crate) decision: rust::Decision,
}

#[pymethods]
impl Decision {
    fn __bool__(&self) -> bool {
        self.decision.is_allowed()
    }

    #[getter]
    fn allowed(&self) -> bool {
        self.decision.is_allowed()
    }

    #[getter]
    fn cost(&self) -> u64 {
        self.decision.cost()
    }

    #[getter]
    fn limit(&self) -> Option<u64> {
        self.decision.binding().and_then(|(_, status)| status.limit)
    }

    #[getter]
    fn remaining(&self) -> Option<u64> {
        match self.decision.degraded() {
            Some(_) => Some(0),
            None => self.decision.verdict().remaining(),
        }
    }

    #[getter]
    fn retry_after(&self) -> Option<f64> {
        self.decision.retry_after().map(seconds)
    }

    #[getter]
    fn retry_after_ns(&self) -> Option<u64> {
        self.decision.retry_after()
    }

    #[getter]
    fn retry_is_hint(&self) -> bool {
        self.decision.retry_is_hint()
    }

    #[getter]
    fn reset_after(&self) -> f64 {
        seconds(self.decision.verdict().reset_after())
    }

    #[getter]
    fn reset_after_ns(&self) -> u64 {
        self.decision.verdict().reset_after()
    }

    #[getter]
    fn delay(&self) -> f64 {
        seconds(self.delay_ns())
    }

    #[getter]
    fn delay_ns(&self) -> u64 {
        if self.decision.is_allowed() { self.decision.verdict().delay() } else { 0 }
    }

    #[getter]
    fn degraded(&self) -> bool {
        self.decision.degraded().is_some()
    }

    #[getter]
    fn reason(&self) -> Option<&'static str> {
        self.decision.degraded().map(|degraded| degraded.error.kind())
    }

    #[getter]
    fn lease(&self) -> Option<String> {
        self.decision.lease().map(|lease| format!("{lease:032x}"))
    }

    #[getter]
    fn generation(&self) -> u64 {
        self.decision.generation()
    }

    #[getter]
    fn quota(&self) -> PyResult<QuotaStatus> {
        let binding = self.decision.binding().map(|(_, status)| self.status(status));
        binding.ok_or_else(|| usage("the store could not be asked, so no quota decided: see `reason`"))
    }

    #[getter]
    fn quotas<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let statuses = self.decision.statuses().map(|(_, status)| Py::new(py, self.status(status)));
        PyTuple::new(py, statuses.collect::<PyResult<Vec<_>>>()?)
    }

    fn headers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let fields = PyDict::new(py);
        for (name, value) in headers::fields(&self.decision) {
            fields.set_item(name, value)?;
        }
        Ok(fields)
    }

    fn __repr__(&self) -> String {
        let verdict = if self.decision.is_allowed() { "allowed" } else { "denied" };
        let Some((planned, status)) = self.decision.binding() else {
            return format!("Decision({verdict}, degraded: {})", self.reason().unwrap_or("unknown"));
        };
        let said = match (status.is_allowed(), status.retry_after, self.remaining(), status.limit) {
            (false, None, ..) => {
                format!("never: cost {} is above the capacity {}", self.decision.cost(), status.limit.unwrap_or(0))
            }
            (false, Some(wait), ..) if self.retry_is_hint() => format!("retry after up to {} s", seconds(wait)),
            (false, Some(wait), ..) => format!("retry after {} s", seconds(wait)),
            (true, _, Some(remaining), Some(limit)) => format!("{remaining} of {limit} left"),
            (true, ..) => "unlimited".to_owned(),
        };
        format!("Decision({verdict}, {said}, quota='{}')", planned.text)
    }
}

impl Decision {
    fn status(&self, status: &Status) -> QuotaStatus {
        QuotaStatus { plan: Arc::clone(self.decision.plan()), status: *status }
    }
}

#[pyclass(frozen, module = "tidegate._native")]
pub(crate) struct QuotaStatus {
    plan: Arc<Plan>,
    status: Status,
}

#[pymethods]
impl QuotaStatus {
    #[getter]
    fn name(&self) -> &str {
        &self.planned().label
    }

    #[getter]
    fn quota(&self) -> &str {
        &self.planned().text
    }

    #[getter]
    fn algorithm(&self) -> &'static str {
        self.planned().quota.algorithm().map_or("unlimited", |algorithm| algorithm.as_str())
    }

    #[getter]
    fn allowed(&self) -> bool {
        self.status.is_allowed()
    }

    #[getter]
    fn limit(&self) -> Option<u64> {
        self.status.limit
    }

    #[getter]
    fn remaining(&self) -> Option<u64> {
        self.status.remaining
    }

    #[getter]
    fn retry_after(&self) -> Option<f64> {
        self.status.retry_after.map(seconds)
    }

    #[getter]
    fn retry_after_ns(&self) -> Option<u64> {
        self.status.retry_after
    }

    #[getter]
    fn reset_after(&self) -> f64 {
        seconds(self.status.reset_after)
    }

    #[getter]
    fn reset_after_ns(&self) -> u64 {
        self.status.reset_after
    }

    #[getter]
    fn delay(&self) -> f64 {
        seconds(self.delay_ns())
    }

    #[getter]
    fn delay_ns(&self) -> u64 {
        if self.status.is_allowed() { self.status.delay } else { 0 }
    }

    fn __repr__(&self) -> String {
        let said = if self.status.is_allowed() { "allowed" } else { "denied" };
        let remaining = self.status.remaining.map_or("unlimited".to_owned(), |remaining| format!("{remaining} left"));
        format!("QuotaStatus('{}', {said}, {remaining})", self.planned().text)
    }
}

impl QuotaStatus {
    fn planned(&self) -> &Planned {
        &self.plan.quotas()[usize::from(self.status.quota)]
    }
}

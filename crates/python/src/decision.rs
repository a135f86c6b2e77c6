//! Decisions as Python sees them: values without a setter.

use std::sync::Arc;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};
use tidegate_core::decision::Status;
use tidegate_engine::decision as rust;
use tidegate_engine::headers::{self, Field};
use tidegate_engine::plan::{Plan, Planned};
use tidegate_store::store::StoreError;

use crate::convert::seconds;

/// The answer to a check: whether the request may pass, and everything a client can be told about it.
#[pyclass(frozen, module = "tidegate._native")]
pub(crate) struct Decision {
    pub(crate) decision: rust::Decision,
}

#[pymethods]
impl Decision {
    fn __bool__(&self) -> bool {
        self.decision.is_allowed()
    }

    /// Whether the request may pass.
    #[getter]
    fn allowed(&self) -> bool {
        self.decision.is_allowed()
    }

    /// The cost that was asked for.
    #[getter]
    fn cost(&self) -> u64 {
        self.decision.cost()
    }

    /// The limit of the binding quota; `None` is unlimited.
    #[getter]
    fn limit(&self) -> Option<u64> {
        self.decision.binding().and_then(|(_, status)| status.limit)
    }

    /// The largest cost that every quota would admit now; `None` is unlimited.
    #[getter]
    fn remaining(&self) -> Option<u64> {
        self.decision.verdict().remaining()
    }

    /// Seconds after which the same call is admitted if nothing else happens, and one tick earlier it is not.
    #[getter]
    fn retry_after(&self) -> Option<f64> {
        self.decision.verdict().retry_after().map(seconds)
    }

    /// `retry_after` in nanoseconds, exact.
    #[getter]
    fn retry_after_ns(&self) -> Option<u64> {
        self.decision.verdict().retry_after()
    }

    /// Whether `retry_after` is only an upper estimate: slots in flight come free when their holders finish.
    #[getter]
    fn retry_is_hint(&self) -> bool {
        self.decision.verdict().retry_is_hint()
    }

    /// Seconds until nothing is used any more in any quota.
    #[getter]
    fn reset_after(&self) -> f64 {
        seconds(self.decision.verdict().reset_after())
    }

    /// `reset_after` in nanoseconds, exact.
    #[getter]
    fn reset_after_ns(&self) -> u64 {
        self.decision.verdict().reset_after()
    }

    /// Seconds to wait before the admitted request starts (`leaky_bucket`); 0 otherwise.
    #[getter]
    fn delay(&self) -> f64 {
        seconds(self.delay_ns())
    }

    /// `delay` in nanoseconds, exact.
    #[getter]
    fn delay_ns(&self) -> u64 {
        if self.decision.is_allowed() { self.decision.verdict().delay() } else { 0 }
    }

    /// Whether the decision was taken without the store.
    #[getter]
    fn degraded(&self) -> bool {
        self.decision.degraded().is_some()
    }

    /// Why the decision is degraded, such as `store_full`.
    #[getter]
    fn reason(&self) -> Option<&'static str> {
        self.decision.degraded().map(StoreError::kind)
    }

    /// The 128-bit id, in hexadecimal, of the slots that were taken; `None` without a `concurrent` quota.
    #[getter]
    fn lease(&self) -> Option<String> {
        self.decision.lease().map(|lease| format!("{lease:032x}"))
    }

    /// The generation of the quotas that decided: 1 at first, one more with each `load`.
    #[getter]
    fn generation(&self) -> u64 {
        self.decision.generation()
    }

    /// The binding quota: the one with the longest wait, or, when allowed, with the smallest share left. `None` if no rule is enforced.
    #[getter]
    fn quota(&self) -> Option<QuotaStatus> {
        self.decision.binding().map(|(_, status)| self.status(status))
    }

    /// The rule of the binding quota; `None` without rules, or if none is enforced.
    #[getter]
    fn rule(&self) -> Option<&str> {
        self.decision.binding().and_then(|(planned, _)| planned.rule.as_deref())
    }

    /// Names of the rules that apply to the request, in the order in which they were looked at.
    #[getter]
    fn rules<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.decision.rules().map(|name| &**name).collect::<Vec<_>>())
    }

    /// Names of the rules in shadow that would have denied the request.
    #[getter]
    fn shadowed<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.decision.shadowed().iter().map(|name| &***name).collect::<Vec<_>>())
    }

    /// What each quota said, in the order in which they were given.
    #[getter]
    fn quotas<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let statuses = self.decision.statuses().map(|(_, status)| Py::new(py, self.status(status)));
        PyTuple::new(py, statuses.collect::<PyResult<Vec<_>>>()?)
    }

    /// `RateLimit-Policy`, `RateLimit` and, when denied with a finite wait, `Retry-After`, rounded so that they stay true.
    fn headers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let fields = PyDict::new(py);
        for (field, value) in headers::fields_in(&self.decision, headers::Profile::STANDARD, 0) {
            fields.set_item(name(py, field), value)?;
        }
        Ok(fields)
    }

    /// The same as ASGI writes it: names in lower case and values, as bytes.
    fn header_pairs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let pair = |(field, value): &(Field, String)| (name_bytes(py, *field), PyBytes::new(py, value.as_bytes()));
        PyList::new(py, headers::fields_in(&self.decision, headers::Profile::STANDARD, 0).iter().map(pair))
    }

    fn __repr__(&self) -> String {
        let verdict = if self.decision.is_allowed() { "allowed" } else { "denied" };
        if let Some(error) = self.decision.degraded() {
            return format!("Decision({verdict}, degraded: {})", error.kind());
        }
        let Some((planned, status)) = self.decision.binding() else { return format!("Decision({verdict}, no rule decides)") };
        let said = match (status.is_allowed(), status.retry_after, self.remaining(), status.limit) {
            (false, None, ..) => {
                format!("never: cost {} is above the capacity {}", self.decision.cost(), status.limit.unwrap_or(0))
            }
            (false, Some(wait), ..) if self.retry_is_hint() => format!("retry after up to {} s", seconds(wait)),
            (false, Some(wait), ..) => format!("retry after {} s", seconds(wait)),
            (true, _, Some(remaining), Some(limit)) => format!("{remaining} of {limit} left"),
            (true, ..) => "unlimited".to_owned(),
        };
        let rule = planned.rule.as_ref().map_or_else(String::new, |rule| format!(", rule='{rule}'"));
        format!("Decision({verdict}, {said}{rule}, quota='{}')", planned.text)
    }
}

impl Decision {
    fn status(&self, status: &Status) -> QuotaStatus {
        QuotaStatus { plan: Arc::clone(self.decision.plan()), place: self.decision.place(status), status: *status }
    }
}

/// The name of a standard field, made once: there are no others in this profile.
fn name(py: Python<'_>, field: Field) -> &Bound<'_, PyString> {
    match field {
        Field::Policy => intern!(py, "RateLimit-Policy"),
        Field::RateLimit => intern!(py, "RateLimit"),
        _ => intern!(py, "Retry-After"),
    }
}

/// The same in lower case.
fn name_bytes(py: Python<'_>, field: Field) -> &Py<PyBytes> {
    static NAMES: PyOnceLock<[Py<PyBytes>; 3]> = PyOnceLock::new();
    let make = |field: Field| PyBytes::new(py, field.as_lower_case().as_bytes()).unbind();
    let [policy, rate_limit, retry_after] =
        NAMES.get_or_init(py, || [Field::Policy, Field::RateLimit, Field::RetryAfter].map(make));
    match field {
        Field::Policy => policy,
        Field::RateLimit => rate_limit,
        _ => retry_after,
    }
}

/// What one quota said in a decision.
#[pyclass(frozen, module = "tidegate._native")]
pub(crate) struct QuotaStatus {
    plan: Arc<Plan>,
    place: (usize, usize),
    status: Status,
}

#[pymethods]
impl QuotaStatus {
    /// The quota's name, or its text in a form that is safe in headers and metrics (`100/minute-burst-20`).
    #[getter]
    fn name(&self) -> &str {
        &self.planned().label
    }

    /// The quota as canonical text, such as `100/minute burst 20`.
    #[getter]
    fn quota(&self) -> &str {
        &self.planned().text
    }

    /// The rule that the quota belongs to; `None` without rules.
    #[getter]
    fn rule(&self) -> Option<&str> {
        self.planned().rule.as_deref()
    }

    /// `enforce`, or `shadow` if it only says what it would have said.
    #[getter]
    fn mode(&self) -> &'static str {
        if self.status.is_shadow { "shadow" } else { "enforce" }
    }

    /// The algorithm that decided, such as `gcra`; `unlimited` where there is none.
    #[getter]
    fn algorithm(&self) -> &'static str {
        self.planned().quota.algorithm().map_or("unlimited", |algorithm| algorithm.as_str())
    }

    /// Whether this quota had room.
    #[getter]
    fn allowed(&self) -> bool {
        self.status.is_allowed()
    }

    /// The most that can be taken at once when nothing is used (burst for `gcra`); `None` is unlimited.
    #[getter]
    fn limit(&self) -> Option<u64> {
        self.status.limit
    }

    /// The largest cost that would be admitted now; `None` is unlimited.
    #[getter]
    fn remaining(&self) -> Option<u64> {
        self.status.remaining
    }

    /// The smallest wait until the same cost is admitted; 0 when it was; `None` means never.
    #[getter]
    fn retry_after(&self) -> Option<f64> {
        self.status.retry_after.map(seconds)
    }

    /// `retry_after` in nanoseconds, exact.
    #[getter]
    fn retry_after_ns(&self) -> Option<u64> {
        self.status.retry_after
    }

    /// The wait until nothing is used any more.
    #[getter]
    fn reset_after(&self) -> f64 {
        seconds(self.status.reset_after)
    }

    /// `reset_after` in nanoseconds, exact.
    #[getter]
    fn reset_after_ns(&self) -> u64 {
        self.status.reset_after
    }

    /// `leaky_bucket`: how long the admitted request has to wait before it starts.
    #[getter]
    fn delay(&self) -> f64 {
        seconds(self.delay_ns())
    }

    /// `delay` in nanoseconds, exact.
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
        let (set, quota) = self.place;
        &self.plan.set(set).quotas[quota]
    }
}

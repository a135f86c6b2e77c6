//! The class behind `tidegate.Limiter`.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};
use tidegate_engine::decision::Origin;
use tidegate_engine::engine as rust;

use crate::config;
use crate::convert::{cost, lease, seconds, with_key};
use crate::decision::Decision;
use crate::errors::{from_load, from_usage, usage};
use crate::handle::{self, Handle};
use crate::mailbox::Mailbox;
use crate::stats::Stats;

/// Quotas and counters behind a `Limiter`.
#[pyclass(frozen, subclass, module = "tidegate._native")]
pub(crate) struct Engine {
    handle: Handle,
}

#[pymethods]
impl Engine {
    #[new]
    #[pyo3(signature = (quotas, options))]
    fn new(py: Python<'_>, quotas: &Bound<'_, PyList>, options: &Bound<'_, PyAny>) -> PyResult<Self> {
        let quotas = config::quotas(quotas)?;
        let options = config::options(options)?;
        // A shared store is connected, which other threads should not have to wait for.
        let engine = py.detach(|| options.engine(quotas)).map_err(|error| from_load(&error))?;
        Ok(Self { handle: Handle::new(engine) })
    }

    /// Takes `cost` from every quota if it fits into all of them, otherwise takes nothing.
    #[pyo3(
        signature = (key, cost = None, *, lease = None, max_delay = None),
        text_signature = "($self, key, cost=1, *, lease=None, max_delay=None)"
    )]
    fn check(
        &self,
        key: &Bound<'_, PyAny>,
        cost: Option<&Bound<'_, PyAny>>,
        lease: Option<&Bound<'_, PyAny>>,
        max_delay: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Decision> {
        let lease = lease.map(lease_id).transpose()?;
        let max_delay = max_delay.map(crate::convert::delay).transpose()?;
        let options = rust::CheckOptions { lease, max_delay, patience: None };
        if self.handle.is_shared() {
            let begun = self.begin(Origin::Check, key, cost, options)?;
            return Ok(handle::wait(key.py(), begun));
        }
        self.with(key, cost, |engine, key, cost| engine.check(key, cost, options)).map(wrap)
    }

    /// Begins what `check`, `peek` or `debit` do, by name: the decision, or the number under which it will be in the mailbox.
    #[pyo3(signature = (mailbox, name, key, cost = None, lease = None, max_delay = None))]
    fn begin_async(
        &self,
        mailbox: &Bound<'_, Mailbox>,
        name: &str,
        key: &Bound<'_, PyAny>,
        cost: Option<&Bound<'_, PyAny>>,
        lease: Option<&Bound<'_, PyAny>>,
        max_delay: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let lease = lease.map(lease_id).transpose()?;
        let max_delay = max_delay.map(crate::convert::delay).transpose()?;
        let begun = self.begin(config::origin(name)?, key, cost, rust::CheckOptions { lease, max_delay, patience: None })?;
        handle::post(key.py(), begun, mailbox.get())
    }

    /// The fast path of `check`: takes the same, and answers only whether it did.
    #[pyo3(signature = (key, cost = None), text_signature = "($self, key, cost=1)")]
    fn allow(&self, key: &Bound<'_, PyAny>, cost: Option<&Bound<'_, PyAny>>) -> PyResult<bool> {
        if self.handle.is_shared() {
            return Ok(self.check(key, cost, None, None)?.decision.is_allowed());
        }
        self.with(key, cost, rust::Engine::allow)
    }

    /// Answers what `check` would answer, and changes nothing.
    #[pyo3(signature = (key, cost = None), text_signature = "($self, key, cost=1)")]
    fn peek(&self, key: &Bound<'_, PyAny>, cost: Option<&Bound<'_, PyAny>>) -> PyResult<Decision> {
        let begun = self.begin(Origin::Peek, key, cost, rust::CheckOptions::default())?;
        Ok(handle::wait(key.py(), begun))
    }

    /// Gives back what a decision took, as far as it still counts.
    #[pyo3(signature = (key, decision, cost = None))]
    fn refund(&self, key: &Bound<'_, PyAny>, decision: &Bound<'_, Decision>, cost: Option<&Bound<'_, PyAny>>) -> PyResult<u64> {
        let units = cost.map(|units| crate::convert::cost(Some(units))).transpose()?;
        let decision = &decision.get().decision;
        self.with_time(key, None, |engine, key, _| engine.refund(key, decision, units))
    }

    /// Takes `cost` without asking, for work whose price is known only afterwards. May overdraw by `max_debt`.
    #[pyo3(signature = (key, cost))]
    fn debit(&self, key: &Bound<'_, PyAny>, cost: &Bound<'_, PyAny>) -> PyResult<Decision> {
        let begun = self.begin(Origin::Debit, key, Some(cost), rust::CheckOptions::default())?;
        Ok(handle::wait(key.py(), begun))
    }

    /// Corrects a reservation to its true cost: refunds what was too much, debits what was missing. Once per decision.
    #[pyo3(signature = (key, decision, cost))]
    fn settle(&self, key: &Bound<'_, PyAny>, decision: &Bound<'_, Decision>, cost: &Bound<'_, PyAny>) -> PyResult<Decision> {
        let decision = &decision.get().decision;
        self.with_time(key, Some(cost), |engine, key, cost| engine.settle(key, decision, cost)).map(wrap)
    }

    /// Extends a lease.
    #[pyo3(signature = (key, lease))]
    fn renew(&self, key: &Bound<'_, PyAny>, lease: &Bound<'_, PyAny>) -> PyResult<bool> {
        let lease = lease_id(lease)?;
        self.with_time(key, None, |engine, key, _| engine.renew(key, lease))
    }

    /// Gives slots back.
    #[pyo3(signature = (key, lease))]
    fn release(&self, key: &Bound<'_, PyAny>, lease: &Bound<'_, PyAny>) -> PyResult<bool> {
        let lease = lease_id(lease)?;
        self.with_time(key, None, |engine, key, _| engine.release(key, lease))
    }

    /// Forgets a key: it is at full credit again.
    #[pyo3(signature = (key))]
    fn reset(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.with_time(key, None, |engine, key, _| engine.reset(key))
    }

    /// Replaces the quotas for all following decisions, atomically.
    #[pyo3(signature = (quotas, transition))]
    fn load(&self, quotas: &Bound<'_, PyList>, transition: &str) -> PyResult<u64> {
        let (quotas, transition) = (config::quotas(quotas)?, config::transition(transition)?);
        self.handle.open()?.load(quotas, transition).map_err(|error| from_load(&error))
    }

    /// Counters since the limiter was made.
    fn stats(&self) -> PyResult<Stats> {
        self.handle.stats()
    }

    /// How a shared store is doing, as plain values; `None` for the memory store.
    fn shared_health<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        self.handle.health(py)
    }

    /// Whether other processes share the store, so that decisions take time.
    #[getter]
    fn is_shared(&self) -> bool {
        self.handle.is_shared()
    }

    /// Frees the counters. Every later call but `close` raises `UsageError`.
    fn close(&self) {
        self.handle.close();
    }

    /// Whether `close` was called.
    #[getter]
    fn closed(&self) -> bool {
        self.handle.is_closed()
    }

    /// The shortest lease of the `concurrent` quotas in seconds; `None` without one.
    #[getter]
    fn lease_ttl(&self) -> Option<f64> {
        self.handle.engine().plan().lease_ttl_ns().map(seconds)
    }
}

impl Engine {
    /// Calls the engine with checked arguments, unless it was closed.
    fn with<R>(
        &self,
        key: &Bound<'_, PyAny>,
        units: Option<&Bound<'_, PyAny>>,
        call: impl FnOnce(&rust::Engine, &[u8], u64) -> Result<R, rust::UsageError>,
    ) -> PyResult<R> {
        let engine = self.handle.open()?;
        let units = cost(units)?;
        with_key(key, |key| call(engine, key, units).map_err(|error| from_usage(&error)))
    }
}

impl Engine {
    /// The same for what may have to wait for a shared store.
    fn with_time<R: Send>(
        &self,
        key: &Bound<'_, PyAny>,
        units: Option<&Bound<'_, PyAny>>,
        call: impl FnOnce(&rust::Engine, &[u8], u64) -> Result<R, rust::UsageError> + Send,
    ) -> PyResult<R> {
        let units = cost(units)?;
        let py = key.py();
        with_key(key, |key| self.handle.call(py, |engine| call(engine, key, units))?.map_err(|error| from_usage(&error)))
    }

    fn begin(
        &self,
        origin: Origin,
        key: &Bound<'_, PyAny>,
        units: Option<&Bound<'_, PyAny>>,
        options: rust::CheckOptions,
    ) -> PyResult<rust::Begun> {
        let engine = self.handle.open()?;
        let units = cost(units)?;
        with_key(key, |key| engine.begin(origin, key, units, options).map_err(|error| from_usage(&error)))
    }
}

fn wrap(decision: tidegate_engine::decision::Decision) -> Decision {
    Decision { decision }
}

/// A lease given as its id or as the decision that took it.
fn lease_id(given: &Bound<'_, PyAny>) -> PyResult<u128> {
    if let Ok(decision) = given.cast::<Decision>() {
        return decision.get().decision.lease().ok_or_else(|| usage("the decision holds no slot"));
    }
    match given.cast::<PyString>() {
        Ok(text) => lease(text.to_str().unwrap_or_default()),
        Err(_) => Err(usage("a lease must be a text of hexadecimal digits or the decision that took it")),
    }
}

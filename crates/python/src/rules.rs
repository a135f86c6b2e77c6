//! The class behind `tidegate.RuleLimiter`.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use tidegate_core::descriptors::answer::Modes;
use tidegate_core::rules::RuleSetSpec;
use tidegate_core::rules::condition;
use tidegate_core::rules::explain::Outcome;
use tidegate_core::rules::members::spec::MembersSpec;
use tidegate_engine::decision::{Decision as Decided, Origin};
use tidegate_engine::engine as rust;

use crate::config;
use crate::convert::seconds;
use crate::decision::Decision;
use crate::errors::{from_document, from_load, from_members, from_usage};
use crate::facts::PyFacts;
use crate::handle::{self, Handle};
use crate::mailbox::Mailbox;
use crate::stats::Stats;

/// Rules and counters behind a `RuleLimiter`.
#[pyclass(frozen, subclass, module = "tidegate._native")]
pub(crate) struct RuleEngine {
    handle: Handle,
}

/// What is wrong with a regular expression; `None` if nothing is.
#[pyfunction]
pub(crate) fn check_regex(pattern: &str) -> Option<String> {
    condition::check_regex(pattern)
}

#[pymethods]
impl RuleEngine {
    #[new]
    #[pyo3(signature = (rules, options))]
    fn new(py: Python<'_>, rules: &str, options: &Bound<'_, PyAny>) -> PyResult<Self> {
        let options = config::options(options)?;
        let build = || {
            let source = serde_json::from_str::<RuleSetSpec>(rules).map_err(Problem::Document)?;
            options.engine(source).map_err(Problem::Load)
        };
        let engine = py.detach(build).map_err(Problem::into_python)?;
        Ok(Self { handle: Handle::new(engine) })
    }

    /// Takes from the quotas of all rules that apply, if it fits into all of them, otherwise takes nothing.
    #[pyo3(signature = (attributes, cost = None, *, lease = None, max_delay = None))]
    fn check(
        &self,
        attributes: &Bound<'_, PyAny>,
        cost: Option<&Bound<'_, PyAny>>,
        lease: Option<&str>,
        max_delay: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Decision> {
        let lease = lease.map(crate::convert::lease).transpose()?;
        let max_delay = max_delay.map(crate::convert::delay).transpose()?;
        let options = rust::CheckOptions { lease, max_delay, patience: None };
        if self.handle.is_shared() {
            let begun = self.begin(Origin::Check, attributes, cost, options)?;
            return Ok(handle::wait(attributes.py(), begun));
        }
        self.with(attributes, cost, |engine, facts, cost| engine.check_request(facts, cost, options)).map(wrap)
    }

    /// Begins what `check`, `peek` or `debit` do, by name: the decision, or the number under which it will be in the mailbox.
    #[pyo3(signature = (mailbox, name, attributes, cost = None, lease = None, max_delay = None))]
    fn begin_async(
        &self,
        mailbox: &Bound<'_, Mailbox>,
        name: &str,
        attributes: &Bound<'_, PyAny>,
        cost: Option<&Bound<'_, PyAny>>,
        lease: Option<&str>,
        max_delay: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let lease = lease.map(crate::convert::lease).transpose()?;
        let max_delay = max_delay.map(crate::convert::delay).transpose()?;
        let begun =
            self.begin(config::origin(name)?, attributes, cost, rust::CheckOptions { lease, max_delay, patience: None })?;
        handle::post(attributes.py(), begun, mailbox.get())
    }

    /// The fast path of `check`: takes the same, and answers only whether it did.
    #[pyo3(signature = (attributes, cost = None))]
    fn allow(&self, attributes: &Bound<'_, PyAny>, cost: Option<&Bound<'_, PyAny>>) -> PyResult<bool> {
        if self.handle.is_shared() {
            return Ok(self.check(attributes, cost, None, None)?.decision.is_allowed());
        }
        self.with(attributes, cost, rust::Engine::allow_request)
    }

    /// Answers what `check` would answer, and changes nothing.
    #[pyo3(signature = (attributes, cost = None))]
    fn peek(&self, attributes: &Bound<'_, PyAny>, cost: Option<&Bound<'_, PyAny>>) -> PyResult<Decision> {
        let begun = self.begin(Origin::Peek, attributes, cost, rust::CheckOptions::default())?;
        Ok(handle::wait(attributes.py(), begun))
    }

    /// Takes `cost` without asking, for work whose price is known only afterwards. May overdraw by `max_debt`.
    #[pyo3(signature = (attributes, cost))]
    fn debit(&self, attributes: &Bound<'_, PyAny>, cost: &Bound<'_, PyAny>) -> PyResult<Decision> {
        let begun = self.begin(Origin::Debit, attributes, Some(cost), rust::CheckOptions::default())?;
        Ok(handle::wait(attributes.py(), begun))
    }

    /// Forgets the keys of a request under the rules that apply: they are at full credit again.
    #[pyo3(signature = (attributes))]
    fn reset(&self, attributes: &Bound<'_, PyAny>) -> PyResult<bool> {
        let counters = self.with(attributes, None, |engine, facts, _| engine.counters_of(facts))?;
        self.handle.call(attributes.py(), |engine| engine.reset_all(&counters))
    }

    /// Gives back what a decision took, as far as it still counts.
    #[pyo3(signature = (decision, cost = None))]
    fn refund(&self, decision: &Bound<'_, Decision>, cost: Option<&Bound<'_, PyAny>>) -> PyResult<u64> {
        let units = cost.map(|units| crate::convert::cost(Some(units))).transpose()?;
        self.with_decision(decision, |engine, decision| engine.refund_decision(decision, units))
    }

    /// Corrects a reservation to its true cost: refunds what was too much, debits what was missing. Once per decision.
    #[pyo3(signature = (decision, cost))]
    fn settle(&self, decision: &Bound<'_, Decision>, cost: &Bound<'_, PyAny>) -> PyResult<Decision> {
        let units = crate::convert::cost(Some(cost))?;
        self.with_decision(decision, |engine, decision| engine.settle_decision(decision, units)).map(wrap)
    }

    /// Extends the slots that a decision holds.
    #[pyo3(signature = (decision))]
    fn renew(&self, decision: &Bound<'_, Decision>) -> PyResult<bool> {
        self.with_decision(decision, rust::Engine::renew_decision)
    }

    /// Gives the slots back that a decision holds.
    #[pyo3(signature = (decision))]
    fn release(&self, decision: &Bound<'_, Decision>) -> PyResult<bool> {
        self.with_decision(decision, rust::Engine::release_decision)
    }

    /// Replaces the rules for all following decisions, atomically.
    #[pyo3(signature = (rules, transition))]
    fn load(&self, py: Python<'_>, rules: &str, transition: &str) -> PyResult<u64> {
        let (engine, transition) = (self.handle.open()?, config::transition(transition)?);
        let load = || {
            engine.load(serde_json::from_str::<RuleSetSpec>(rules).map_err(Problem::Document)?, transition).map_err(Problem::Load)
        };
        py.detach(load).map_err(Problem::into_python)
    }

    /// Replaces the members for all following decisions, atomically. The rules stay.
    #[pyo3(signature = (members))]
    fn load_members(&self, py: Python<'_>, members: &str) -> PyResult<u64> {
        let engine = self.handle.open()?;
        let load = || {
            let spec = serde_json::from_str::<MembersSpec>(members).map_err(Problem::Members)?;
            engine.load_members(spec).map_err(Problem::Load)
        };
        py.detach(load).map_err(Problem::into_python)
    }

    /// What each rule that counts somebody has left for them, whatever else it asks of a request. Changes nothing.
    #[pyo3(signature = (attributes))]
    fn usage(&self, attributes: &Bound<'_, PyAny>) -> PyResult<Decision> {
        let engine = self.handle.open()?;
        let begun = engine.begin_usage(&PyFacts::new(attributes)?).map_err(|error| from_usage(&error))?;
        Ok(handle::wait(attributes.py(), begun))
    }

    /// Forgets what every rule counts of somebody alone, whatever else it asks of a request.
    #[pyo3(signature = (attributes))]
    fn forget(&self, attributes: &Bound<'_, PyAny>) -> PyResult<bool> {
        let counters = self.with(attributes, None, |engine, facts, _| engine.counters_of_sender(facts))?;
        self.handle.call(attributes.py(), |engine| engine.reset_all(&counters))
    }

    /// The digest by which the sender of a request is known as a member; `None` if nothing says who it is.
    #[pyo3(signature = (attributes))]
    fn member_digest(&self, attributes: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
        let digest = self.with(attributes, None, |engine, facts, _| Ok(engine.member_digest(facts)))?;
        Ok(digest.map(|digest| format!("{digest:?}")))
    }

    /// What the rules make of a request, rule by rule.
    #[pyo3(signature = (attributes))]
    fn explain<'py>(&self, attributes: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
        let py = attributes.py();
        let (facts, explained) = self.with(attributes, None, |engine, facts, _| engine.explain(facts))?;
        let rules = explained.iter().map(|rule| rule_to_dict(py, rule)).collect::<PyResult<Vec<_>>>()?;
        let seen = PyDict::new(py);
        for (name, value) in facts {
            seen.set_item(name, value)?;
        }
        let explanation = PyDict::new(py);
        explanation.set_item("attributes", seen)?;
        explanation.set_item("rules", PyList::new(py, rules)?)?;
        Ok(explanation)
    }

    /// Counts the descriptors of a request, and says which of them are over their limit.
    #[pyo3(signature = (domain, descriptors, hits_addend = 0, *, shadow_mode = false, quota_mode = false))]
    fn check_descriptors<'py>(
        &self,
        domain: &str,
        descriptors: &Bound<'py, PyAny>,
        hits_addend: u32,
        shadow_mode: bool,
        quota_mode: bool,
    ) -> PyResult<Bound<'py, PyDict>> {
        let modes = Modes { is_shadow: shadow_mode, is_quota: quota_mode };
        crate::descriptors::check(&self.handle, domain, descriptors, hits_addend.into(), modes)
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

    /// The generation of the rules in force: 1 at first, one more with each `load`.
    #[getter]
    fn generation(&self) -> u64 {
        self.handle.engine().plan().generation()
    }
}

impl RuleEngine {
    /// The engine, for who decides by it without Python, unless it was closed.
    pub(crate) fn open(&self) -> PyResult<Arc<rust::Engine>> {
        self.handle.open().cloned()
    }

    /// Calls the engine with checked arguments, unless it was closed.
    fn with<'py, R>(
        &self,
        attributes: &Bound<'py, PyAny>,
        units: Option<&Bound<'_, PyAny>>,
        call: impl FnOnce(&rust::Engine, &PyFacts<'py>, Option<u64>) -> Result<R, rust::UsageError>,
    ) -> PyResult<R> {
        let engine = self.handle.open()?;
        let units = units.map(|units| crate::convert::cost(Some(units))).transpose()?;
        let facts = PyFacts::new(attributes)?;
        call(engine, &facts, units).map_err(|error| from_usage(&error))
    }
}

impl RuleEngine {
    /// The same for what goes by a decision, and may have to wait for a shared store.
    fn with_decision<R: Send>(
        &self,
        decision: &Bound<'_, Decision>,
        call: impl FnOnce(&rust::Engine, &Decided) -> Result<R, rust::UsageError> + Send,
    ) -> PyResult<R> {
        let decided = &decision.get().decision;
        self.handle.call(decision.py(), |engine| call(engine, decided))?.map_err(|error| from_usage(&error))
    }

    fn begin(
        &self,
        origin: Origin,
        attributes: &Bound<'_, PyAny>,
        cost: Option<&Bound<'_, PyAny>>,
        options: rust::CheckOptions,
    ) -> PyResult<rust::Begun> {
        let engine = self.handle.open()?;
        let cost = cost.map(|units| crate::convert::cost(Some(units))).transpose()?;
        let facts = PyFacts::new(attributes)?;
        engine.begin_request(origin, &facts, cost, options).map_err(|error| from_usage(&error))
    }
}

/// What can be wrong with rules that are loaded while the GIL is not held.
enum Problem {
    Document(serde_json::Error),
    Members(serde_json::Error),
    Load(tidegate_engine::plan::LoadError),
}

impl Problem {
    #[allow(clippy::needless_pass_by_value, reason = "the shape that map_err wants")]
    fn into_python(self) -> PyErr {
        match self {
            Self::Document(error) => from_document(&error),
            Self::Members(error) => from_members(&error),
            Self::Load(error) => from_load(&error),
        }
    }
}

fn wrap(decision: Decided) -> Decision {
    Decision { decision }
}

fn rule_to_dict<'py>(py: Python<'py>, explained: &rust::Explained) -> PyResult<Bound<'py, PyDict>> {
    let entry = PyDict::new(py);
    entry.set_item("rule", &*explained.rule)?;
    let (outcome, why) = match &explained.outcome {
        Outcome::Applies { found, key, .. } => {
            entry.set_item("key", key)?;
            entry.set_item("cost", found.cost)?;
            ("applies", String::new())
        }
        Outcome::Off => ("off", "its mode is off".to_owned()),
        Outcome::NoMatch { attribute, found: Some(found) } => ("no_match", format!("{attribute} is {found:?}")),
        Outcome::NoMatch { attribute, found: None } => ("no_match", format!("the request has no {attribute}")),
        Outcome::NoKey { attribute } => ("no_key", format!("the request has no {attribute} to count by")),
        Outcome::Stopped { by } => ("stopped", format!("the rule {by} before it stops")),
    };
    entry.set_item("outcome", outcome)?;
    entry.set_item("why", why)?;
    let mode = match &explained.outcome {
        Outcome::Off => "off",
        _ if explained.is_enforced => "enforce",
        _ => "shadow",
    };
    entry.set_item("mode", mode)?;
    entry.set_item("plan", &explained.plan)?;
    entry.set_item("quotas", &explained.quotas)?;
    Ok(entry)
}

//! The service, as Python starts and stops it. No request passes through here.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use tidegate_server::app::App;
use tidegate_server::proxy::Proxy;
use tidegate_server::server as rust;
use tidegate_server::settings::Settings;
use tidegate_server::vitals;
use tidegate_store::redis::url::RedisConfig;

use crate::errors::{from_settings, from_start, usage};
use crate::rules::RuleEngine;

/// Listens, and answers by the rules of an engine.
#[pyclass(frozen, module = "tidegate._native")]
pub(crate) struct Server {
    app: Arc<App>,
    // Behind an `Arc`, so that it can be stopped while somebody waits for its end.
    running: Mutex<State>,
}

enum State {
    New,
    Running(Arc<rust::Server>),
    Stopped,
}

#[pymethods]
impl Server {
    #[new]
    #[pyo3(signature = (engine, settings))]
    fn new(engine: &Bound<'_, RuleEngine>, settings: &str) -> PyResult<Self> {
        let settings = serde_json::from_str::<Settings>(settings).map_err(|error| from_settings(&error))?;
        let engine = engine.get().open()?;
        Ok(Self { app: Arc::new(App::new(engine, settings)), running: Mutex::new(State::New) })
    }

    /// Begins to listen and to serve; tells where. Once per object.
    fn start<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let app = Arc::clone(&self.app);
        py.detach(|| {
            let mut state = self.running.lock();
            if !matches!(*state, State::New) {
                return Err(usage("the server was started before; make a new one"));
            }
            *state = State::Running(Arc::new(rust::Server::start(app).map_err(|error| from_start(&error))?));
            Ok(())
        })?;
        self.addresses(py)
    }

    /// Where it listens, by the names of the ports; those that are off are missing.
    #[getter]
    fn addresses<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let found = PyDict::new(py);
        if let Some(server) = self.server() {
            let addresses = server.addresses();
            for (name, address) in [("http", &addresses.http), ("grpc", &addresses.grpc), ("proxy", &addresses.proxy)] {
                if let Some(address) = address {
                    found.set_item(name, address.to_string())?;
                }
            }
        }
        Ok(found)
    }

    /// Turns readiness off, serves on for `grace` seconds, then takes no more connections, and waits up to `limit` seconds for requests that run.
    /// Answers how many connections were cut.
    #[pyo3(signature = (grace, limit))]
    fn drain(&self, py: Python<'_>, grace: f64, limit: f64) -> PyResult<usize> {
        let (grace, limit) = (duration(grace)?, duration(limit)?);
        Ok(match self.server() {
            Some(server) => py.detach(|| server.drain(grace, limit)),
            None => 0,
        })
    }

    /// Ends at once what still runs. Nothing happens if nothing does.
    fn stop(&self, py: Python<'_>) {
        let state = std::mem::replace(&mut *self.running.lock(), State::Stopped);
        if let State::Running(server) = state {
            py.detach(|| server.stop());
        }
    }

    /// Notes how an attempt to load other rules went: what is wrong with them, or `None` if they are in force.
    #[pyo3(signature = (problem))]
    fn note_reload(&self, problem: Option<&str>) {
        self.app.note_reload(problem);
    }

    /// Notes how the control plane is doing: why its changes do not come into force, or `None` if they do.
    #[pyo3(signature = (problem))]
    fn note_control(&self, problem: Option<&str>) {
        self.app.note_control(problem);
    }

    /// Takes at most so many of the decisions that wait to be told, each as a line of JSON. None wait if events are off.
    #[pyo3(signature = (limit))]
    fn take_events<'py>(&self, py: Python<'py>, limit: usize) -> Bound<'py, PyBytes> {
        let lines = py.detach(|| self.app.events.as_ref().map(|events| events.take(limit)).unwrap_or_default());
        PyBytes::new(py, &lines)
    }

    /// What was counted since the start, as JSON.
    fn snapshot(&self, py: Python<'_>) -> String {
        py.detach(|| self.app.metrics.snapshot(&self.app))
    }

    /// How the store and the servers behind a proxy are doing, as JSON.
    fn vitals(&self, py: Python<'_>) -> String {
        py.detach(|| vitals::to_json(&self.app))
    }

    /// Puts other upstreams and routes in force, from a document of settings; answers what is wrong with them. Those in force stay then.
    #[pyo3(signature = (settings))]
    fn reload_upstreams(&self, py: Python<'_>, settings: &str) -> PyResult<Option<String>> {
        let settings = serde_json::from_str::<Settings>(settings).map_err(|error| from_settings(&error))?;
        let (Some(proxy), Some(settings)) = (&self.app.proxy, &settings.proxy) else {
            return Err(usage("this server has no proxy"));
        };
        Ok(py.detach(|| proxy.reload(settings)).err())
    }

    /// What is wrong with the certificates that servers behind a proxy are trusted by or shown, from a document of settings. Nobody is asked.
    #[staticmethod]
    #[pyo3(signature = (settings))]
    fn check_upstreams(settings: &str) -> PyResult<Option<String>> {
        let settings = serde_json::from_str::<Settings>(settings).map_err(|error| from_settings(&error))?;
        Ok(settings.proxy.and_then(|proxy| Proxy::check(&proxy).err()))
    }

    /// Notes that settings on disk could not even be read.
    #[pyo3(signature = (problem))]
    fn refuse_upstreams(&self, problem: &str) -> PyResult<()> {
        let proxy = self.app.proxy.as_ref().ok_or_else(|| usage("this server has no proxy"))?;
        proxy.refuse(problem);
        Ok(())
    }

    /// Reads the certificates again; answers what is wrong with them. Those in force stay then.
    fn reload_certificates(&self, py: Python<'_>) -> Option<String> {
        let server = self.server()?;
        py.detach(|| server.reload_tls()).err()
    }
}

/// What is wrong with the address of a shared store; `None` if nothing is. Nobody is asked.
#[pyfunction]
pub(crate) fn check_store(url: &str) -> Option<String> {
    RedisConfig::parse(url).err().map(|error| error.to_string())
}

impl Server {
    fn server(&self) -> Option<Arc<rust::Server>> {
        match &*self.running.lock() {
            State::Running(server) => Some(Arc::clone(server)),
            State::New | State::Stopped => None,
        }
    }
}

fn duration(seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds).map_err(|_| usage("a time is a number of seconds from 0 up"))
}

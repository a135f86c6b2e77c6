//! An engine that can be closed: what both classes of limiters are made of.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::prelude::*;
use pyo3::types::PyDict;
use tidegate_engine::engine::{Begun, Engine};

use crate::decision::Decision;
use crate::errors::usage;
use crate::health;
use crate::mailbox::Mailbox;
use crate::stats::Stats;

pub(crate) struct Handle {
    engine: Arc<Engine>,
    is_closed: AtomicBool,
}

impl Handle {
    pub(crate) fn new(engine: Engine) -> Self {
        Self { engine: Arc::new(engine), is_closed: AtomicBool::new(false) }
    }

    /// The engine, unless it was closed.
    pub(crate) fn open(&self) -> PyResult<&Arc<Engine>> {
        if self.is_closed.load(Ordering::Relaxed) {
            Err(usage("the limiter was closed; make a new one"))
        } else {
            Ok(&self.engine)
        }
    }

    /// The engine, closed or not: for what can be said of it in any case.
    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Whether decisions take time, because other processes share the store.
    pub(crate) fn is_shared(&self) -> bool {
        self.engine.remote().is_some()
    }

    /// Calls the engine, while other threads run if that takes time.
    pub(crate) fn call<R: Send>(&self, py: Python<'_>, call: impl FnOnce(&Engine) -> R + Send) -> PyResult<R> {
        let engine = self.open()?;
        Ok(if self.is_shared() { py.detach(|| call(engine)) } else { call(engine) })
    }

    /// How a shared store is doing; `None` for a store in this process.
    pub(crate) fn health<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        self.open()?.remote().map(|remote| health::to_dict(py, &remote.health())).transpose()
    }

    pub(crate) fn stats(&self) -> PyResult<Stats> {
        Ok(Stats { stats: self.open()?.stats() })
    }

    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        self.engine.close();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::SeqCst)
    }
}

/// Waits for what was begun, while other threads run.
pub(crate) fn wait(py: Python<'_>, begun: Begun) -> Decision {
    let decision = match begun {
        Begun::Decided(decision) => decision,
        Begun::Pending(pending) => py.detach(|| pending.wait()),
    };
    Decision { decision }
}

/// Has the decision put into a mailbox, unless it is there at once.
pub(crate) fn post(py: Python<'_>, begun: Begun, mailbox: &Mailbox) -> PyResult<Py<PyAny>> {
    match begun {
        Begun::Decided(decision) => Ok(Decision { decision }.into_pyobject(py)?.into_any().unbind()),
        Begun::Pending(pending) => {
            let ticket = mailbox.expect(pending);
            Ok(ticket.into_pyobject(py)?.into_any().unbind())
        }
    }
}

//! An engine that can be closed: what both classes of limiters are made of.

use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::prelude::*;
use tidegate_engine::engine::Engine;

use crate::errors::usage;
use crate::stats::Stats;

pub(crate) struct Handle {
    engine: Engine,
    is_closed: AtomicBool,
}

impl Handle {
    pub(crate) fn new(engine: Engine) -> Self {
        Self { engine, is_closed: AtomicBool::new(false) }
    }

    /// The engine, unless it was closed.
    pub(crate) fn open(&self) -> PyResult<&Engine> {
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

    pub(crate) fn stats(&self) -> PyResult<Stats> {
        Ok(Stats { stats: self.open()?.stats() })
    }

    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        self.engine.clear();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::SeqCst)
    }
}

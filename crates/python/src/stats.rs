//! What a limiter has done.

use pyo3::prelude::*;
use tidegate_engine::engine::EngineStats;

#[pyclass(frozen, module = "tidegate._native")]
pub(crate) struct Stats {
    pub(crate) stats: EngineStats,
}

#[pymethods]
impl Stats {
    #[getter]
    fn allowed(&self) -> u64 {
        self.stats.store.allowed
    }

    #[getter]
    fn denied(&self) -> u64 {
        self.stats.store.denied
    }

    #[getter]
    fn degraded(&self) -> u64 {
        self.stats.degraded
    }

    #[getter]
    fn keys(&self) -> u64 {
        self.stats.store.keys
    }

    #[getter]
    fn bytes(&self) -> u64 {
        self.stats.store.bytes
    }

    #[getter]
    fn expired(&self) -> u64 {
        self.stats.store.expired
    }

    #[getter]
    fn evicted(&self) -> u64 {
        self.stats.store.evicted
    }

    #[getter]
    fn generation(&self) -> u64 {
        self.stats.generation
    }

    fn __repr__(&self) -> String {
        let EngineStats { store, degraded, generation } = self.stats;
        format!(
            "Stats(allowed={}, denied={}, degraded={degraded}, keys={}, bytes={}, expired={}, evicted={}, generation={generation})",
            store.allowed, store.denied, store.keys, store.bytes, store.expired, store.evicted
        )
    }
}

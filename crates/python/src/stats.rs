//! What a limiter has done.

use std::collections::BTreeMap;

use pyo3::prelude::*;
use tidegate_engine::engine::EngineStats;
use tidegate_store::store::StoreError;

/// What a limiter has done since it was made.
#[pyclass(frozen, module = "tidegate._native")]
pub(crate) struct Stats {
    pub(crate) stats: EngineStats,
}

#[pymethods]
impl Stats {
    /// Checks that were allowed.
    #[getter]
    fn allowed(&self) -> u64 {
        self.stats.store.allowed
    }

    /// Checks that were denied.
    #[getter]
    fn denied(&self) -> u64 {
        self.stats.store.denied
    }

    /// Checks that were decided without the store (they are in `allowed` or `denied` as well).
    #[getter]
    fn degraded(&self) -> u64 {
        self.stats.degraded
    }

    /// The same by reason.
    #[getter]
    fn degraded_by(&self) -> BTreeMap<&'static str, u64> {
        let counted = StoreError::KINDS.into_iter().zip(self.stats.degraded_by);
        counted.filter(|&(_, count)| count > 0).collect()
    }

    /// States held now: one for each pair of quota and key that is not at full credit.
    #[getter]
    fn keys(&self) -> u64 {
        self.stats.store.keys
    }

    /// Memory held for them, in bytes.
    #[getter]
    fn bytes(&self) -> u64 {
        self.stats.store.bytes
    }

    /// States dropped because they were back at full credit.
    #[getter]
    fn expired(&self) -> u64 {
        self.stats.store.expired
    }

    /// States dropped early because `max_keys` was reached.
    #[getter]
    fn evicted(&self) -> u64 {
        self.stats.store.evicted
    }

    /// The generation of the quotas in force.
    #[getter]
    fn generation(&self) -> u64 {
        self.stats.generation
    }

    fn __repr__(&self) -> String {
        let EngineStats { store, degraded, generation, .. } = self.stats;
        format!(
            "Stats(allowed={}, denied={}, degraded={degraded}, keys={}, bytes={}, expired={}, evicted={}, generation={generation})",
            store.allowed, store.denied, store.keys, store.bytes, store.expired, store.evicted
        )
    }
}

//! How a shared store is doing, as plain values: `tidegate.Health` gives them names.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use tidegate_engine::remote::Health;
use tidegate_store::redis::io;

/// To be called in a forked child before anything else: what reaches a shared store has to be made anew there.
#[pyfunction]
pub(crate) fn forked() {
    io::forked();
}

#[allow(clippy::cast_precision_loss, reason = "a difference of clocks, for people")]
pub(crate) fn to_dict<'py>(py: Python<'py>, health: &Health) -> PyResult<Bound<'py, PyDict>> {
    let shards = health.shards.iter().map(|shard| {
        let entry = PyDict::new(py);
        entry.set_item("name", &*shard.name)?;
        entry.set_item("is_up", shard.is_up)?;
        entry.set_item("breaker", shard.breaker)?;
        entry.set_item("why", &shard.why)?;
        entry.set_item("version", &shard.version)?;
        entry.set_item("role", &shard.role)?;
        entry.set_item("maxmemory_policy", &shard.maxmemory_policy)?;
        entry.set_item("slots", shard.slots)?;
        Ok(entry)
    });
    let entry = PyDict::new(py);
    entry.set_item("store", &health.store)?;
    entry.set_item("shards", PyList::new(py, shards.collect::<PyResult<Vec<_>>>()?)?)?;
    entry.set_item("instances", health.instances)?;
    entry.set_item("deny_cache_hits", health.denials)?;
    entry.set_item("advanced", health.advanced)?;
    entry.set_item("advance_units", health.advance_units)?;
    entry.set_item("late_answers", health.late)?;
    entry.set_item("owed", health.owed)?;
    entry.set_item("clock_skew", health.skew_ns as f64 / 1e9)?;
    entry.set_item("warnings", &health.warnings)?;
    Ok(entry)
}

//! The module `tidegate._native`: the one place where Python meets Rust.
//!
//! What each name does is documented in `python/tidegate/_native.pyi`, which users see; a check of `make lint` fails when the two differ.
//!
//! Calls to the memory store keep the GIL: a decision takes less time than giving it up and taking it back, and because no thread can be inside a
//! store while another one forks, the child of a fork never inherits a locked shard. Calls to a shared store give it up while they wait; a forked
//! child makes its way to such a store anew.

use pyo3::prelude::*;

mod clock;
mod config;
mod convert;
mod decision;
mod descriptors;
mod engine;
mod errors;
mod facts;
mod handle;
mod health;
mod mailbox;
mod rules;
mod server;
mod stats;

/// Exact decisions, in Rust.
#[pymodule(gil_used = true)]
mod _native {
    use pyo3::prelude::*;

    #[pymodule_export]
    use super::clock::ManualClock;
    #[pymodule_export]
    use super::config::{format_quota, member_digest, parse_quotas};
    #[pymodule_export]
    use super::decision::{Decision, QuotaStatus};
    #[pymodule_export]
    use super::engine::Engine;
    #[pymodule_export]
    use super::health::forked;
    #[pymodule_export]
    use super::mailbox::Mailbox;
    #[pymodule_export]
    use super::rules::{RuleEngine, check_regex};
    #[pymodule_export]
    use super::server::{Server, check_store};
    #[pymodule_export]
    use super::stats::Stats;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}

//! What all handlers share.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use parking_lot::Mutex;
use tidegate_engine::engine::Engine;

use crate::metrics::Metrics;
use crate::settings::Settings;
use crate::top::Top;
use crate::trace::Tracer;

/// What all handlers share.
#[derive(Debug)]
pub struct App {
    /// Who decides.
    pub engine: Arc<Engine>,
    /// How the service is set up.
    pub settings: Settings,
    /// What is counted.
    pub metrics: Metrics,
    /// Who is denied most.
    pub top: Top,
    /// Who sends traces, if they go anywhere.
    pub tracer: Option<Tracer>,
    /// When the service began.
    pub started: Instant,
    is_draining: AtomicBool,
    reload_problem: Mutex<Option<Arc<str>>>,
}

/// Who sent a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// Its address; `None` for a unix socket.
    pub address: Option<IpAddr>,
}

impl App {
    /// An app that is ready to serve.
    pub fn new(engine: Arc<Engine>, settings: Settings) -> Self {
        Self {
            metrics: Metrics::new(&settings),
            top: Top::new(settings.top_size, settings.top_keys),
            tracer: settings.otlp.as_ref().map(Tracer::start),
            engine,
            settings,
            started: Instant::now(),
            is_draining: AtomicBool::new(false),
            reload_problem: Mutex::new(None),
        }
    }

    /// Whether new requests should go elsewhere: the service is about to stop. It still serves.
    pub fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::Relaxed)
    }

    /// Tells those who ask for readiness that the service is about to stop.
    pub fn begin_drain(&self) {
        self.is_draining.store(true, Ordering::Relaxed);
    }

    /// Notes how an attempt to load other rules went: what is wrong with them, or `None` if they are in force.
    pub fn note_reload(&self, problem: Option<&str>) {
        self.metrics.count_reload(problem.is_none());
        *self.reload_problem.lock() = problem.map(Arc::from);
    }

    /// Why the rules on disk are not the ones in force, if so.
    pub fn reload_problem(&self) -> Option<Arc<str>> {
        self.reload_problem.lock().clone()
    }
}

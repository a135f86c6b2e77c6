//! What all handlers share.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use tidegate_engine::engine::Engine;
use tokio::sync::watch;

use crate::access_log::AccessLog;
use crate::events::Events;
use crate::metrics::{Metrics, Port};
use crate::proxy::Proxy;
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
    /// Decisions that the control plane is told of, if there is one.
    pub events: Option<Events>,
    /// Who sends traces, if they go anywhere.
    pub tracer: Option<Tracer>,
    /// Who forwards requests, if anybody does.
    pub proxy: Option<Proxy>,
    /// Where a line for each forwarded request goes, if it goes anywhere.
    pub access_log: Option<Arc<AccessLog>>,
    /// When the service began.
    pub started: Instant,
    phase: watch::Sender<Phase>,
    reload_problem: Mutex<Option<Arc<str>>>,
    control_problem: Mutex<Option<Arc<str>>>,
    /// By port.
    tls_problems: Mutex<[Option<Arc<str>>; Port::ALL.len()]>,
}

/// How near the service is to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Nobody asked it to stop.
    Serving,
    /// It still serves, but new requests should go elsewhere.
    Draining,
    /// What runs is finished, nothing new is begun: streams without an end are to be ended.
    Closing,
}

/// Who sent a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// Its address; `None` for a unix socket.
    pub address: Option<IpAddr>,
}

impl App {
    /// An app that is ready to serve.
    #[allow(clippy::disallowed_methods, reason = "when it began is told to people, and decides nothing")]
    pub fn new(engine: Arc<Engine>, settings: Settings) -> Self {
        Self {
            metrics: Metrics::new(&settings),
            top: Top::new(settings.top_size, settings.top_keys),
            events: settings.events.as_ref().map(|events| Events::new(events, settings.top_keys, settings.workers)),
            tracer: settings.otlp.as_ref().map(Tracer::start),
            proxy: settings.proxy.as_ref().map(|proxy| Proxy::new(proxy, settings.workers)),
            access_log: settings.proxy.as_ref().and_then(|proxy| Some(Arc::new(AccessLog::new(proxy.access_log.as_ref()?)))),
            engine,
            settings,
            started: Instant::now(),
            phase: watch::Sender::new(Phase::Serving),
            reload_problem: Mutex::new(None),
            control_problem: Mutex::new(None),
            tls_problems: Mutex::default(),
        }
    }

    /// Whether new requests should go elsewhere: the service is about to stop. It still serves.
    pub fn is_draining(&self) -> bool {
        *self.phase.borrow() >= Phase::Draining
    }

    /// Tells those who ask for readiness that the service is about to stop.
    pub fn begin_drain(&self) {
        self.enter(Phase::Draining);
    }

    /// Tells streams without an end to end.
    pub fn begin_close(&self) {
        self.enter(Phase::Closing);
    }

    /// The phase, for those who wait for the next one.
    pub fn phase(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }

    fn enter(&self, phase: Phase) {
        let is_next = |now: &mut Phase| phase > std::mem::replace(now, phase.max(*now));
        self.phase.send_if_modified(is_next);
    }

    /// Notes how an attempt to read the certificates of a port again went: what is wrong with them, or `None` if they are in force.
    pub fn note_tls(&self, port: Port, problem: Option<&str>) {
        self.tls_problems.lock()[port as usize] = problem.map(Arc::from);
    }

    /// Why certificates on disk are not the ones in force, if so.
    pub fn tls_problem(&self) -> Option<Arc<str>> {
        self.tls_problems.lock().iter().flatten().next().cloned()
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

    /// Notes how the control plane is doing: why its changes do not come into force, or `None` if they do.
    pub fn note_control(&self, problem: Option<&str>) {
        *self.control_problem.lock() = problem.map(Arc::from);
    }

    /// Why changes of the control plane are not in force, if so.
    pub fn control_problem(&self) -> Option<Arc<str>> {
        self.control_problem.lock().clone()
    }
}

//! Listens, serves, drains, stops.
//!
//! | module | holds |
//! | --- | --- |
//! | [`listen`] | sockets that listen, and where |
//! | [`accept`] | takes connections, and gives each to the worker that has the fewest |
//! | [`worker`] | a thread that serves its connections |
//! | [`awake`] | a worker that looks for work instead of sleeping, while there is a lot of it |
//! | [`connection`] | one connection, from the first byte to the last |
//! | [`proxied`] | what a load balancer says about a connection: the PROXY protocol |
//! | [`framing`] | where requests of HTTP/1 begin and end, to see those whose length is ambiguous |
//! | [`stream`] | its bytes: TCP or a unix socket, with TLS or without |
//! | [`activity`] | what it is doing, so that who does nothing can be told to go |
//! | [`answer`] | one request; what a handler that panics costs |
//! | [`crowd`] | how many connections there are, and where |
//! | [`tls`] | certificates, read again when they change |
//! | [`error`] | why a server does not start |
//!
//! A server goes through three phases. It *serves*; it *closes*: takes no more connections, and asks clients to go once their requests are answered;
//! and it *cuts* what is left.

mod accept;
mod activity;
mod answer;
mod awake;
mod connection;
mod crowd;
mod error;
pub mod framing;
mod listen;
pub mod proxied;
mod stream;
mod tls;
mod worker;

pub(crate) use activity::Receiving;
pub(crate) use answer::Unclear;
pub use answer::{Grpc, Handler, Http};
pub use connection::Shortcut;
pub use error::StartError;
pub use listen::Address;
pub(crate) use tls::{authorities, certificates, private_key};

use std::fmt;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::Mutex;
use tidegate_store::redis::io::forks;
use tokio::runtime::Builder;
use tokio::sync::watch;

use crate::app::App;
use crate::metrics::Port;
use crate::settings::Settings;
use crowd::Crowd;
use listen::{Listener, SocketFile};
use tls::Certificates;

/// How often the files of certificates are looked at.
const CERTIFICATES_EVERY: Duration = Duration::from_secs(1);

/// How long connections have to notice that they were cut.
const CUT_WITHIN: Duration = Duration::from_secs(1);

/// A service that answers, until it is dropped.
pub struct Server {
    shared: Arc<Shared>,
    addresses: Addresses,
    files: Mutex<Vec<SocketFile>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// A forked child has the memory of a server but none of its threads.
    forks: u64,
}

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Addresses {
    /// The port of HTTP, if there is one.
    pub http: Option<Address>,
    /// The port of gRPC, if there is one.
    pub grpc: Option<Address>,
    /// The port of the proxy, if there is one.
    pub proxy: Option<Address>,
}

/// What all threads of a server share.
struct Shared {
    app: Arc<App>,
    crowd: Crowd,
    phase: watch::Sender<Phase>,
    protocols: connection::Protocols,
    http_certificates: Option<Certificates>,
    grpc_certificates: Option<Certificates>,
    proxy_certificates: Option<Certificates>,
}

/// What a server is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Serving,
    Closing,
    Cut,
}

impl Server {
    /// Listens on the ports of the settings, and serves them.
    ///
    /// # Errors
    /// A port or a certificate cannot be used, or the system gives no threads. Nothing listens then.
    #[allow(clippy::needless_pass_by_value, reason = "whoever starts a server hands its app over")]
    pub fn start(app: Arc<App>) -> Result<Self, StartError> {
        Self::start_with::<Http, Grpc>(&app)
    }

    /// The same with other handlers.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_with<H: Handler, G: Handler>(app: &Arc<App>) -> Result<Self, StartError> {
        let shared = Arc::new(Shared::new(Arc::clone(app))?);
        let settings = &app.settings;
        let mut listeners = Vec::new();
        let mut addresses = Addresses::default();
        for (port, listener, address) in [
            (Port::Http, settings.http.as_ref(), &mut addresses.http),
            (Port::Grpc, settings.grpc.as_ref(), &mut addresses.grpc),
            (Port::Proxy, settings.proxy.as_ref().map(|proxy| &proxy.listener), &mut addresses.proxy),
        ] {
            let Some(listener) = listener else { continue };
            let bound = listen::bind(port, &listener.listen, settings.reuse_port)?;
            *address = bound.first().map(Listener::address).transpose().map_err(StartError::System)?;
            listeners.extend(bound.into_iter().map(|listener| (port, listener)));
        }
        let files = listeners.iter_mut().filter_map(|(_, listener)| listener.take_file()).collect();
        // From here on, an error drops the server, and that ends the threads that were begun.
        let server = Self {
            threads: Mutex::new(worker::start::<H, G>(&shared, listeners)?),
            shared,
            addresses,
            files: Mutex::new(files),
            forks: forks(),
        };
        server.watch_certificates()?;
        server.tend_upstreams()?;
        Ok(server)
    }

    /// Where it listens; a port of 0 in the settings is the one that the system chose.
    pub fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    /// How many connections are open.
    pub fn connections(&self) -> usize {
        self.shared.crowd.open()
    }

    /// Reads the certificates again now. Without that, it happens within a second after a file changed.
    ///
    /// # Errors
    /// What is wrong with them; the ones in force stay.
    pub fn reload_tls(&self) -> Result<(), String> {
        self.shared.reload_certificates(|certificates| Some(certificates.reload()))
    }

    /// Stops without losing a request: tells those who ask that the service is not ready and serves on for `grace`; then takes no more connections,
    /// waits for the requests under way, but no longer than `limit`, and stops. Returns how many connections were cut.
    ///
    /// Another thread can shorten all that by [`stop`](Self::stop).
    pub fn drain(&self, grace: Duration, limit: Duration) -> usize {
        self.shared.app.begin_drain();
        self.shared.crowd.wait_for_stop(grace);
        self.shared.app.begin_close();
        self.shared.enter(Phase::Closing);
        self.shared.crowd.wait_until_empty(limit);
        let cut = self.shared.crowd.open();
        self.stop();
        cut
    }

    /// Cuts all connections, and stops. Does nothing if that has been done.
    pub fn stop(&self) {
        if self.forks != forks() {
            return;
        }
        self.shared.app.begin_drain();
        self.shared.app.begin_close();
        self.shared.enter(Phase::Cut);
        self.shared.crowd.stop();
        let threads = std::mem::take(&mut *self.threads.lock());
        // What runs on the store's thread ends by itself.
        self.shared.crowd.wait_until_gone(CUT_WITHIN);
        for thread in threads {
            // A thread that panicked has been counted and printed already.
            let _ = thread.join();
        }
        self.files.lock().clear();
        if let Some(log) = &self.shared.app.access_log {
            log.close();
        }
    }

    fn watch_certificates(&self) -> Result<(), StartError> {
        if self.shared.certificates().next().is_none() {
            return Ok(());
        }
        let shared = Arc::clone(&self.shared);
        // A thread of its own, because reading a file can take as long as the disk or the network behind it likes.
        let run = move || {
            while !shared.crowd.wait_for_stop(CERTIFICATES_EVERY) {
                let _ = shared.reload_certificates(Certificates::reload_if_changed);
            }
        };
        let thread = thread::Builder::new().name("tidegate-tls".to_owned()).spawn(run).map_err(StartError::System)?;
        self.threads.lock().push(thread);
        Ok(())
    }
}

impl Server {
    /// Lets servers behind the proxy be checked and looked up, until this one stops.
    fn tend_upstreams(&self) -> Result<(), StartError> {
        if self.shared.app.proxy.is_none() {
            return Ok(());
        }
        let runtime = Builder::new_current_thread().enable_all().build().map_err(StartError::System)?;
        let (app, mut phase) = (Arc::clone(&self.shared.app), self.shared.phase.subscribe());
        let run = move || {
            runtime.block_on(async {
                tokio::select! {
                    () = crate::proxy::tend(app) => {}
                    _ = phase.wait_for(|phase| *phase == Phase::Cut) => {}
                }
            });
            // Looking up a name cannot be interrupted.
            runtime.shutdown_background();
        };
        let thread = thread::Builder::new().name("tidegate-tend".to_owned()).spawn(run).map_err(StartError::System)?;
        self.threads.lock().push(thread);
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("addresses", &self.addresses).finish_non_exhaustive()
    }
}

impl Shared {
    fn new(app: Arc<App>) -> Result<Self, StartError> {
        let load = |port, listener: Option<&crate::settings::Listener>| match listener.and_then(|at| at.tls.as_ref()) {
            Some(files) => Certificates::load(port, files).map(Some),
            None => Ok(None),
        };
        if let Some(proxy) = &app.proxy {
            proxy.prepare().map_err(StartError::Tls)?;
        }
        if let Some(log) = &app.access_log {
            log.open().map_err(StartError::AccessLog)?;
        }
        let Settings { http, grpc, proxy, limits, workers, .. } = &app.settings;
        Ok(Self {
            http_certificates: load(Port::Http, http.as_ref())?,
            grpc_certificates: load(Port::Grpc, grpc.as_ref())?,
            proxy_certificates: load(Port::Proxy, proxy.as_ref().map(|proxy| &proxy.listener))?,
            crowd: Crowd::new((*workers).max(1), limits.connections),
            phase: watch::Sender::new(Phase::Serving),
            protocols: connection::Protocols::new(limits),
            app,
        })
    }

    /// Goes on to a later phase; never back.
    fn enter(&self, phase: Phase) {
        self.phase.send_if_modified(|now| {
            let is_later = *now < phase;
            *now = phase.max(*now);
            is_later
        });
    }

    fn certificates_of(&self, port: Port) -> Option<&Certificates> {
        match port {
            Port::Http => self.http_certificates.as_ref(),
            Port::Grpc => self.grpc_certificates.as_ref(),
            Port::Proxy => self.proxy_certificates.as_ref(),
        }
    }

    fn certificates(&self) -> impl Iterator<Item = &Certificates> {
        self.http_certificates.iter().chain(&self.grpc_certificates).chain(&self.proxy_certificates)
    }

    fn reload_certificates(&self, reload: fn(&Certificates) -> Option<Result<(), String>>) -> Result<(), String> {
        let mut all = Ok(());
        for certificates in self.certificates() {
            let Some(outcome) = reload(certificates) else { continue };
            self.app.note_tls(certificates.port(), outcome.as_ref().err().map(String::as_str));
            all = all.and(outcome);
        }
        all
    }
}

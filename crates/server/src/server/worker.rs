//! A thread that serves its connections.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::accept::{Acceptor, Arrival};
use super::answer::{Handler, Proxy};
use super::awake::stay_awake;
use super::listen::Listener;
use super::{Phase, Shared, StartError, connection};
use crate::metrics::{ConnectionFailure, Port};

/// Where a worker runs.
enum Home {
    /// On a thread of its own.
    Own(Runtime),
    /// On the thread that talks to the store: an answer of the store then wakes no other thread.
    Store(Handle),
}

impl Home {
    /// The home of the first worker.
    fn first(shared: &Shared) -> io::Result<Self> {
        match shared.app.engine.remote() {
            Some(remote) => Ok(Self::Store(remote.io().handle().clone())),
            None => Self::own(),
        }
    }

    fn own() -> io::Result<Self> {
        Builder::new_current_thread().enable_all().build().map(Self::Own)
    }

    fn handle(&self) -> &Handle {
        match self {
            Self::Own(runtime) => runtime.handle(),
            Self::Store(handle) => handle,
        }
    }
}

/// Starts all workers; the first of them also accepts.
pub(super) fn start<H: Handler, G: Handler>(
    shared: &Arc<Shared>,
    listeners: Vec<(Port, Listener)>,
) -> Result<Vec<JoinHandle<()>>, StartError> {
    let homes = (0..shared.crowd.workers()).map(|number| if number == 0 { Home::first(shared) } else { Home::own() });
    let homes = homes.collect::<io::Result<Vec<_>>>().map_err(StartError::System)?;
    let (workers, arrivals): (Vec<_>, Vec<_>) = homes.iter().map(|_| unbounded_channel()).unzip();
    let workers: Arc<[_]> = workers.into();
    if let Some(first) = homes.first().map(Home::handle) {
        let _inside = first.enter();
        for (port, listener) in listeners {
            let listener = listener.accepting().map_err(StartError::System)?;
            let acceptor = Acceptor { listener, port, shared: Arc::clone(shared), workers: Arc::clone(&workers) };
            match port {
                Port::Http => first.spawn(acceptor.run::<H>()),
                Port::Grpc => first.spawn(acceptor.run::<G>()),
                Port::Proxy => first.spawn(acceptor.run::<Proxy>()),
            };
        }
    }
    let mut threads = Vec::new();
    for (number, (home, arrivals)) in homes.into_iter().zip(arrivals).enumerate() {
        let serving = serve::<H, G>(arrivals, Arc::clone(shared));
        let runtime = match home {
            Home::Own(runtime) => runtime,
            Home::Store(handle) => {
                handle.spawn(serving);
                continue;
            }
        };
        // With the runtime all its connections are dropped.
        match thread::Builder::new().name(format!("tidegate-{number}")).spawn(move || runtime.block_on(serving)) {
            Ok(thread) => threads.push(thread),
            Err(why) => {
                shared.enter(Phase::Cut);
                return Err(StartError::System(why));
            }
        }
    }
    Ok(threads)
}

async fn serve<H: Handler, G: Handler>(mut arrivals: UnboundedReceiver<Arrival>, shared: Arc<Shared>) {
    let mut phase = shared.phase.subscribe();
    let busy_poll = shared.app.settings.busy_poll;
    let awake = (!busy_poll.is_zero()).then(|| tokio::spawn(stay_awake(busy_poll)));
    loop {
        tokio::select! {
            biased;
            _ = phase.wait_for(|phase| *phase == Phase::Cut) => break,
            Some(arrival) = arrivals.recv() => begin::<H, G>(arrival),
        }
    }
    // The thread of the store goes on without the server.
    if let Some(awake) = awake {
        awake.abort();
    }
}

fn begin<H: Handler, G: Handler>(Arrival { socket, peer, place }: Arrival) {
    let Ok(socket) = socket.fasten() else {
        return place.failed(ConnectionFailure::Io);
    };
    match place.port() {
        Port::Http => tokio::spawn(connection::serve::<H>(socket, peer, place)),
        Port::Grpc => tokio::spawn(connection::serve::<G>(socket, peer, place)),
        Port::Proxy => tokio::spawn(connection::serve::<Proxy>(socket, peer, place)),
    };
}

//! A thread that serves its connections.

use std::sync::Arc;
use std::thread::{self, JoinHandle};

use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::accept::{Acceptor, Arrival};
use super::answer::Handler;
use super::listen::Listener;
use super::{Phase, Shared, StartError, connection};
use crate::metrics::{ConnectionFailure, Port};

/// Starts all workers; the first of them also accepts.
pub(super) fn start<H: Handler, G: Handler>(
    shared: &Arc<Shared>,
    listeners: Vec<(Port, Listener)>,
) -> Result<Vec<JoinHandle<()>>, StartError> {
    let runtimes = (0..shared.crowd.workers()).map(|_| Builder::new_current_thread().enable_all().build());
    let runtimes = runtimes.collect::<Result<Vec<_>, _>>().map_err(StartError::System)?;
    let (workers, arrivals): (Vec<_>, Vec<_>) = runtimes.iter().map(|_| unbounded_channel()).unzip();
    let workers: Arc<[_]> = workers.into();
    if let Some(first) = runtimes.first() {
        let _inside = first.enter();
        for (port, listener) in listeners {
            let listener = listener.accepting().map_err(StartError::System)?;
            let acceptor = Acceptor { listener, port, shared: Arc::clone(shared), workers: Arc::clone(&workers) };
            match port {
                Port::Http => first.spawn(acceptor.run::<H>()),
                Port::Grpc => first.spawn(acceptor.run::<G>()),
            };
        }
    }
    let mut threads = Vec::new();
    for (number, (runtime, arrivals)) in runtimes.into_iter().zip(arrivals).enumerate() {
        let shared_here = Arc::clone(shared);
        let run = move || serve::<H, G>(runtime, arrivals, &shared_here);
        match thread::Builder::new().name(format!("tidegate-{number}")).spawn(run) {
            Ok(thread) => threads.push(thread),
            Err(why) => {
                shared.enter(Phase::Cut);
                return Err(StartError::System(why));
            }
        }
    }
    Ok(threads)
}

fn serve<H: Handler, G: Handler>(runtime: Runtime, mut arrivals: UnboundedReceiver<Arrival>, shared: &Shared) {
    let mut phase = shared.phase.subscribe();
    runtime.block_on(async {
        loop {
            tokio::select! {
                biased;
                _ = phase.wait_for(|phase| *phase == Phase::Cut) => break,
                Some(arrival) = arrivals.recv() => begin::<H, G>(arrival),
            }
        }
    });
    // Drops all connections.
    drop(runtime);
}

fn begin<H: Handler, G: Handler>(Arrival { socket, peer, place }: Arrival) {
    let Ok(socket) = socket.fasten() else {
        return place.failed(ConnectionFailure::Io);
    };
    match place.port() {
        Port::Http => tokio::spawn(connection::serve::<H>(socket, peer, place)),
        Port::Grpc => tokio::spawn(connection::serve::<G>(socket, peer, place)),
    };
}

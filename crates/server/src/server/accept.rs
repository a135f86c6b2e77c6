//! Takes connections, and gives each to the worker that has the fewest.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::answer::Handler;
use super::crowd::{Alive, Place, Room};
use super::listen::Accepting;
use super::stream::{Loose, Plain};
use super::{Phase, Shared, connection};
use crate::app::Peer;
use crate::metrics::{ConnectionFailure, Port};

/// How long nothing is accepted after the system had no room for it, such as for one more file descriptor.
const PAUSE: Duration = Duration::from_millis(100);

/// How long connections that have begun when a server closes have to be established: a way to clients that are not too far, and back. Not longer, because
/// others who come meanwhile hear nothing for a second.
const BEGUN_WITHIN: Duration = Duration::from_millis(50);

/// A connection on its way to its worker.
pub(super) struct Arrival {
    pub(super) socket: Loose,
    pub(super) peer: Peer,
    pub(super) place: Place,
}

/// A socket that listens, and what becomes of its connections.
pub(super) struct Acceptor {
    pub(super) listener: Accepting,
    pub(super) port: Port,
    pub(super) shared: Arc<Shared>,
    /// The ways to all workers; the first is the one that accepts.
    pub(super) workers: Arc<[UnboundedSender<Arrival>]>,
}

impl Acceptor {
    /// Accepts until the server closes.
    pub(super) async fn run<H: Handler>(self) {
        // The server is not empty while somebody accepts.
        let _alive = Alive::new(&self.shared);
        let mut phase = self.shared.phase.subscribe();
        loop {
            let (socket, peer) = tokio::select! {
                biased;
                _ = phase.wait_for(|phase| *phase >= Phase::Closing) => break,
                next = self.next() => next,
            };
            // Room is taken after the connection, because who waits for one that never comes would hold the room of another.
            let room = tokio::select! {
                biased;
                _ = phase.wait_for(|phase| *phase >= Phase::Closing) => self.shared.crowd.room_now(),
                room = self.shared.crowd.room() => room,
            };
            if let Some(room) = room {
                self.place::<H>(socket, peer, room);
            }
        }
        self.close(phase).await;
    }

    /// Listens no more, and loses nobody who believes to be connected and may have sent a request.
    ///
    /// What the system has not handed over when a socket is closed is reset. So it is told first to begin no more connections, and then asked for those that
    /// it has, and once more for those that it had begun.
    async fn close(self, mut phase: watch::Receiver<Phase>) {
        let Self { listener, port, shared, workers } = self;
        // Not by way of the runtime, which has not heard of those who wait if it was busy.
        let Ok(listener) = listener.into_listener() else { return };
        let take_who_waits = || {
            while let Some(room) = shared.crowd.room_now()
                && let Ok((socket, peer)) = listener.accept()
            {
                let place = Place::take(&shared, port, room);
                // A worker that is gone is one of a server that has stopped.
                let _ = workers[place.worker()].send(Arrival { socket, peer, place });
            }
        };
        let may_have_begun = listener.begin_no_more();
        take_who_waits();
        if may_have_begun {
            let _ = timeout(BEGUN_WITHIN, phase.wait_for(|phase| *phase == Phase::Cut)).await;
            take_who_waits();
        }
    }

    async fn next(&self) -> (Plain, Peer) {
        loop {
            match poll_fn(|context| self.listener.poll_accept(context)).await {
                Ok(next) => return next,
                Err(error) => {
                    self.shared.app.metrics.failed(self.port, ConnectionFailure::Accept);
                    if !is_of_one_connection(&error) {
                        sleep(PAUSE).await;
                    }
                }
            }
        }
    }

    fn place<H: Handler>(&self, socket: Plain, peer: Peer, room: Room) {
        let place = Place::take(&self.shared, self.port, room);
        if place.worker() == 0 {
            tokio::spawn(connection::serve::<H>(socket, peer, place));
            return;
        }
        match socket.loosen() {
            // A worker that is gone is one of a server that has stopped.
            Ok(socket) => drop(self.workers[place.worker()].send(Arrival { socket, peer, place })),
            Err(_) => place.failed(ConnectionFailure::Io),
        }
    }
}

/// Whether an error is about one connection, which went before it was taken, and not about the system.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

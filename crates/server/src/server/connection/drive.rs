//! Keeps a connection going, and knows when it is time to end it.
//!
//! One timer per connection: requests do not touch it, so that a request costs nothing here. It fires a few times per idle timeout and looks whether
//! anything has happened since; and a head that comes in parts moves it forward.

use std::convert::Infallible;
use std::error::Error;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::Service;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::time::{Instant, Sleep, sleep};

use crate::metrics::ConnectionFailure;
use crate::server::activity::{Activity, Counted};
use crate::server::crowd::Place;
use crate::server::stream::Io;
use crate::server::{Phase, Shared};
use crate::settings::Limits;

/// How long requests that are on their way when a server closes have to arrive on an idle connection of HTTP/1, which has no other way to tell its
/// client to send no more.
pub(super) const LINGER: Duration = Duration::from_millis(500);

/// How many quiet looks make a connection idle.
const QUIET_LOOKS: u32 = 4;

/// The longest time between two looks, for who sets timeouts of years.
const LOOK_EVERY_MAX: Duration = Duration::from_hours(1);

/// How a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// As it should.
    Finished,
    /// By a mistake of the other side, or by the network.
    Broken(ConnectionFailure),
    /// The head of a request took too long; the other side has not been told.
    SlowHead,
    /// It was told to go, and did not.
    Stuck,
}

/// A connection of either version of HTTP.
pub(super) trait Connection {
    /// Whether the other side can be told to send no more requests, at any time.
    const CAN_TELL: bool;

    /// Serves until it ends.
    fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<Result<(), ConnectionFailure>>;

    /// Answers what has come, and ends.
    fn finish(&mut self);
}

impl<S> Connection for http1::Connection<TokioIo<Io>, S>
where
    S: Service<Request<Incoming>, Response = Response<Counted>, Error = Infallible>,
{
    const CAN_TELL: bool = false;

    fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<Result<(), ConnectionFailure>> {
        Pin::new(self).poll(context).map_err(|error| failure(&error))
    }

    fn finish(&mut self) {
        Pin::new(self).graceful_shutdown();
    }
}

impl<S> Connection for http2::Connection<TokioIo<Io>, S, TokioExecutor>
where
    S: Service<Request<Incoming>, Response = Response<Counted>, Error = Infallible>,
    S::Future: Send + 'static,
{
    const CAN_TELL: bool = true;

    fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<Result<(), ConnectionFailure>> {
        Pin::new(self).poll(context).map_err(|error| failure(&error))
    }

    fn finish(&mut self) {
        Pin::new(self).graceful_shutdown();
    }
}

/// What the timer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// To look whether anything happens.
    Looking,
    /// To end a head that is too slow; the number of steps at its beginning.
    Head(u32),
    /// To end an idle connection of HTTP/1, because the server closes.
    Lingering,
    /// To cut what does not finish.
    Finishing,
}

/// What keeps a connection going.
struct Drive<'a> {
    activity: &'a Activity,
    limits: &'a Limits,
    state: State,
    is_closing: bool,
    /// When it is too old; `None` is never, or that it has been told.
    old_at: Option<Instant>,
    /// Looks at which nothing had happened, and the number of steps at the last one.
    quiet: u32,
    steps: u32,
    /// While the client does not take what there is for it: what it had taken at a look, and since when that is so.
    blocked: Option<(u32, Instant)>,
}

/// Keeps a connection going until it ends.
pub(super) async fn drive(connection: &mut impl Connection, activity: &Activity, place: &Place) -> End {
    let mut drive = Drive::new(activity, place);
    let mut timer = pin!(sleep(drive.until_look()));
    let mut next_phase = pin!(reached(place.shared(), Phase::Closing));
    poll_fn(|context| {
        loop {
            if let Poll::Ready(ended) = connection.poll_end(context) {
                return Poll::Ready(ended.map_or_else(End::Broken, |()| End::Finished));
            }
            if next_phase.as_mut().poll(context).is_ready() {
                if drive.is_closing {
                    return Poll::Ready(End::Finished);
                }
                drive.is_closing = true;
                next_phase.set(reached(place.shared(), Phase::Cut));
                drive.close(connection, timer.as_mut());
                continue;
            }
            drive.watch_head(connection, timer.as_mut());
            // Whoever does not take an answer does not ask for more of it, so that nobody else looks at the time.
            if let Some(deadline) = activity.deadline().filter(|deadline| *deadline < timer.deadline()) {
                timer.as_mut().reset(deadline);
            }
            std::task::ready!(timer.as_mut().poll(context));
            if let Some(end) = drive.fired(connection, timer.as_mut()) {
                return Poll::Ready(end);
            }
        }
    })
    .await
}

impl<'a> Drive<'a> {
    fn new(activity: &'a Activity, place: &'a Place) -> Self {
        let limits = &place.shared().app.settings.limits;
        let old_at = (!limits.connection_age.is_zero()).then(|| Instant::now() + limits.connection_age.mul_f64(place.jitter()));
        Self { activity, limits, state: State::Looking, is_closing: false, old_at, quiet: 0, steps: 0, blocked: None }
    }

    /// How long until the next look.
    fn until_look(&self) -> Duration {
        let look = (self.limits.idle_timeout / QUIET_LOOKS).clamp(Duration::from_millis(1), LOOK_EVERY_MAX);
        self.old_at.map_or(look, |old_at| look.min(old_at.saturating_duration_since(Instant::now())))
    }

    fn set(&mut self, state: State, timer: Pin<&mut Sleep>, after: Duration) {
        self.state = state;
        timer.reset(Instant::now() + after);
    }

    /// The server closes.
    fn close<C: Connection>(&mut self, connection: &mut C, timer: Pin<&mut Sleep>) {
        if C::CAN_TELL {
            self.finish(connection, timer);
        } else if self.state != State::Finishing {
            self.set(State::Lingering, timer, LINGER);
        }
    }

    fn finish(&mut self, connection: &mut impl Connection, timer: Pin<&mut Sleep>) {
        connection.finish();
        self.set(State::Finishing, timer, self.limits.read_timeout);
    }

    /// Moves the timer forward when a head begins. HTTP/2 needs that not: its connections carry other things than requests, and who only dawdles is idle.
    fn watch_head<C: Connection>(&mut self, _: &C, timer: Pin<&mut Sleep>) {
        if !C::CAN_TELL && self.state == State::Looking && self.activity.is_reading_head() {
            self.set(State::Head(self.activity.steps()), timer, self.limits.read_timeout);
        }
    }

    /// The timer fired.
    fn fired<C: Connection>(&mut self, connection: &mut C, timer: Pin<&mut Sleep>) -> Option<End> {
        let now = Instant::now();
        self.activity.break_off_untaken(self.limits.idle_timeout, now);
        if self.activity.break_off_late(now) || self.is_stuck(now) {
            return Some(End::Stuck);
        }
        match self.state {
            State::Head(steps) if self.activity.is_reading_head() => {
                if steps == self.activity.steps() {
                    return Some(End::SlowHead);
                }
                self.set(State::Head(self.activity.steps()), timer, self.limits.read_timeout);
            }
            State::Head(_) => self.set(State::Looking, timer, self.until_look()),
            State::Looking => self.look(connection, timer),
            State::Lingering => self.finish(connection, timer),
            // A server that closes waits for requests under way as long as it was told to.
            State::Finishing if self.activity.is_forwarding() || (self.is_closing && self.activity.is_running()) => {
                self.set(State::Finishing, timer, self.limits.read_timeout);
            }
            State::Finishing => return Some(End::Stuck),
        }
        None
    }

    /// Whether the client has not taken anything of what there is for it for as long as it may be idle.
    fn is_stuck(&mut self, now: Instant) -> bool {
        self.blocked = self.activity.blocked_at().map(|at| self.blocked.filter(|blocked| blocked.0 == at).unwrap_or((at, now)));
        self.blocked.is_some_and(|(_, since)| now.saturating_duration_since(since) >= self.limits.idle_timeout)
    }

    fn look<C: Connection>(&mut self, connection: &mut C, timer: Pin<&mut Sleep>) {
        if self.old_at.is_some_and(|old_at| old_at <= Instant::now()) {
            self.old_at = None;
            if C::CAN_TELL {
                return self.finish(connection, timer);
            }
            self.activity.end_soon();
        }
        let steps = self.activity.steps();
        let is_quiet = steps == self.steps
            && !self.activity.is_streaming()
            && !self.activity.is_forwarding()
            && !self.activity.has_received();
        self.quiet = if is_quiet { self.quiet + 1 } else { 0 };
        self.steps = steps;
        if self.quiet >= QUIET_LOOKS {
            return self.finish(connection, timer);
        }
        self.set(State::Looking, timer, self.until_look());
    }
}

/// Waits until the server is in a phase, or in a later one.
async fn reached(shared: &Shared, wanted: Phase) {
    // The sender lives in what is shared.
    let _ = shared.phase.subscribe().wait_for(|phase| *phase >= wanted).await;
}

/// What ended a connection, as far as it can be told.
fn failure(error: &hyper::Error) -> ConnectionFailure {
    let mut cause: Option<&dyn Error> = Some(error);
    while let Some(error) = cause {
        if error.is::<io::Error>() {
            return ConnectionFailure::Io;
        }
        cause = error.source();
    }
    if error.is_incomplete_message() || error.is_closed() || error.is_canceled() {
        return ConnectionFailure::Io;
    }
    ConnectionFailure::Protocol
}

//! A connection for a thread that waits.
//!
//! A call that goes through the queue wakes the task of the connection, and its answer wakes the task and then the caller. Where a core sleeps, each of
//! these takes longer than the server needs to answer. A thread that has nothing else to do writes and reads on a connection of its own instead. There
//! is one for each server, which only one thread has at a time, and only while nothing is under way on the other: who is in company travels with it.
//!
//! The thread of an event loop has it too, but must not wait there: see `lane.rs`.

use std::io::ErrorKind;
use std::time::Duration;

use tidegate_core::time::Ticks;
use tokio::time::{Instant, timeout};

use super::greet;
use super::link::{broken, hung_up};
use super::stream::{Direction, Socket, Stream, Wire};
use crate::clock::monotonic_ns;
use crate::redis::resp::{Parser, Value};
use crate::store::StoreError;

/// A connection that is logged in, and that no call is under way on.
#[derive(Debug)]
pub(super) struct Line {
    wire: Wire,
    parser: Parser,
    /// Whether the last read took all that there was.
    is_dry: bool,
}

/// What became of a call.
#[derive(Debug)]
pub(super) enum Exchanged {
    /// It was answered.
    Answer(Line, Value),
    /// Not a byte was sent: the connection is of no use any more.
    NotSent,
    /// It was sent, at least in part, and the connection is gone.
    Lost(StoreError),
    /// It was not answered in time.
    Late(Sent),
}

/// A call that was sent, at least in part, and not answered yet.
#[derive(Debug)]
pub(super) struct Sent {
    line: Line,
    /// What the connection did not take.
    rest: Vec<u8>,
}

impl Line {
    /// `None` if bytes do not travel on the connection as they are.
    pub(super) fn new(stream: Stream, parser: Parser) -> Option<Self> {
        Some(Self { wire: stream.into_wire()?, parser, is_dry: false })
    }

    /// Sends a command, and waits for its answer until the deadline, by [`monotonic_ns`].
    pub(super) fn exchange(mut self, command: &[u8], deadline: Ticks) -> Exchanged {
        if !self.is_silent() {
            return Exchanged::NotSent;
        }
        let mut rest = command;
        let answer = loop {
            match self.step(&mut rest, deadline) {
                Ok(Some(value)) => break value,
                Ok(None) => {}
                Err(_) if rest.len() == command.len() => return Exchanged::NotSent,
                Err(Stop::TooLate) => return Exchanged::Late(Sent { line: self, rest: rest.to_vec() }),
                Err(Stop::Broken(why)) => return Exchanged::Lost(why),
            }
        };
        Exchanged::Answer(self, answer)
    }

    /// A server that hung up, or said what nobody asked for, is found out before it is trusted with a charge.
    pub(super) fn is_silent(&mut self) -> bool {
        self.is_dry = false;
        matches!(self.wire.read(self.parser.space()), Err(error) if error.kind() == ErrorKind::WouldBlock)
            && self.parser.rest().is_empty()
    }

    /// Waits until the connection takes or gives something, and lets it.
    fn step(&mut self, rest: &mut &[u8], deadline: Ticks) -> Result<Option<Value>, Stop> {
        if rest.is_empty() {
            self.wait(Direction::In, deadline)?;
            return Ok(self.receive()?);
        }
        match self.write(rest)? {
            0 => self.wait(Direction::Out, deadline)?,
            length => *rest = &rest[length..],
        }
        Ok(None)
    }

    /// Lets the connection take what it will, which may be nothing.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<usize, StoreError> {
        match self.wire.write(bytes) {
            Ok(0) => Err(broken(&ErrorKind::WriteZero.into())),
            Ok(length) => Ok(length),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
            Err(error) => Err(broken(&error)),
        }
    }

    /// The next answer, if all of it has come.
    pub(super) fn receive(&mut self) -> Result<Option<Value>, StoreError> {
        loop {
            let value = self.parser.next_value().map_err(|error| greet::strange(error, self.parser.rest()))?;
            if value.is_some() || std::mem::take(&mut self.is_dry) {
                return Ok(value);
            }
            let space = self.parser.space();
            let room = space.len();
            match self.wire.read(space) {
                Ok(0) => return Err(hung_up()),
                Ok(length) => {
                    self.is_dry = length < room;
                    self.parser.filled(length);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(broken(&error)),
            }
        }
    }

    /// What is readable when something came.
    pub(super) fn socket(&self) -> Socket<'_> {
        self.wire.socket()
    }

    /// Gives it to the runtime of the task that calls this.
    pub(super) fn into_stream(self) -> Result<(Stream, Parser), StoreError> {
        let stream = Stream::from_wire(self.wire).map_err(|error| broken(&error))?;
        Ok((stream, self.parser))
    }

    fn wait(&self, direction: Direction, deadline: Ticks) -> Result<(), Stop> {
        let left = Duration::from_nanos(deadline.saturating_sub(monotonic_ns()));
        if left.is_zero() || !self.wire.wait(direction, left).map_err(|error| broken(&error))? {
            Err(Stop::TooLate)
        } else {
            Ok(())
        }
    }
}

/// Why an exchange does not go on.
enum Stop {
    TooLate,
    Broken(StoreError),
}

impl From<StoreError> for Stop {
    fn from(why: StoreError) -> Self {
        Self::Broken(why)
    }
}

/// Why a connection is given up that does not answer.
pub(super) fn stalled(limit: Duration) -> StoreError {
    StoreError::unavailable(format!("no answer within {limit:?}; the connection was given up"))
}

impl Sent {
    /// Waits for the answer after all, in a task; not longer than on any connection.
    pub(super) async fn answer(self, stall_limit: Duration) -> Result<Value, StoreError> {
        let Self { line, rest } = self;
        let answer = async move {
            let (mut stream, mut parser) = line.into_stream()?;
            greet::send(&mut stream, &rest, false).await?;
            greet::receive(&mut stream, &mut parser, false).await
        };
        timeout(stall_limit, answer).await.unwrap_or_else(|_| Err(stalled(stall_limit)))
    }
}

/// Whether there is a line, and who has it.
#[derive(Debug, Default)]
pub(super) struct Lines {
    place: Place,
    /// Goes up when all lines become worthless.
    epoch: u64,
    /// Whether the server can be reached.
    is_allowed: bool,
    not_before: Option<Instant>,
}

#[derive(Debug, Default)]
enum Place {
    #[default]
    Empty,
    /// It is being made, or somebody has it.
    Reserved,
    Free(Line),
}

/// What who asks for a line gets. The number is to be given back with it.
#[derive(Debug)]
pub(super) enum Taken {
    Line(Line, u64),
    /// There is none, and who asked is to make one: for the next call.
    Make(u64),
    Nothing,
}

/// After a line was lost, or could not be made, none is made for so long: the server may be out of connections.
const PAUSE: Duration = Duration::from_secs(1);

impl Lines {
    pub(super) fn take(&mut self, now: Instant) -> Taken {
        match std::mem::replace(&mut self.place, Place::Reserved) {
            Place::Free(line) => Taken::Line(line, self.epoch),
            Place::Empty if self.is_allowed && self.not_before.is_none_or(|then| then <= now) => Taken::Make(self.epoch),
            place => {
                self.place = place;
                Taken::Nothing
            }
        }
    }

    /// Takes a line back, or the news that it is gone.
    pub(super) fn put(&mut self, line: Option<Line>, epoch: u64, now: Instant) {
        if epoch != self.epoch {
            return;
        }
        self.place = if let Some(line) = line {
            Place::Free(line)
        } else {
            self.not_before = Some(now + PAUSE);
            Place::Empty
        };
    }

    /// The server can be reached.
    pub(super) fn allow(&mut self) {
        self.is_allowed = true;
    }

    /// The server cannot be reached, or must not be any more.
    pub(super) fn hang_up(&mut self) {
        *self = Self { epoch: self.epoch + 1, ..Self::default() };
    }
}

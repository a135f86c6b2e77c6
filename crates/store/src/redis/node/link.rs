//! A connection while it works: what is queued goes out, what comes back goes to who asked.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep};

use super::life::at;
use super::queue::{Answer, Order, Queue, Queued, closed};
use super::stream::Stream;
use super::{CallError, greet};
use crate::redis::resp::{Parser, Value};
use crate::redis::url::Address;
use crate::store::StoreError;

/// `ASKING`, encoded.
const ASKING: &[u8] = b"*1\r\n$6\r\nASKING\r\n";
/// Room kept when much was written at once.
const KEPT_BYTES: usize = 64 << 10;

/// Why a connection ended.
#[derive(Debug)]
pub(super) enum End {
    /// It broke.
    Broken(StoreError),
    /// The node wanted it.
    Ordered(Order),
}

/// A connection that works.
///
/// It is one future that is polled by hand, and not a reader and a writer: they would have to share the calls in flight, and wake each other.
#[derive(Debug)]
pub(super) struct Link<'a> {
    queue: &'a Queue,
    stream: Stream,
    parser: Parser,
    /// What is to be written, and from where on.
    out: Vec<u8>,
    out_start: usize,
    /// Bytes that were written since the beginning.
    written: u64,
    is_flushed: bool,
    /// In the order of their answers.
    in_flight: VecDeque<InFlight>,
    /// Where the calls of one batch are put; kept for its room.
    taken: Vec<Queued>,
    /// Replies to be delivered; kept for its room.
    answered: Vec<(oneshot::Sender<Answer>, Value)>,
    /// Calls that ended since the queue was told.
    ended: usize,
    stall_limit: Duration,
    /// At the earliest when the oldest call is too old. Set again only when it is over: there is no timer per call.
    stall: Pin<Box<Sleep>>,
    is_armed: bool,
}

/// A call that is being sent, or was.
#[derive(Debug)]
struct InFlight {
    reply: oneshot::Sender<Answer>,
    /// Where it begins among all bytes of the connection.
    begin: u64,
    since: Instant,
    /// The answer to `ASKING` comes first.
    asked: bool,
}

impl<'a> Link<'a> {
    pub(super) fn new(queue: &'a Queue, stream: Stream, parser: Parser, stall_limit: Duration) -> Self {
        Self {
            queue,
            stream,
            parser,
            out: Vec::new(),
            out_start: 0,
            written: 0,
            is_flushed: true,
            in_flight: VecDeque::new(),
            taken: Vec::new(),
            answered: Vec::new(),
            ended: 0,
            stall_limit,
            stall: Box::pin(tokio::time::sleep(stall_limit)),
            is_armed: false,
        }
    }

    /// Works until the connection ends. Every call that was taken is answered then.
    pub(super) async fn run(mut self, address: &Address) -> End {
        let end = match std::future::poll_fn(|context| self.poll(context)).await {
            End::Broken(why) => End::Broken(at(address, why)),
            end @ End::Ordered(_) => end,
        };
        let why = match &end {
            End::Broken(why) => why.clone(),
            End::Ordered(Order::Close) => closed(),
            End::Ordered(Order::Reconnect) => at(address, another()),
        };
        self.deliver();
        for call in self.in_flight.drain(..) {
            let error = if call.begin < self.written { CallError::Lost } else { CallError::NotSent };
            let _ = call.reply.send(Err(error(why.clone())));
            self.ended += 1;
        }
        self.queue.ended(self.ended);
        end
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<End> {
        // First what came: it makes room, and whoever gets an answer may ask again before this task runs the next time.
        if let Err(why) = self.read(context) {
            return Poll::Ready(End::Broken(why));
        }
        let ended = std::mem::take(&mut self.ended);
        if let Some(order) = self.queue.take(&mut self.taken, ended, context) {
            self.accept();
            return Poll::Ready(End::Ordered(order));
        }
        self.accept();
        if let Poll::Ready(Err(error)) = self.write(context) {
            return Poll::Ready(End::Broken(broken(&error)));
        }
        if self.is_stalled(context) {
            let why = format!("no answer within {:?}; the connection was given up", self.stall_limit);
            return Poll::Ready(End::Broken(StoreError::unavailable(why)));
        }
        Poll::Pending
    }

    /// Appends what was taken from the queue to what is to be written.
    fn accept(&mut self) {
        if self.taken.is_empty() {
            return;
        }
        let since = Instant::now();
        for call in self.taken.drain(..) {
            // Its caller gave up while it was waiting; a charge that nobody waits for is not made.
            if call.reply.is_closed() {
                self.ended += 1;
                continue;
            }
            let begin = self.written + (self.out.len() - self.out_start) as u64;
            if call.asking {
                self.out.extend_from_slice(ASKING);
            }
            self.out.extend_from_slice(call.command.as_bytes());
            self.in_flight.push_back(InFlight { reply: call.reply, begin, since, asked: call.asking });
        }
    }

    fn write(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.out_start < self.out.len() {
            let length = ready!(Pin::new(&mut self.stream).poll_write(context, &self.out[self.out_start..]))?;
            if length == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.out_start += length;
            self.written += length as u64;
            self.is_flushed = false;
        }
        self.out_start = 0;
        self.out.clear();
        self.out.shrink_to(KEPT_BYTES);
        // TLS keeps bytes back.
        if !self.is_flushed {
            ready!(Pin::new(&mut self.stream).poll_flush(context))?;
            self.is_flushed = true;
        }
        Poll::Ready(Ok(()))
    }

    fn read(&mut self, context: &mut Context<'_>) -> Result<(), StoreError> {
        loop {
            let mut space = ReadBuf::new(self.parser.space());
            match Pin::new(&mut self.stream).poll_read(context, &mut space) {
                Poll::Pending => return Ok(()),
                Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => return Err(hung_up()),
                Poll::Ready(Err(error)) => return Err(broken(&error)),
                Poll::Ready(Ok(())) => {}
            }
            let length = space.filled().len();
            if length == 0 {
                return Err(hung_up());
            }
            self.parser.filled(length);
            while let Some(value) = self.parser.next_value().map_err(|error| greet::strange(error, self.parser.rest()))? {
                self.match_reply(value)?;
            }
            self.deliver();
        }
    }

    /// Finds the call that a reply belongs to.
    fn match_reply(&mut self, value: Value) -> Result<(), StoreError> {
        let Some(call) = self.in_flight.front_mut() else {
            return Err(StoreError::protocol("a reply that nobody asked for"));
        };
        if std::mem::take(&mut call.asked) {
            // If `ASKING` failed, so does the command, and says why.
            return Ok(());
        }
        if let Some(call) = self.in_flight.pop_front() {
            self.answered.push((call.reply, value));
        }
        Ok(())
    }

    /// Gives the replies to those who asked. The queue is told first, so that it has room for who asks again at once.
    fn deliver(&mut self) {
        if self.answered.is_empty() {
            return;
        }
        self.queue.ended(std::mem::take(&mut self.ended) + self.answered.len());
        for (reply, value) in self.answered.drain(..) {
            let _ = reply.send(Ok(value));
        }
    }

    /// Whether the oldest call is too old.
    fn is_stalled(&mut self, context: &mut Context<'_>) -> bool {
        loop {
            if self.is_armed && self.stall.as_mut().poll(context).is_pending() {
                return false;
            }
            let Some(oldest) = self.in_flight.front() else {
                self.is_armed = false;
                return false;
            };
            let deadline = oldest.since + self.stall_limit;
            if self.is_armed && self.stall.deadline() >= deadline {
                return true;
            }
            self.stall.as_mut().reset(deadline);
            self.is_armed = true;
        }
    }
}

pub(super) fn broken(error: &io::Error) -> StoreError {
    StoreError::unavailable(format!("the connection broke: {error}"))
}

pub(super) fn hung_up() -> StoreError {
    StoreError::unavailable("the server closed the connection")
}

/// What calls get whose connection is given up for another.
pub(super) fn another() -> StoreError {
    StoreError::unavailable("another connection was asked for")
}

//! One socket that never blocks, and the protocol on it.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

const READ_BYTES: usize = 64 * 1024;

/// An answer to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Answer {
    /// When the call was due.
    pub(crate) due_ns: u64,
    pub(crate) is_good: bool,
}

/// A protocol: calls become bytes, and bytes answers.
pub(crate) trait Wire {
    /// What the client says first.
    fn greet(&mut self, out: &mut Vec<u8>);

    /// Whether another call can be made now.
    fn has_room(&self) -> bool;

    /// Makes a call with one of the bodies.
    fn ask(&mut self, due_ns: u64, turn: usize, out: &mut Vec<u8>);

    /// Takes what the server said, and replies where the protocol wants it; returns how many bytes were used.
    fn hear(&mut self, said: &[u8], out: &mut Vec<u8>, answers: &mut VecDeque<Answer>) -> io::Result<usize>;

    /// Calls that have no answer yet.
    fn open_calls(&self) -> usize;

    /// No call may be made any more: the server said so, or there are no numbers left.
    fn is_over(&self) -> bool;

    /// Gives up what has no answer.
    fn abandon(&mut self, answers: &mut VecDeque<Answer>);
}

/// A connection to the server.
#[derive(Debug)]
pub(crate) struct Connection<W> {
    pub(crate) stream: TcpStream,
    pub(crate) wire: W,
    outgoing: Vec<u8>,
    incoming: Vec<u8>,
    /// How much of `incoming` is what the server said.
    filled: usize,
}

impl<W: Wire> Connection<W> {
    /// Connects, which may block: this happens before the run, or where the server has closed a connection.
    pub(crate) fn open(address: SocketAddr, mut wire: W) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let mut outgoing = Vec::with_capacity(READ_BYTES);
        wire.greet(&mut outgoing);
        let mut connection = Self { stream, wire, outgoing, incoming: vec![0; READ_BYTES], filled: 0 };
        connection.flush()?;
        Ok(connection)
    }

    pub(crate) fn ask(&mut self, due_ns: u64, turn: usize) -> io::Result<()> {
        self.wire.ask(due_ns, turn, &mut self.outgoing);
        self.flush()
    }

    /// Whether the kernel did not take all that was to be sent.
    pub(crate) fn is_stuck(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Sends what the kernel takes.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        while !self.outgoing.is_empty() {
            match self.stream.write(&self.outgoing) {
                Ok(sent) => drop(self.outgoing.drain(..sent)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads once and appends the answers; `Ok(false)` is the end of the connection.
    pub(crate) fn read(&mut self, answers: &mut VecDeque<Answer>) -> io::Result<bool> {
        if self.filled == self.incoming.len() {
            self.incoming.resize(2 * self.filled, 0);
        }
        let read = match self.stream.read(&mut self.incoming[self.filled..]) {
            Ok(0) => return Ok(false),
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
            Err(error) => return Err(error),
        };
        self.filled += read;
        let used = self.wire.hear(&self.incoming[..self.filled], &mut self.outgoing, answers)?;
        self.incoming.copy_within(used..self.filled, 0);
        self.filled -= used;
        self.flush()?;
        Ok(true)
    }
}

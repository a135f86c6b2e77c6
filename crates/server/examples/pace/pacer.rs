//! The loop: what is due is sent, what is answered is read.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::fd::OwnedFd;

use crate::connection::{Answer, Connection, Wire};
use crate::options::Options;
use crate::record::{Record, clock_s, nanoseconds};
use crate::upstream::{self, Upstream};

/// Connections that are read before it looks again at what is due.
const READ_AT_ONCE: usize = 4;

/// Connections, and the calls that they make.
pub(crate) struct Pacer<W, F> {
    address: SocketAddr,
    wire: F,
    connections: Vec<Connection<W>>,
    epoll: OwnedFd,
    upstream: Option<Upstream>,
    sleeps: bool,
    rate: f64,
    calls: usize,
    patience: Duration,
    /// The connection whose turn it is.
    turn: usize,
    /// Calls that were due when no connection had room, by number.
    waiting: VecDeque<usize>,
    answers: VecDeque<Answer>,
    /// Calls that were made and have no answer.
    open: usize,
    /// A connection has something that the kernel did not take.
    is_stuck: bool,
    record: Record,
    begun: Instant,
}

impl<W: Wire, F: Fn() -> W> Pacer<W, F> {
    /// Opens all connections.
    pub(crate) fn open(options: &Options, wire: F) -> io::Result<Self> {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of calls")]
        let calls = (options.rate * options.seconds.as_secs_f64()) as usize;
        if options.sleeps {
            // By default the kernel wakes a thread up to 50 microseconds late, to save power. Not fatal: `lag_us` shows it.
            let _ = std::fs::write("/proc/self/timerslack_ns", "1");
        }
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let upstream = options.serves.map(|address| Upstream::open(address, &epoll)).transpose()?;
        let mut pacer = Self {
            address: options.address,
            wire,
            connections: Vec::new(),
            epoll,
            upstream,
            sleeps: options.sleeps,
            rate: options.rate,
            calls,
            patience: options.patience,
            turn: 0,
            waiting: VecDeque::new(),
            answers: VecDeque::new(),
            open: 0,
            is_stuck: false,
            record: Record::new(options.warm_up, options.seconds, calls),
            begun: Instant::now(),
        };
        for number in 0..options.connections {
            let connection = pacer.connect(number)?;
            pacer.connections.push(connection);
        }
        Ok(pacer)
    }

    /// Makes all calls, and waits for their answers.
    pub(crate) fn run(mut self) -> io::Result<Record> {
        let mut ready = Vec::with_capacity(READ_AT_ONCE);
        let mut next = 0;
        self.begun = Instant::now();
        self.record.begun_s = clock_s();
        let end_ns = self.due_ns(self.calls) + nanoseconds(self.patience);
        loop {
            let mut now_ns = self.now_ns();
            while next < self.calls && self.due_ns(next) <= now_ns {
                self.record.took_up(self.due_ns(next), now_ns);
                self.waiting.push_back(next);
                self.send_waiting()?;
                next += 1;
                now_ns = self.now_ns();
            }
            self.send_waiting()?;
            self.unstick()?;
            if next == self.calls && (self.open + self.waiting.len() == 0 || now_ns > end_ns) {
                self.record.gave_up(self.open + self.waiting.len());
                return Ok(self.record);
            }
            if self.sleeps && !self.is_stuck {
                let until_ns = if next < self.calls { self.due_ns(next) } else { end_ns };
                self.sleep(Duration::from_nanos(until_ns.saturating_sub(now_ns)))?;
            }
            epoll::wait(&self.epoll, spare_capacity(&mut ready), Some(&Timespec::default()))?;
            for event in ready.drain(..) {
                match (event.data.u64(), &mut self.upstream) {
                    (name @ upstream::NAMES.., Some(upstream)) => upstream.turn(name, &self.epoll)?,
                    (number, _) => self.read(usize::try_from(number).expect("a number of ours"))?,
                }
            }
        }
    }

    /// Makes the calls that are due, each on the next connection with room.
    fn send_waiting(&mut self) -> io::Result<()> {
        while let Some(&call) = self.waiting.front() {
            let count = self.connections.len();
            let Some(number) =
                (0..count).map(|step| (self.turn + step) % count).find(|&number| self.connections[number].wire.has_room())
            else {
                return Ok(());
            };
            self.waiting.pop_front();
            self.turn = number + 1;
            self.open += 1;
            let due_ns = self.due_ns(call);
            let connection = &mut self.connections[number];
            match connection.ask(due_ns, call) {
                Ok(()) => self.is_stuck |= connection.is_stuck(),
                Err(_) => self.reopen(number)?,
            }
        }
        Ok(())
    }

    /// Sends what the kernel did not take before.
    fn unstick(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.is_stuck) {
            for number in 0..self.connections.len() {
                let connection = &mut self.connections[number];
                match connection.flush() {
                    Ok(()) => self.is_stuck |= connection.is_stuck(),
                    Err(_) => self.reopen(number)?,
                }
            }
        }
        Ok(())
    }

    fn read(&mut self, number: usize) -> io::Result<()> {
        let connection = &mut self.connections[number];
        let goes_on = connection.read(&mut self.answers).unwrap_or(false);
        self.is_stuck |= connection.is_stuck();
        let is_over = connection.wire.is_over() && connection.wire.open_calls() == 0;
        self.settle();
        if is_over || !goes_on { self.reopen(number) } else { Ok(()) }
    }

    /// Takes down the answers that have just come.
    fn settle(&mut self) {
        let now_ns = self.now_ns();
        for answer in self.answers.drain(..) {
            self.open -= 1;
            self.record.answered(answer.due_ns, now_ns, answer.is_good);
        }
    }

    /// Replaces a connection; what it has not answered has failed.
    fn reopen(&mut self, number: usize) -> io::Result<()> {
        self.connections[number].wire.abandon(&mut self.answers);
        self.settle();
        self.record.reopened += 1;
        self.connections[number] = self.connect(number)?;
        Ok(())
    }

    fn connect(&self, number: usize) -> io::Result<Connection<W>> {
        let connection = Connection::open(self.address, (self.wire)())?;
        let name = epoll::EventData::new_u64(number as u64);
        epoll::add(&self.epoll, &connection.stream, name, epoll::EventFlags::IN)?;
        Ok(connection)
    }

    /// Sleeps so long, or until there is something to read.
    fn sleep(&self, time: Duration) -> io::Result<()> {
        // `epoll_wait` counts in milliseconds, and `ppoll` in nanoseconds.
        let time = Timespec::try_from(time).map_err(io::Error::other)?;
        poll(&mut [PollFd::new(&self.epoll, PollFlags::IN)], Some(&time))?;
        Ok(())
    }

    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "far below 2^53")]
    fn due_ns(&self, call: usize) -> u64 {
        (call as f64 * 1e9 / self.rate) as u64
    }

    fn now_ns(&self) -> u64 {
        nanoseconds(self.begun.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::thread;

    use serde_json::Value;

    use super::*;
    use crate::http1::Http1;

    const GOES_ON: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
    const CLOSES: &[u8] = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok";

    /// Makes a hundred calls in a tenth of a second to a server that gives this answer, or none at all.
    fn run(answer: Option<&'static [u8]>, more: &str) -> Value {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let words =
            format!("http1 {} / --rate 1000 --seconds 0.1 --warm-up 0 --connections 4{more}", listener.local_addr().unwrap());
        thread::spawn(move || listener.incoming().for_each(|stream| drop(thread::spawn(move || serve(stream.unwrap(), answer)))));
        let mut options = Options::parse(&words.split(' ').map(str::to_owned).collect::<Vec<_>>()).unwrap();
        if answer.is_none() {
            options.patience = Duration::from_millis(10);
        }
        let requests = options.requests().unwrap();
        Pacer::open(&options, || Http1::new(&requests)).unwrap().run().unwrap().report()
    }

    fn serve(mut stream: TcpStream, answer: Option<&[u8]>) {
        let mut request = [0; 1024];
        // A request arrives as it was sent, in one piece.
        while stream.read(&mut request).is_ok_and(|read| read > 0) {
            if let Some(answer) = answer {
                stream.write_all(answer).unwrap();
            }
        }
    }

    #[test]
    fn every_call_is_made_once_and_answered() {
        for more in ["", " --sleep"] {
            let report = run(Some(GOES_ON), more);
            assert_eq!([&report["calls"], &report["errors"], &report["unanswered"], &report["reopened"]], [100, 0, 0, 0]);
        }
    }

    #[test]
    fn a_connection_that_the_server_closes_is_opened_again() {
        let report = run(Some(CLOSES), "");
        assert_eq!([&report["calls"], &report["errors"], &report["unanswered"], &report["reopened"]], [100, 0, 0, 100]);
    }

    #[test]
    fn a_server_that_says_nothing_is_not_waited_for_forever() {
        let report = run(None, " --sleep");
        assert_eq!([&report["calls"], &report["errors"], &report["unanswered"]], [0, 0, 100]);
    }

    #[test]
    fn a_generator_can_be_the_server_too() {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        for more in ["", " --sleep"] {
            let words =
                format!("http1 {address} / --rate 1000 --seconds 0.1 --warm-up 0 --connections 4 --serve {address}{more}");
            let options = Options::parse(&words.split(' ').map(str::to_owned).collect::<Vec<_>>()).unwrap();
            let requests = options.requests().unwrap();
            let report = Pacer::open(&options, || Http1::new(&requests)).unwrap().run().unwrap().report();
            assert_eq!([&report["calls"], &report["errors"], &report["unanswered"], &report["reopened"]], [100, 0, 0, 0]);
        }
    }
}

//! The server behind a proxy, in the thread of the generator: it then has no other to wake, and none that takes its core.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use rustix::event::epoll;
use rustix::fd::OwnedFd;

/// What is named so in events is no connection of the generator.
pub(crate) const NAMES: u64 = 1 << 32;

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 3\r\n\r\nok\n";
const END: &[u8] = b"\r\n\r\n";
const REQUEST_BYTES: usize = 16 * 1024;

/// A listener, and those who are connected.
#[derive(Debug)]
pub(crate) struct Upstream {
    listener: TcpListener,
    /// By name; `None` has gone.
    clients: Vec<Option<Client>>,
}

#[derive(Debug)]
struct Client {
    stream: TcpStream,
    /// What has come of a request.
    begun: Vec<u8>,
}

impl Upstream {
    /// Listens.
    pub(crate) fn open(address: SocketAddr, epoll: &OwnedFd) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        epoll::add(epoll, &listener, epoll::EventData::new_u64(NAMES), epoll::EventFlags::IN)?;
        Ok(Self { listener, clients: Vec::new() })
    }

    /// Does what an event of this name is about.
    pub(crate) fn turn(&mut self, name: u64, epoll: &OwnedFd) -> io::Result<()> {
        let Some(number) = usize::try_from(name - NAMES).expect("a number of ours").checked_sub(1) else {
            return self.accept(epoll);
        };
        if let Some(client) = &mut self.clients[number]
            && !client.answer().unwrap_or(false)
        {
            self.clients[number] = None;
        }
        Ok(())
    }

    fn accept(&mut self, epoll: &OwnedFd) -> io::Result<()> {
        let stream = match self.listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        };
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        self.clients.push(Some(Client { stream, begun: Vec::new() }));
        let name = epoll::EventData::new_u64(NAMES + self.clients.len() as u64);
        let stream = self.clients.last().and_then(Option::as_ref).map(|client| &client.stream).expect("it was just added");
        epoll::add(epoll, stream, name, epoll::EventFlags::IN).map_err(io::Error::from)
    }
}

impl Client {
    /// Answers the requests that have come; `false` is the end of the connection.
    fn answer(&mut self) -> io::Result<bool> {
        let mut bytes = [0; REQUEST_BYTES];
        let count = match self.stream.read(&mut bytes) {
            Ok(0) => return Ok(false),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
            Err(error) => return Err(error),
        };
        self.begun.extend_from_slice(&bytes[..count]);
        while let Some(end) = self.begun.windows(END.len()).position(|part| part == END) {
            self.begun.drain(..end + END.len());
            // It is smaller than what the kernel always takes from who waits for it.
            self.stream.write_all(ANSWER)?;
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_comes_in_parts_is_answered_once_and_two_at_once_are_both() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut asking = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut client = Client { stream: listener.accept().unwrap().0, begun: Vec::new() };
        let mut answered = vec![0; ANSWER.len()];
        for parts in
            [&[&b"GET / HT"[..], b"TP/1.1\r\nhost: a\r\n\r", b"\n"][..], &[b"GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n"]]
        {
            for part in parts {
                asking.write_all(part).unwrap();
                assert!(client.answer().unwrap());
            }
            asking.read_exact(&mut answered).unwrap();
            assert_eq!(answered, ANSWER);
        }
        asking.read_exact(&mut answered).unwrap();
        drop(asking);
        assert!(!client.answer().unwrap());
    }
}

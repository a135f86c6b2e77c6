//! HTTP/1.1: one call at a time on a connection that is kept.

use std::collections::VecDeque;
use std::io;

use crate::connection::{Answer, Wire};
use crate::options::Requests;

const FIELDS_MAX: usize = 64;

/// The protocol on one connection.
#[derive(Debug)]
pub(crate) struct Http1 {
    requests: Vec<Vec<u8>>,
    /// When the call was due that has no answer yet.
    asked: Option<u64>,
    is_over: bool,
}

/// A whole answer at the beginning of what the server said.
#[derive(Debug, PartialEq, Eq)]
struct Whole {
    bytes: usize,
    status: u16,
    closes: bool,
}

/// How the end of a body is known.
enum Length {
    Bytes(usize),
    Chunked,
}

impl Http1 {
    /// Writes all requests, which take turns.
    pub(crate) fn new(requests: &Requests) -> Self {
        let bodies = if requests.bodies.is_empty() { &[Vec::new()][..] } else { &requests.bodies };
        Self { requests: bodies.iter().map(|body| written(requests, body)).collect(), asked: None, is_over: false }
    }
}

impl Wire for Http1 {
    fn greet(&mut self, _: &mut Vec<u8>) {}

    fn has_room(&self) -> bool {
        self.asked.is_none() && !self.is_over
    }

    fn ask(&mut self, due_ns: u64, turn: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.requests[turn % self.requests.len()]);
        self.asked = Some(due_ns);
    }

    fn hear(&mut self, said: &[u8], _: &mut Vec<u8>, answers: &mut VecDeque<Answer>) -> io::Result<usize> {
        let Some(whole) = read(said)? else { return Ok(0) };
        let due_ns = self.asked.take().ok_or_else(|| io::Error::other("an answer to no question"))?;
        answers.push_back(Answer { due_ns, is_good: whole.status == 200 });
        self.is_over = whole.closes;
        Ok(whole.bytes)
    }

    fn open_calls(&self) -> usize {
        usize::from(self.asked.is_some())
    }

    fn is_over(&self) -> bool {
        self.is_over
    }

    fn abandon(&mut self, answers: &mut VecDeque<Answer>) {
        answers.extend(self.asked.take().map(|due_ns| Answer { due_ns, is_good: false }));
    }
}

fn written(requests: &Requests, body: &[u8]) -> Vec<u8> {
    let Requests { authority, path, headers, bodies } = requests;
    let mut head = format!("{} {path} HTTP/1.1\r\nhost: {authority}\r\n", requests.method());
    if !bodies.is_empty() {
        head.extend([format!("content-length: {}\r\n", body.len())]);
    }
    head.extend(headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")));
    [head.as_bytes(), b"\r\n", body].concat()
}

/// Reads an answer from its beginning; `None` where its end is not there yet. Answers are small, so nothing is remembered of the beginning.
fn read(said: &[u8]) -> io::Result<Option<Whole>> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut head = httparse::Response::new(&mut fields);
    let httparse::Status::Complete(head_bytes) = head.parse(said).map_err(io::Error::other)? else { return Ok(None) };
    let (mut length, mut closes) = (None, false);
    for field in head.headers.iter() {
        let is = |name: &str| field.name.eq_ignore_ascii_case(name);
        let value = str::from_utf8(field.value).unwrap_or_default().trim();
        if is("content-length") {
            length = Some(Length::Bytes(value.parse().map_err(io::Error::other)?));
        } else if is("transfer-encoding") && value.eq_ignore_ascii_case("chunked") {
            length = Some(Length::Chunked);
        } else if is("connection") && value.eq_ignore_ascii_case("close") {
            closes = true;
        }
    }
    let body = &said[head_bytes..];
    let body_bytes = match length {
        Some(Length::Bytes(bytes)) => (body.len() >= bytes).then_some(bytes),
        Some(Length::Chunked) => chunked_bytes(body)?,
        None => return Err(io::Error::other("an answer without a length")),
    };
    Ok(body_bytes.map(|bytes| Whole { bytes: head_bytes + bytes, status: head.code.unwrap_or(0), closes }))
}

/// How long a chunked body is, with all that holds its chunks; `None` where its end is not there yet.
fn chunked_bytes(body: &[u8]) -> io::Result<Option<usize>> {
    let mut at = 0;
    loop {
        let parsed = httparse::parse_chunk_size(&body[at..]).map_err(|_| io::Error::other("not the size of a chunk"))?;
        let httparse::Status::Complete((line, size)) = parsed else { return Ok(None) };
        // Without trailers: a server sends none to a client that did not ask for them.
        at = at.saturating_add(line).saturating_add(usize::try_from(size).unwrap_or(usize::MAX)).saturating_add(2);
        if at > body.len() {
            return Ok(None);
        }
        if size == 0 {
            return Ok(Some(at));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    const CHUNKED: &[u8] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n3;x=y\r\nyou\r\n0\r\n\r\n";

    fn requests(bodies: &[&[u8]]) -> Requests {
        Requests {
            authority: "127.0.0.1:1".to_owned(),
            path: "/a".to_owned(),
            headers: vec![("x-api-key".to_owned(), "k".to_owned())],
            bodies: bodies.iter().map(|body| body.to_vec()).collect(),
        }
    }

    #[test]
    fn an_answer_ends_where_its_length_says() {
        for whole in [PLAIN, CHUNKED] {
            for cut in 0..whole.len() {
                assert_eq!(read(&whole[..cut]).unwrap(), None, "{cut} bytes are not all");
            }
            let more = [whole, b"HTTP/1.1 "].concat();
            assert_eq!(read(&more).unwrap(), Some(Whole { bytes: whole.len(), status: 200, closes: false }));
        }
    }

    #[test]
    fn what_is_no_answer_is_an_error() {
        assert!(read(b"nonsense\r\n\r\n").is_err());
        assert!(read(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
        assert!(read(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n").is_err());
    }

    #[test]
    fn bodies_take_turns() {
        let (mut wire, mut out) = (Http1::new(&requests(&[b"one", b"three"])), Vec::new());
        wire.ask(7, 3, &mut out);
        assert_eq!(out, b"POST /a HTTP/1.1\r\nhost: 127.0.0.1:1\r\ncontent-length: 5\r\nx-api-key: k\r\n\r\nthree");
        assert!(!wire.has_room());
    }

    #[test]
    fn a_refusal_is_a_bad_answer_and_a_close_ends_the_connection() {
        let (mut wire, mut answers) = (Http1::new(&requests(&[])), VecDeque::new());
        wire.ask(7, 0, &mut Vec::new());
        let said = b"HTTP/1.1 429 Too Many\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
        assert_eq!(wire.hear(said, &mut Vec::new(), &mut answers).unwrap(), said.len());
        assert_eq!(answers, [Answer { due_ns: 7, is_good: false }]);
        assert!(wire.is_over() && !wire.has_room());
    }

    #[test]
    fn a_call_that_is_given_up_was_answered_badly() {
        let (mut wire, mut answers) = (Http1::new(&requests(&[])), VecDeque::new());
        wire.ask(7, 0, &mut Vec::new());
        wire.abandon(&mut answers);
        assert_eq!(answers, [Answer { due_ns: 7, is_good: false }]);
        assert_eq!(wire.open_calls(), 0);
    }
}

//! HTTP/2 with prior knowledge (RFC 9113): many calls at a time on a connection.

use std::collections::VecDeque;
use std::io;

use crate::connection::{Answer, Wire};
use crate::hpack::{self, Decoder, Field};
use crate::options::Requests;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const FRAME_HEAD: usize = 9;
const FRAME_MAX: usize = 16_384;
const WINDOW: u32 = 65_535;
/// How much the server may send on a connection without being told to go on.
const WINDOW_OURS: u32 = 1 << 30;
/// Calls at a time, unless the server allows fewer.
const STREAMS: usize = 100;
const STREAM_LAST: u32 = (1 << 31) - 1;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;

const END_STREAM: u8 = 0x1;
const ACK: u8 = 0x1;
const END_HEADERS: u8 = 0x4;
const PADDED: u8 = 0x8;
const PRIORITY: u8 = 0x20;

const HEADER_TABLE_SIZE: u16 = 1;
const ENABLE_PUSH: u16 = 2;
const MAX_CONCURRENT_STREAMS: u16 = 3;
const INITIAL_WINDOW_SIZE: u16 = 4;

/// The protocol on one connection.
#[derive(Debug)]
pub(crate) struct Http2 {
    first_fields: Vec<u8>,
    other_fields: Vec<u8>,
    bodies: Vec<Vec<u8>>,
    body_max: usize,
    is_grpc: bool,
    decoder: Decoder,
    /// The number of the next call.
    stream: u32,
    /// Calls from the oldest that has no answer on; `None` has one.
    calls: VecDeque<Option<Call>>,
    open_calls: usize,
    streams_max: usize,
    /// How much the server lets us send.
    window: i64,
    /// How much it has sent since it was told to go on.
    heard: u32,
    is_over: bool,
}

/// A call without an answer.
#[derive(Debug, Clone, Copy)]
struct Call {
    due_ns: u64,
    has_status: bool,
    has_grpc_status: bool,
}

/// The head of a frame.
#[derive(Debug, Clone, Copy)]
struct Head {
    bytes: usize,
    kind: u8,
    flags: u8,
    stream: u32,
}

impl Http2 {
    /// Writes the fields of all calls.
    ///
    /// # Panics
    ///
    /// If fields or bodies do not fit into one frame.
    pub(crate) fn new(requests: &Requests) -> Self {
        let mut fields = vec![
            (":method", requests.method()),
            (":scheme", "http"),
            (":authority", &requests.authority),
            (":path", &requests.path),
        ];
        fields.extend(requests.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        let (first_fields, other_fields) = hpack::encode(&fields);
        let body_max = requests.bodies.iter().map(Vec::len).max().unwrap_or(0);
        assert!(body_max <= FRAME_MAX, "a body of {body_max} bytes is more than one frame");
        Self {
            first_fields,
            other_fields,
            bodies: requests.bodies.clone(),
            body_max,
            is_grpc: requests.is_grpc(),
            decoder: Decoder::default(),
            stream: 1,
            calls: VecDeque::new(),
            open_calls: 0,
            streams_max: STREAMS,
            window: WINDOW.into(),
            heard: 0,
            is_over: false,
        }
    }

    fn hear_frame(&mut self, head: Head, payload: &[u8], out: &mut Vec<u8>, answers: &mut VecDeque<Answer>) -> io::Result<()> {
        match head.kind {
            DATA => {
                self.heard += u32::try_from(head.bytes).expect("a length of three bytes");
                if self.heard >= WINDOW_OURS / 2 {
                    put_frame(WINDOW_UPDATE, 0, 0, &std::mem::take(&mut self.heard).to_be_bytes(), out);
                }
            }
            HEADERS => self.hear_fields(head, payload)?,
            RST_STREAM => self.finish(head.stream, answers),
            SETTINGS if head.flags & ACK == 0 => {
                self.agree(payload)?;
                put_frame(SETTINGS, ACK, 0, &[], out);
            }
            PING if head.flags & ACK == 0 => put_frame(PING, ACK, 0, payload, out),
            GOAWAY => self.is_over = true,
            WINDOW_UPDATE if head.stream == 0 => {
                self.window += i64::from(u32::from_be_bytes(payload.try_into().map_err(io::Error::other)?));
            }
            _ => {}
        }
        if matches!(head.kind, DATA | HEADERS) && head.flags & END_STREAM != 0 {
            self.finish(head.stream, answers);
        }
        Ok(())
    }

    fn hear_fields(&mut self, head: Head, payload: &[u8]) -> io::Result<()> {
        if head.flags & END_HEADERS == 0 {
            return Err(io::Error::other("an answer whose fields do not fit into one frame"));
        }
        let padding = if head.flags & PADDED == 0 { 0 } else { 1 + usize::from(payload[0]) };
        let from = usize::from(padding > 0) + if head.flags & PRIORITY == 0 { 0 } else { 5 };
        let block =
            payload.get(from..payload.len() + 1 - padding.max(1)).ok_or_else(|| io::Error::other("more padding than frame"))?;
        let mut call = at(&mut self.calls, self.stream, head.stream);
        self.decoder.decode(block, |field| match (&mut call, field) {
            (Some(call), Field::Status(is_good)) => call.has_status = is_good,
            (Some(call), Field::GrpcStatus(is_good)) => call.has_grpc_status = is_good,
            _ => {}
        })
    }

    /// Takes what the server wants.
    fn agree(&mut self, payload: &[u8]) -> io::Result<()> {
        for setting in payload.chunks_exact(6) {
            let value = u32::from_be_bytes([setting[2], setting[3], setting[4], setting[5]]) as usize;
            match u16::from_be_bytes([setting[0], setting[1]]) {
                HEADER_TABLE_SIZE if value < hpack::TABLE_BYTES => {
                    return Err(io::Error::other("a server with a small table of fields"));
                }
                INITIAL_WINDOW_SIZE if value < self.body_max => {
                    return Err(io::Error::other("a server that takes no body at once"));
                }
                MAX_CONCURRENT_STREAMS => self.streams_max = value.min(STREAMS),
                _ => {}
            }
        }
        Ok(())
    }

    /// A call has its answer, good or bad.
    fn finish(&mut self, stream: u32, answers: &mut VecDeque<Answer>) {
        let Some(call) = slot(&mut self.calls, self.stream, stream).and_then(Option::take) else { return };
        self.open_calls -= 1;
        while let Some(None) = self.calls.front() {
            self.calls.pop_front();
        }
        answers.push_back(Answer { due_ns: call.due_ns, is_good: call.has_status && (call.has_grpc_status || !self.is_grpc) });
    }
}

impl Wire for Http2 {
    fn greet(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(PREFACE);
        put_frame(SETTINGS, 0, 0, &[&ENABLE_PUSH.to_be_bytes()[..], &0_u32.to_be_bytes()].concat(), out);
        put_frame(WINDOW_UPDATE, 0, 0, &(WINDOW_OURS - WINDOW).to_be_bytes(), out);
    }

    fn has_room(&self) -> bool {
        self.open_calls < self.streams_max && self.window >= i64::try_from(self.body_max).unwrap_or(i64::MAX) && !self.is_over()
    }

    fn ask(&mut self, due_ns: u64, turn: usize, out: &mut Vec<u8>) {
        let fields = if self.stream == 1 { &self.first_fields } else { &self.other_fields };
        if self.bodies.is_empty() {
            put_frame(HEADERS, END_HEADERS | END_STREAM, self.stream, fields, out);
        } else {
            let body = &self.bodies[turn % self.bodies.len()];
            put_frame(HEADERS, END_HEADERS, self.stream, fields, out);
            put_frame(DATA, END_STREAM, self.stream, body, out);
            self.window -= i64::try_from(body.len()).expect("not more than a frame");
        }
        self.calls.push_back(Some(Call { due_ns, has_status: false, has_grpc_status: false }));
        self.open_calls += 1;
        self.stream += 2;
    }

    fn hear(&mut self, said: &[u8], out: &mut Vec<u8>, answers: &mut VecDeque<Answer>) -> io::Result<usize> {
        let mut used = 0;
        while let Some((head, rest)) = read_head(&said[used..]) {
            let Some(payload) = rest.get(..head.bytes) else { break };
            self.hear_frame(head, payload, out, answers)?;
            used += FRAME_HEAD + head.bytes;
        }
        Ok(used)
    }

    fn open_calls(&self) -> usize {
        self.open_calls
    }

    fn is_over(&self) -> bool {
        self.is_over || self.stream > STREAM_LAST - 2
    }

    fn abandon(&mut self, answers: &mut VecDeque<Answer>) {
        self.open_calls = 0;
        answers.extend(self.calls.drain(..).flatten().map(|call| Answer { due_ns: call.due_ns, is_good: false }));
    }
}

/// The place of a call by its number, if it is not behind all that are remembered.
fn slot(calls: &mut VecDeque<Option<Call>>, next: u32, stream: u32) -> Option<&mut Option<Call>> {
    let back = usize::try_from(next.checked_sub(stream)?).ok()? / 2;
    let index = calls.len().checked_sub(back)?;
    calls.get_mut(index)
}

fn at(calls: &mut VecDeque<Option<Call>>, next: u32, stream: u32) -> Option<&mut Call> {
    slot(calls, next, stream)?.as_mut()
}

fn read_head(said: &[u8]) -> Option<(Head, &[u8])> {
    let (head, rest) = said.split_first_chunk::<FRAME_HEAD>()?;
    let bytes = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
    let stream = u32::from_be_bytes([head[5] & 0x7f, head[6], head[7], head[8]]);
    Some((Head { bytes, kind: head[3], flags: head[4], stream }, rest))
}

fn put_frame(kind: u8, flags: u8, stream: u32, payload: &[u8], out: &mut Vec<u8>) {
    let bytes = u32::try_from(payload.len()).expect("a frame is smaller").to_be_bytes();
    out.extend_from_slice(&[bytes[1], bytes[2], bytes[3], kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
}

#[cfg(test)]
mod tests;

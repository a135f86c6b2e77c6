//! Follows where requests of HTTP/1 begin and end, between the socket and hyper, to see the heads that have both a length and a coding.
//!
//! hyper reads such a request by its coding and drops the length, as RFC 9112 (6.1) allows, before a handler sees the head: nobody could refuse it.
//! Somebody on the way may have gone by the length, so a proxy has to.
//!
//! Nothing is changed, kept back or copied; only a line that two reads divide is put together. What comes out is a number: so many heads, from the first
//! one on, are *clear*. A request with a coding that is not among them is refused, so that a mistake made here refuses a request too many, and never one
//! too few. Whatever hyper refuses anyway, such as two different lengths, ends the count as well.

use memchr::memchr;

/// The longest line that is read as a length. It has 15 letters and at most 20 digits; the rest is space.
const LINE_MAX: usize = 256;

const LENGTH: &[u8] = b"content-length:";
const CODING: &[u8] = b"transfer-encoding:";

/// Where a connection is.
#[derive(Debug, Default)]
pub struct Framing {
    at: At,
    /// What the head that is being read has said.
    length: Option<u64>,
    is_coded: bool,
    /// The beginning of a line that goes on in the next read.
    begun: Vec<u8>,
    /// Heads that have ended.
    clear: u64,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum At {
    /// Before a request; lines without anything in them are skipped.
    #[default]
    Start,
    /// In its first line.
    Target,
    Fields,
    /// So many bytes before its end.
    Body(u64),
    /// In a body in chunks, and the size of the chunk.
    Chunks(Chunk, u64),
    /// Anywhere: nothing is clear any more.
    Lost,
}

/// The places in a body in chunks, as hyper has them: it takes no line ends but those of the standard here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Chunk {
    Start,
    Size,
    Space,
    Extension,
    SizeEnd,
    Data,
    DataEnd,
    DataEnded,
    /// Before a line that is a trailer or, if it is empty, the end.
    Line,
    Trailer,
    TrailerEnd,
    End,
}

impl Framing {
    /// Goes on by the bytes that were read next, and returns how many heads are clear.
    pub fn follow(&mut self, mut bytes: &[u8]) -> u64 {
        while let Some(&first) = bytes.first() {
            bytes = match self.at {
                At::Start if matches!(first, b'\r' | b'\n') => &bytes[1..],
                At::Start => {
                    self.at = At::Target;
                    bytes
                }
                At::Target | At::Fields => self.line(bytes),
                At::Body(left) => {
                    let (left, rest) = skip(bytes, left);
                    self.at = if left == 0 { At::Start } else { At::Body(left) };
                    rest
                }
                At::Chunks(Chunk::Data, left) => {
                    let (left, rest) = skip(bytes, left);
                    self.at = At::Chunks(if left == 0 { Chunk::DataEnd } else { Chunk::Data }, left);
                    rest
                }
                At::Chunks(chunk, size) => {
                    self.at = chunk.next(size, first);
                    &bytes[1..]
                }
                At::Lost => break,
            };
        }
        self.clear
    }

    /// Reads a line of a head, or what there is of it, and returns what follows.
    fn line<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let Some(end) = memchr(b'\n', bytes) else {
            self.keep(bytes);
            return &[];
        };
        let (line, rest) = bytes.split_at(end);
        if self.begun.is_empty() {
            self.field(line);
        } else {
            self.keep(line);
            let line = std::mem::take(&mut self.begun);
            self.field(&line);
        }
        rest.get(1..).unwrap_or_default()
    }

    /// Keeps the beginning of a line, as much of it as tells whether it is too long.
    fn keep(&mut self, bytes: &[u8]) {
        let room = (LINE_MAX + 1).saturating_sub(self.begun.len());
        self.begun.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    /// Takes a line of a head, without its end.
    fn field(&mut self, line: &[u8]) {
        if self.at == At::Target {
            self.at = At::Fields;
            return;
        }
        match line.first() {
            None | Some(b'\r') => self.end_head(),
            Some(b'c' | b'C') if starts_with(line, LENGTH) => {
                let length = number(&line[LENGTH.len()..]).filter(|_| line.len() <= LINE_MAX);
                if length.is_none() || self.length.is_some_and(|other| length != Some(other)) {
                    self.at = At::Lost;
                }
                self.length = length;
            }
            Some(b't' | b'T') if starts_with(line, CODING) => self.is_coded = true,
            _ => {}
        }
    }

    fn end_head(&mut self) {
        self.at = match (self.length.take(), std::mem::take(&mut self.is_coded)) {
            (Some(_), true) => At::Lost,
            (None, true) => At::Chunks(Chunk::Start, 0),
            (None | Some(0), false) => At::Start,
            (Some(length), false) => At::Body(length),
        };
        self.clear += u64::from(self.at != At::Lost);
    }
}

impl Chunk {
    /// Where a byte leads.
    fn next(self, size: u64, byte: u8) -> At {
        let next = match (self, byte) {
            (Self::Start | Self::Size, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                let digit = char::from(byte).to_digit(16).unwrap_or_default();
                let size = size.checked_mul(16).and_then(|size| size.checked_add(digit.into()));
                return size.map_or(At::Lost, |size| At::Chunks(Self::Size, size));
            }
            (Self::Size | Self::Space, b' ' | b'\t') => Self::Space,
            (Self::Size | Self::Space, b';') => Self::Extension,
            (Self::Size | Self::Space | Self::Extension, b'\r') => Self::SizeEnd,
            (Self::Extension, byte) if byte != b'\n' => Self::Extension,
            (Self::SizeEnd, b'\n') => {
                if size == 0 {
                    Self::Line
                } else {
                    Self::Data
                }
            }
            (Self::DataEnd, b'\r') => Self::DataEnded,
            (Self::DataEnded, b'\n') => return At::Chunks(Self::Start, 0),
            (Self::Line, b'\r') => Self::End,
            (Self::Trailer, b'\r') => Self::TrailerEnd,
            (Self::Line | Self::Trailer, _) => Self::Trailer,
            (Self::TrailerEnd, b'\n') => Self::Line,
            (Self::End, b'\n') => return At::Start,
            _ => return At::Lost,
        };
        At::Chunks(next, size)
    }
}

/// What is left of a length behind these bytes, and of the bytes behind it.
fn skip(bytes: &[u8], length: u64) -> (u64, &[u8]) {
    let skipped = usize::try_from(length).map_or(bytes.len(), |length| length.min(bytes.len()));
    (length - skipped as u64, &bytes[skipped..])
}

fn starts_with(line: &[u8], name: &[u8]) -> bool {
    line.get(..name.len()).is_some_and(|begun| begun.eq_ignore_ascii_case(name))
}

/// A number with space around it.
fn number(value: &[u8]) -> Option<u64> {
    let digits = value.trim_ascii();
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests;

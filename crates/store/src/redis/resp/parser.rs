//! From bytes, in whatever pieces they arrive, to values.
//!
//! The peer may be anything: every length it announces is checked before memory is taken for it, and a piece of a reply is looked at once, so that
//! a peer that sends a byte at a time costs no more than the bytes.

use super::Value;

/// The most arrays within each other.
pub const DEPTH_MAX: usize = 8;
/// The most values in one array.
pub const ARRAY_LENGTH_MAX: usize = 65_536;
/// The most bytes of one string.
pub const BULK_BYTES_MAX: usize = 1 << 20;
/// The most bytes of one line: a status, an error or a number.
pub const LINE_BYTES_MAX: usize = 1 << 16;
/// The most bytes of one reply.
pub const REPLY_BYTES_MAX: usize = 4 << 20;

/// Room for what one read brings: many replies, and little enough for every connection to have it.
const READ_BYTES: usize = 16 << 10;
/// Room kept when a large reply has passed.
const KEPT_BYTES: usize = 64 << 10;
/// Values for which room is made before any has come.
const ITEMS_AHEAD: usize = 64;

/// Why bytes are no reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// A reply begins with a byte that begins none.
    #[error("a reply begins with byte {0:#04x}")]
    Type(u8),
    /// A line does not end with CR LF, or a string is not followed by it.
    #[error("a reply does not end where it should")]
    End,
    /// A number that is none, or is out of range.
    #[error("a reply has a number that is none")]
    Number,
    /// A length above the limit.
    #[error("a reply is too long")]
    Length,
    /// Too many arrays within each other.
    #[error("a reply is nested too deeply")]
    Depth,
}

/// Reads replies from a stream.
///
/// After an error it says the same for ever: where the next reply would begin is not known.
///
/// ```
/// use tidegate_store::redis::resp::{Parser, Value};
///
/// let mut parser = Parser::default();
/// parser.feed(b":1\r\n+O");
/// assert_eq!(parser.next_value(), Ok(Some(Value::Int(1))));
/// assert_eq!(parser.next_value(), Ok(None));
/// parser.feed(b"K\r\n");
/// assert_eq!(parser.next_value(), Ok(Some(Value::Status("OK".into()))));
/// ```
#[derive(Debug, Default)]
pub struct Parser {
    /// Initialised as a whole; `start..end` is what has come and is not read yet.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Bytes from `start` on that have no end of line in them.
    searched: usize,
    /// The length of a string whose header has been read.
    bulk: Option<usize>,
    /// Arrays that are not complete, the outermost first.
    open: Vec<Open>,
    /// Bytes of this reply that are read.
    reply_bytes: usize,
    failed: Option<ProtocolError>,
}

/// An array that is not complete.
#[derive(Debug)]
struct Open {
    items: Vec<Value>,
    length: usize,
}

/// What one line or string was.
enum Element {
    Value(Value),
    Array(usize),
}

impl Parser {
    /// Adds bytes.
    pub fn feed(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let space = self.space();
            let length = bytes.len().min(space.len());
            space[..length].copy_from_slice(&bytes[..length]);
            self.filled(length);
            bytes = &bytes[length..];
        }
    }

    /// Where the next bytes can be put; never empty.
    pub fn space(&mut self) -> &mut [u8] {
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
            if self.buffer.len() > KEPT_BYTES {
                self.buffer = Vec::new();
            }
        } else if self.is_tight() && self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        // Doubling keeps the copying of a long string linear.
        if self.is_tight() {
            self.buffer.resize((2 * self.buffer.len()).max(READ_BYTES), 0);
        }
        &mut self.buffer[self.end..]
    }

    /// Too little room for a read to be worth it.
    fn is_tight(&self) -> bool {
        self.buffer.len() - self.end < READ_BYTES / 2
    }

    /// Says that so many bytes were put into [`space`](Self::space).
    pub fn filled(&mut self, bytes: usize) {
        self.end = (self.end + bytes).min(self.buffer.len());
    }

    /// What has come and is not read.
    pub fn rest(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// The next reply, if all of it is here.
    ///
    /// # Errors
    /// The bytes are no reply, or one beyond the limits.
    pub fn next_value(&mut self) -> Result<Option<Value>, ProtocolError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        self.read().inspect_err(|&error| self.failed = Some(error))
    }

    fn read(&mut self) -> Result<Option<Value>, ProtocolError> {
        while let Some(element) = self.element()? {
            let mut value = match element {
                Element::Array(length) if length > 0 => {
                    if self.open.len() == DEPTH_MAX {
                        return Err(ProtocolError::Depth);
                    }
                    self.open.push(Open { items: Vec::with_capacity(length.min(ITEMS_AHEAD)), length });
                    continue;
                }
                Element::Array(_) => Value::Array(Box::default()),
                Element::Value(value) => value,
            };
            // The last item of an array completes it, and may so complete the one around it.
            loop {
                let Some(array) = self.open.last_mut() else {
                    self.reply_bytes = 0;
                    return Ok(Some(value));
                };
                array.items.push(value);
                if array.items.len() < array.length {
                    break;
                }
                value = Value::Array(std::mem::take(&mut array.items).into_boxed_slice());
                self.open.pop();
            }
        }
        Ok(None)
    }

    /// The next line, or the next string with its header.
    fn element(&mut self) -> Result<Option<Element>, ProtocolError> {
        if let Some(length) = self.bulk {
            return Ok(self.bulk(length)?.map(Element::Value));
        }
        let Some(length) = self.line_length()? else { return Ok(None) };
        let line = &self.buffer[self.start + 1..self.start + length - 2];
        let element = match self.buffer[self.start] {
            b':' => Element::Value(Value::Int(number(line)?)),
            b'+' => Element::Value(Value::Status(String::from_utf8_lossy(line).into())),
            b'-' => Element::Value(Value::Error(String::from_utf8_lossy(line).into())),
            b'$' => match announced(line, BULK_BYTES_MAX)? {
                None => Element::Value(Value::Nil),
                Some(bytes) => {
                    self.consume(length)?;
                    if self.reply_bytes + bytes + 2 > REPLY_BYTES_MAX {
                        return Err(ProtocolError::Length);
                    }
                    self.bulk = Some(bytes);
                    return Ok(self.bulk(bytes)?.map(Element::Value));
                }
            },
            b'*' => announced(line, ARRAY_LENGTH_MAX)?.map_or(Element::Value(Value::Nil), Element::Array),
            other => return Err(ProtocolError::Type(other)),
        };
        self.consume(length)?;
        Ok(Some(element))
    }

    /// Bytes of the next line with its type and its end, if all of it is here.
    fn line_length(&mut self) -> Result<Option<usize>, ProtocolError> {
        let rest = &self.buffer[self.start..self.end];
        let Some(&first) = rest.first() else { return Ok(None) };
        // Said at the first byte: a peer that speaks something else may never send the end of a line.
        if !matches!(first, b':' | b'+' | b'-' | b'$' | b'*') {
            return Err(ProtocolError::Type(first));
        }
        let seen = &rest[..rest.len().min(LINE_BYTES_MAX)];
        match seen[self.searched..].iter().position(|&byte| byte == b'\n') {
            Some(position) => {
                let length = self.searched + position + 1;
                if length < 3 || rest[length - 2] != b'\r' {
                    return Err(ProtocolError::End);
                }
                Ok(Some(length))
            }
            None if seen.len() == LINE_BYTES_MAX => Err(ProtocolError::Length),
            None => {
                self.searched = seen.len();
                Ok(None)
            }
        }
    }

    /// A string of so many bytes, if all of it is here.
    fn bulk(&mut self, length: usize) -> Result<Option<Value>, ProtocolError> {
        let rest = &self.buffer[self.start..self.end];
        if rest.len() < length + 2 {
            return Ok(None);
        }
        if rest[length..length + 2] != *b"\r\n" {
            return Err(ProtocolError::End);
        }
        let value = Value::Bulk(rest[..length].into());
        self.bulk = None;
        self.consume(length + 2)?;
        Ok(Some(value))
    }

    fn consume(&mut self, bytes: usize) -> Result<(), ProtocolError> {
        self.start += bytes;
        self.searched = 0;
        self.reply_bytes += bytes;
        if self.reply_bytes > REPLY_BYTES_MAX { Err(ProtocolError::Length) } else { Ok(()) }
    }
}

/// A length; `None` for -1, which stands for no value.
fn announced(line: &[u8], max: usize) -> Result<Option<usize>, ProtocolError> {
    match number(line)? {
        -1 => Ok(None),
        length => {
            let length = usize::try_from(length).map_err(|_| ProtocolError::Number)?;
            if length > max { Err(ProtocolError::Length) } else { Ok(Some(length)) }
        }
    }
}

fn number(line: &[u8]) -> Result<i64, ProtocolError> {
    let (is_negative, digits) = match line {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if digits.is_empty() {
        return Err(ProtocolError::Number);
    }
    // Below zero there is one number more.
    let negative = digits.iter().try_fold(0_i64, |sum, &digit| {
        let digit = i64::from(digit.checked_sub(b'0').filter(|&digit| digit < 10)?);
        sum.checked_mul(10)?.checked_sub(digit)
    });
    let negative = negative.ok_or(ProtocolError::Number)?;
    if is_negative { Ok(negative) } else { negative.checked_neg().ok_or(ProtocolError::Number) }
}

//! A command as the bytes that go over the wire.

use std::fmt;

/// A complete command, encoded.
///
/// ```
/// use tidegate_store::redis::resp::Command;
///
/// assert_eq!(Command::new(&[b"SELECT", b"1"]).as_bytes(), b"*2\r\n$6\r\nSELECT\r\n$1\r\n1\r\n");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Command(Vec<u8>);

impl Command {
    /// A command of these arguments, the first of which is its name.
    pub fn new(arguments: &[&[u8]]) -> Self {
        // A header of an argument has at most this many bytes, unless the argument is huge.
        let bytes = arguments.iter().map(|argument| argument.len() + 12).sum::<usize>() + 8;
        let mut builder = Self::build(arguments.len(), bytes);
        for argument in arguments {
            builder.bytes(argument);
        }
        builder.finish()
    }

    /// Begins a command of `arguments` arguments, its name among them, that takes about `bytes` bytes.
    pub fn build(arguments: usize, bytes: usize) -> CommandBuilder {
        let mut encoded = Vec::with_capacity(bytes);
        encoded.push(b'*');
        decimal(&mut encoded, arguments as u64);
        encoded.extend_from_slice(b"\r\n");
        CommandBuilder { encoded, missing: arguments }
    }

    /// The encoded bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Shows the length only: arguments may be passwords or keys.
impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Command({} bytes)", self.0.len())
    }
}

/// A command that is being written, argument by argument, into one buffer.
///
/// ```
/// use tidegate_store::redis::resp::Command;
///
/// let mut command = Command::build(3, 64);
/// command.bytes(b"SET").parts(&[b"tg:", b"x"]).int(-7);
/// assert_eq!(command.finish().as_bytes(), b"*3\r\n$3\r\nSET\r\n$4\r\ntg:x\r\n$2\r\n-7\r\n");
/// ```
#[derive(Debug)]
pub struct CommandBuilder {
    encoded: Vec<u8>,
    missing: usize,
}

impl CommandBuilder {
    /// Adds an argument.
    pub fn bytes(&mut self, argument: &[u8]) -> &mut Self {
        self.parts(&[argument])
    }

    /// Adds one argument that consists of several parts.
    pub fn parts(&mut self, parts: &[&[u8]]) -> &mut Self {
        self.header(parts.iter().map(|part| part.len()).sum());
        for part in parts {
            self.encoded.extend_from_slice(part);
        }
        self.encoded.extend_from_slice(b"\r\n");
        self
    }

    /// Adds a number as an argument, in decimal.
    pub fn int(&mut self, number: i64) -> &mut Self {
        if number < 0 {
            self.header(digits(number.unsigned_abs()) + 1);
            self.encoded.push(b'-');
            decimal(&mut self.encoded, number.unsigned_abs());
            self.encoded.extend_from_slice(b"\r\n");
            return self;
        }
        self.uint(number.unsigned_abs())
    }

    /// Adds a number as an argument, in decimal.
    pub fn uint(&mut self, number: u64) -> &mut Self {
        self.header(digits(number));
        decimal(&mut self.encoded, number);
        self.encoded.extend_from_slice(b"\r\n");
        self
    }

    /// The command.
    ///
    /// # Panics
    /// In debug builds, when there were more or fewer arguments than announced: the server would read the next command as one of them.
    pub fn finish(self) -> Command {
        debug_assert_eq!(self.missing, 0, "as many arguments as announced");
        Command(self.encoded)
    }

    fn header(&mut self, length: usize) {
        debug_assert!(self.missing > 0, "as many arguments as announced");
        self.missing = self.missing.wrapping_sub(1);
        self.encoded.push(b'$');
        decimal(&mut self.encoded, length as u64);
        self.encoded.extend_from_slice(b"\r\n");
    }
}

/// How many digits a number has.
fn digits(number: u64) -> usize {
    number.checked_ilog10().unwrap_or(0) as usize + 1
}

/// Appends a number. `write!` takes five times as long.
fn decimal(into: &mut Vec<u8>, mut number: u64) {
    let mut buffer = [b'0'; 20];
    let mut first = buffer.len() - 1;
    loop {
        buffer[first] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
        first -= 1;
    }
    into.extend_from_slice(&buffer[first..]);
}

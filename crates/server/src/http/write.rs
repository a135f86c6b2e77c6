//! Writes JSON: a few values into one buffer, without a tree of them in between.

use bytes::Bytes;

const SECOND: u64 = 1_000_000_000;

/// A buffer that JSON is written to. It writes commas by itself; what is opened has to be closed.
#[derive(Debug)]
pub(super) struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    pub(super) fn with_capacity(capacity: usize) -> Self {
        Self { bytes: Vec::with_capacity(capacity) }
    }

    /// Writes behind what is there: the head of an answer, which ends with a line.
    pub(super) fn behind(bytes: Vec<u8>) -> Self {
        Self { bytes }
    }

    pub(super) fn into_bytes(self) -> Bytes {
        self.bytes.into()
    }

    pub(super) fn into_vec(self) -> Vec<u8> {
        self.bytes
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Opens an object or a list.
    pub(super) fn open(&mut self, bracket: char) {
        self.comma();
        self.bytes.push(bracket as u8);
    }

    /// Closes it.
    pub(super) fn close(&mut self, bracket: char) {
        self.bytes.push(bracket as u8);
    }

    /// Begins a member of an object. Its name needs no escapes.
    pub(super) fn member(&mut self, name: &str) -> &mut Self {
        self.comma();
        self.bytes.push(b'"');
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.extend_from_slice(b"\":");
        self
    }

    /// Begins a member whose name is anybody's.
    pub(super) fn named(&mut self, name: &str) {
        self.text(name);
        self.bytes.push(b':');
    }

    pub(super) fn text(&mut self, text: &str) {
        self.comma();
        self.bytes.push(b'"');
        let is_plain = |byte: u8| byte >= b' ' && byte != b'"' && byte != b'\\';
        if text.bytes().all(is_plain) {
            self.bytes.extend_from_slice(text.as_bytes());
        } else {
            for byte in text.bytes() {
                match byte {
                    b'"' | b'\\' => self.bytes.extend_from_slice(&[b'\\', byte]),
                    b'\n' => self.bytes.extend_from_slice(b"\\n"),
                    0..b' ' => self.bytes.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
                    _ => self.bytes.push(byte),
                }
            }
        }
        self.bytes.push(b'"');
    }

    pub(super) fn optional_text(&mut self, text: Option<&str>) {
        match text {
            Some(text) => self.text(text),
            None => self.null(),
        }
    }

    pub(super) fn flag(&mut self, flag: bool) {
        self.comma();
        self.bytes.extend_from_slice(if flag { b"true" } else { b"false" });
    }

    pub(super) fn null(&mut self) {
        self.comma();
        self.bytes.extend_from_slice(b"null");
    }

    pub(super) fn number(&mut self, number: u64) {
        self.comma();
        self.digits(number, 1);
    }

    pub(super) fn optional_number(&mut self, number: Option<u64>) {
        match number {
            Some(number) => self.number(number),
            None => self.null(),
        }
    }

    /// Any number; one that JSON does not know is null.
    pub(super) fn float(&mut self, number: f64) {
        self.comma();
        let number = serde_json::Number::from_f64(number).map_or_else(|| "null".to_owned(), |number| number.to_string());
        self.bytes.extend_from_slice(number.as_bytes());
    }

    /// Nanoseconds, written as seconds with as many digits behind the point as it takes.
    pub(super) fn seconds(&mut self, nanos: u64) {
        self.number(nanos / SECOND);
        let (mut fraction, mut width) = (nanos % SECOND, 9);
        if fraction > 0 {
            while fraction.is_multiple_of(10) {
                fraction /= 10;
                width -= 1;
            }
            self.bytes.push(b'.');
            self.digits(fraction, width);
        }
    }

    pub(super) fn optional_seconds(&mut self, nanos: Option<u64>) {
        match nanos {
            Some(nanos) => self.seconds(nanos),
            None => self.null(),
        }
    }

    /// A comma, unless this is the first of all or in its list, or the value of a member. What is written has no line breaks.
    fn comma(&mut self) {
        if !matches!(self.bytes.last(), None | Some(b'{' | b'[' | b':' | b'\n')) {
            self.bytes.push(b',');
        }
    }

    /// At least `width` digits. The formatting machinery of the standard library takes several times as long.
    fn digits(&mut self, mut number: u64, width: usize) {
        let mut digits = [b'0'; 20];
        let mut start = digits.len();
        while number > 0 || digits.len() - start < width {
            start -= 1;
            digits[start] = b'0' + u8::try_from(number % 10).unwrap_or(0);
            number /= 10;
        }
        self.bytes.extend_from_slice(&digits[start..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut Writer)) -> String {
        let mut writer = Writer::with_capacity(0);
        write(&mut writer);
        String::from_utf8(writer.into_bytes().to_vec()).expect("text")
    }

    #[test]
    fn whatever_is_written_is_read_back() {
        for text in ["", "plain", "\"quoted\" \\ and \n \u{0} \u{1f}", "grüße 🙂", "{[:,", "ends with :"] {
            let json = written(|writer| {
                writer.open('{');
                writer.member("a").text(text);
                writer.member("b").open('[');
                writer.text(text);
                writer.number(0);
                writer.flag(true);
                writer.null();
                writer.close(']');
                writer.close('}');
            });
            let read: serde_json::Value = serde_json::from_str(&json).unwrap_or_else(|error| panic!("{json}: {error}"));
            assert_eq!(read, serde_json::json!({"a": text, "b": [text, 0, true, null]}));
        }
    }

    #[test]
    fn seconds_are_exact() {
        let table = [
            (0, "0"),
            (1, "0.000000001"),
            (1_500_000_000, "1.5"),
            (60_000_000_000, "60"),
            (u64::MAX, "18446744073.709551615"),
            (10_010_000_000, "10.01"),
        ];
        for (nanos, expected) in table {
            assert_eq!(written(|writer| writer.seconds(nanos)), expected);
        }
    }
}

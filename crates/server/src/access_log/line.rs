//! The formats of a line. Both end with a line feed and have no other one in them, whatever a client sends.

use std::fmt::Arguments;
use std::io::Write as _;
use std::net::IpAddr;

use http::Version;
use jiff::Timestamp;
use jiff::fmt::strtime;

use super::entry::Entry;

/// The longest text of a client in a line.
const TEXT_MAX: usize = 2_048;

/// One JSON object. What is not known is left out.
pub(super) fn json(line: &mut Vec<u8>, entry: &Entry, with_query: bool) {
    let (whole_ns, decided_ns, answered_ns) = entry.timings_ns();
    let mut object = Object { line, opening: b'{' };
    object.raw("time", format_args!("\"{:.3}\"", timestamp(entry)));
    object.maybe("request_id", entry.request_id.as_ref().map(http::HeaderValue::as_bytes));
    object.maybe("remote", entry.peer.address.map(|address| text_of(address).into_bytes()).as_deref());
    object.maybe("client", entry.client.map(|address| text_of(address).into_bytes()).as_deref());
    object.text("method", entry.method.as_str().as_bytes());
    object.maybe("host", entry.host.as_ref().map(|host| host.as_str().as_bytes()));
    object.text("path", entry.uri.path().as_bytes());
    object.maybe("query", entry.uri.query().filter(|_| with_query).map(str::as_bytes));
    object.text("protocol", protocol(entry.version).as_bytes());
    object.maybe("user_agent", entry.user_agent.as_ref().map(http::HeaderValue::as_bytes));
    if let Some(decided) = &entry.decided {
        object.text("decision", word(decided.is_allowed).as_bytes());
        object.maybe("rule", decided.rule.as_ref().map(|rule| rule.as_bytes()));
        object.maybe("degraded", decided.degraded.map(str::as_bytes));
    }
    if let Some(upstream) = &entry.upstream {
        object.text("upstream", upstream.as_str().as_bytes());
        object.raw("tries", format_args!("{}", entry.tries));
    }
    if let Some(status) = entry.status {
        object.raw("status", format_args!("{status}"));
    }
    object.raw("complete", format_args!("{}", entry.is_complete()));
    object.raw("bytes_received", format_args!("{}", entry.received()));
    object.raw("bytes_sent", format_args!("{}", entry.sent));
    let delay_ns = entry.decided.as_ref().map(|decided| decided.delay_ns).filter(|&ns| ns > 0);
    let timings =
        [("decision_ms", decided_ns), ("delay_ms", delay_ns), ("head_ms", answered_ns), ("duration_ms", Some(whole_ns))];
    for (name, ns) in timings {
        if let Some(ns) = ns {
            object.raw(name, format_args!("{}.{:03}", ns / 1_000_000, ns / 1_000 % 1_000));
        }
    }
    line.extend_from_slice(b"}\n");
}

/// The Common Log Format, and behind it what it does not know. Status 499 is that of a client that went before there was one.
pub(super) fn common(line: &mut Vec<u8>, entry: &Entry, with_query: bool) {
    let at = strtime::format("%d/%b/%Y:%H:%M:%S +0000", timestamp(entry)).unwrap_or_default();
    let (whole_ns, ..) = entry.timings_ns();
    // To write to memory does not fail.
    let client = entry.client.or(entry.peer.address).map_or_else(|| "-".to_owned(), text_of);
    let _ = write!(line, "{client} - - [{at}] \"{} ", entry.method);
    quoted(line, entry.uri.path().as_bytes());
    if let Some(query) = entry.uri.query().filter(|_| with_query) {
        line.push(b'?');
        quoted(line, query.as_bytes());
    }
    let (protocol, status) = (protocol(entry.version), entry.status.unwrap_or(499));
    let _ = write!(line, " {protocol}\" {status} {}", entry.sent);
    if let Some(decided) = &entry.decided {
        let _ = write!(line, " decision={}", word(decided.is_allowed));
        if let Some(rule) = &decided.rule {
            let _ = write!(line, " rule={rule}");
        }
    }
    if let Some(upstream) = &entry.upstream {
        let _ = write!(line, " upstream={upstream}");
    }
    if !entry.is_complete() {
        line.extend_from_slice(b" complete=false");
    }
    if let Some(id) = &entry.request_id {
        line.extend_from_slice(b" request_id=\"");
        quoted(line, id.as_bytes());
        line.push(b'"');
    }
    let _ = writeln!(line, " duration_ms={}.{:03}", whole_ns / 1_000_000, whole_ns / 1_000 % 1_000);
}

fn timestamp(entry: &Entry) -> Timestamp {
    Timestamp::try_from(entry.at).unwrap_or_default()
}

/// An address as people write it: one of IPv4 that came over a socket of IPv6 is one of IPv4.
fn text_of(address: IpAddr) -> String {
    address.to_canonical().to_string()
}

fn word(is_allowed: bool) -> &'static str {
    if is_allowed { "allowed" } else { "denied" }
}

fn protocol(version: Version) -> &'static str {
    match version {
        Version::HTTP_10 => "HTTP/1.0",
        Version::HTTP_2 => "HTTP/2.0",
        _ => "HTTP/1.1",
    }
}

/// A JSON object that is being written.
struct Object<'a> {
    line: &'a mut Vec<u8>,
    opening: u8,
}

impl Object<'_> {
    fn raw(&mut self, name: &str, value: Arguments<'_>) {
        self.line.push(self.opening);
        self.opening = b',';
        // To write to memory does not fail.
        let _ = write!(self.line, "\"{name}\":{value}");
    }

    fn text(&mut self, name: &str, value: &[u8]) {
        self.raw(name, format_args!("\""));
        for (number, character) in String::from_utf8_lossy(value).chars().enumerate() {
            match character {
                _ if number == TEXT_MAX => break,
                '"' | '\\' => self.line.extend_from_slice(&[b'\\', character as u8]),
                _ if character.is_control() => drop(write!(self.line, "\\u{:04x}", u32::from(character))),
                _ => self.line.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        self.line.push(b'"');
    }

    fn maybe(&mut self, name: &str, value: Option<&[u8]>) {
        if let Some(value) = value {
            self.text(name, value);
        }
    }
}

/// Text between quotes in the Common Log Format: what is not harmless is written in hexadecimal digits, as Apache and nginx do.
fn quoted(line: &mut Vec<u8>, text: &[u8]) {
    for &byte in text.iter().take(TEXT_MAX) {
        if byte == b'"' || byte == b'\\' || !(b' '..0x7f).contains(&byte) {
            let _ = write!(line, "\\x{byte:02X}");
        } else {
            line.push(byte);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_client_sends_is_one_text() {
        let hostile = b"a\"b\\c\n\x1b[2J\xff\xc3\xa9";
        let mut line = Vec::new();
        Object { line: &mut line, opening: b'{' }.text("x", hostile);
        line.push(b'}');
        let read: serde_json::Value = serde_json::from_slice(&line).unwrap();
        assert_eq!(read["x"], "a\"b\\c\n\u{1b}[2J\u{fffd}é");

        let mut line = Vec::new();
        quoted(&mut line, hostile);
        assert_eq!(line, b"a\\x22b\\x5Cc\\x0A\\x1B[2J\\xFF\\xC3\\xA9");
    }

    #[test]
    fn a_text_has_an_end() {
        let mut line = Vec::new();
        Object { line: &mut line, opening: b'{' }.text("x", &[b'y'; 10_000]);
        assert_eq!(line.len(), "{\"x\":\"\"".len() + TEXT_MAX);
    }
}

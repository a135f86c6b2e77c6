//! The one spelling of a path, whatever the client wrote.
//!
//! A server behind the limiter takes `/login`, `//login`, `/x/../login`, `/%6Cogin` and `/login/` for the same, so a rule for one must hold for all.
//! What separates parts of a path or ends it stays encoded: for most servers `%2F` is no separator.

use std::borrow::Cow;

/// The path without query and fragment, with escapes decoded, without empty and dot segments and without a slash at the end.
///
/// ```
/// use tidegate_core::rules::path::normalize;
///
/// assert_eq!(normalize("/api//v1/../v1/%6frders/?page=2"), "/api/v1/orders");
/// assert_eq!(normalize("/a%2fb"), "/a%2Fb");
/// assert_eq!(normalize("/../.."), "/");
/// ```
pub fn normalize(path: &str) -> Cow<'_, str> {
    if is_normal(path) {
        return Cow::Borrowed(path);
    }
    let end = path.find(['?', '#']).unwrap_or(path.len());
    let spelled = spell(&path[..end]);
    let mut segments: Vec<&str> = Vec::new();
    for segment in spelled.split('/') {
        match segment {
            "" | "." => {}
            ".." => {
                segments.pop();
            }
            _ => segments.push(segment),
        }
    }
    let mut normal = String::with_capacity(spelled.len() + 1);
    for segment in segments {
        normal.push('/');
        normal.push_str(segment);
    }
    Cow::Owned(if normal.is_empty() { "/".to_owned() } else { normal })
}

/// Whether nothing would change: the usual case, told in one walk.
fn is_normal(path: &str) -> bool {
    let mut previous = 0;
    for &byte in path.as_bytes() {
        let is_odd = byte == b'%' || stays_escaped(byte) && byte != b'/' || (previous == b'/' && matches!(byte, b'/' | b'.'));
        if is_odd {
            return false;
        }
        previous = byte;
    }
    path == "/" || (path.starts_with('/') && previous != b'/')
}

/// The one spelling of a part of a path: all is decoded but what [stays escaped](stays_escaped) and what is no text.
///
/// A `%` that begins no escape is one of the path: were it left alone, it could make an escape with what is decoded behind it.
pub(super) fn spell(part: &str) -> Cow<'_, str> {
    if !part.bytes().any(|byte| byte == b'%' || (stays_escaped(byte) && byte != b'/')) {
        return Cow::Borrowed(part);
    }
    let bytes = part.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut index = 0;
    while index < bytes.len() {
        let escaped = (bytes[index] == b'%').then(|| escape(bytes.get(index + 1..index + 3)?)).flatten();
        match escaped {
            Some(byte) if stays_escaped(byte) => push_escape(&mut decoded, byte),
            Some(byte) => decoded.push(byte),
            None if bytes[index] != b'/' && stays_escaped(bytes[index]) => push_escape(&mut decoded, bytes[index]),
            None => decoded.push(bytes[index]),
        }
        index += if escaped.is_some() { 3 } else { 1 };
    }
    Cow::Owned(text(&decoded))
}

/// What would mean something else if it were decoded, and what nobody can see.
fn stays_escaped(byte: u8) -> bool {
    byte <= b' ' || matches!(byte, b'/' | b'%' | b'?' | b'#' | 0x7F)
}

/// The bytes as text. Those that are none are escaped again, and only those: one bad byte must not hide the rest of a path from the rules.
fn text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        let mut escaped = Vec::new();
        chunk.invalid().iter().for_each(|&byte| push_escape(&mut escaped, byte));
        text.extend(escaped.into_iter().map(char::from));
    }
    text
}

fn push_escape(bytes: &mut Vec<u8>, byte: u8) {
    bytes.extend_from_slice(format!("%{byte:02X}").as_bytes());
}

fn escape(digits: &[u8]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    Some(digit(digits[0])? * 16 + digit(digits[1])?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_normal_path_is_not_copied() {
        for path in ["/", "/login", "/api/v1/orders", "/a.b/c-d"] {
            assert!(matches!(normalize(path), Cow::Borrowed(_)), "{path}");
        }
    }

    #[test]
    fn every_spelling_of_a_path_is_one() {
        for path in [
            "/login",
            "//login",
            "/login/",
            "/./login",
            "/x/../login",
            "/%6Cogin",
            "/login?a=b",
            "login",
            "/login#top",
            "/x/%2e%2E/login",
        ] {
            assert_eq!(normalize(path), "/login", "{path}");
        }
    }

    #[test]
    fn what_cannot_be_decoded_stays() {
        assert_eq!(normalize("/a%2Fb/%2f"), "/a%2Fb/%2F");
        assert_eq!(normalize("/%00/%ff/%25"), "/%00/%FF/%25");
        assert_eq!(normalize("/caf%C3%A9"), "/café");
        assert_eq!(normalize("/a%3fb%23c?d"), "/a%3Fb%23c", "a question mark that is decoded would end the path");
    }

    #[test]
    fn a_percent_sign_that_escapes_nothing_is_one_of_the_path() {
        for (path, expected) in [("/%zz/%", "/%25zz/%25"), ("/100%25", "/100%25"), ("/%%32e%%32e/a", "/%252e%252e/a")] {
            assert_eq!(normalize(path), expected, "{path}");
        }
    }

    #[test]
    fn a_blank_is_written_in_one_way() {
        assert_eq!(normalize("/a b"), "/a%20b");
        assert_eq!(normalize("/a%20b\t"), "/a%20b%09");
    }

    #[test]
    fn bytes_that_are_no_text_do_not_hide_those_that_are() {
        assert_eq!(normalize("/caf%C3%A9/%ff"), "/café/%FF");
        assert_eq!(normalize("/%41%c3/%e2%82a"), "/A%C3/%E2%82a");
    }

    #[test]
    fn normalizing_twice_is_normalizing_once() {
        for path in
            ["", "?", "/..", "/a/%2e", "/%252e", "a//b/", "/%2F%2f/.", "/\u{e9}/%C3", "/%%32f", "/%3f", "/ /\0", "/%c3/%a9"]
        {
            let once = normalize(path).into_owned();
            assert_eq!(normalize(&once), once, "{path}");
        }
    }
}

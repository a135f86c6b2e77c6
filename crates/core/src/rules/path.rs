//! The one spelling of a path, whatever the client wrote.
//!
//! A server behind the limiter takes `/login`, `//login`, `/x/../login`, `/%6Cogin` and `/login/` for the same, so a rule for one must hold for all.
//! An encoded slash stays encoded: for most servers it is no separator.

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
    let decoded = decode(&path[..end]);
    let mut segments: Vec<&str> = Vec::new();
    for segment in decoded.split('/') {
        match segment {
            "" | "." => {}
            ".." => {
                segments.pop();
            }
            _ => segments.push(segment),
        }
    }
    let mut normal = String::with_capacity(decoded.len() + 1);
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
        let is_odd = matches!(byte, b'%' | b'?' | b'#') || (previous == b'/' && matches!(byte, b'/' | b'.'));
        if is_odd {
            return false;
        }
        previous = byte;
    }
    path == "/" || (path.starts_with('/') && previous != b'/')
}

/// Decodes escapes, but for those of `/`, `%`, of control characters and of what is no text.
fn decode(path: &str) -> Cow<'_, str> {
    if !path.contains('%') {
        return Cow::Borrowed(path);
    }
    let all = decode_if(path, |byte| byte > b' ' && !matches!(byte, b'/' | b'%' | 0x7F));
    Cow::Owned(String::from_utf8(all).unwrap_or_else(|_| {
        let ascii = decode_if(path, |byte| byte > b' ' && byte < 0x7F && !matches!(byte, b'/' | b'%'));
        String::from_utf8_lossy(&ascii).into_owned()
    }))
}

fn decode_if(path: &str, is_decoded: impl Fn(u8) -> bool) -> Vec<u8> {
    let bytes = path.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut index = 0;
    while index < bytes.len() {
        let escaped = (bytes[index] == b'%').then(|| escape(bytes.get(index + 1..index + 3)?)).flatten();
        match escaped {
            Some(byte) if is_decoded(byte) => decoded.push(byte),
            Some(byte) => decoded.extend_from_slice(format!("%{byte:02X}").as_bytes()),
            None => decoded.push(bytes[index]),
        }
        index += if escaped.is_some() { 3 } else { 1 };
    }
    decoded
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
        assert_eq!(normalize("/a%2Fb/%zz/%"), "/a%2Fb/%zz/%");
        assert_eq!(normalize("/%00/%ff/%25"), "/%00/%FF/%25");
        assert_eq!(normalize("/caf%C3%A9"), "/café");
        assert_eq!(normalize("/%41%ff"), "/A%FF");
    }

    #[test]
    fn normalizing_twice_is_normalizing_once() {
        for path in ["", "?", "/..", "/a/%2e", "/%252e", "a//b/", "/%2F%2f/.", "/\u{e9}/%C3"] {
            let once = normalize(path).into_owned();
            assert_eq!(normalize(&once), once, "{path}");
        }
    }
}

//! Where a request stands in the trace of its caller: the header `traceparent` of W3C Trace Context.

use http::HeaderMap;

/// What a caller said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Parent {
    pub(super) trace_id: [u8; 16],
    pub(super) span_id: [u8; 8],
    pub(super) is_sampled: bool,
}

/// What the caller said about its trace; `None` if nothing, or if it makes no sense.
pub(super) fn parent(headers: &HeaderMap) -> Option<Parent> {
    let mut values = headers.get_all("traceparent").iter();
    let value = values.next()?.to_str().ok()?;
    // The header must not be repeated.
    if values.next().is_some() {
        return None;
    }
    let mut fields = value.trim().split('-');
    let [version]: [u8; 1] = bytes(fields.next()?)?;
    let trace_id = bytes(fields.next()?)?;
    let span_id = bytes(fields.next()?)?;
    let [flags]: [u8; 1] = bytes(fields.next()?)?;
    // Later versions may have more fields; 255 is forbidden.
    let is_known = version != u8::MAX && (version > 0 || fields.next().is_none());
    let is_valid = is_known && trace_id != [0; 16] && span_id != [0; 8];
    is_valid.then_some(Parent { trace_id, span_id, is_sampled: flags & 1 == 1 })
}

/// Bytes of exactly so many hexadecimal digits, which must be small letters.
fn bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    if digits.len() != 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

fn digit(character: u8) -> Option<u8> {
    match character {
        b'0'..=b'9' => Some(character - b'0'),
        b'a'..=b'f' => Some(character - b'a' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(value: &str) -> Option<Parent> {
        let mut headers = HeaderMap::new();
        headers.insert("traceparent", value.parse().unwrap());
        parent(&headers)
    }

    #[test]
    fn the_example_of_the_standard_is_read() {
        let found = parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01").unwrap();

        assert_eq!(found.trace_id[..2], [0x4b, 0xf9]);
        assert_eq!(found.span_id, [0, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7]);
        assert!(found.is_sampled);
    }

    #[test]
    fn a_later_version_may_say_more() {
        assert!(parse("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00-what").is_some_and(|found| !found.is_sampled));
    }

    #[test]
    fn what_makes_no_sense_is_nothing() {
        for value in [
            "",
            "00",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01",
        ] {
            assert_eq!(parse(value), None, "{value}");
        }
    }
}

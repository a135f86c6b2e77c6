//! Which responses are plain.

use std::mem::MaybeUninit;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, StatusCode};
use httparse::{ParserConfig, Status};

use super::Rest;
use crate::proxy::spare;

/// The most fields of a plain response.
const FIELDS_MAX: usize = 64;

/// The most digits of a length: all such numbers fit.
const DIGITS_MAX: usize = 18;

/// A plain response at the beginning of these bytes, which answer a request that is no `HEAD`. `None` if it is another one, or none.
pub(super) fn read(bytes: &Bytes) -> Option<Response<Rest>> {
    let mut fields = [const { MaybeUninit::uninit() }; FIELDS_MAX];
    let mut parsed = httparse::Response::new(&mut []);
    let read = ParserConfig::default().parse_response_with_uninit_headers(&mut parsed, bytes, &mut fields);
    let Ok(Status::Complete(head_len)) = read else { return None };
    let status = StatusCode::from_u16(parsed.code?).ok().filter(|status| has_body(*status))?;
    // What a server calls it otherwise is passed on, by hyper.
    let is_plain = parsed.version == Some(1) && parsed.reason == status.canonical_reason();
    let mut length = None;
    let mut headers = spare::fields(parsed.headers.len());
    for field in parsed.headers.iter().filter(|_| is_plain) {
        match field.name.len() {
            14 if is(field.name, "content-length") => length.replace(number(field.value)?).is_none().then_some(())?,
            // It is for this connection, and says what is meant anyway.
            10 if is(field.name, "connection") => {
                field.value.eq_ignore_ascii_case(b"keep-alive").then_some(())?;
                continue;
            }
            // What says that the response is longer, or is not all there is.
            17 if is(field.name, "transfer-encoding") => return None,
            7 if is(field.name, "upgrade") || is(field.name, "trailer") => return None,
            _ => {}
        }
        let name = HeaderName::from_bytes(field.name.as_bytes()).ok()?;
        headers.append(name, HeaderValue::from_maybe_shared(bytes.slice_ref(field.value)).ok()?);
    }
    let first = bytes.slice(head_len..);
    // More than the length is nothing that anybody asked for.
    let left = length?.checked_sub(first.len() as u64)?;
    let mut response = Response::new(Rest { first, left });
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    Some(response)
}

/// Whether a response has a body, if only one of no length.
fn has_body(status: StatusCode) -> bool {
    !status.is_informational() && status != StatusCode::NO_CONTENT && status != StatusCode::NOT_MODIFIED
}

fn is(name: &str, expected: &str) -> bool {
    name.eq_ignore_ascii_case(expected)
}

/// Digits and nothing else.
fn number(value: &[u8]) -> Option<u64> {
    let is_number = (1..=DIGITS_MAX).contains(&value.len()) && value.iter().all(u8::is_ascii_digit);
    is_number.then(|| value.iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Option<Response<Rest>> {
        read(&Bytes::copy_from_slice(text.as_bytes()))
    }

    #[test]
    fn a_plain_response_is_read_with_what_came_of_its_body() {
        let text =
            "HTTP/1.1 404 Not Found\r\nServer: x\r\nConnection: Keep-Alive\r\nContent-Length: 007\r\nX-A: 1\r\nx-a: 2\r\n\r\nabc";
        let response = read_text(text).expect("a plain response");
        assert_eq!(response.status(), StatusCode::NOT_FOUND);
        assert_eq!(response.headers().get_all("x-a").iter().collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!((&response.body().first[..], response.body().left, response.body().len()), (&b"abc"[..], 4, 7));
        assert_eq!(read_text("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").map(|response| response.body().len()), Some(0));
    }

    #[test]
    fn everything_else_is_left_to_hyper() {
        let table = [
            ("", ""),
            ("HTTP/1.1 200 OK", "content-length: 1"),
            ("HTTP/1.0 200 OK", "content-length: 1\r\n\r\n"),
            ("HTTP/1.1 200 Fine", "content-length: 1\r\n\r\n"),
            ("HTTP/1.1 100 Continue", "content-length: 1\r\n\r\n"),
            ("HTTP/1.1 101 Switching Protocols", "content-length: 1\r\n\r\n"),
            ("HTTP/1.1 204 No Content", "content-length: 1\r\n\r\n"),
            ("HTTP/1.1 304 Not Modified", "content-length: 1\r\n\r\n"),
            ("HTTP/1.1 200 OK", "\r\n"),
            ("HTTP/1.1 200 OK", "content-length: 1\r\ncontent-length: 1\r\n\r\n"),
            ("HTTP/1.1 200 OK", "content-length: +1\r\n\r\n"),
            ("HTTP/1.1 200 OK", "content-length: 1, 1\r\n\r\n"),
            ("HTTP/1.1 200 OK", "content-length: 9999999999999999999\r\n\r\n"),
            ("HTTP/1.1 200 OK", "content-length: 1\r\n\r\nxx"),
            ("HTTP/1.1 200 OK", "content-length: 1\r\ntransfer-encoding: chunked\r\n\r\n"),
            ("HTTP/1.1 200 OK", "content-length: 1\r\nconnection: close\r\n\r\n"),
            ("HTTP/1.1 200 OK", "content-length: 1\r\nconnection: x-a\r\n\r\n"),
            ("HTTP/1.1 200 OK", "content-length: 1\r\nupgrade: h2c\r\n\r\n"),
            ("HTTP/1.1 200 OK", "content-length: 1\r\ntrailer: x-a\r\n\r\n"),
            ("HTTP/1.1 200 OK", "content-length : 1\r\n\r\n"),
            ("HTTP/1.1 200 OK", "content-length: 1\r\nx-a: 1\r\n 2\r\n\r\n"),
        ];
        for (line, fields) in table {
            assert!(read_text(&format!("{line}\r\n{fields}")).is_none(), "{line}: {fields}");
        }
    }
}

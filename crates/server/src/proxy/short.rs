//! Which requests are plain: they came as a whole over HTTP/1.1, have no body, and ask nothing of their connection but to stay.
//!
//! They are read here, by the parser that hyper has too, and are answered as all others are. Nothing is refused: whatever is not plain, or is wrong, is left
//! to hyper. So this may take a request too few, and never one that hyper would read in another way.

use std::mem::MaybeUninit;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Request, Uri};
use httparse::{Header, Status};

use super::{serve, spare};
use crate::app::{App, Peer};
use crate::server::Shortcut;

/// The most fields of a plain request.
const FIELDS_MAX: usize = 64;

/// Begins to answer the request at the beginning of these bytes, if it is plain.
pub(crate) fn shortcut(app: &Arc<App>, peer: Peer, bytes: &[u8]) -> Shortcut {
    let Some((request, bytes)) = read(bytes, app.settings.limits.head_bytes) else { return Shortcut::None };
    Shortcut::Forwarded { request: bytes, response: Box::pin(serve(Arc::clone(app), peer, request.map(|()| None))) }
}

/// A plain request at the beginning of these bytes, and the bytes that it has. `None` if it is another one, or none.
pub(super) fn read(bytes: &[u8], head_bytes: usize) -> Option<(Request<()>, Bytes)> {
    let mut fields = [const { MaybeUninit::uninit() }; FIELDS_MAX];
    let mut parsed = httparse::Request::new(&mut []);
    let Ok(Status::Complete(head_len)) = parsed.parse_with_uninit_headers(bytes, &mut fields) else { return None };
    let target = parsed.path.filter(|target| target.starts_with('/'))?;
    let is_plain = parsed.version == Some(1) && head_len <= head_bytes && parsed.headers.iter().all(is_plain);
    let method = Method::from_bytes(parsed.method?.as_bytes()).ok().filter(|method| is_plain && has_plain_response(method))?;
    let whole = Bytes::copy_from_slice(&bytes[..head_len]);
    let part = |part: &[u8]| {
        let begin = part.as_ptr().addr() - bytes.as_ptr().addr();
        whole.slice(begin..begin + part.len())
    };
    let mut headers = spare::fields(parsed.headers.len());
    for field in &*parsed.headers {
        let name = HeaderName::from_bytes(field.name.as_bytes()).ok()?;
        headers.append(name, HeaderValue::from_maybe_shared(part(field.value)).ok()?);
    }
    let mut request = Request::new(());
    *request.method_mut() = method;
    *request.uri_mut() = Uri::from_maybe_shared(part(target.as_bytes())).ok()?;
    *request.headers_mut() = headers;
    Some((request, whole))
}

/// Whether a response to this method can be plain: one to `HEAD` has a length and no body.
fn has_plain_response(method: &Method) -> bool {
    *method != Method::HEAD && *method != Method::CONNECT
}

/// Whether a field says nothing about the connection, or about a body.
fn is_plain(field: &Header<'_>) -> bool {
    let is = |name: &str| field.name.eq_ignore_ascii_case(name);
    match field.name.len() {
        2 => !is("te"),
        6 => !is("expect"),
        7 => !is("upgrade") && !is("trailer"),
        10 if is("connection") => field.value.eq_ignore_ascii_case(b"keep-alive"),
        14 => !is("content-length"),
        17 => !is("transfer-encoding"),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Option<(Request<()>, Bytes)> {
        read(text.as_bytes(), 8_192)
    }

    #[test]
    fn a_plain_request_is_read_and_what_follows_is_not() {
        let text = "DELETE /a?b=c HTTP/1.1\r\nHost: x\r\nX-A: 1\r\nx-a: 2\r\nConnection: Keep-Alive\r\n\r\n";
        let (request, whole) = read_text(&format!("{text}GET / HTTP/1.1\r\n")).expect("a plain one");
        assert_eq!(whole, text);
        assert_eq!((request.method(), request.uri()), (&Method::DELETE, &Uri::from_static("/a?b=c")));
        let fields: Vec<_> = request.headers().iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        assert_eq!(fields, [("host", &b"x"[..]), ("x-a", b"1"), ("x-a", b"2"), ("connection", b"Keep-Alive")]);
        assert!(read(text.as_bytes(), text.len()).is_some() && read(text.as_bytes(), text.len() - 1).is_none());
    }

    #[test]
    fn everything_else_is_left_to_hyper() {
        let table = [
            ("", ""),
            ("GET / HTTP/1.1", "host: a\r\n"),
            ("GET / HTTP/1.0", "host: a\r\n\r\n"),
            ("HEAD / HTTP/1.1", "host: a\r\n\r\n"),
            ("CONNECT a:1 HTTP/1.1", "host: a\r\n\r\n"),
            ("OPTIONS * HTTP/1.1", "host: a\r\n\r\n"),
            ("GET http://a/ HTTP/1.1", "host: a\r\n\r\n"),
            ("GET / HTTP/1.1", "content-length: 0\r\n\r\n"),
            ("GET / HTTP/1.1", "Transfer-Encoding: chunked\r\n\r\n"),
            ("GET / HTTP/1.1", "connection: close\r\n\r\n"),
            ("GET / HTTP/1.1", "connection: keep-alive, x-a\r\n\r\n"),
            ("GET / HTTP/1.1", "upgrade: websocket\r\n\r\n"),
            ("GET / HTTP/1.1", "expect: 100-continue\r\n\r\n"),
            ("GET / HTTP/1.1", "te: trailers\r\n\r\n"),
            ("GET / HTTP/1.1", "trailer: x-a\r\n\r\n"),
            ("GET / HTTP/1.1", "content-length : 1\r\n\r\n"),
            ("GET / HTTP/1.1", "x-a: 1\r\n 2\r\n\r\n"),
        ];
        for (line, fields) in table {
            assert!(read_text(&format!("{line}\r\n{fields}")).is_none(), "{line}: {fields}");
        }
    }
}

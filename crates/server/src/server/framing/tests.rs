use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::TRANSFER_ENCODING;
use http::{Request, Response};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use proptest::prelude::*;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::*;
use crate::body::Body;

/// How many heads are clear, and whether it was lost, if the bytes are divided at these places.
fn follow(bytes: &[u8], cuts: &[usize]) -> (u64, bool) {
    let mut framing = Framing::default();
    let mut from = 0;
    for &cut in cuts {
        framing.follow(&bytes[from..cut]);
        from = cut;
    }
    let clear = framing.follow(&bytes[from..]);
    (clear, framing.at == At::Lost)
}

const PLAIN: &str = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";
const BOTH: &str = "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n";
const LENGTH_OF_THREE: &str = "POST / HTTP/1.1\r\nContent-Length: \t3 \r\n\r\nabc";
const CHUNKS: &str =
    "POST / HTTP/1.1\r\ntransfer-Encoding: chunked\r\n\r\nA;x=\"y\"\r\n0\r\n\r\nGET /\r\n0 \r\na: b\r\nc: d\r\n\r\n";

#[test]
fn heads_are_counted_up_to_the_first_that_is_not_clear_however_they_are_divided() {
    let table = [
        (PLAIN.repeat(3), (3, false)),
        // Empty lines between requests, and line ends without a carriage return, as httparse takes them.
        (format!("\r\n\n{PLAIN}\r\n\r\nGET / HTTP/1.1\nhost: a\n\n{PLAIN}"), (3, false)),
        (format!("{LENGTH_OF_THREE}{PLAIN}"), (2, false)),
        ("POST / HTTP/1.1\r\ncontent-length: 0\r\n\r\n".repeat(2), (2, false)),
        ("POST / HTTP/1.1\r\ncontent-length: 3\r\ncontent-length: 03\r\n\r\nabc".repeat(2), (2, false)),
        (format!("{CHUNKS}{CHUNKS}{PLAIN}"), (3, false)),
        // What looks like a head inside a body is none.
        (format!("POST / HTTP/1.1\r\ncontent-length: {}\r\n\r\n{BOTH}{PLAIN}", BOTH.len()), (2, false)),
        (format!("POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{BOTH}\r\n0\r\n\r\n{PLAIN}", BOTH.len()), (2, false)),
        // Names that only begin or end in the same way, and one in the first line.
        ("GET /content-length:5 HTTP/1.1\r\nx-content-length: 5\r\ncontent-lengths: 5\r\nte: 1\r\ntransfer-encoding-x: y\r\n\r\n".repeat(2), (2, false)),
        (format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n{PLAIN}", "y".repeat(3_000)), (2, false)),
        (BOTH.to_owned(), (0, true)),
        (format!("{PLAIN}{CHUNKS}{LENGTH_OF_THREE}{BOTH}{PLAIN}"), (3, true)),
        ("POST / HTTP/1.1\nTRANSFER-ENCODING:chunked\nx: y\nCONTENT-LENGTH:5\n\n".to_owned(), (0, true)),
        ("POST / HTTP/1.1\r\ncontent-length: 3\r\ncontent-length: 4\r\n\r\nabc".to_owned(), (0, true)),
        ("POST / HTTP/1.1\r\ncontent-length: +3\r\n\r\nabc".to_owned(), (0, true)),
        ("POST / HTTP/1.1\r\ncontent-length: 99999999999999999999\r\n\r\n".to_owned(), (0, true)),
        (format!("POST / HTTP/1.1\r\ncontent-length: {}3\r\n\r\nabc", " ".repeat(300)), (0, true)),
        ("POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabcX".to_owned(), (1, true)),
        ("POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n3\nabc".to_owned(), (1, true)),
        ("POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nfffffffffffffffff\r\n".to_owned(), (1, true)),
    ];
    for (text, expected) in table {
        let bytes = text.as_bytes();
        assert_eq!(follow(bytes, &[]), expected, "{text:?}");
        for cut in 0..=bytes.len() {
            assert_eq!(follow(bytes, &[cut]), expected, "{text:?} divided at {cut}");
        }
        let everywhere: Vec<usize> = (1..bytes.len()).collect();
        assert_eq!(follow(bytes, &everywhere), expected, "{text:?} byte by byte");
    }
}

#[test]
fn a_head_that_comes_as_a_whole_needs_no_memory() {
    let mut framing = Framing::default();
    framing.follow([PLAIN, CHUNKS, LENGTH_OF_THREE].concat().as_bytes());
    assert_eq!(framing.begun.capacity(), 0);
    framing.follow(&PLAIN.repeat(2).as_bytes()[..PLAIN.len() + 10]);
    assert_eq!(framing.begun, b"GET / HTTP");
    framing.follow(&b"x".repeat(100_000));
    assert_eq!(framing.begun.len(), LINE_MAX + 1, "a line without an end");
}

/// A client that has sent all of this, in these pieces, and takes whatever comes.
struct Client {
    pieces: Vec<Vec<u8>>,
    framing: Framing,
    clear: Arc<Mutex<u64>>,
}

impl AsyncRead for Client {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        let Some(mut piece) = self.pieces.pop() else { return Poll::Ready(Ok(())) };
        let taken = piece.len().min(buffer.remaining());
        let rest = piece.split_off(taken);
        if !rest.is_empty() {
            self.pieces.push(rest);
        }
        *self.clear.clone().lock().unwrap() = self.framing.follow(&piece);
        buffer.put_slice(&piece);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Client {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// What hyper makes of the pieces: for each request with a coding, whether it says that it had a length too, and whether it was taken as clear.
fn judged(pieces: Vec<Vec<u8>>) -> Vec<(bool, bool)> {
    let clear = Arc::new(Mutex::new(0));
    let client = Client { pieces, framing: Framing::default(), clear: Arc::clone(&clear) };
    let judged = Arc::new(Mutex::new(Vec::new()));
    let begun = Arc::new(Mutex::new(0));
    let told = Arc::clone(&judged);
    let service = service_fn(move |request: Request<Incoming>| {
        let mut begun = begun.lock().unwrap();
        *begun += 1;
        if request.headers().contains_key(TRANSFER_ENCODING) {
            told.lock().unwrap().push((request.headers().contains_key("x-both"), *begun <= *clear.lock().unwrap()));
        }
        async move {
            let mut body = request.into_body();
            while let Some(Ok(_)) = std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {}
            Ok::<_, Infallible>(Response::new(Body::full(Bytes::from_static(b"ok"))))
        }
    });
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    // Whatever hyper refuses is an error here.
    let _ = runtime.block_on(
        http1::Builder::new().half_close(true).header_read_timeout(None).serve_connection(TokioIo::new(client), service),
    );
    std::mem::take(&mut *judged.lock().unwrap())
}

/// Pieces of requests, which fit together more often than not.
fn fragment() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        PLAIN,
        LENGTH_OF_THREE,
        CHUNKS,
        "POST / HTTP/1.1\r\nx-both: 1\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\nTransfer-Encoding:chunked\nx-both: 1\nContent-Length:5\n\n3\r\nabc\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n",
        "POST / HTTP/1.1\r\ncontent-length: 7\r\n\r\n",
        "POST / HTTP/1.1\r\n",
        "POST / HTTP/1.0\r\nconnection: keep-alive\r\n",
        "content-length: 10\r\n",
        "content-length:10\n",
        "x: y\r\n",
        "3\r\nabc\r\n",
        "0\r\n\r\n",
        "0\r\na: b\r\n\r\n",
        "0;x\r\n",
        "\r\n",
        "\n",
        "\r",
        "5",
        " ",
        "abc",
        "expect: 100-continue\r\n",
    ])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn a_request_with_a_coding_is_clear_unless_it_had_a_length_too(
        fragments in prop::collection::vec(fragment(), 1..12),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let bytes = fragments.concat().into_bytes();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len())).collect();
        cuts.sort_unstable();
        let (whole, parts) = (follow(&bytes, &[]), follow(&bytes, &cuts));
        prop_assert_eq!(whole, parts);
        let mut pieces = Vec::new();
        let mut rest = bytes;
        for cut in cuts.into_iter().rev() {
            pieces.push(rest.split_off(cut));
        }
        pieces.push(rest);
        // An empty read would be the end.
        pieces.retain(|piece| !piece.is_empty());
        for (had_both, is_clear) in judged(pieces) {
            prop_assert_eq!(had_both, !is_clear);
        }
    }

    #[test]
    fn any_bytes_are_followed_in_the_same_way_however_they_are_divided(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        cut in any::<prop::sample::Index>(),
    ) {
        prop_assert_eq!(follow(&bytes, &[]), follow(&bytes, &[cut.index(bytes.len() + 1)]));
    }
}

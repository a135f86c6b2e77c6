//! Servers and clients of either version of HTTP, for tests that are the same over both; and bodies that come piece by piece.

use std::convert::Infallible;
use std::future::{poll_fn, ready};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body::{Body as _, Frame};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::server::conn;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tidegate_server::body::{Body, BrokenOff, Foreign};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::failures::{read_head, scripted};
use super::setup::Running;

/// Both versions, as groups name them, and whether it is HTTP/2.
pub(crate) const VERSIONS: [(&str, bool); 2] = [("http1", false), ("http2", true)];

/// A server of HTTP/1 that answers each request with so many bytes.
pub(crate) async fn lengthy(bytes: usize) -> String {
    let (address, _) = scripted(move |_, mut stream| async move {
        while !read_head(&mut stream).await.is_empty() {
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {bytes}\r\n\r\n");
            if stream.write_all(head.as_bytes()).await.is_err() || stream.write_all(&vec![b'x'; bytes]).await.is_err() {
                return;
            }
        }
    })
    .await;
    format!("http://{address}")
}

/// A server that answers as a test says, over HTTP/1, or over HTTP/2 without being asked first. It ends with the test's runtime.
pub(crate) async fn serving<F>(is_http2: bool, answer: impl Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static) -> String
where
    F: Future<Output = Response<Body>> + Send + 'static,
{
    let (address, _) = scripted(move |_, stream| {
        let answer = answer.clone();
        async move {
            let service = service_fn(move |request| {
                let answering = answer(request);
                async move { Ok::<_, Infallible>(answering.await) }
            });
            let io = TokioIo::new(stream);
            // How it ends is for the other side to tell.
            if is_http2 {
                let _ = conn::http2::Builder::new(TokioExecutor::new()).serve_connection(io, service).await;
            } else {
                let _ = conn::http1::Builder::new().serve_connection(io, service).await;
            }
        }
    })
    .await;
    format!("http://{address}")
}

/// A client of either version, on a connection of its own.
pub(crate) enum Asking {
    Http1(http1::SendRequest<Body>),
    Http2(http2::SendRequest<Body>),
}

impl Asking {
    pub(crate) async fn connect(proxy: &Running, is_http2: bool) -> Self {
        let stream = TcpStream::connect(proxy.address()).await.expect("a proxy that listens");
        stream.set_nodelay(true).expect("a socket");
        // What is not read stays with the sender soon.
        socket2::SockRef::from(&stream).set_recv_buffer_size(64 * 1_024).expect("a socket");
        let stream = TokioIo::new(stream);
        if is_http2 {
            let (client, connection) = http2::handshake(TokioExecutor::new(), stream).await.expect("HTTP/2");
            tokio::spawn(connection);
            Self::Http2(client)
        } else {
            let (client, connection) = http1::handshake(stream).await.expect("HTTP/1");
            tokio::spawn(connection);
            Self::Http1(client)
        }
    }

    /// Asks `GET` for a path.
    pub(crate) async fn get(&mut self, path: &str) -> Response<Incoming> {
        self.send("GET", path, Body::empty()).await.expect("a response")
    }

    /// Sends a request, and waits for the head of its response.
    pub(crate) async fn send(&mut self, method: &str, path: &str, body: Body) -> hyper::Result<Response<Incoming>> {
        self.send_with(Request::builder().method(method).uri(path), body).await
    }

    /// The same with fields.
    pub(crate) async fn send_with(&mut self, head: http::request::Builder, body: Body) -> hyper::Result<Response<Incoming>> {
        let mut request = head.header("host", "shop.example.com").body(body).expect("a request");
        match self {
            Self::Http1(client) => {
                client.ready().await?;
                client.send_request(request).await
            }
            Self::Http2(client) => {
                let path = request.uri().path();
                *request.uri_mut() = format!("http://shop.example.com{path}").parse().expect("a target");
                request.headers_mut().remove("host");
                client.ready().await?;
                client.send_request(request).await
            }
        }
    }
}

/// A body that is sent piece by piece, and what sends it. It has ended when that is dropped, and breaks off where it says so.
pub(crate) fn pieces() -> (mpsc::Sender<Result<Bytes, BrokenOff>>, Body) {
    let (sender, receiver) = mpsc::channel(1);
    (sender, Body::foreign(Pieces(receiver)))
}

#[derive(Debug)]
struct Pieces(mpsc::Receiver<Result<Bytes, BrokenOff>>);

impl Foreign for Pieces {}

impl http_body::Body for Pieces {
    type Data = Bytes;
    type Error = BrokenOff;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        self.0.poll_recv(context).map(|piece| piece.map(|piece| piece.map(Frame::data)))
    }
}

/// What came of a body.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Came {
    pub(crate) bytes: usize,
    /// How it began.
    pub(crate) text: String,
    pub(crate) trailers: HeaderMap,
    /// Whether it ended as it should.
    pub(crate) is_whole: bool,
}

/// Reads a body to its end.
pub(crate) async fn read(body: Incoming) -> Came {
    read_and_tell(body, |_| ()).await
}

/// Reads a body with 1.6 MB a second.
pub(crate) async fn read_slowly(body: Incoming) -> Came {
    let mut before = 0;
    read_paced(body, move |bytes| {
        let piece = std::mem::replace(&mut before, bytes).abs_diff(bytes);
        sleep(Duration::from_millis(10) * u32::try_from(piece / 16_384).unwrap_or(u32::MAX))
    })
    .await
}

/// The same, telling after each piece how many bytes there are.
pub(crate) async fn read_and_tell(body: Incoming, tell: impl Fn(usize)) -> Came {
    read_paced(body, |bytes| {
        tell(bytes);
        ready(())
    })
    .await
}

async fn read_paced<F: Future<Output = ()>>(mut body: Incoming, mut pause: impl FnMut(usize) -> F) -> Came {
    let mut came = Came { is_whole: true, ..Came::default() };
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        match frame.map(Frame::into_data) {
            Ok(Ok(data)) => {
                came.bytes += data.len();
                if came.bytes < 10_000 {
                    came.text += &String::from_utf8_lossy(&data);
                }
                pause(came.bytes).await;
            }
            Ok(Err(frame)) => came.trailers = frame.into_trailers().expect("data or trailers"),
            Err(_) => came.is_whole = false,
        }
        if !came.is_whole {
            break;
        }
    }
    came
}

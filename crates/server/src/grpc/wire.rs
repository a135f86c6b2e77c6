//! Messages on the wire: each follows its length.

use std::future::poll_fn;
use std::pin::Pin;

use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Response};
use prost::Message;

use super::failure::{Code, Failure, STATUS};
use crate::body::Body;

pub(super) const CONTENT_TYPE: HeaderValue = HeaderValue::from_static("application/grpc");

/// Before each message: whether it is compressed, and its length in 32 bits.
const HEAD: usize = 5;

/// The messages of a request, one by one.
#[derive(Debug)]
pub(super) struct Messages<B> {
    body: B,
    /// What came and is not whole yet.
    held: BytesMut,
    bytes_max: usize,
}

impl<B: http_body::Body<Data = Bytes> + Unpin> Messages<B> {
    /// The messages of this body, none larger than that.
    pub(super) fn new(body: B, bytes_max: usize) -> Self {
        Self { body, held: BytesMut::new(), bytes_max }
    }

    /// The message of a call that has one.
    ///
    /// # Errors
    /// There is none, or another one, or it is too large, compressed or not whole.
    pub(super) async fn only(mut self) -> Result<Bytes, Failure> {
        let Some(message) = self.next().await? else {
            return Err(Failure::invalid("the request has no message"));
        };
        let is_over = self.held.is_empty() && self.body.is_end_stream();
        if is_over || self.next().await?.is_none() {
            return Ok(message);
        }
        Err(Failure::invalid("the request has more than one message"))
    }

    /// The next message; `None` at the end.
    ///
    /// # Errors
    /// It is too large, compressed or not whole.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        loop {
            if let Some(end) = end(&self.held, self.bytes_max)? {
                return Ok(Some(self.held.split_to(end).freeze().slice(HEAD..)));
            }
            let Some(data) = self.data().await? else {
                let is_whole = self.held.is_empty();
                return if is_whole { Ok(None) } else { Err(Failure::invalid("the message is cut off")) };
            };
            // Most messages come in one piece, which need not be copied.
            if self.held.is_empty() && end(&data, self.bytes_max)? == Some(data.len()) {
                return Ok(Some(data.slice(HEAD..)));
            }
            self.held.extend_from_slice(&data);
        }
    }

    async fn data(&mut self) -> Result<Option<Bytes>, Failure> {
        loop {
            match poll_fn(|context| Pin::new(&mut self.body).poll_frame(context)).await {
                None => return Ok(None),
                Some(Err(_)) => return Err(Failure::new(Code::Aborted, "the request broke off")),
                Some(Ok(frame)) => {
                    // Requests have no trailers that mean anything.
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
            }
        }
    }
}

/// Where the first message ends; `None` if it is not whole.
fn end(bytes: &[u8], bytes_max: usize) -> Result<Option<usize>, Failure> {
    let Some((&[flag, a, b, c, d], _)) = bytes.split_first_chunk::<HEAD>() else { return Ok(None) };
    match flag {
        0 => {}
        1 => return Err(Failure::new(Code::Unimplemented, "the message is compressed, which this service does not understand")),
        _ => return Err(Failure::invalid("the message begins with a byte that is neither 0 nor 1")),
    }
    let length = u32::from_be_bytes([a, b, c, d]) as usize;
    if length > bytes_max {
        let message = format!("the message has {length} bytes, at most {bytes_max} are read");
        return Err(Failure::new(Code::ResourceExhausted, message));
    }
    Ok(Some(HEAD + length).filter(|&end| end <= bytes.len()))
}

/// A message with its length, as it is sent.
pub(super) fn framed(message: &impl Message) -> Bytes {
    let length = message.encoded_len();
    let mut bytes = BytesMut::with_capacity(HEAD + length);
    bytes.put_u8(0);
    bytes.put_u32(u32::try_from(length).expect("an answer is not longer than its question by much"));
    message.encode(&mut bytes).expect("there is always room in a buffer that grows");
    bytes.freeze()
}

/// The response with one message, or with the reason why there is none.
pub(super) fn response(message: Result<Bytes, Failure>) -> Response<Body> {
    match message {
        Ok(message) => success(Body::full(message).with_trailers(ok_trailers())),
        Err(failure) => failure.response(),
    }
}

/// The trailers of a call that is answered.
pub(super) fn ok_trailers() -> HeaderMap {
    let mut trailers = HeaderMap::with_capacity(1);
    trailers.insert(STATUS, HeaderValue::from_static("0"));
    trailers
}

/// The response with this body.
pub(super) fn success(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    response.headers_mut().insert(http::header::CONTENT_TYPE, CONTENT_TYPE);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(pieces: &[&[u8]], bytes_max: usize) -> Result<Bytes, Code> {
        let (sender, receiver) = tokio::sync::mpsc::channel(16);
        for piece in pieces {
            sender.try_send(Bytes::copy_from_slice(piece)).expect("there is room");
        }
        drop(sender);
        let messages = Messages::new(Body::stream(receiver), bytes_max);
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(messages.only()).map_err(|failure| failure.code)
    }

    #[test]
    fn a_message_is_the_same_in_any_pieces() {
        let whole = b"\0\0\0\0\x03abc";
        for cut in 0..=whole.len() {
            assert_eq!(only(&[&whole[..cut], &whole[cut..]], 3), Ok(Bytes::from_static(b"abc")), "cut at {cut}");
        }
        let bytes: Vec<&[u8]> = whole.chunks(1).collect();
        assert_eq!(only(&bytes, 3), Ok(Bytes::from_static(b"abc")));
        assert_eq!(only(&[b"\0\0\0\0\0"], 3), Ok(Bytes::new()));
    }

    #[test]
    fn what_is_not_one_whole_message_is_refused() {
        let table: [(&[&[u8]], Code); 8] = [
            (&[], Code::InvalidArgument),
            (&[b"\0\0\0\0"], Code::InvalidArgument),
            (&[b"\0\0\0\0\x03ab"], Code::InvalidArgument),
            (&[b"\0\0\0\0\x01a\0\0\0\0\x01b"], Code::InvalidArgument),
            (&[b"\0\0\0\0\x01a", b"\0"], Code::InvalidArgument),
            (&[b"\x02\0\0\0\x01a"], Code::InvalidArgument),
            (&[b"\x01\0\0\0\x01a"], Code::Unimplemented),
            // Refused as soon as its length is known.
            (&[b"\0\0\0\0\x04"], Code::ResourceExhausted),
        ];
        for (pieces, expected) in table {
            assert_eq!(only(pieces, 3), Err(expected), "{pieces:?}");
        }
    }
}

//! The short way of a check: from the bytes of its request to those of its answer, without types in between.
//!
//! It is for the one request that a service is asked all day: `POST` of a check over HTTP/1.1, that came as a whole and has nothing special about it. All
//! others take the long way, and so does every check that is answered with something else than a decision: there is one place that says what is wrong.

use std::sync::Arc;

use bytes::Bytes;
use httparse::{EMPTY_HEADER, Status, parse_headers};
use tidegate_engine::decision::{Decision, Origin};
use tidegate_engine::engine::Begun;

use super::answer::{self, ANSWER_BYTES};
use super::date::extend_date_at;
use super::question::Question;
use super::token::{self, TOKEN_HEADER};
use super::write::Writer;
use crate::app::App;
use crate::metrics::{AnswerCode, Protocol};
use crate::server::Shortcut;
use crate::watch::Watch;

/// How the request begins.
const REQUEST: &[u8] = b"POST /api/v1/rate-limit/check HTTP/1.1\r\n";

/// The most fields of such a request.
const FIELDS_MAX: usize = 24;

/// The fields of the answer before its date.
const FIELDS: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncache-control: no-store\r\ndate: ";

/// The end of the head, with room for the length of the answer, which is known last. It usually has three digits.
const LENGTH: &[u8] = b"\r\ncontent-length: 000\r\n\r\n";

/// Room for the head: a date has 29 letters.
const HEAD_BYTES: usize = FIELDS.len() + 29 + LENGTH.len();

/// Answers the check at the beginning of these bytes, if it can go the short way.
pub(crate) fn answer(app: &Arc<App>, bytes: &[u8]) -> Shortcut {
    let begun = Plain::read(app, bytes).and_then(|plain| Some((plain.len, plain.body, Asked::new(app, plain.body)?)));
    let Some((taken, body, Asked { watch, question, begun })) = begun else { return Shortcut::None };
    match begun {
        Begun::Decided(decision) => Shortcut::Answered { taken, answer: written(app, watch, &question, &decision) },
        Begun::Pending(_) => {
            let (app, body) = (Arc::clone(app), Bytes::copy_from_slice(body));
            let answer = async move {
                let decision = begun.decide().await;
                match Question::read(&body) {
                    Ok(question) => written(&app, watch, &question, &decision),
                    Err(_) => unreachable!("it was read before"),
                }
            };
            Shortcut::Coming { taken, answer: Box::pin(answer) }
        }
    }
}

/// A check that was put.
struct Asked<'a> {
    watch: Watch,
    question: Question<'a>,
    begun: Begun,
}

impl<'a> Asked<'a> {
    /// Puts it; `None` if it makes no sense.
    fn new(app: &Arc<App>, body: &'a [u8]) -> Option<Self> {
        let watch = Watch::untraced(Protocol::Http);
        let question = Question::read(body).ok()?;
        let begun = app.engine.begin_request(Origin::Check, &question, question.cost(), question.options()).ok()?;
        Some(Self { watch, question, begun })
    }
}

/// A request that has nothing special about it.
struct Plain<'a> {
    /// How many bytes it has.
    len: usize,
    body: &'a [u8],
}

impl<'a> Plain<'a> {
    fn read(app: &App, bytes: &'a [u8]) -> Option<Self> {
        let fields = bytes.strip_prefix(REQUEST)?;
        let mut parsed = [EMPTY_HEADER; FIELDS_MAX];
        let Ok(Status::Complete((fields_len, parsed))) = parse_headers(fields, &mut parsed) else { return None };
        let (mut body_len, mut authorization, mut own) = (None, None, None);
        for field in parsed {
            match field.name.len() {
                14 if is(field.name, "content-length") => set(&mut body_len, length(field.value)?)?,
                12 if is(field.name, "content-type") => is_plain_json(field.value).then_some(())?,
                10 if is(field.name, "connection") => field.value.eq_ignore_ascii_case(b"keep-alive").then_some(())?,
                13 if is(field.name, "authorization") => set(&mut authorization, field.value)?,
                16 if is(field.name, TOKEN_HEADER) => set(&mut own, field.value)?,
                // What says that the request is longer, or no request at all.
                17 if is(field.name, "transfer-encoding") => return None,
                7 if is(field.name, "upgrade") || is(field.name, "trailer") => return None,
                6 if is(field.name, "expect") => return None,
                _ => {}
            }
        }
        let (head_len, body_len) = (REQUEST.len() + fields_len, body_len?);
        let limits = &app.settings.limits;
        let fits = head_len <= limits.head_bytes && body_len <= limits.body_bytes;
        let may_ask = app.tracer.is_none() && token::is_shown(app, authorization, own);
        let body = bytes.get(head_len..head_len + body_len).filter(|_| fits && may_ask)?;
        Some(Self { len: head_len + body_len, body })
    }
}

fn is(name: &str, expected: &str) -> bool {
    name.eq_ignore_ascii_case(expected)
}

/// Takes in what a field says, unless it is there twice.
fn set<T>(place: &mut Option<T>, value: T) -> Option<()> {
    place.replace(value).is_none().then_some(())
}

/// Digits and nothing else. More than seven are no length of a check.
fn length(value: &[u8]) -> Option<usize> {
    let is_length = (1..=7).contains(&value.len()) && value.iter().all(u8::is_ascii_digit);
    is_length.then(|| value.iter().fold(0, |length, digit| length * 10 + usize::from(digit - b'0')))
}

fn is_plain_json(value: &[u8]) -> bool {
    value.eq_ignore_ascii_case(b"application/json")
}

/// Counts a decision, and writes the answer to it.
fn written(app: &App, mut watch: Watch, question: &Question<'_>, decision: &Decision) -> Vec<u8> {
    watch.decided(app, question, decision);
    let mut writer = Writer::behind(head(watch.begun_ns()));
    let head_len = writer.len();
    answer::write(&mut writer, decision, app.engine.now_ns(), question.profile(app));
    let mut bytes = writer.into_vec();
    set_length(&mut bytes, head_len);
    watch.answered(app, AnswerCode::Http(200));
    bytes
}

/// Writes the length of the body into the head before it.
fn set_length(bytes: &mut Vec<u8>, head_len: usize) {
    let length = bytes.len() - head_len;
    let end = head_len - b"\r\n\r\n".len();
    let digit = |unit: usize| b'0' + u8::try_from(length / unit % 10).unwrap_or(0);
    match length {
        100..1_000 => bytes[end - 3..end].copy_from_slice(&[digit(100), digit(10), digit(1)]),
        _ => drop(bytes.splice(end - 3..end, length.to_string().into_bytes())),
    }
}

/// The head of an answer, with room for its length.
fn head(now_ns: u64) -> Vec<u8> {
    let mut head = Vec::with_capacity(HEAD_BYTES + ANSWER_BYTES);
    head.extend_from_slice(FIELDS);
    extend_date_at(&mut head, now_ns);
    head.extend_from_slice(LENGTH);
    head
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_tells_the_length_whatever_it_is() {
        for length in [0, 9, 99, 100, 519, 999, 1_000, 123_456] {
            let mut bytes = head(7);
            let head_len = bytes.len();
            bytes.resize(head_len + length, b'x');
            set_length(&mut bytes, head_len);
            let text = String::from_utf8(bytes).expect("text");
            let (head, body) = text.split_once("\r\n\r\n").expect("a head");
            assert!(head.ends_with(&format!("\r\ncontent-length: {length}")), "{head}");
            assert_eq!(body.len(), length);
        }
    }

    #[test]
    fn a_length_is_digits_and_not_too_many() {
        for (text, expected) in [("0", Some(0)), ("72", Some(72)), ("0072", Some(72)), ("", None), ("+7", None), ("7 ", None)] {
            assert_eq!(length(text.as_bytes()), expected, "{text}");
        }
        assert_eq!((length(b"9999999"), length(b"10000000")), (Some(9_999_999), None));
    }
}

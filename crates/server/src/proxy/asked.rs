//! A request on its way to servers.
//!
//! What the client said stays as it is, and each server that is tried is told anew: as bytes on a [line](super::line), and as a map of fields where hyper
//! does the telling. What it is told is said in one place.

use http::header::{CONNECTION, CONTENT_LENGTH, COOKIE, EXPECT, FORWARDED, HOST, TE, TRANSFER_ENCODING, UPGRADE, VIA};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode, Uri};

use super::head::{self, FORWARDED_FOR, FORWARDED_HOST, FORWARDED_PROTO, Origin, Wants};
use super::request_body::RequestBody;
use super::server::Server;
use super::settings::{GroupSettings, HostPolicy, UpstreamProtocol};
use super::spare;

/// Room for the head of a usual request, and for a list in it.
const HEAD_BYTES: usize = 512;
const LIST_BYTES: usize = 128;

/// A request on its way.
#[derive(Debug)]
pub(super) struct Asked<'a> {
    pub(super) head: &'a Parts,
    /// Goes with the request to a server, and comes back if it was not sent.
    pub(super) body: RequestBody,
    /// Path and query as the server is asked for them.
    pub(super) path: PathAndQuery,
    pub(super) wants: Wants,
    pub(super) origin: Origin<'a>,
    /// The field that names the request, which is ours to tell.
    pub(super) request_id: Option<&'a HeaderName>,
}

/// The value of a field.
enum Value<'a> {
    /// As the client said it.
    Said(&'a HeaderValue),
    /// As it is said here.
    Ours(&'a [u8]),
}

impl Value<'_> {
    fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Said(value) => value.as_bytes(),
            Self::Ours(bytes) => bytes,
        }
    }

    fn to_value(&self) -> Option<HeaderValue> {
        match self {
            Self::Said(value) => Some((*value).clone()),
            // What came in is text or was made text, and what is added always is.
            Self::Ours(bytes) => HeaderValue::from_bytes(bytes).ok(),
        }
    }
}

impl Asked<'_> {
    /// The head for a server of HTTP/1, as it is sent.
    pub(super) fn written(&self, server: &Server, group: &GroupSettings) -> Vec<u8> {
        let mut head = Vec::with_capacity(HEAD_BYTES);
        for part in [self.head.method.as_str(), " ", self.path.as_str(), " HTTP/1.1\r\n"] {
            head.extend_from_slice(part.as_bytes());
        }
        self.tell(server, group, |name, value| {
            for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
                head.extend_from_slice(part);
            }
        });
        head.extend_from_slice(b"\r\n");
        head
    }

    /// The request for a server, with the body.
    pub(super) fn request(&mut self, server: &Server, group: &GroupSettings) -> Request<RequestBody> {
        let mut headers = HeaderMap::with_capacity(self.head.headers.len() + spare::FIELDS_ADDED);
        self.tell(server, group, |name, value| {
            if let Some(value) = value.to_value() {
                headers.append(name, value);
            }
        });
        let is_held_back = self.is_told_to_expect(group) && self.wants.go_ahead;
        let mut request = Request::new(std::mem::replace(&mut self.body, RequestBody::empty()));
        *request.method_mut() = self.head.method.clone();
        *request.uri_mut() = match group.protocol {
            UpstreamProtocol::Http1 => Uri::from(self.path.clone()),
            UpstreamProtocol::Http2 => {
                let scheme = if server.url.is_tls { "https" } else { "http" };
                let host = self.host(server, group);
                Uri::builder().scheme(scheme).authority(host).path_and_query(self.path.clone()).build().unwrap_or_default()
            }
        };
        *request.headers_mut() = headers;
        if is_held_back {
            let go_on = request.body_mut().hold_back();
            hyper::ext::on_informational(&mut request, move |response| {
                if response.status() == StatusCode::CONTINUE {
                    go_on();
                }
            });
        }
        request
    }

    /// Tells every field that a server gets.
    fn tell(&self, server: &Server, group: &GroupSettings, mut tell: impl FnMut(&HeaderName, Value<'_>)) {
        let Self { head, body, wants, origin, .. } = self;
        let is_http1 = group.protocol == UpstreamProtocol::Http1;
        if is_http1 {
            tell(&HOST, Value::Ours(self.host(server, group)));
        }
        let mut named = head::named_by_connection(&head.headers);
        named.retain(|name| self.request_id != Some(name));
        let is_said = |name: &HeaderName| !head::is_of_one_hop(name, &named) && (origin.is_trusted || !head::is_of_origin(name));
        // HTTP/2 may divide cookies over several fields, HTTP/1 may not.
        let joins_cookies = is_http1 && is_said(&COOKIE) && head.headers.get_all(COOKIE).iter().nth(1).is_some();
        let expects = self.is_told_to_expect(group);
        // Who is believed and speaks one of two languages is not contradicted in the other one, in which we would know the last step only.
        let says = |name: &HeaderName| origin.is_trusted && is_said(name) && head.headers.contains_key(name);
        let says_forwarded = says(&FORWARDED);
        let says_others = [&FORWARDED_FOR, &FORWARDED_PROTO, &FORWARDED_HOST].into_iter().any(says);
        let (tells_forwarded, tells_others) = (says_forwarded || !says_others, says_others || !says_forwarded);
        let (mut has_proto, mut has_host) = (!tells_others, !tells_others);
        let mut has_length = false;
        for (name, value) in &head.headers {
            // Lists get another element further down.
            let is_list = *name == VIA || *name == FORWARDED || (*name == FORWARDED_FOR && origin.address.is_some());
            let is_told_here = is_list || *name == HOST || (*name == EXPECT && !expects) || (*name == COOKIE && joins_cookies);
            if is_told_here || *name == head::PROXY || !is_said(name) || head::is_look_alike(name, &head.headers) {
                continue;
            }
            // HTTP/2 may say it twice, if it says the same.
            if *name == CONTENT_LENGTH && std::mem::replace(&mut has_length, true) {
                continue;
            }
            has_proto |= *name == FORWARDED_PROTO;
            has_host |= *name == FORWARDED_HOST;
            tell(name, Value::Said(value));
        }
        let mut text = String::with_capacity(LIST_BYTES);
        let mut tell_list = |name: &HeaderName, extend: &dyn Fn(&mut String)| {
            text.clear();
            if is_said(name) {
                head::extend_list(&mut text, &head.headers, name);
            }
            extend(&mut text);
            tell(name, Value::Ours(text.as_bytes()));
        };
        // A socket in the file system has no address: who is behind it has said where the request came from, or nobody knows.
        if let Some(address) = origin.address.filter(|_| tells_others) {
            tell_list(&FORWARDED_FOR, &|list| list.push_str(address));
        }
        if tells_forwarded {
            tell_list(&FORWARDED, &|list| head::extend_forwarded(list, *origin));
        }
        tell_list(&VIA, &|list| list.push_str(head::hop(head.version)));
        if !has_proto {
            tell(&FORWARDED_PROTO, Value::Ours(origin.scheme.as_bytes()));
        }
        if let (false, Some(host)) = (has_host, self.said_host()) {
            tell(&FORWARDED_HOST, Value::Ours(host));
        }
        if joins_cookies {
            let all: Vec<&[u8]> = head.headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
            tell(&COOKIE, Value::Ours(&all.join(&b"; "[..])));
        }
        if is_http1 && wants.upgrade {
            tell(&CONNECTION, Value::Ours(b"upgrade"));
            tell(&UPGRADE, Value::Ours(b"websocket"));
        }
        if is_http1 && !body.is_empty() && !head.headers.contains_key(CONTENT_LENGTH) {
            tell(&TRANSFER_ENCODING, Value::Ours(b"chunked"));
        }
        if wants.trailers {
            tell(&TE, Value::Ours(b"trailers"));
        }
    }

    /// Whether the server is to say if it wants the body. hyper does not say when one of HTTP/2 does.
    fn is_told_to_expect(&self, group: &GroupSettings) -> bool {
        group.protocol == UpstreamProtocol::Http1 && !self.body.is_empty()
    }

    /// The host that a server is asked for.
    fn host<'b>(&'b self, server: &'b Server, group: &GroupSettings) -> &'b [u8] {
        let said = self.said_host().filter(|_| group.host == HostPolicy::Preserve);
        said.unwrap_or(server.url.authority.as_str().as_bytes())
    }

    /// The host that the client asked for, if it did. The target of a request says more than its fields.
    fn said_host(&self) -> Option<&[u8]> {
        let authority = self.head.uri.authority().map(|authority| authority.as_str().as_bytes());
        authority.or_else(|| self.head.headers.get(HOST).map(HeaderValue::as_bytes)).filter(|host| !host.is_empty())
    }
}

#[cfg(test)]
mod tests;

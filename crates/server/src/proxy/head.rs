//! The heads of requests and responses: what is refused, what is meant for one connection only, and what is added on the way.

use http::header::{
    AUTHORIZATION, CONNECTION, CONTENT_LENGTH, COOKIE, EXPECT, Entry, FORWARDED, HOST, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION,
    TE, TRANSFER_ENCODING, UPGRADE, VIA,
};
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version};
use smallvec::SmallVec;

use crate::http::{Problem, all};
use crate::server::Unclear;

/// Who this proxy is to those who ask which way a message went.
const PSEUDONYM: &str = "tidegate";
const VIA_1_0: &str = "1.0 tidegate";
const VIA_1_1: &str = "1.1 tidegate";
const VIA_2: &str = "2 tidegate";

/// What is said to who asks for the methods that are not forwarded. Those that nobody has registered are, too.
const METHODS: &str = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";

/// How often a request may pass proxies of this kind. More often it goes in circles.
const HOPS_MAX: usize = 8;

/// The most fields that `Connection` may name. Nobody needs more than a few, and each is compared with each field.
const NAMED_MAX: usize = 32;

pub(super) const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
pub(super) const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
pub(super) const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Fields for one connection only (RFC 9110, 7.6.1), and those for proxies, which this one is the last of.
pub(super) static OF_ONE_HOP: [HeaderName; 9] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    HeaderName::from_static("http2-settings"),
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// Fields that a message cannot do without, whatever `Connection` says about them.
static OF_THE_MESSAGE: [HeaderName; 3] = [CONTENT_LENGTH, HOST, EXPECT];

/// Fields that say where a request came from begin so, but for two of them.
const OF_THE_ORIGIN: &str = "x-forwarded-";
const REAL_IP: &str = "x-real-ip";

/// What a server goes by before it reads a body (RFC 9110, 6.5.1), besides what is named above.
static NEVER_BEHIND: [HeaderName; 4] = [AUTHORIZATION, COOKIE, VIA, PROXY];

/// What programs behind a server take for the address of a proxy of their own, because CGI calls it like that (httpoxy).
pub(super) const PROXY: HeaderName = HeaderName::from_static("proxy");

/// What a request asks of the connection that it came on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Wants {
    /// To become one of `WebSocket`.
    pub(super) upgrade: bool,
    /// Trailers behind the response.
    pub(super) trailers: bool,
    /// To be told whether to send its body.
    pub(super) go_ahead: bool,
}

impl Wants {
    pub(super) fn of(head: &Parts) -> Self {
        let headers = &head.headers;
        // Only to what is known to carry no requests: in a tunnel of HTTP/2 there would be some that nobody counts.
        let mut protocols = headers.get_all(UPGRADE).iter();
        let is_web_socket = protocols.next().is_some_and(|one| one.as_bytes().eq_ignore_ascii_case(b"websocket"));
        let is_web_socket = is_web_socket && protocols.next().is_none();
        Self {
            upgrade: head.version == Version::HTTP_11
                && head.method == Method::GET
                && is_web_socket
                && has_token(headers, &CONNECTION, "upgrade"),
            trailers: has_token(headers, &TE, "trailers"),
            go_ahead: headers.get(EXPECT).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue")),
        }
    }
}

/// The host that a request is for. Refuses what two programs could understand in two ways; what is left of that was refused when it was read.
pub(super) fn checked(head: &Parts) -> Result<Option<Authority>, Problem> {
    if head.method == Method::CONNECT || head.method == Method::TRACE {
        let problem = Problem::new(StatusCode::METHOD_NOT_ALLOWED, format!("{} is not forwarded", head.method));
        return Err(problem.allowing(METHODS));
    }
    let path = head.uri.path();
    let is_of_all = path == "*" && head.method == Method::OPTIONS;
    if !path.starts_with('/') && !is_of_all {
        return Err(Problem::bad_request("the target of a request begins with a slash"));
    }
    // A server may walk them, and end where another route, or another rule, would have been asked.
    if has_dots(path) {
        return Err(Problem::bad_request("the path has segments of dots only; resolve them first"));
    }
    let mut codings = head.headers.get_all(TRANSFER_ENCODING).iter();
    if let Some(coding) = codings.next()
        && (codings.next().is_some() || !coding.as_bytes().eq_ignore_ascii_case(b"chunked"))
    {
        return Err(Problem::new(StatusCode::NOT_IMPLEMENTED, "the only transfer coding that is understood is `chunked`"));
    }
    // hyper has dropped the length, but somebody on the way may have gone by it.
    if head.extensions.get::<Unclear>().is_some() && head.headers.contains_key(TRANSFER_ENCODING) {
        return Err(Problem::bad_request("a request has a `Content-Length` or a `Transfer-Encoding`, not both"));
    }
    if tokens(&head.headers, &CONNECTION).nth(NAMED_MAX).is_some() {
        return Err(Problem::bad_request("`Connection` names too many fields"));
    }
    if head.headers.get(VIA).is_some() && hops(&head.headers) >= HOPS_MAX {
        return Err(Problem::new(StatusCode::LOOP_DETECTED, "the request goes in circles: an upstream leads back to this proxy"));
    }
    let mut hosts = head.headers.get_all(HOST).iter();
    let host = hosts.next();
    if hosts.next().is_some() {
        return Err(Problem::bad_request("a request has one `Host`"));
    }
    // The target of the request says more than its fields (RFC 9112, 3.2.2).
    let authority = match (head.uri.authority(), host) {
        (Some(authority), _) => Some(authority.clone()),
        (None, Some(host)) if !host.is_empty() => {
            let authority = Authority::try_from(host.as_bytes()).ok();
            Some(authority.ok_or_else(|| Problem::bad_request("`Host` is no name of a host"))?)
        }
        (None, None) if head.version == Version::HTTP_11 => return Err(Problem::bad_request("a request has one `Host`")),
        (None, _) => None,
    };
    match authority {
        Some(authority) if authority.as_str().contains('@') => Err(Problem::bad_request("`Host` is no name of a host")),
        authority => Ok(authority),
    }
}

/// Whether a segment of a path means this place or the one above: also if its dots are escaped, if it ends in what some servers take for the end of a
/// segment, or if it has parameters, which others drop.
fn has_dots(path: &str) -> bool {
    let is_of_dots = |segment: &str| matches!(segment.split(';').next(), Some("." | ".."));
    if !path.contains(['%', '\\']) {
        return path.split('/').any(is_of_dots);
    }
    let plain = [("%2e", "."), ("%2f", "/"), ("%5c", "/"), ("\\", "/"), ("%3b", ";")];
    plain.iter().fold(path.to_ascii_lowercase(), |path, (from, to)| path.replace(from, to)).split('/').any(is_of_dots)
}

/// Fields that `Connection` names, except for those that a message cannot do without.
pub(super) type Named = SmallVec<[HeaderName; 4]>;

/// The fields that are meant for one connection only because `Connection` says so.
pub(super) fn named_by_connection(headers: &HeaderMap) -> Named {
    let named = tokens(headers, &CONNECTION).filter_map(|token| HeaderName::from_bytes(token).ok());
    named.filter(|name| !OF_THE_MESSAGE.contains(name)).collect()
}

/// Whether a field is meant for one connection only.
pub(super) fn is_of_one_hop(name: &HeaderName, named: &Named) -> bool {
    OF_ONE_HOP.contains(name) || named.contains(name)
}

/// Removes what was meant for one connection only.
pub(super) fn strip(headers: &mut HeaderMap) {
    let named = named_by_connection(headers);
    // Most messages have none of them: looking at those that are there costs less than looking for those that are not.
    while let Some(name) = headers.keys().find(|name| is_of_one_hop(name, &named)).cloned() {
        headers.remove(name);
    }
}

/// Removes from behind a body what belongs before it: some servers put the one into the other, and would hear from a client what it may not say, or what
/// the rules, which ask for it, have not heard.
pub(super) fn strip_trailers(trailers: &mut HeaderMap, is_asked_for: impl Fn(&str) -> bool) {
    let is_out_of_place = |name: &HeaderName| {
        let is_wrong = |name: &str| is_called_of_origin(name) || is_asked_for(name);
        let is_wrong = is_wrong(name.as_str()) || common_name(name).is_some_and(|name| is_wrong(&name));
        is_wrong
            || *name == FORWARDED
            || OF_ONE_HOP.contains(name)
            || OF_THE_MESSAGE.contains(name)
            || NEVER_BEHIND.contains(name)
    };
    while let Some(name) = trailers.keys().find(|name| is_out_of_place(name)).cloned() {
        trailers.remove(name);
    }
}

/// Where a request came from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Origin<'a> {
    /// The address of the peer; a socket in the file system has none.
    pub(super) address: Option<&'a str>,
    /// Whether the peer is believed that the request came from elsewhere.
    pub(super) is_trusted: bool,
    pub(super) host: Option<&'a Authority>,
    pub(super) scheme: &'static str,
}

/// Whether a field says where a request came from. Who is not believed is not heard.
pub(super) fn is_of_origin(name: &HeaderName) -> bool {
    *name == FORWARDED || is_called_of_origin(name.as_str())
}

fn is_called_of_origin(name: &str) -> bool {
    name.starts_with(OF_THE_ORIGIN) || name == REAL_IP
}

/// Whether a name is another one of the request, or one of ours, to servers that read `_` and `-` as the same.
pub(super) fn is_look_alike(name: &HeaderName, headers: &HeaderMap) -> bool {
    let is_twin = |twin: &str| is_called_of_origin(twin) || headers.keys().any(|other| other != name && is_same(other, twin));
    common_name(name).is_some_and(|twin| is_twin(&twin))
}

/// What a name with `_` is to servers that read `_` and `-` as the same; `None` for a name that all read alike.
pub(super) fn common_name(name: &HeaderName) -> Option<String> {
    name.as_str().contains('_').then(|| name.as_str().replace('_', "-"))
}

fn is_same(name: &HeaderName, common: &str) -> bool {
    let dashed = name.as_str().bytes().map(|byte| if byte == b'_' { b'-' } else { byte });
    dashed.eq(common.bytes())
}

/// Adds what somebody has said in a list, so that another element can follow.
pub(super) fn extend_list(list: &mut String, headers: &HeaderMap, name: &HeaderName) {
    if let Some(said) = all(headers, name).filter(|said| !said.is_empty()) {
        list.push_str(&said);
        list.push_str(", ");
    }
}

/// Adds the element of `Forwarded` (RFC 7239) for a request.
pub(super) fn extend_forwarded(list: &mut String, origin: Origin<'_>) {
    // Only addresses of version 6 have colons.
    let address = match origin.address {
        Some(address) if address.contains(':') => ["for=\"[", address, "]\""],
        Some(address) => ["for=", address, ""],
        None => ["for=unknown", "", ""],
    };
    // Authorities have neither quotes nor backslashes.
    let host = origin.host.map_or([""; 3], |host| [";host=\"", host.as_str(), "\""]);
    for part in address.into_iter().chain(host).chain([";proto=", origin.scheme]) {
        list.push_str(part);
    }
}

/// This proxy on the way of a message that came in this version.
pub(super) fn hop(version: Version) -> &'static str {
    match version {
        Version::HTTP_10 => VIA_1_0,
        Version::HTTP_2 => VIA_2,
        _ => VIA_1_1,
    }
}

/// Adds this proxy to the way that a response goes; `version` is that of the client.
pub(super) fn add_via(headers: &mut HeaderMap, version: Version) {
    let hop = hop(version);
    match headers.entry(VIA) {
        Entry::Vacant(free) => drop(free.insert(HeaderValue::from_static(hop))),
        Entry::Occupied(_) => {
            let mut list = String::new();
            extend_list(&mut list, headers, &VIA);
            list.push_str(hop);
            // What came in is text or was made text, and what is added always is.
            if let Ok(list) = HeaderValue::try_from(list) {
                headers.insert(VIA, list);
            }
        }
    }
}

fn hops(headers: &HeaderMap) -> usize {
    let by = |hop: &'_ [u8]| {
        let by = hop.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).nth(1);
        by.is_some_and(|by| by.eq_ignore_ascii_case(PSEUDONYM.as_bytes()))
    };
    tokens(headers, &VIA).filter(|hop| by(hop)).count()
}

fn has_token(headers: &HeaderMap, name: &HeaderName, wanted: &str) -> bool {
    tokens(headers, name).any(|token| token.eq_ignore_ascii_case(wanted.as_bytes()))
}

/// The elements of a list that may be spread over several fields. They need not be text: an element that is none hides no other.
fn tokens<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a [u8]> {
    let values = headers.get_all(name).iter().map(HeaderValue::as_bytes);
    values.flat_map(|value| value.split(|byte| *byte == b',')).map(<[u8]>::trim_ascii).filter(|token| !token.is_empty())
}

#[cfg(test)]
mod tests;

//! What rules can know about a request that is to be forwarded.
//!
//! The address is that of the peer. Whether somebody is believed who says in `X-Forwarded-For` that it was another one, is said by `trusted_proxies` in
//! the rules' identity.

use http::request::Parts;
use http::uri::Authority;
use tidegate_core::rules::{Request, Slot};
use tidegate_engine::engine::Facts;

use super::head::{OF_ONE_HOP, common_name, is_look_alike, named_by_connection};
use crate::http::{each, each_parameter};

/// The facts about a request.
#[derive(Debug)]
pub(super) struct Forwardable<'a> {
    pub(super) head: &'a Parts,
    pub(super) host: Option<&'a Authority>,
    pub(super) scheme: &'static str,
    /// That of the peer; a socket in the file system has none.
    pub(super) address: Option<&'a str>,
}

impl Facts for Forwardable<'_> {
    fn state<'a>(&'a self, request: &mut Request<'a>) {
        let headers = &self.head.headers;
        // What a client wants to keep from servers they cannot refuse, so nobody is counted by it.
        let named = named_by_connection(headers);
        for name in headers.keys().filter(|name| !named.contains(name) || OF_ONE_HOP.contains(name)) {
            request.add_header(name.as_str(), each(headers, name));
            // A server that reads `X_API_Key` as `X-API-Key` takes a client for whom it says it is, and so do the rules.
            if let Some(common) = common_name(name).filter(|_| !is_look_alike(name, headers)) {
                request.add_header(&common, each(headers, name));
            }
        }
        request.set_fixed(Slot::METHOD, self.head.method.as_str());
        request.set_fixed(Slot::PATH, self.head.uri.path());
        each_parameter(self.head.uri.query().unwrap_or_default(), |name, value| request.add_query(&name, value));
        if let Some(host) = self.host {
            request.set_fixed(Slot::HOST, host.as_str());
            // In HTTP/2 it is no field.
            request.set_header("host", host.as_str());
        }
        request.set("scheme", self.scheme);
        if let Some(address) = self.address {
            request.set_fixed(Slot::IP, address);
        }
    }
}

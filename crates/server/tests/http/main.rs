//! The port of HTTP, asked without sockets: what goes in are requests as hyper reads them, what comes out are responses as it writes them.

mod app;
mod batch;
mod check;
mod forward_auth;
mod json;
mod pages;
mod problems;
#[path = "../setup/mod.rs"]
mod setup;
mod slots;

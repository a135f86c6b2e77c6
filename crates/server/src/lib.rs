//! Protocols over an engine.
//!
//! | module | holds |
//! | --- | --- |
//! | [`app`] | [`App`](app::App): what all handlers share |
//! | [`settings`] | how the service is set up, as Python hands it over |
//! | [`server`] | [`Server`](server::Server): listens, serves, drains, stops |
//! | [`body`] | the one body type of all responses |
//! | [`grpc`] | `ShouldRateLimit`, health, reflection |
//! | [`http`] | checks as JSON, forward-auth, health, metrics |
//! | [`proxy`] | forwards requests that the rules allow |
//! | [`metrics`] | counters and histograms, and the page that Prometheus reads |
//! | [`top`] | the keys that are denied most |
//! | [`events`] | single decisions, for the control plane |
//! | [`trace`] | spans for a collector |
//! | [`vitals`] | how stores and servers are doing, for the log |
//! | [`watch`] | one request, and what is counted, remembered and traced of it |
//!
//! No Python runs on the path of a request, and no framework: hyper hands a request to one of three functions, which look at its path.

pub mod access_log;
pub mod app;
pub mod body;
mod chance;
pub mod events;
pub mod grpc;
pub mod http;
pub mod metrics;
pub mod proxy;
pub mod server;
pub mod settings;
pub mod top;
pub mod trace;
pub mod vitals;
pub mod watch;

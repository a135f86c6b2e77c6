//! The messages, compiled from `crates/server/proto`.

#![allow(
    missing_docs,
    unreachable_pub,
    dead_code,
    clippy::all,
    clippy::pedantic,
    reason = "generated from files that have their comments"
)]

mod generated {
    include!(concat!(env!("OUT_DIR"), "/proto.rs"));
}

pub use generated::envoy::config::core::v3::HeaderValue;
pub use generated::envoy::extensions::common::ratelimit::v3::{RateLimitDescriptor, rate_limit_descriptor};
pub use generated::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse, rate_limit_response};
pub use generated::envoy::r#type::v3::RateLimitUnit;
pub use generated::grpc::health::v1 as health;
pub use generated::grpc::reflection::v1 as reflection;

/// All files as descriptors, for reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

//! Quotas and a store become decisions.
//!
//! | module | holds |
//! | --- | --- |
//! | [`engine`] | [`Engine`](engine::Engine): check, peek, refund, debit, settle, leases, reset, load |
//! | [`decision`] | [`Decision`](decision::Decision): the answer, which is also the receipt |
//! | [`plan`] | the quotas or rules in force, with their generation, and how one generation follows another |
//! | [`failure`] | what stands between the engine and a store that fails: breaker, deny cache, fair share |
//! | [`advance`] | units that were taken from a shared store before anybody asked for them |
//! | [`calendar`] | days and months in time zones |
//! | [`jwt`] | verified claims |
//! | [`remote`] | the way to a store that other processes share: budget, breaker, fallback |
//! | [`headers`] | a decision as HTTP header fields |
//! | [`together`] | several answers that are waited for at once |

pub mod advance;
pub mod calendar;
pub mod decision;
pub mod engine;
pub mod failure;
pub mod headers;
pub mod jwt;
pub mod plan;
pub mod remote;
pub mod together;
pub mod word;

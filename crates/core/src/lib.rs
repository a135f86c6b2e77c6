//! The pure part of Tidegate: quotas, algorithms, rules and decisions.
//!
//! Nothing in this crate reads a clock, allocates a thread, opens a socket or uses a float. An algorithm is a function of
//! (parameters, state, time, cost), so the memory store, the Redis scripts and the simulator can be held to the same truth tables.
//!
//! | module | holds |
//! | --- | --- |
//! | [`quota`] | what a rule allows: the texts people write and the checks they pass |
//! | [`algorithm`] | one file per algorithm, each with its promise, its formula and its timeline |
//! | [`meter`] | a quota compiled for a clock's tick: one face over all algorithms |
//! | [`decision`] | how the answers of several quotas become one |
//! | [`rules`] | which requests are limited, who is counted, by which quotas |
//! | [`descriptors`] | the same, in the format of the reference rate limit service |
//! | [`time`] | ticks, and calendars supplied from outside |

pub mod algorithm;
pub mod decision;
pub mod descriptors;
pub mod meter;
pub mod mutant;
pub mod quota;
pub mod rules;
pub mod time;

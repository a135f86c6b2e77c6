//! Rules: which requests are limited, who is counted, and by which quotas.
//!
//! A [`RuleSet`] is compiled once from a [`RuleSetSpec`] and never changes. It turns the facts about one [`Request`] into [`Matches`]: the rules that
//! apply, with the key, the plan and the cost of each.
//!
//! | module | holds |
//! | --- | --- |
//! | [`spec`] | the document that crosses from Python to Rust |
//! | [`request`] | the facts about one request |
//! | [`identity`] | who the client is |
//! | [`condition`], [`pattern`], [`glob`] | what a rule asks of a request |
//! | [`path`], [`address`] | the one spelling of a path and of an address, whatever the client wrote |
//! | [`index`] | from a request to the few rules that can match it |
//! | [`rule`] | one rule: its conditions, its key, its plans |
//! | [`rule_set`] | all of it together |
//! | [`members`] | what customers have of their own |
//! | [`explain`] | why each rule applies or does not |

pub mod address;
pub mod condition;
pub mod explain;
pub mod glob;
pub mod identity;
pub mod index;
pub mod members;
pub mod path;
pub mod pattern;
pub mod request;
pub mod rule;
pub mod rule_set;
pub mod spec;

pub use members::{Members, Standing};
pub use request::{Request, Slot};
pub use rule::{PlanOf, Rule, first_value};
pub use rule_set::{Match, Matches, RuleSet, RuleSetError};
pub use spec::RuleSetSpec;

//! Calls that make no sense.

use tidegate_core::quota::UNITS_MAX;

/// The most descriptors of one request.
pub(super) const DESCRIPTORS_MAX: usize = 1_000;

/// A call that makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UsageError {
    /// Nobody to count.
    #[error("the key is empty; name who is counted, or use one fixed word to count everybody together")]
    EmptyKey,
    /// The engine decides by keys.
    #[error("there are no rules; the limiter was made of quotas")]
    NoRules,
    /// A request without a domain.
    #[error("the domain is empty; name the domain of the descriptors")]
    EmptyDomain,
    /// A request without descriptors.
    #[error("the list of descriptors is empty; name at least one")]
    NoDescriptors,
    /// A request with too many descriptors.
    #[error("{count} descriptors are given, at most {DESCRIPTORS_MAX} are possible")]
    TooManyDescriptors {
        /// How many.
        count: usize,
    },
    /// A descriptor brings a limit without a unit.
    #[error("descriptor {descriptor} has a limit without a unit; name one, such as MINUTE")]
    LimitWithoutUnit {
        /// Its position.
        descriptor: usize,
    },
    /// Hits are given back where nothing says where they went.
    #[error("descriptor {descriptor} gives hits back, which only fixed windows can take")]
    CreditWithoutWindow {
        /// Its position.
        descriptor: usize,
    },
    /// More quotas apply to one request than a decision can name.
    #[error("{count} quotas apply to one request; narrow the rules down")]
    TooManyQuotas {
        /// How many.
        count: usize,
    },
    /// Who would be counted depends on who reads the request.
    #[error("`{name}` came twice with two values; a rule asks for it, and servers differ in which one they take")]
    RepeatedParameter {
        /// As rules write it.
        name: String,
    },
    /// More than any quota can hold.
    #[error("cost {cost} is too large, at most {UNITS_MAX} is possible")]
    CostTooLarge {
        /// What was asked.
        cost: u64,
    },
    /// The decision was made by another engine.
    #[error("the decision was made by another limiter; give it to the one that made it")]
    ForeignDecision,
    /// The decision was made for another key.
    #[error("the decision was made for another key; pass the key that was checked")]
    WrongKey,
    /// The decision took nothing.
    #[error("the decision took nothing that could be given back: it was {why}")]
    NothingTaken {
        /// What it was.
        why: &'static str,
    },
    /// It was all given back, or settled.
    #[error(
        "only {left} of the {cost} units that the decision took can still be given back; each can be refunded or settled once"
    )]
    AlreadyGivenBack {
        /// Units still to be given back.
        left: u64,
        /// Units that were taken.
        cost: u64,
    },
}

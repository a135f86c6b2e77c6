//! What can be wrong with an address.

/// Why an address was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// Nothing is there.
    #[error("the address of the store is empty; write redis://host:6379/0")]
    Empty,
}

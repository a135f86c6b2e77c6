//! Claims of tokens, used only when somebody has verified them.

use tidegate_core::rules::spec::JwtSpec;

/// Why tokens cannot be verified.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JwtError {
    /// The key is none, or not of the kind that the algorithms need.
    #[error("jwt: {0}")]
    Key(&'static str),
}

/// Verifies tokens and reads their claims.
#[derive(Debug)]
pub struct Jwt {}

impl Jwt {
    /// Compiles the section `jwt`.
    ///
    /// # Errors
    /// See [`JwtError`].
    pub fn new(_spec: &JwtSpec) -> Result<Self, JwtError> {
        Ok(Self {})
    }

    /// A claim of the token in a header's value, as text; `None` unless the token is valid at `now_s`, in seconds since the epoch.
    pub fn claim(&self, _header: &str, _name: &str, _now_s: u64) -> Option<String> {
        None
    }
}

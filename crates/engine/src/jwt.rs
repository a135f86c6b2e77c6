//! Claims of tokens, used only when somebody has verified them.
//!
//! | the section `jwt` says | a claim is used if |
//! | --- | --- |
//! | a key and algorithms | the signature is right, by an algorithm that is in the list and fits the key |
//! | `verified_by: upstream` | it can be read: somebody in front, whom nobody can bypass, has looked at the signature |
//!
//! In both cases `exp` and `nbf` must hold now, and `iss` and `aud` must be those that are asked for. A token without `exp` is accepted: its
//! issuer said that it holds for ever, and a limiter that refused it would only count its bearer as somebody else.
//!
//! A token that is wrong names nobody. It is not an error: the next source of `identity` is asked, and in the end the address.

mod claims;
mod key;

use std::collections::HashSet;
use std::fmt;

use jsonwebtoken::{DecodingKey, Validation};
use serde_json::{Map, Value};
use tidegate_core::rules::spec::JwtSpec;

/// Bytes of the longest token that is looked at. Servers refuse headers that are much longer.
pub const TOKEN_BYTES_MAX: usize = 8 * 1024;

/// The only word that `verified_by` can be.
const UPSTREAM: &str = "upstream";

/// Why tokens cannot be verified. Says nothing about the key but its kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JwtError {
    /// The key is none, or not of the kind that the algorithms need.
    #[error("jwt: {0}")]
    Key(&'static str),
    /// It cannot be verified with, or not together with the others.
    #[error("jwt: {name:?} {why}")]
    Algorithm {
        /// As it is written.
        name: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Nobody verifies, or two do.
    #[error("jwt: {0}")]
    Verifier(&'static str),
}

/// Verifies tokens and reads their claims.
pub struct Jwt {
    verifier: Verifier,
    demands: claims::Demands,
}

enum Verifier {
    Upstream,
    Key { key: DecodingKey, validation: Box<Validation> },
}

impl Jwt {
    /// Compiles the section `jwt`.
    ///
    /// # Errors
    /// See [`JwtError`].
    pub fn new(spec: &JwtSpec) -> Result<Self, JwtError> {
        let has_key = !spec.algorithms.is_empty() || spec.secret.is_some() || spec.public_key.is_some();
        let verifier = match spec.verified_by.as_deref() {
            Some(UPSTREAM) if has_key => {
                return Err(JwtError::Verifier("verified_by stands alone: there is nothing to do for a key"));
            }
            Some(UPSTREAM) => Verifier::Upstream,
            Some(_) => return Err(JwtError::Verifier("verified_by can only be upstream")),
            None => {
                let (key, algorithms) = key::read(spec)?;
                Verifier::Key { key, validation: Box::new(signature_only(algorithms)) }
            }
        };
        Ok(Self { verifier, demands: claims::Demands::new(spec) })
    }

    /// A claim of the token in a header's value, as text; `None` unless the token is valid at `now_s`, in seconds since the epoch.
    ///
    /// Texts, numbers and truth values are claims; what is nested names nobody, and neither does an empty text.
    pub fn claim(&self, header: &str, name: &str, now_s: u64) -> Option<String> {
        let token = without_scheme(header);
        if token.len() > TOKEN_BYTES_MAX {
            return None;
        }
        let claims = self.verified(token)?;
        if self.demands.are_met(&claims, now_s) { claims::text(claims.get(name)?) } else { None }
    }

    /// The claims, if the signature is right.
    fn verified(&self, token: &str) -> Option<Map<String, Value>> {
        match &self.verifier {
            Verifier::Upstream => jsonwebtoken::dangerous::insecure_decode_claims(token).ok(),
            Verifier::Key { key, validation } => {
                let token = jsonwebtoken::decode::<Map<String, Value>>(token, key, validation).ok()?;
                // Whoever does not understand what a header calls critical must refuse the token, and nothing is understood here.
                token.header.crit.is_none().then_some(token.claims)
            }
        }
    }
}

impl fmt::Debug for Jwt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.verifier {
            Verifier::Upstream => f.debug_struct("Jwt").field("verified_by", &UPSTREAM).finish_non_exhaustive(),
            Verifier::Key { validation, .. } => {
                f.debug_struct("Jwt").field("algorithms", &validation.algorithms).finish_non_exhaustive()
            }
        }
    }
}

/// Signatures are verified by the library. Claims are not: it reads a clock of its own.
fn signature_only(algorithms: Vec<jsonwebtoken::Algorithm>) -> Validation {
    Validation {
        algorithms,
        required_spec_claims: HashSet::new(),
        validate_exp: false,
        validate_nbf: false,
        validate_aud: false,
        ..Validation::default()
    }
}

/// A header's value without the word `Bearer`, in any case.
fn without_scheme(header: &str) -> &str {
    let header = header.trim();
    match header.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => token.trim_start(),
        _ => header,
    }
}

#[cfg(test)]
mod tests;

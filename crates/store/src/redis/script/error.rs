//! What the errors of scripts and servers mean.

use crate::redis::resp::store_error;
use crate::store::StoreError;

/// What an error of a server means.
///
/// Those that a topology has to follow (`MOVED`, `ASK`, `TRYAGAIN`) or to mend (`NOSCRIPT`) should be looked for before.
///
/// ```
/// use tidegate_store::redis::script::error;
///
/// assert_eq!(error("TGFOREIGN a value that is not a counter of this kind").kind(), "store_foreign_value");
/// assert_eq!(error("ERR Error running script (call to f_0): @user_script:9: WRONGTYPE Operation").kind(), "store_foreign_value");
/// assert_eq!(error("ERR ACL failure in script: User limiter has no permissions").kind(), "store_access");
/// assert_eq!(error("OOM command not allowed when used memory > 'maxmemory'").kind(), "store_refused");
/// ```
pub fn error(text: &str) -> StoreError {
    if text.starts_with("TGFOREIGN") {
        return StoreError::Foreign { why: text.into() };
    }
    // What a user may not do outside of a script is said by NOPERM, inside by this.
    if text.contains("ACL failure in script") {
        return StoreError::Access { why: text.into() };
    }
    // Redis before 7.0 puts the error of a command behind words of its own.
    if text.starts_with("ERR Error running script") {
        let words = text.split([' ', ':']).map(|word| word.trim_start_matches('-'));
        let known = words.map(store_error).find(|error| !matches!(error, StoreError::Protocol { .. }));
        return match known {
            Some(StoreError::Refused { .. }) => StoreError::Refused { why: text.into() },
            Some(StoreError::Access { .. }) => StoreError::Access { why: text.into() },
            Some(StoreError::Foreign { .. }) => StoreError::Foreign { why: text.into() },
            _ => StoreError::Protocol { why: text.into() },
        };
    }
    store_error(text)
}

//! The protocol, version 2: commands out, values in.
//!
//! Version 3 would save nothing here and adds a dozen types, each of which a hostile or broken peer could send.

mod command;
mod parser;
#[cfg(test)]
mod tests;

pub use command::{Command, CommandBuilder};
pub use parser::{ARRAY_LENGTH_MAX, BULK_BYTES_MAX, DEPTH_MAX, LINE_BYTES_MAX, Parser, ProtocolError, REPLY_BYTES_MAX};

use crate::store::StoreError;

/// What a server answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// No value: the null string or the null array.
    Nil,
    /// A whole number.
    Int(i64),
    /// Bytes.
    Bulk(Box<[u8]>),
    /// A short text such as `OK`.
    Status(Box<str>),
    /// An error; its first word says which.
    Error(Box<str>),
    /// Values in a row.
    Array(Box<[Value]>),
}

impl Value {
    /// The bytes of a text, whichever way the server sent it.
    ///
    /// ```
    /// use tidegate_store::redis::resp::Value;
    ///
    /// assert_eq!(Value::Status("PONG".into()).text(), Some(&b"PONG"[..]));
    /// assert_eq!(Value::Int(1).text(), None);
    /// ```
    pub fn text(&self) -> Option<&[u8]> {
        match self {
            Self::Bulk(bytes) => Some(bytes),
            Self::Status(text) => Some(text.as_bytes()),
            Self::Nil | Self::Int(_) | Self::Error(_) | Self::Array(_) => None,
        }
    }

    /// The number.
    pub fn int(&self) -> Option<i64> {
        if let Self::Int(number) = self { Some(*number) } else { None }
    }

    /// The values in a row.
    pub fn items(&self) -> Option<&[Value]> {
        if let Self::Array(items) = self { Some(items) } else { None }
    }

    /// What an error means for the store; `None` for everything else.
    ///
    /// Errors that a topology follows (`MOVED`, `ASK`, `TRYAGAIN`) or mends (`NOSCRIPT`) should be looked for before.
    pub fn store_error(&self) -> Option<StoreError> {
        if let Self::Error(text) = self { Some(store_error(text)) } else { None }
    }
}

/// What an error of a server means for the store, by its first word.
///
/// ```
/// use tidegate_store::redis::resp::store_error;
///
/// assert_eq!(store_error("LOADING Redis is loading the dataset in memory").kind(), "store_refused");
/// assert_eq!(store_error("NOPERM User ada has no permissions").kind(), "store_access");
/// assert_eq!(store_error("ERR unknown command").kind(), "store_protocol");
/// ```
pub fn store_error(text: &str) -> StoreError {
    let why = text.into();
    let word = text.split(' ').next().unwrap_or_default();
    match word {
        "BUSY" | "CLUSTERDOWN" | "LOADING" | "MASTERDOWN" | "MISCONF" | "NOREPLICAS" | "OOM" | "READONLY" | "TRYAGAIN"
        | "UNKILLABLE" => StoreError::Refused { why },
        "DENIED" | "NOAUTH" | "NOPERM" | "WRONGPASS" => StoreError::Access { why },
        "WRONGTYPE" => StoreError::Foreign { why },
        // These two have no word of their own.
        _ if text.starts_with("ERR max number of clients") => StoreError::Refused { why },
        _ if text.starts_with("ERR invalid password") => StoreError::Access { why },
        _ => StoreError::Protocol { why },
    }
}

//! The scripts: what they are told, and what they answer.
//!
//! Every algorithm of the core is written a second time, in Lua (`crates/store/lua`), and answers the same to the bit. A request is one call of one
//! script, which reads the server's clock once, decides all quotas of the request, and charges all or none.
//!
//! | module | holds |
//! | --- | --- |
//! | `assemble`, `blocks` | the scripts, put together from the blocks that a call needs |
//! | [`key`] | the names of counters |
//! | `compile` | quotas at a tick at which the numbers of Lua are exact |
//! | `encode`, `decode` | charges as arguments, replies as statuses |
//!
//! A call is made for the charges of one hash slot:
//!
//! ```
//! use tidegate_core::meter::Ask;
//! use tidegate_store::digest::Digest;
//! use tidegate_store::redis::script::{Build, Op, Scripts};
//! use tidegate_store::store::{Charge, Part, Place};
//!
//! let scripts = Scripts::new(Build::Production);
//! let meter = scripts.meter(&"100/minute".parse().unwrap(), None).unwrap();
//! let key = Digest([1, 2]);
//! let (namespace, ask, place) = (Digest([3, 4]), Ask::cost(1), Place::of(key));
//! let charge = Charge { meter: &meter, key, place, namespace, ask, until: None, part: Part::Enforced };
//! let call = scripts.call(Op::Check, &[charge], b"tg:", 0);
//! assert!(call.by_hash().as_bytes().starts_with(b"*5\r\n$7\r\nEVALSHA\r\n"));
//! ```

mod assemble;
mod blocks;
mod calendar;
mod call;
mod compile;
mod decode;
mod encode;
mod error;
pub mod key;
mod kind;
mod timeline;

pub use assemble::{Build, Script, Scripts};
pub use call::{Call, Op, Reply};
pub use compile::meter;
pub use error::error;

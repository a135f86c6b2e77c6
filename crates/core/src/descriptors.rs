//! Limits in the format of the reference rate limit service: trees of descriptors.
//!
//! A request names a domain and descriptors, each an ordered list of [`Entry`]s. [`Domains::lookup`] walks the tree of the domain, one level for
//! each entry: first the node of exactly this value, then those with `*` in their order, then the default of the key. It never turns back, and only
//! a limit at the depth of the last entry counts.
//!
//! | module | holds |
//! | --- | --- |
//! | [`spec`] | the trees as they cross from Python to Rust |
//! | [`tree`] | the trees, compiled |
//! | [`lookup`] | from a descriptor to its limit and its counter |
//! | [`wildcard`] | texts with `*` |
//! | [`unit`] | the units of the format |
//! | [`answer`] | from what was counted to the codes of the answer |
//!
//! ```
//! use tidegate_core::descriptors::{Domains, Entry, Lookup};
//!
//! let spec = r#"[{"domain": "shop", "descriptors": [{"key": "tenant", "limit": {"unlimited": false, "requests_per_unit": 5, "unit": "MINUTE",
//!     "quotas": [{"text": "5/minute fixed_window"}]}}]}]"#;
//! let domains = Domains::new(&serde_json::from_str::<Vec<_>>(spec).unwrap()).unwrap();
//!
//! let entries = [Entry { key: "tenant", value: "acme" }];
//! let Lookup::Found(found) = domains.lookup("shop", &entries) else { panic!("every tenant has a limit") };
//! assert_eq!(found.limit().requests_per_unit, 5);
//! assert_eq!(found.metric(&entries), "shop.tenant");
//! assert!(matches!(domains.lookup("elsewhere", &entries), Lookup::UnknownDomain));
//! ```

pub mod answer;
pub mod lookup;
pub mod spec;
pub mod tree;
pub mod unit;
pub mod wildcard;

pub use lookup::{Entry, Found, Lookup};
pub use tree::{Domain, Domains, DomainsError, Limit, Node};
pub use unit::Unit;

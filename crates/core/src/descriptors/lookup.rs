//! From a descriptor to its limit and its counter.

use smallvec::SmallVec;

use super::tree::{Domain, Domains, Limit, Node};
use crate::rules::rule::KeyBytes;

/// One part of a request's descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Entry<'a> {
    /// Its key; case matters.
    pub key: &'a str,
    /// Its value; empty is a value too.
    pub value: &'a str,
}

/// What a domain says about a descriptor.
#[derive(Debug)]
pub enum Lookup<'a> {
    /// There is no such domain.
    UnknownDomain,
    /// Nothing is limited.
    Nothing,
    /// This limit.
    Found(Found<'a>),
}

/// A limit, with the nodes that led to it: one for each entry.
#[derive(Debug)]
pub struct Found<'a> {
    domain: &'a Domain,
    limit: &'a Limit,
    path: SmallVec<[&'a Node; 4]>,
}

/// What one entry contributes to the name of its counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Counted<'a> {
    /// Its value: each has a counter of its own.
    Value(&'a str),
    /// The pattern, whose values share one.
    Pattern(&'a str),
}

impl Domains {
    /// The limit of a descriptor.
    pub fn lookup(&self, domain: &str, entries: &[Entry<'_>]) -> Lookup<'_> {
        match self.get(domain) {
            None => Lookup::UnknownDomain,
            Some(domain) => domain.find(entries).map_or(Lookup::Nothing, Lookup::Found),
        }
    }
}

impl Domain {
    /// The limit of a descriptor. The walk does not turn back: a branch that ends too early is not left for another one.
    pub fn find(&self, entries: &[Entry<'_>]) -> Option<Found<'_>> {
        let mut level = &self.root;
        let mut path: SmallVec<[&Node; 4]> = SmallVec::new();
        let mut joined = String::new();
        for &Entry { key, value } in entries {
            let node = level.find(key, value, &mut joined)?;
            path.push(node);
            level = &node.children;
        }
        let limit = path.last()?.limit.as_ref()?;
        Some(Found { domain: self, limit, path })
    }
}

impl<'a> Found<'a> {
    /// The limit.
    pub fn limit(&self) -> &'a Limit {
        self.limit
    }

    /// What each entry contributes to the name of the counter. `entries` are those that were looked up.
    pub fn counted<'e>(&'e self, entries: &'e [Entry<'e>]) -> impl Iterator<Item = (&'e str, Counted<'e>)> {
        let counted =
            |node: &'e Node, value| if node.is_shared { Counted::Pattern(&node.identity) } else { Counted::Value(value) };
        entries.iter().zip(&self.path).map(move |(entry, &node)| (entry.key, counted(node, entry.value)))
    }

    /// The name of the counter.
    pub fn counter(&self, entries: &[Entry<'_>]) -> KeyBytes {
        counter(&self.domain.name, self.counted(entries))
    }

    /// The name of the limit in metrics: the dotted path of its nodes. Where metrics show values, they stand in place of a default or a pattern,
    /// unless the values share a counter.
    pub fn metric(&self, entries: &[Entry<'_>]) -> String {
        let mut metric = String::from(&*self.domain.name);
        for (entry, node) in entries.iter().zip(&self.path) {
            let is_value_shown = (self.limit.is_metric_detailed || node.is_value_in_metric) && !node.is_shared;
            if is_value_shown {
                metric.extend([".", entry.key, "_", entry.value]);
            } else {
                metric.extend([".", &node.identity]);
            }
        }
        metric
    }
}

/// The name of the counter of a descriptor that brings its own limit: the same as that of a limit which shares nothing.
pub fn counter_of_entries(domain: &str, entries: &[Entry<'_>]) -> KeyBytes {
    counter(domain, entries.iter().map(|entry| (entry.key, Counted::Value(entry.value))))
}

/// Every text follows its length, so that no two descriptors have the same name whatever they contain.
fn counter<'e>(domain: &str, counted: impl Iterator<Item = (&'e str, Counted<'e>)>) -> KeyBytes {
    let mut bytes = KeyBytes::new();
    push(&mut bytes, domain);
    for (key, counted) in counted {
        push(&mut bytes, key);
        let (kind, text) = match counted {
            Counted::Value(value) => (b'=', value),
            Counted::Pattern(pattern) => (b'*', pattern),
        };
        bytes.push(kind);
        push(&mut bytes, text);
    }
    bytes
}

fn push(bytes: &mut KeyBytes, text: &str) {
    bytes.extend_from_slice(&(text.len() as u64).to_le_bytes());
    bytes.extend_from_slice(text.as_bytes());
}

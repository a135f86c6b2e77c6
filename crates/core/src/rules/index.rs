//! From a request to the few rules that can match it.
//!
//! A rule that demands a path is found by walking that path down a tree of segments; another one that demands an exact text is found by that text;
//! only what demands neither is looked at for every request. So a thousand rules cost about as much as ten.

use foldhash::HashMap;
use smallvec::SmallVec;

use super::condition::Condition;
use super::glob::Glob;
use super::pattern::{Pattern, Segment};
use super::request::{Request, Slot};

/// Rules by number, in the order in which they are looked at.
pub type Candidates = SmallVec<[u32; 16]>;

/// Alternatives up to which a rule is found by its text.
const TEXTS_MAX: usize = 256;

/// Rules by a text that they demand.
type ByText = HashMap<Box<str>, Vec<u32>>;

/// Where to look for rules.
#[derive(Debug, Default)]
pub struct Index {
    always: Vec<u32>,
    texts: Vec<(Slot, ByText)>,
    paths: Tree,
    /// For patterns that ignore case: a tree of lower-cased segments.
    paths_lower: Tree,
}

impl Index {
    /// Files a rule under one of its conditions; returns which one need not be looked at again.
    pub(super) fn add(&mut self, rule: u32, conditions: &[Condition]) -> Option<usize> {
        let path = conditions.iter().enumerate().find_map(|(number, condition)| Some((number, condition.patterns()?)));
        if let Some((number, (patterns, ignore_case))) = path {
            let tree = if ignore_case { &mut self.paths_lower } else { &mut self.paths };
            for pattern in patterns {
                tree.add(rule, pattern);
            }
            return Some(number);
        }
        // Methods are few, so nearly every request has the one that is asked for.
        let is_selective = |condition: &&Condition| condition.slot != Slot::METHOD;
        let text =
            conditions.iter().enumerate().filter(|(_, condition)| is_selective(condition)).find_map(|(number, condition)| {
                condition.exact().filter(|texts| texts.len() <= TEXTS_MAX).map(|texts| (number, condition.slot, texts))
            });
        let Some((number, slot, texts)) = text else {
            self.always.push(rule);
            return None;
        };
        let map = self.map_of(slot);
        for text in texts {
            map.entry(text.clone()).or_default().push(rule);
        }
        Some(number)
    }

    /// Rules that may match, in order and each once.
    pub(super) fn candidates(&self, request: &Request<'_>, found: &mut Candidates) {
        found.extend(self.always.iter().copied());
        for (slot, map) in &self.texts {
            // By its one spelling: an address may be written in several ways, or be told by a proxy.
            if let Some(rules) = request.text(*slot).and_then(|text| map.get(&*text)) {
                found.extend(rules.iter().copied());
            }
        }
        if let Some(path) = request.get(Slot::PATH) {
            self.paths.collect(path, found);
            if !self.paths_lower.is_empty() {
                self.paths_lower.collect(&path.to_lowercase(), found);
            }
        }
        found.sort_unstable();
        found.dedup();
    }

    fn map_of(&mut self, slot: Slot) -> &mut ByText {
        let position = self.texts.iter().position(|(other, _)| *other == slot).unwrap_or_else(|| {
            self.texts.push((slot, HashMap::default()));
            self.texts.len() - 1
        });
        &mut self.texts[position].1
    }
}

/// Patterns as a tree of segments. The root is the first node; it has none if there is no pattern.
#[derive(Debug, Default)]
struct Tree {
    nodes: Vec<Node>,
}

#[derive(Debug, Default)]
struct Node {
    literals: HashMap<Box<str>, u32>,
    any: Option<u32>,
    globs: Vec<(Glob, u32)>,
    /// Rules whose pattern ends here.
    ends: Vec<u32>,
    /// Rules whose pattern goes on with `**`.
    rests: Vec<u32>,
}

impl Tree {
    fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    fn add(&mut self, rule: u32, pattern: &Pattern) {
        if self.is_empty() {
            self.nodes.push(Node::default());
        }
        let node = pattern.segments().iter().fold(0, |node, segment| self.child(node, segment));
        let node = &mut self.nodes[node as usize];
        (if pattern.has_rest() { &mut node.rests } else { &mut node.ends }).push(rule);
    }

    #[allow(clippy::cast_possible_truncation, reason = "a document of the size that is accepted has far fewer segments")]
    fn child(&mut self, node: u32, segment: &Segment) -> u32 {
        let next = self.nodes.len() as u32;
        let node = &mut self.nodes[node as usize];
        let child = match segment {
            Segment::Literal(text) => *node.literals.entry(text.clone()).or_insert(next),
            Segment::Any => *node.any.get_or_insert(next),
            Segment::Glob(glob) => {
                let known = node.globs.iter().find(|(other, _)| other == glob).map(|&(_, child)| child);
                known.unwrap_or_else(|| {
                    node.globs.push((glob.clone(), next));
                    next
                })
            }
        };
        if child == next {
            self.nodes.push(Node::default());
        }
        child
    }

    fn collect(&self, path: &str, found: &mut Candidates) {
        if !self.is_empty() {
            self.walk(0, path, found);
        }
    }

    /// Walks all branches that a normalized path fits. Each node is reached in one way only, so this ends after at most all of them; and it calls
    /// itself only where the tree branches, at most as often as a pattern has segments.
    fn walk(&self, mut node: u32, mut path: &str, found: &mut Candidates) {
        loop {
            let here = &self.nodes[node as usize];
            found.extend(here.rests.iter().copied());
            let Some((segment, rest)) = first_segment(path) else {
                found.extend(here.ends.iter().copied());
                return;
            };
            for (_, child) in here.globs.iter().filter(|(glob, _)| glob.matches(segment)) {
                self.walk(*child, rest, found);
            }
            let literal = if here.literals.is_empty() { None } else { here.literals.get(segment).copied() };
            node = match (literal, here.any) {
                (Some(literal), Some(any)) => {
                    self.walk(any, rest, found);
                    literal
                }
                (Some(next), None) | (None, Some(next)) => next,
                (None, None) => return,
            };
            path = rest;
        }
    }
}

/// The first segment of a normalized path, and the rest of it with its slash.
fn first_segment(path: &str) -> Option<(&str, &str)> {
    let path = path.strip_prefix('/').filter(|path| !path.is_empty())?;
    let end = path.bytes().position(|byte| byte == b'/').unwrap_or(path.len());
    Some(path.split_at(end))
}

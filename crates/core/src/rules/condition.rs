//! What a rule asks of one fact.

use std::borrow::Cow;

use regex::{RegexSet, RegexSetBuilder};

use super::address::Network;
use super::glob::Glob;
use super::pattern::Pattern;
use super::request::{Names, Request, Slot};
use super::spec::{ConditionSpec, TestSpec};

/// The most memory that the regular expressions of one condition may take when compiled.
const REGEX_BYTES_MAX: usize = 1 << 20;

/// A test of one fact, compiled.
#[derive(Debug)]
pub struct Condition {
    pub(super) slot: Slot,
    pub(super) test: Test,
    is_negated: bool,
    ignore_case: bool,
}

/// What may be asked of a text. Several texts are alternatives.
#[derive(Debug)]
pub(super) enum Test {
    Present,
    Exact(Box<[Box<str>]>),
    Prefix(Box<[Box<str>]>),
    Suffix(Box<[Box<str>]>),
    Glob(Vec<Glob>),
    Regex(RegexSet),
    Cidr(Vec<Network>),
    Pattern(Vec<Pattern>),
}

impl Condition {
    /// Compiles a condition.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub(super) fn new(spec: &ConditionSpec, names: &mut Names) -> Result<Self, String> {
        let slot = names.slot(&spec.attribute);
        // Methods are compared in capitals, and hosts in lower case: facts are kept so.
        let fold = |text: &String| match slot {
            Slot::METHOD => text.to_ascii_uppercase(),
            Slot::HOST => text.to_ascii_lowercase(),
            _ if spec.ignore_case => text.to_lowercase(),
            _ => text.clone(),
        };
        let texts = |texts: &[String]| texts.iter().map(|text| fold(text).into()).collect();
        let test = match &spec.test {
            TestSpec::Present => Test::Present,
            TestSpec::Exact(exact) => Test::Exact(texts(exact)),
            TestSpec::Prefix(prefixes) => Test::Prefix(texts(prefixes)),
            TestSpec::Suffix(suffixes) => Test::Suffix(texts(suffixes)),
            TestSpec::Glob(globs) => Test::Glob(globs.iter().map(|glob| Glob::new(&fold(glob))).collect()),
            TestSpec::Regex(patterns) => {
                Test::Regex(regex(patterns, spec.ignore_case || matches!(slot, Slot::METHOD | Slot::HOST))?)
            }
            TestSpec::Cidr(networks) => {
                let network = |text: &String| Network::parse(text).ok_or_else(|| format!("{text:?} is no network"));
                Test::Cidr(networks.iter().map(network).collect::<Result<_, _>>()?)
            }
            TestSpec::Pattern(patterns) => {
                let pattern =
                    |text: &String| Pattern::parse(text, spec.ignore_case).map_err(|error| format!("{text:?}: {error}"));
                Test::Pattern(patterns.iter().map(pattern).collect::<Result<_, _>>()?)
            }
        };
        let ignore_case = spec.ignore_case && !matches!(slot, Slot::METHOD | Slot::HOST);
        Ok(Self { slot, test, is_negated: spec.not, ignore_case })
    }

    /// Whether the request fulfils it. A fact that is absent passes no test, and so every negated one.
    #[inline]
    pub fn holds(&self, request: &Request<'_>) -> bool {
        request.get(self.slot).is_some_and(|value| match &self.test {
            Test::Cidr(networks) => within(networks, self.slot, request),
            _ if self.slot == Slot::IP => request.text(self.slot).is_some_and(|text| self.passes(&text)),
            _ => self.passes(value),
        }) != self.is_negated
    }

    fn passes(&self, value: &str) -> bool {
        if let Test::Exact(texts) = &self.test
            && !self.ignore_case
        {
            return texts.iter().any(|text| **text == *value);
        }
        let value = if self.ignore_case { lower(value) } else { Cow::Borrowed(value) };
        match &self.test {
            Test::Present => true,
            Test::Exact(texts) => texts.iter().any(|text| **text == *value),
            Test::Prefix(texts) => texts.iter().any(|text| value.starts_with(&**text)),
            Test::Suffix(texts) => texts.iter().any(|text| value.ends_with(&**text)),
            Test::Glob(globs) => globs.iter().any(|glob| glob.matches(&value)),
            Test::Regex(set) => set.is_match(&value),
            Test::Pattern(patterns) => patterns.iter().any(|pattern| pattern.matches(&value)),
            Test::Cidr(_) => false, // decided by `within`
        }
    }

    /// Its path patterns, if it is a plain demand for one of them; and whether case is ignored.
    pub(super) fn patterns(&self) -> Option<(&[Pattern], bool)> {
        match &self.test {
            Test::Pattern(patterns) if self.slot == Slot::PATH && !self.is_negated => Some((patterns, self.ignore_case)),
            _ => None,
        }
    }

    /// Its texts, if it is a plain demand for one of them.
    pub(super) fn exact(&self) -> Option<&[Box<str>]> {
        match &self.test {
            Test::Exact(texts) if !self.is_negated && !self.ignore_case => Some(texts),
            _ => None,
        }
    }

    /// What it costs to look, roughly: cheap ones go first.
    pub(super) fn weight(&self) -> u8 {
        match &self.test {
            Test::Present | Test::Exact(_) => 0,
            Test::Prefix(_) | Test::Suffix(_) | Test::Cidr(_) => 1,
            Test::Glob(_) | Test::Pattern(_) => 2,
            Test::Regex(_) => 3,
        }
    }
}

fn within(networks: &[Network], slot: Slot, request: &Request<'_>) -> bool {
    let address = if slot == Slot::IP { request.address() } else { request.get(slot).and_then(super::address::parse) };
    address.is_some_and(|address| networks.iter().any(|network| network.contains(address)))
}

/// What is wrong with a regular expression, if anything.
pub fn check_regex(pattern: &str) -> Option<String> {
    regex(&[pattern.to_owned()], false).err()
}

/// Compiles expressions that must fit whole texts.
fn regex(patterns: &[String], ignore_case: bool) -> Result<RegexSet, String> {
    // Each has to be one by itself: `a)|(b` must not close the group around it.
    for pattern in patterns {
        regex_syntax_check(pattern)?;
    }
    RegexSetBuilder::new(patterns.iter().map(|pattern| format!("^(?:{pattern})$")))
        .case_insensitive(ignore_case)
        .size_limit(REGEX_BYTES_MAX)
        .dfa_size_limit(REGEX_BYTES_MAX)
        .build()
        .map_err(|error| error.to_string())
}

fn regex_syntax_check(pattern: &str) -> Result<(), String> {
    regex::RegexBuilder::new(pattern).size_limit(REGEX_BYTES_MAX).build().map(|_| ()).map_err(|error| error.to_string())
}

pub(super) fn lower(text: &str) -> Cow<'_, str> {
    let is_lower = text.bytes().all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase());
    if is_lower { Cow::Borrowed(text) } else { Cow::Owned(text.to_lowercase()) }
}

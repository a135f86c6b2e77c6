//! Scripts are put together from fragments, for the set of algorithms that a call needs: a server makes all functions of a script anew in every call.

use std::sync::{Arc, OnceLock};

use sha1_smol::Sha1;

use super::kind::{Kind, Kinds};
use super::timeline::Timeline;

/// For whom the scripts are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Build {
    /// They read the server's clock, in microseconds.
    Production,
    /// For tests: they are told the time, in nanoseconds. See [`Call`](super::Call) on what `estimate_now_ns` is then.
    Injected,
    /// For tests: they are told the time, in microseconds, and count it as in production.
    InjectedMicros,
}

/// A text that a server can run, and the name under which it remembers it.
#[derive(Debug, PartialEq, Eq)]
pub struct Script {
    text: String,
    hash: String,
}

impl Script {
    fn new(text: String) -> Self {
        let hash = Sha1::from(&text).hexdigest();
        Self { text, hash }
    }

    /// What it does.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Its name: the SHA-1 of the text, in hexadecimal.
    pub fn hash(&self) -> &str {
        &self.hash
    }
}

/// What `many.lua` does with its charges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    Check,
    Peek,
    Debit,
}

/// What `act.lua` does with its counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    Refund(Kind),
    Renew,
    Release,
}

/// All scripts, each made when it is first needed.
#[derive(Debug)]
pub struct Scripts {
    pub(super) build: Build,
    pub(super) timeline: Timeline,
    one: [OnceLock<Arc<Script>>; 9],
    many: [Box<[OnceLock<Arc<Script>>]>; 3],
    act: [OnceLock<Arc<Script>>; 10],
}

impl Scripts {
    /// Scripts of this build.
    pub fn new(build: Build) -> Self {
        let sets = || std::iter::repeat_with(OnceLock::new).take(256).collect();
        Self {
            build,
            timeline: Timeline::new(build),
            one: Default::default(),
            many: [sets(), sets(), sets()],
            act: Default::default(),
        }
    }

    /// Decides one quota.
    pub(super) fn one(&self, kind: Kind) -> Arc<Script> {
        let make = || {
            let aliases = aliases(kind, &["settle", "retry", "charge", "value", "fields"]);
            self.assemble(kind.into(), Part::Check, &aliases, include_str!("../../../lua/one.lua"))
        };
        self.one[kind as usize].get_or_init(make).clone()
    }

    /// Decides any number of quotas of these algorithms.
    pub(super) fn many(&self, verb: Verb, kinds: Kinds) -> Arc<Script> {
        let make = || {
            let verb = match verb {
                Verb::Check => "check",
                Verb::Peek => "peek",
                Verb::Debit => "debit",
            };
            let head = format!("local verb = '{verb}'\n{}", dispatch(kinds));
            self.assemble(kinds, Part::Check, &head, include_str!("../../../lua/many.lua"))
        };
        self.many[verb as usize][kinds.index()].get_or_init(make).clone()
    }

    /// Does something to one counter.
    pub(super) fn act(&self, act: Act) -> Arc<Script> {
        let (index, kind, function) = match act {
            Act::Refund(kind) => (kind as usize, kind, "refund"),
            Act::Renew => (8, Kind::Concurrency, "renew"),
            Act::Release => (9, Kind::Concurrency, "release"),
        };
        let make = || {
            let stem = kind.stem();
            let aliases = format!("{}local act = {stem}_{function}\n", aliases(kind, &["settle", "value"]));
            self.assemble(kind.into(), Part::Refund, &aliases, include_str!("../../../lua/act.lua"))
        };
        self.act[index].get_or_init(make).clone()
    }

    fn assemble(&self, kinds: Kinds, part: Part, head: &str, driver: &str) -> Arc<Script> {
        let (clock, base) = match self.build {
            Build::Production => (include_str!("../../../lua/clock.lua"), "clock"),
            _ => (include_str!("../../../lua/clock_injected.lua"), "unpack('<d', arg, #arg - 7)"),
        };
        let millisecond = (1_000_000 / self.build.unit_ns()).to_string();
        let mut fragments: Vec<&str> = Vec::new();
        for fragment in kinds.iter().flat_map(|kind| kind.fragments()) {
            if !fragments.contains(fragment) {
                fragments.push(fragment);
            }
        }
        let mut body = stripped(clock).replace("MILLISECOND", &millisecond);
        for fragment in fragments {
            let (check, refund) = fragment.split_once("\n--- refund\n").unwrap_or((fragment, ""));
            body += &stripped(check);
            if part == Part::Refund {
                body += &stripped(refund);
            }
        }
        body += head;
        body += &stripped(driver).replace("BASE", base);
        Arc::new(Script::new(library(&body) + &body))
    }
}

/// Which part of a kernel a script needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Check,
    Refund,
}

/// The names under which `one.lua` and `act.lua` call the functions of their kernel.
fn aliases(kind: Kind, functions: &[&str]) -> String {
    let stem = kind.stem();
    functions.iter().map(|function| format!("local {function} = {stem}_{function}\n")).collect()
}

/// Functions that call those of the right kernel.
fn dispatch(kinds: Kinds) -> String {
    let functions = [("settle", "arg, raw, base"), ("retry", "s"), ("charge", "s"), ("value", "s"), ("fields", "s")];
    let one = |function: &str, arguments: &str| {
        let branch = |kind: Kind| {
            let (number, stem) = (kind as u8, kind.stem());
            format!("if kind == {number} then return {stem}_{function}({arguments}) end\n")
        };
        let branches: String = kinds.iter().map(branch).collect();
        format!("local function {function}(kind, {arguments})\n{branches}end\n")
    };
    functions.into_iter().map(|(function, arguments)| one(function, arguments)).collect()
}

/// What a script uses of the libraries, as locals: a local is found at once, a field of a global by two look-ups.
fn library(body: &str) -> String {
    // The order matters: `unpack` is a global that the local hides.
    const NAMES: [(&str, &str); 13] = [
        ("spread", "unpack"),
        ("call", "redis.call"),
        ("unpack", "struct.unpack"),
        ("pack", "struct.pack"),
        ("floor", "math.floor"),
        ("ceil", "math.ceil"),
        ("max", "math.max"),
        ("min", "math.min"),
        ("byte", "string.byte"),
        ("sub", "string.sub"),
        ("rep", "string.rep"),
        ("find", "string.find"),
        ("format", "string.format"),
    ];
    let is_used = |name: &str| {
        let mut rest = body;
        while let Some(index) = rest.find(&format!("{name}(")) {
            let is_whole = !rest[..index].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.');
            if is_whole {
                return true;
            }
            rest = &rest[index + name.len()..];
        }
        false
    };
    let used: Vec<_> = NAMES.into_iter().filter(|(name, _)| is_used(name)).collect();
    used.iter().map(|(name, what)| format!("local {name} = {what}\n")).collect()
}

/// Without comments and indentation: they would be sent to every server.
fn stripped(fragment: &str) -> String {
    let lines = fragment.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("--"));
    lines.flat_map(|line| [line, "\n"]).collect()
}

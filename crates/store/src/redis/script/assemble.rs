//! Scripts are put together from fragments, for the set of algorithms that a call needs: a server makes all functions of a script anew in every call.

use std::sync::{Arc, OnceLock};

use sha1_smol::Sha1;
use tidegate_core::mutant::Mutant;

use super::blocks;
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
        self.one[kind as usize].get_or_init(|| self.of_one(kind, "one", "")).clone()
    }

    /// Does something to one counter.
    pub(super) fn act(&self, act: Act) -> Arc<Script> {
        let (index, kind, block) = match act {
            Act::Refund(kind) => (kind as usize, kind, "refund"),
            Act::Renew => (8, Kind::Concurrency, "renew"),
            Act::Release => (9, Kind::Concurrency, "release"),
        };
        self.act[index].get_or_init(|| self.of_one(kind, "act", block)).clone()
    }

    /// Decides any number of quotas of these algorithms.
    pub(super) fn many(&self, verb: Verb, kinds: Kinds) -> Arc<Script> {
        self.many[verb as usize][kinds.index()].get_or_init(|| self.of_many(verb, kinds)).clone()
    }

    /// A script whose driver has one counter.
    fn of_one(&self, kind: Kind, driver: &str, act: &str) -> Arc<Script> {
        let functions = blocks::of_kind(kind, "functions");
        let mut body = String::new();
        for line in blocks::block(driver, "script").lines() {
            match line {
                "STATE" if functions.is_empty() => {}
                "STATE" => body.extend(["local ", &state(kind)]),
                "SETTLE" | "RETRY" | "CHARGE" | "VALUE" => body += &scoped(&blocks::of_kind(kind, &line.to_lowercase())),
                "ACT" => body += &scoped(&blocks::of_kind(kind, act)),
                _ => body.extend([line, "\n"]),
            }
        }
        let body = body.replace("FIELDS", blocks::of_kind(kind, "fields").trim_end());
        let body = if functions.is_empty() { blocks::as_locals(&body) } else { functions + &body };
        self.script(&body)
    }

    fn of_many(&self, verb: Verb, kinds: Kinds) -> Arc<Script> {
        let verb = match verb {
            Verb::Check => "'check'",
            Verb::Peek => "'peek'",
            Verb::Debit => "'debit'",
        };
        let mut body: String = kinds.iter().map(|kind| blocks::of_kind(kind, "functions")).collect();
        let driver = blocks::block("many", "script");
        for (index, part) in driver.split("EACH\n").enumerate() {
            match part.split_once("END\n").filter(|_| index > 0) {
                Some((repeated, rest)) => body += &(each(kinds, repeated) + rest),
                None => body += part,
            }
        }
        self.script(&body.replace("VERB", verb))
    }

    /// Puts the clock in front of a body, and into it what depends on the build.
    fn script(&self, body: &str) -> Arc<Script> {
        let (clock, base) =
            if self.build.is_injected() { ("clock_injected", "unpack('<d', arg, #arg - 7)") } else { ("clock", "clock") };
        let millisecond = (1_000_000 / self.build.unit_ns()).to_string();
        let write = blocks::block(clock, "write").replace("MILLISECOND", &millisecond);
        let body = body.replace("WRITE\n", &write).replace("BASE", base).replace("FOREIGN", FOREIGN);
        let text = format!("{LIBRARY}{}{body}", blocks::block(clock, "read"));
        Arc::new(Script::new(if cfg!(feature = "mutants") { mutated(&text) } else { text }))
    }
}

/// What scripts use most of the libraries: a local is found at once, a field of a global by two look-ups.
const LIBRARY: &str = "local call, spread = redis.call, unpack\nlocal unpack, pack = struct.unpack, struct.pack\n";

const FOREIGN: &str = "'TGFOREIGN a value that is not a counter of this kind'";

/// A script as the published mistakes have it.
fn mutated(text: &str) -> String {
    let (write, expiry) = (
        "call('SET', key, packed, 'PX', ",
        "call('SET', key, packed, 'KEEPTTL') if call('PTTL', key) < 0 then call('PEXPIRE', key, ",
    );
    let mistakes = [
        (Mutant::ChargesTierByTier, "or is_allowed and", "or wait == 0 and"),
        (Mutant::KeysMadeUp, "KEYS[1]", "('tg:' .. string.sub(KEYS[1], 5))"),
        (Mutant::KeysUndeclared, "call('GET', key)", "(call('GET', 'tg:all') or call('GET', key))"),
        (Mutant::FourteenDigits, ", expires)\n", ", tonumber(tostring(expires)))\n"),
    ];
    let active = mistakes.into_iter().find(|(mutant, _, _)| mutant.is_active());
    let text = active.map_or_else(|| text.to_owned(), |(_, right, wrong)| text.replace(right, wrong));
    if !Mutant::ExpiryByItself.is_active() {
        return text;
    }
    let line =
        |line: &str| if line.starts_with(write) { format!("{} end\n", line.replace(write, expiry)) } else { format!("{line}\n") };
    text.lines().map(line).collect()
}

/// A block with its own locals.
fn scoped(block: &str) -> String {
    format!("do\n{block}end\n")
}

/// Lines of a driver, for the algorithm that a charge has.
fn each(kinds: Kinds, lines: &str) -> String {
    let mut branches = String::new();
    for kind in kinds.iter() {
        let word = if branches.is_empty() { "if" } else { "elseif" };
        branches.extend([word, " kind == ", &(kind as u8).to_string(), " then\n"]);
        for line in lines.lines() {
            match line {
                "s = STATE" => branches += &state(kind),
                "SETTLE" | "RETRY" | "CHARGE" | "VALUE" => branches += &scoped(&blocks::of_kind(kind, &line.to_lowercase())),
                "REPLY" => branches += &reply(kind),
                _ => branches.extend([line, "\n"]),
            }
        }
    }
    if branches.is_empty() { branches } else { branches + "end\n" }
}

/// A table with all fields that a charge of the algorithm needs: one that grows is made several times.
fn state(kind: Kind) -> String {
    let blocks: String = ["settle", "retry", "charge", "value"].iter().map(|name| blocks::of_kind(kind, name)).collect();
    let of_driver = ["kind", "key", "base", "part", "number", "interval", "last", "wait"];
    let fields: Vec<String> = blocks::fields(&blocks).into_iter().chain(of_driver).map(|field| format!("{field} = 0")).collect();
    format!("s = {{ {} }}\n", fields.join(", "))
}

/// Adds what an algorithm reports to the reply.
fn reply(kind: Kind) -> String {
    let places: Vec<String> = (1..=kind.fields() + 1).map(|place| format!("reply[n + {place}]")).collect();
    format!("{} = wait, {}n = n + {}\n", places.join(", "), blocks::of_kind(kind, "fields"), places.len())
}

//! Scripts are put together from fragments, for the set of algorithms that a call needs: a server makes all functions of a script anew in every call.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use parking_lot::RwLock;
use sha1_smol::Sha1;
use tidegate_core::mutant::Mutant;

use super::blocks;
use super::kind::{Kind, Kinds, Sequence};
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
    plain: RwLock<HashMap<Sequence, Arc<Script>>>,
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
            plain: RwLock::default(),
            many: [sets(), sets(), sets()],
            act: Default::default(),
        }
    }

    /// Decides quotas of these algorithms, in this order.
    pub(super) fn plain(&self, kinds: Sequence) -> Arc<Script> {
        if let Some(script) = self.plain.read().get(&kinds) {
            return Arc::clone(script);
        }
        let script = self.of_plain(kinds);
        Arc::clone(self.plain.write().entry(kinds).or_insert(script))
    }

    /// Does something to one counter.
    pub(super) fn act(&self, act: Act) -> Arc<Script> {
        let (index, kind, block) = match act {
            Act::Refund(kind) => (kind as usize, kind, "refund"),
            Act::Renew => (8, Kind::Concurrency, "renew"),
            Act::Release => (9, Kind::Concurrency, "release"),
        };
        self.act[index].get_or_init(|| self.of_act(kind, block)).clone()
    }

    /// Decides any number of quotas of these algorithms.
    pub(super) fn many(&self, verb: Verb, kinds: Kinds) -> Arc<Script> {
        self.many[verb as usize][kinds.index()].get_or_init(|| self.of_many(verb, kinds)).clone()
    }

    /// A script that is written out for each of its charges.
    fn of_plain(&self, kinds: Sequence) -> Arc<Script> {
        let is_single = kinds.iter().count() == 1;
        let (mut states, mut looks, mut charges, mut replies) = (String::new(), String::new(), String::new(), String::new());
        for (index, kind) in kinds.iter().enumerate() {
            let number = (index + 1).to_string();
            let read = if is_single { "key = KEYS[1]\nraw = call('GET', key)" } else { "raw = values[INDEX]" };
            let allowed = if Mutant::ChargesTierByTier.is_active() { "s.wait == 0" } else { "is_allowed" };
            let part =
                |name| blocks::block("plain", name).replace("READ", read).replace("ALLOWED", allowed).replace("INDEX", &number);
            let (look, charge) = (filled(kind, &part("look")), filled(kind, &part("charge")));
            let reply = format!(", s.wait, {}", blocks::of_kind(kind, "fields").trim_end());
            let functions = blocks::of_kind(kind, "functions");
            if functions.is_empty() {
                let name = format!("s{number}");
                states += &blocks::locals(&[&*look, &*charge, &*reply].concat(), &name);
                looks += &blocks::as_locals(&look, &name);
                charges += &blocks::as_locals(&charge, &name);
                replies += &blocks::as_locals(&reply, &name);
            } else {
                // Functions take their state as a table. Such a charge is alone: see `Sequence`.
                states.extend([&*functions, "local ", &*state(kind), "s.last = nil\n"]);
                looks += &look;
                charges += &charge;
                replies += &reply;
            }
        }
        let values = if is_single { String::new() } else { blocks::block("plain", "values") };
        let begin = blocks::block("plain", "begin");
        let body = format!("{begin}{states}{values}{looks}{charges}return {{ clock{replies} }}\n");
        self.script(&body.replace("IS_PLAIN", "true"))
    }

    /// A script that does something to one counter.
    fn of_act(&self, kind: Kind, act: &str) -> Arc<Script> {
        let functions = blocks::of_kind(kind, "functions");
        let state = if functions.is_empty() { String::new() } else { format!("local {}", state(kind)) };
        let act = scoped(&blocks::of_kind(kind, act));
        let body = blocks::block("act", "script").replace("STATE\n", &state).replace("ACT\n", &act);
        let body = filled(kind, &body);
        let body =
            if functions.is_empty() { blocks::locals(&body, "s") + &blocks::as_locals(&body, "s") } else { functions + &body };
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
        let body = body.replace("WRITE\n", &write).replace("BASE", base).replace("FOREIGN", FOREIGN).replace("IS_PLAIN", "false");
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
        (Mutant::ChargesTierByTier, "or is_allowed and", "or wait == 0 and"), // in `many`; `plain` see above
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

/// Lines of a driver, with the blocks of an algorithm.
fn filled(kind: Kind, lines: &str) -> String {
    let mut text = String::new();
    for line in lines.lines() {
        match line {
            "SETTLE" | "RETRY" | "CHARGE" | "VALUE" => text += &scoped(&blocks::of_kind(kind, &line.to_lowercase())),
            _ => text.extend([line, "\n"]),
        }
    }
    text
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
        branches += &filled(kind, &lines.replace("s = STATE\n", &state(kind)).replace("REPLY\n", &reply(kind)));
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

//! The truth tables of `testdata/vectors`: who asks for how much when, and every field of the answer.
//!
//! Meter, store and engine play the same tables, each as a [`Subject`]; the Python tests play them too. The tables come from an oracle of their own
//! (`tests/oracle.py`).

use std::fs;
use std::path::Path;

use serde_json::{Map, Value};
use tidegate_core::decision::{Status, Verdict};
use tidegate_core::quota::{AlgorithmName, CalendarUnit, FixedWindowSpan, Quota, QuotaSpec, Shape};
use tidegate_core::time::Ticks;

/// 2026-01-01T00:00:00Z, where a table begins unless it says otherwise.
const START: Ticks = 1_767_225_600_000_000_000;

/// A story about one quota.
#[derive(Debug)]
pub struct Table {
    /// File and table, for messages.
    pub name: String,
    /// The quota at the beginning.
    pub quota: Quota,
    /// When it begins.
    pub start: Ticks,
    /// What happens.
    pub rows: Vec<Row>,
}

/// One event and what it must come to.
#[derive(Debug)]
pub struct Row {
    /// Nanoseconds since the start. May be less than in the row before: the clock went back.
    pub at: i64,
    /// What happens.
    pub action: Action,
    /// To whom.
    pub key: String,
    /// How much.
    pub cost: u64,
    /// `concurrency`: the lease.
    pub lease: Option<u128>,
    /// What is answered.
    pub expect: Option<Answer>,
}

/// What happens in a row.
#[derive(Debug, Clone)]
pub enum Action {
    /// Asks, and takes if there is room.
    Check,
    /// Asks without taking.
    Peek,
    /// Takes without asking.
    Debit,
    /// Gives back some of what the row with this number took.
    Refund(usize),
    /// Extends a lease.
    Renew,
    /// Gives a lease back.
    Release,
    /// The quota changes; what was counted stays.
    Load(Box<Quota>),
}

/// An answer, as tables write it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// To a check, a peek or a debit.
    Decision(Decision),
    /// To a renewal or a release: whether the lease was held.
    Held(bool),
}

/// Every field of a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    /// Whether it may pass.
    pub allowed: bool,
    /// The capacity; `None` is unlimited.
    pub limit: Option<u64>,
    /// The largest cost that is admitted now; `None` is unlimited.
    pub remaining: Option<u64>,
    /// The wait until the same cost is admitted; `None` is never.
    pub retry_after: Option<Ticks>,
    /// The wait until everything is there again.
    pub reset_after: Ticks,
    /// When an admitted request may start.
    pub delay: Ticks,
}

impl From<&Status> for Decision {
    fn from(status: &Status) -> Self {
        let &Status { limit, remaining, retry_after, reset_after, delay, .. } = status;
        Self { allowed: status.is_allowed(), limit, remaining, retry_after, reset_after, delay }
    }
}

impl From<&Verdict> for Decision {
    fn from(verdict: &Verdict) -> Self {
        Self {
            allowed: verdict.is_allowed(),
            limit: verdict.binding().and_then(|status| status.limit),
            remaining: verdict.remaining(),
            retry_after: verdict.retry_after(),
            reset_after: verdict.reset_after(),
            delay: verdict.delay(),
        }
    }
}

/// Something that can play a table.
pub trait Subject {
    /// Sets the clock.
    fn set_clock(&mut self, now: Ticks);

    /// Plays a row; `number` names it for later refunds. `None` where the row has no answer.
    fn play(&mut self, number: usize, row: &Row) -> Option<Answer>;
}

impl Table {
    /// Whether somebody has to know days and months.
    pub fn needs_calendar(&self) -> bool {
        matches!(self.quota.shape(), Shape::FixedWindow { window: FixedWindowSpan::Calendar { .. }, .. })
    }

    /// Plays all rows.
    ///
    /// # Errors
    /// The first row that is answered differently.
    pub fn play(&self, subject: &mut impl Subject) -> Result<(), String> {
        for (number, row) in self.rows.iter().enumerate() {
            subject.set_clock(self.start.saturating_add_signed(row.at));
            let answer = subject.play(number, row);
            if row.expect.is_some() && answer != row.expect {
                let (name, expected) = (&self.name, &row.expect);
                return Err(format!("{name}, row {number}\n  expected {expected:?}\n  answered {answer:?}"));
            }
        }
        Ok(())
    }
}

/// Plays every table for which `subject` makes somebody to play it, and reports all that went wrong.
///
/// # Panics
/// A table was answered differently, or there is none.
pub fn play_all<S: Subject>(mut subject: impl FnMut(&Table) -> Option<S>) {
    let tables = read_all();
    let played: Vec<_> = tables.iter().filter_map(|table| Some(table.play(&mut subject(table)?))).collect();
    assert!(!played.is_empty(), "no truth table was played");
    let mismatches: Vec<String> = played.into_iter().filter_map(Result::err).collect();
    assert!(mismatches.is_empty(), "{}", mismatches.join("\n"));
}

/// All tables of `testdata/vectors`.
///
/// # Panics
/// There is no file, or one that cannot be read.
pub fn read_all() -> Vec<Table> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/vectors");
    let mut tables = Vec::new();
    for entry in fs::read_dir(&folder).expect("a folder with truth tables") {
        let path = entry.expect("a readable folder").path();
        if path.extension().is_some_and(|extension| extension == "json") {
            let text = fs::read_to_string(&path).expect("a readable file");
            let file: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let name = path.file_stem().and_then(|stem| stem.to_str()).expect("a file with a name");
            tables.extend(list(&file, "tables").iter().map(|fields| table(name, fields)));
        }
    }
    assert!(!tables.is_empty(), "no truth table in {}", folder.display());
    tables
}

fn table(file: &str, fields: &Value) -> Table {
    Table {
        name: format!("{file}/{}", text(fields, "name")),
        quota: quota(&fields["quota"]),
        start: fields["start"].as_u64().unwrap_or(START),
        rows: list(fields, "rows").iter().map(row).collect(),
    }
}

fn row(fields: &Value) -> Row {
    let action = match text(fields, "do") {
        "check" => Action::Check,
        "peek" => Action::Peek,
        "debit" => Action::Debit,
        "refund" => Action::Refund(usize::try_from(number(fields, "of")).expect("the number of a row")),
        "renew" => Action::Renew,
        "release" => Action::Release,
        "load" => Action::Load(Box::new(quota(&fields["quota"]))),
        other => panic!("unknown action {other:?}"),
    };
    let lease = fields["lease"].as_str().map(|id| u128::from_str_radix(id, 16).expect("a lease in hexadecimal digits"));
    Row {
        at: fields["at"].as_i64().expect("a time in nanoseconds"),
        action,
        key: fields["key"].as_str().unwrap_or_default().to_owned(),
        cost: fields["cost"].as_u64().unwrap_or(0),
        lease,
        expect: fields["expect"].as_object().map(answer),
    }
}

fn answer(fields: &Map<String, Value>) -> Answer {
    if let Some(held) = fields.get("held") {
        return Answer::Held(held.as_bool().expect("held is true or false"));
    }
    let optional = |name: &str| fields.get(name).unwrap_or_else(|| panic!("{name} is missing")).as_u64();
    Answer::Decision(Decision {
        allowed: fields["allowed"].as_bool().expect("allowed is true or false"),
        limit: optional("limit"),
        remaining: optional("remaining"),
        retry_after: optional("retry_after"),
        reset_after: optional("reset_after").expect("a wait"),
        delay: optional("delay").expect("a wait"),
    })
}

/// A text, or an object with the fields of [`QuotaSpec`].
fn quota(value: &Value) -> Quota {
    if let Some(text) = value.as_str() {
        return text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
    }
    let mut spec = QuotaSpec::default();
    for (name, value) in value.as_object().expect("a quota is a text or an object") {
        match name.as_str() {
            "name" => spec.name = value.as_str().map(str::to_owned),
            "limit" => spec.limit = value.as_u64(),
            "unlimited" => spec.unlimited = value.as_bool().unwrap_or(false),
            "period_ns" => spec.period_ns = value.as_u64(),
            "algorithm" => spec.algorithm = value.as_str().and_then(AlgorithmName::from_name),
            "burst" => spec.burst = value.as_u64(),
            "queue_ns" => spec.queue_ns = value.as_u64(),
            "nodelay" => spec.nodelay = value.as_u64(),
            "max_cost" => spec.max_cost = value.as_u64(),
            "entries" => spec.entries = value.as_u64(),
            "buckets" => spec.buckets = value.as_u64(),
            "calendar" => spec.calendar = value.as_str().and_then(CalendarUnit::from_name),
            "zone" => spec.zone = value.as_str().map(str::to_owned),
            "ttl_ns" => spec.ttl_ns = value.as_u64(),
            "min_interval_ns" => spec.min_interval_ns = value.as_u64(),
            "advance_ns" => spec.advance_ns = value.as_u64(),
            "max_debt" => spec.max_debt = value.as_u64(),
            other => panic!("unknown parameter {other:?}"),
        }
    }
    spec.build().unwrap_or_else(|error| panic!("{value}: {error}"))
}

fn list<'a>(fields: &'a Value, name: &str) -> &'a [Value] {
    fields[name].as_array().unwrap_or_else(|| panic!("{name} is no list"))
}

fn text<'a>(fields: &'a Value, name: &str) -> &'a str {
    fields[name].as_str().unwrap_or_else(|| panic!("{name} is no text"))
}

fn number(fields: &Value, name: &str) -> u64 {
    fields[name].as_u64().unwrap_or_else(|| panic!("{name} is no number"))
}

//! Replies of a script as statuses.
//!
//! A script says how a counter stands, in as few numbers as possible; what is left of it follows by the formulas of the kernels.

use smallvec::SmallVec;
use tidegate_core::algorithm::fixed_window::Span;
use tidegate_core::algorithm::rate::{Arrival, Rate};
use tidegate_core::decision::{Status, Verdict};
use tidegate_core::meter::{Meter, Parameters, Receipt};
use tidegate_core::quota::UNITS_MAX;
use tidegate_core::time::Ticks;

use super::assemble::Verb;
use super::call::{Call, Reply};
use super::error::error;
use super::kind::Kind;
use super::timeline::Era;
use crate::redis::resp::Value;
use crate::store::{Charge, Part, StoreError};

/// What a call asked, as far as its reply cannot be understood without.
#[derive(Debug, Clone)]
pub(super) enum Asked {
    /// `plain.lua`
    Plain { questions: Questions, clock: Option<u64> },
    /// `many.lua`
    Many { verb: Verb, questions: Questions, clock: Option<u64> },
    /// `act.lua`
    Act,
    /// Nothing, because there was nothing to ask.
    Nothing,
}

pub(super) type Questions = SmallVec<[Question; 1]>;

/// What was asked of one quota.
#[derive(Debug, Clone)]
pub(super) struct Question {
    index: usize,
    part: Part,
    until: Option<Ticks>,
    cost: u64,
    lease: Option<u128>,
    capacity: Option<u64>,
    is_hint: bool,
    tick_ns: u64,
    has_interval: bool,
    kind: Option<Kind>,
    /// From when on the script counts time, in ticks.
    origin: Ticks,
    counter: Counter,
}

/// The parameters that say what is left of a counter.
#[derive(Debug, Clone, Copy)]
#[allow(clippy::enum_variant_names, reason = "the names of the algorithms")]
enum Counter {
    Unlimited,
    Closed,
    Gcra { rate: Rate, burst: u64 },
    LeakyBucket { rate: Rate, max_delay: Ticks, nodelay: u64 },
    FixedWindow { limit: u64 },
    SlidingWindowCounter { limit: u64, window: Ticks },
    SlidingWindowRing { limit: u64, buckets: u32, width: Ticks },
    SlidingWindow { limit: u64, window: Ticks },
    SlidingWindowLog { limit: u64, window: Ticks },
    Concurrency { limit: u64 },
}

/// How a counter stands, as the script said it.
#[derive(Debug, Clone, Copy, Default)]
struct Standing {
    /// The wait in ticks; -1 is never.
    wait: i64,
    fields: [i64; 3],
    gap: Ticks,
}

/// What is left of a counter, in ticks, and where a charge went.
struct Left {
    remaining: Option<u64>,
    reset_after: Ticks,
    delay: Ticks,
    receipt: Receipt,
}

impl Call {
    /// What the server's answer means.
    ///
    /// # Errors
    /// The server answered an error, or nothing that the script can have said.
    pub fn decode(&self, value: &Value) -> Result<Reply, StoreError> {
        if let Value::Error(text) = value {
            return clock_error(text).ok_or_else(|| error(text));
        }
        let numbers = numbers(value).ok_or_else(nonsense)?;
        self.asked.understand(&numbers).ok_or_else(nonsense)
    }

    /// What can be said without a server: a call without counters needs none.
    pub fn answer(&self, now_ns: u64) -> Option<Reply> {
        match &self.asked {
            _ if self.keys > 0 => None,
            Asked::Nothing | Asked::Act => Some(Reply::Done(false)),
            Asked::Plain { questions, .. } | Asked::Many { questions, .. } => {
                let standings =
                    questions.iter().map(|question| Standing { wait: question.wait_without_counter(), ..Standing::default() });
                Some(self.asked.verdict(now_ns, &standings.collect::<SmallVec<[Standing; 4]>>()))
            }
        }
    }
}

impl Asked {
    /// `None` if the script cannot have said that.
    fn understand(&self, numbers: &[i64]) -> Option<Reply> {
        let (&first, rest) = numbers.split_first()?;
        let now_ns = |clock: Option<u64>| clock.or_else(|| u64::try_from(first).ok()?.checked_mul(1_000));
        match self {
            Self::Plain { questions, clock } | Self::Many { questions, clock, .. } => {
                let now_ns = now_ns(*clock)?;
                let mut rest = rest;
                let mut standings: SmallVec<[Standing; 4]> = SmallVec::new();
                for question in questions {
                    standings.push(if question.is_in_force(now_ns) {
                        question.standing(&mut rest)?
                    } else {
                        Standing::default()
                    });
                }
                rest.is_empty().then(|| self.verdict(now_ns, &standings))
            }
            Self::Act => match rest {
                [done @ (0 | 1)] => Some(Reply::Done(*done == 1)),
                _ => None,
            },
            Self::Nothing => Some(Reply::Done(false)),
        }
    }

    fn verdict(&self, now_ns: u64, standings: &[Standing]) -> Reply {
        let (verb, questions) = match self {
            Self::Plain { questions, .. } => (Verb::Check, questions),
            Self::Many { verb, questions, .. } => (*verb, questions),
            Self::Act | Self::Nothing => return Reply::Done(false),
        };
        let asked = || questions.iter().zip(standings).filter(|(question, _)| question.is_in_force(now_ns));
        let has_room = |part: Part| asked().filter(|(question, _)| question.part == part).all(|(_, standing)| standing.wait == 0);
        let is_allowed = has_room(Part::Enforced);
        let is_charged = |question: &Question| match question.part {
            _ if verb != Verb::Check || question.cost == 0 => false,
            Part::Enforced => is_allowed,
            Part::Shadow(_) => is_allowed && has_room(question.part),
            Part::Counted => true,
        };
        let statuses = asked().map(|(question, standing)| {
            let wait = if verb == Verb::Debit { 0 } else { standing.wait };
            question.status(now_ns, Standing { wait, ..*standing }, is_charged(question), verb)
        });
        Reply::Verdict { now_ns, verdict: Verdict::new(statuses.collect()) }
    }
}

impl Question {
    pub(super) fn new(index: usize, charge: &Charge<'_>, era: Era) -> Self {
        let meter = charge.meter;
        Self {
            index,
            part: charge.part,
            until: charge.until,
            cost: charge.ask.cost,
            lease: charge.ask.lease,
            capacity: meter.capacity(),
            is_hint: meter.retry_is_hint(),
            tick_ns: meter.tick().nanos(),
            has_interval: meter.min_interval() > 0,
            kind: Kind::of(meter),
            origin: era.origin(meter),
            counter: Counter::new(meter),
        }
    }

    fn is_in_force(&self, now_ns: u64) -> bool {
        self.until.is_none_or(|until| now_ns < until)
    }

    /// Takes what the script said of this quota off the numbers.
    fn standing(&self, numbers: &mut &[i64]) -> Option<Standing> {
        if matches!(self.counter, Counter::Unlimited) {
            return Some(Standing::default());
        }
        let mut take = |count: usize| {
            let (taken, rest) = numbers.split_at_checked(count)?;
            *numbers = rest;
            Some(taken)
        };
        let wait = take(1)?[0];
        let mut fields = [0; 3];
        let said = self.kind.map_or(0, Kind::fields);
        fields[..said].copy_from_slice(take(said)?);
        let gap = if self.has_interval && self.kind.is_some() { u64::try_from(take(1)?[0]).ok()? } else { 0 };
        Some(Standing { wait, fields, gap })
    }

    fn wait_without_counter(&self) -> i64 {
        if matches!(self.counter, Counter::Closed) { -1 } else { 0 }
    }

    /// What the quota says, as the memory store says it.
    fn status(&self, now_ns: u64, standing: Standing, is_charged: bool, verb: Verb) -> Status {
        let now = now_ns / self.tick_ns;
        let left = self.counter.left(now, self, standing.fields);
        // The end of a tick, in nanoseconds from now.
        let after = |ticks: Ticks| if ticks == 0 { 0 } else { now.saturating_add(ticks).saturating_mul(self.tick_ns) - now_ns };
        let retry_after = u64::try_from(standing.wait).ok().map(after);
        let ends_after = self.until.map_or(Ticks::MAX, |until| until - now_ns);
        let is_admitted = standing.wait == 0 && verb != Verb::Debit;
        Status {
            quota: u16::try_from(self.index).unwrap_or(u16::MAX),
            is_shadow: matches!(self.part, Part::Shadow(_)),
            limit: self.capacity,
            remaining: left.remaining.map(|remaining| if standing.gap > 0 { 0 } else { remaining }),
            retry_after: match self.until {
                None => retry_after,
                Some(_) => Some(retry_after.unwrap_or(Ticks::MAX).min(ends_after)),
            },
            retry_is_hint: self.is_hint,
            reset_after: after(left.reset_after.max(standing.gap)).min(ends_after),
            delay: if is_admitted { after(left.delay) } else { 0 },
            receipt: if is_charged { left.receipt } else { Receipt::Nothing },
        }
    }
}

impl Counter {
    fn new(meter: &Meter) -> Self {
        match meter.parameters() {
            Parameters::Unlimited => Self::Unlimited,
            Parameters::Closed => Self::Closed,
            Parameters::Gcra { rate, burst, .. } => Self::Gcra { rate, burst },
            Parameters::LeakyBucket { rate, max_delay, nodelay, .. } => Self::LeakyBucket { rate, max_delay, nodelay },
            Parameters::FixedWindow { limit, span: Span::Epoch(_) | Span::Calendar(_), .. } => Self::FixedWindow { limit },
            Parameters::SlidingWindowCounter { limit, window, .. } => Self::SlidingWindowCounter { limit, window },
            Parameters::SlidingWindowRing { limit, buckets, width, .. } => Self::SlidingWindowRing { limit, buckets, width },
            Parameters::SlidingWindow { limit, window, .. } => Self::SlidingWindow { limit, window },
            Parameters::SlidingWindowLog { limit, window, .. } => Self::SlidingWindowLog { limit, window },
            Parameters::Concurrency { limit, .. } => Self::Concurrency { limit },
        }
    }

    /// What is left, from what the script said in `fields`.
    fn left(self, now: Ticks, question: &Question, fields: [i64; 3]) -> Left {
        let [a, b, c] = fields.map(|field| u64::try_from(field).unwrap_or(0));
        // A time of the script as one of the clock; -1 is none.
        let time = |field: i64| u64::try_from(field).ok().map(|time| time + question.origin);
        let window = |limit: u64, until: Option<Ticks>, receipt: Receipt| Left {
            remaining: Some(limit.saturating_sub(a)),
            reset_after: until.map_or(0, |until| until.saturating_sub(now)),
            delay: 0,
            receipt,
        };
        match self {
            Self::Unlimited => Left { remaining: None, reset_after: 0, delay: 0, receipt: Receipt::Nothing },
            Self::Closed => Left { remaining: Some(0), reset_after: 0, delay: 0, receipt: Receipt::Nothing },
            Self::Gcra { rate, burst } => {
                let (level, p) = (u128::from(a), u128::from(rate.ticks()));
                Left {
                    remaining: Some(narrow((u128::from(burst) * p).saturating_sub(level) / p)),
                    reset_after: a.div_ceil(u64::from(rate.units())),
                    delay: 0,
                    receipt: arrival(rate, a, b, now),
                }
            }
            Self::LeakyBucket { rate, max_delay, nodelay } => {
                let (level, p) = (u128::from(a), u128::from(rate.ticks()));
                let admitted = u128::from(max_delay) * u128::from(rate.units()) + u128::from(nodelay) * p;
                let waiting = |backlog: u128| (backlog / p).min(u128::from(UNITS_MAX - 1));
                let harmless = admitted - waiting(admitted) * p;
                Left {
                    remaining: Some(admitted.checked_sub(level).map_or(0, |free| narrow(waiting(free)) + 1)),
                    reset_after: narrow(level.saturating_sub(harmless).div_ceil(u128::from(rate.units()))),
                    delay: c,
                    receipt: arrival(rate, a, b, now),
                }
            }
            Self::FixedWindow { limit } => {
                let end = time(fields[1]).unwrap_or(0);
                window(limit, (a > 0).then_some(end), Receipt::Window { id: end })
            }
            Self::SlidingWindowCounter { limit, window } => {
                let (id, left) = (now / window, window - now % window);
                let used = u128::from(a) * u128::from(window) + u128::from(b) * u128::from(left);
                let free = (u128::from(limit) * u128::from(window)).saturating_sub(used);
                let reset_after = match (a, b) {
                    (0, 0) => 0,
                    (0, _) => left,
                    _ => left + window,
                };
                let remaining = Some(narrow(free / u128::from(window)));
                Left { remaining, reset_after, delay: 0, receipt: Receipt::Window { id } }
            }
            Self::SlidingWindowRing { limit, buckets, width } => {
                let newest = u64::try_from(fields[1]).ok().map(|bucket| bucket + question.origin / width);
                let until = newest.map(|bucket| (bucket + u64::from(buckets)).saturating_mul(width).saturating_add(width - 1));
                window(limit, until, Receipt::Window { id: now / width })
            }
            Self::SlidingWindow { limit, window: length } => {
                let clamps = u32::try_from(c).unwrap_or(u32::MAX);
                window(limit, time(fields[1]).map(|at| at + length), Receipt::Stamp { at: now, clamps })
            }
            Self::SlidingWindowLog { limit, window: length } => {
                let sequence = u64::try_from(fields[2]).ok();
                let receipt = sequence.map_or(Receipt::Nothing, |sequence| Receipt::Entry { sequence, at: now });
                window(limit, time(fields[1]).map(|at| at + length), receipt)
            }
            Self::Concurrency { limit } => {
                let lease = question.lease.map_or(Receipt::Nothing, |id| Receipt::Lease { id: id.to_le_bytes() });
                window(limit, time(fields[1]).filter(|_| limit > 0 && b > 0), lease)
            }
        }
    }
}

/// When the bucket is empty again, which is where its charge went.
fn arrival(rate: Rate, level: u64, refunded: u64, now: Ticks) -> Receipt {
    let l = rate.units();
    let part = u32::try_from(level % u64::from(l)).unwrap_or(0);
    let arrival = Arrival { ticks: now + level / u64::from(l), part, base: l };
    Receipt::Arrival { arrival, refunded: u128::from(refunded).to_le_bytes() }
}

/// A share of a limit, or a time below 2^53 ticks.
fn narrow(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

/// All that a script says are whole numbers of up to 53 bits.
fn numbers(value: &Value) -> Option<SmallVec<[i64; 8]>> {
    let is_exact = |number: &i64| number.unsigned_abs() <= UNITS_MAX;
    value.items()?.iter().map(|item| item.int().filter(is_exact)).collect()
}

/// The answer of a calendar quota that was told the wrong days.
fn clock_error(text: &str) -> Option<Reply> {
    let now_us: u64 = text.strip_prefix("TGCLOCK ")?.parse().ok()?;
    Some(Reply::Clock { now_ns: now_us.checked_mul(1_000)? })
}

fn nonsense() -> StoreError {
    StoreError::protocol("a script answered what it cannot have said")
}

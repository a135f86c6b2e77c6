//! Charges as the arguments of a script. The files in `crates/store/lua` say what stands where.

use std::sync::Arc;

use smallvec::SmallVec;
use tidegate_core::algorithm::fixed_window::Span;
use tidegate_core::meter::{Parameters, Receipt, Refund};
use tidegate_core::quota::UNITS_MAX;

use super::assemble::{Act, Script, Scripts, Verb};
use super::calendar::boundaries;
use super::call::{Call, Op};
use super::decode::{Asked, Question};
use super::key;
use super::kind::{Kind, Kinds, Sequence};
use super::timeline::Era;
use crate::store::{Charge, Part};

impl Scripts {
    /// The call for these charges, which must be in one hash slot. `estimate_now_ns` is what the server's clock is thought to show.
    ///
    /// All but the first charge are ignored by an `op` that takes one.
    pub fn call(&self, op: Op, charges: &[Charge<'_>], prefix: &[u8], estimate_now_ns: u64) -> Call {
        let mut writer = Writer {
            bytes: Vec::with_capacity(128 * charges.len()),
            ends: SmallVec::new(),
            prefix,
            era: self.timeline.era(estimate_now_ns),
            now_ns: estimate_now_ns,
            scripts: self,
        };
        match (op, charges) {
            (Op::Check, _) => self.ask(Verb::Check, charges, writer),
            (Op::Peek, _) => self.ask(Verb::Peek, charges, writer),
            (Op::Debit, _) => self.ask(Verb::Debit, charges, writer),
            (Op::Refund(refund), [charge, ..]) => match Kind::of(charge.meter).filter(|_| refund.cost > 0) {
                Some(kind) if writer.refund(kind, charge, refund) => writer.call(self.act(Act::Refund(kind)), 1, Asked::Act),
                _ => self.nothing(writer),
            },
            (Op::Renew | Op::Release, [charge, ..]) => {
                if Kind::of(charge.meter) != Some(Kind::Concurrency) || charge.ask.lease.is_none() {
                    return self.nothing(writer);
                }
                writer.key(charge);
                writer.charge(Kind::Concurrency, 0, charge);
                let act = if op == Op::Renew { Act::Renew } else { Act::Release };
                writer.call(self.act(act), 1, Asked::Act)
            }
            (_, []) => self.nothing(writer),
        }
    }

    /// A call that changes nothing, whatever there is.
    fn nothing(&self, writer: Writer<'_>) -> Call {
        writer.call(self.many(Verb::Peek, Kinds::default()), 0, Asked::Nothing)
    }

    fn ask(&self, verb: Verb, charges: &[Charge<'_>], mut writer: Writer<'_>) -> Call {
        let questions = || charges.iter().enumerate().map(|(index, charge)| Question::new(index, charge, writer.era)).collect();
        if let Some(kinds) = plain(verb, charges) {
            let asked = Asked::Plain { questions: questions(), clock: writer.clock() };
            let mut keys = 0;
            for charge in charges {
                keys += 1;
                writer.key(charge);
            }
            for (charge, kind) in charges.iter().zip(kinds.iter()) {
                writer.charge(kind, 0, charge);
            }
            return writer.call(self.plain(kinds), keys, asked);
        }
        let asked = Asked::Many { verb, questions: questions(), clock: writer.clock() };
        let mut kinds = Kinds::default();
        let mut keys = 0;
        for charge in charges {
            if let Some(kind) = Kind::of(charge.meter) {
                kinds.insert(kind);
                keys += 1;
                writer.key(charge);
            }
        }
        for (index, charge) in charges.iter().enumerate() {
            let is_again = charges[..index].iter().any(|other| key::is_same(other, charge));
            match (Kind::of(charge.meter), charge.meter.parameters()) {
                (Some(kind), _) => writer.charge(kind, if is_again { AGAIN } else { 0 }, charge),
                (None, Parameters::Closed) => writer.closed(charge),
                (None, _) => {}
            }
        }
        writer.call(self.many(verb, kinds), keys, asked)
    }
}

/// The algorithms of charges that `plain.lua` can decide: few, each enforced, for good, on a counter of its own, and without a distance to keep.
fn plain(verb: Verb, charges: &[Charge<'_>]) -> Option<Sequence> {
    let is_plain = |(index, charge): (usize, &Charge<'_>)| {
        charge.part == Part::Enforced
            && charge.until.is_none()
            && charge.ask.cost > 0
            && charge.meter.min_interval() == 0
            && !charges[..index].iter().any(|other| key::is_same(other, charge))
    };
    let kinds = Sequence::of(charges.iter().map(|charge| Kind::of(charge.meter)))?;
    (verb == Verb::Check && charges.iter().enumerate().all(is_plain)).then_some(kinds)
}

/// The flag of a charge whose counter is that of an earlier charge too.
const AGAIN: u8 = 4;

struct Writer<'a> {
    bytes: Vec<u8>,
    ends: SmallVec<[u32; 4]>,
    prefix: &'a [u8],
    era: Era,
    now_ns: u64,
    scripts: &'a Scripts,
}

impl Writer<'_> {
    /// In tests, the time that the script is told, in nanoseconds.
    fn clock(&self) -> Option<u64> {
        let unit_ns = self.scripts.build.unit_ns();
        self.scripts.build.is_injected().then_some(self.now_ns / unit_ns * unit_ns)
    }

    fn call(self, script: Arc<Script>, keys: u32, asked: Asked) -> Call {
        Call { script, bytes: self.bytes, ends: self.ends, keys, asked }
    }

    fn key(&mut self, charge: &Charge<'_>) {
        key::write(&mut self.bytes, self.prefix, charge);
        if self.era.number > 0 {
            self.bytes.push(self.era.number);
        }
        self.end();
    }

    /// What all algorithms have in common, but for the cost.
    fn head(&mut self, kind: u8, flags: u8, charge: &Charge<'_>) {
        let (part, number) = match charge.part {
            Part::Enforced => (0, 0),
            Part::Shadow(number) => (1, number),
            Part::Counted => (2, 0),
        };
        self.bytes.extend_from_slice(&[kind, flags + part]);
        self.bytes.extend_from_slice(&number.to_le_bytes());
        let unit_ns = self.scripts.build.unit_ns();
        match charge.until {
            Some(until) => self.number(until.div_ceil(unit_ns).saturating_sub(self.origin_base(charge))),
            None => self.bytes.extend_from_slice(&f64::INFINITY.to_le_bytes()),
        }
        self.number(charge.meter.min_interval());
    }

    fn closed(&mut self, charge: &Charge<'_>) {
        self.head(0, 0, charge);
        self.cost(charge.ask.cost);
        self.finish(charge);
    }

    fn charge(&mut self, kind: Kind, flags: u8, charge: &Charge<'_>) {
        self.arguments(kind, flags, charge, charge.ask.cost);
        self.finish(charge);
    }

    fn arguments(&mut self, kind: Kind, flags: u8, charge: &Charge<'_>, cost: u64) {
        let meter = charge.meter;
        self.head(kind as u8, flags, charge);
        self.cost(cost);
        match meter.parameters() {
            Parameters::Unlimited | Parameters::Closed => {}
            Parameters::Gcra { rate, burst, level_max } => {
                self.numbers(&[u64::from(rate.units()), rate.ticks(), burst, narrow(level_max)]);
                self.exponent(meter.tick().nanos());
            }
            Parameters::LeakyBucket { rate, max_delay, nodelay, max_cost, level_max } => {
                let max_delay = max_delay.min(charge.ask.max_delay / meter.tick().nanos());
                self.numbers(&[u64::from(rate.units()), rate.ticks(), max_delay, nodelay, max_cost, narrow(level_max)]);
                self.exponent(meter.tick().nanos());
            }
            Parameters::FixedWindow { limit, max_debt, span: Span::Epoch(window) } => {
                self.numbers(&[limit, limit + max_debt, *window]);
            }
            Parameters::FixedWindow { limit, max_debt, span: Span::Calendar(calendar) } => {
                let origin = self.era.origin(meter);
                self.numbers(&[limit, limit + max_debt, 0]);
                let boundaries = boundaries(&**calendar, self.now_ns / meter.tick().nanos());
                self.numbers(&boundaries.map(|boundary| boundary.saturating_sub(origin)));
            }
            Parameters::SlidingWindowCounter { limit, max_debt, window }
            | Parameters::SlidingWindowLog { limit, max_debt, window } => self.numbers(&[limit, limit + max_debt, window]),
            Parameters::SlidingWindowRing { limit, max_debt, buckets, width } => {
                self.numbers(&[limit, limit + max_debt, u64::from(buckets), width]);
            }
            Parameters::SlidingWindow { limit, max_debt, window, entries } => {
                self.numbers(&[limit, limit + max_debt, window, u64::from(entries)]);
            }
            Parameters::Concurrency { limit, ttl } => {
                self.numbers(&[limit, ttl]);
                if let Some(lease) = charge.ask.lease {
                    self.bytes.extend_from_slice(&lease.to_be_bytes());
                }
            }
        }
    }

    /// The arguments of a refund; `false` if the receipt gives back nothing.
    fn refund(&mut self, kind: Kind, charge: &Charge<'_>, Refund { receipt, cost }: Refund) -> bool {
        let origin = self.era.origin(charge.meter);
        let numbers: SmallVec<[Option<u64>; 4]> = match (receipt, charge.meter.parameters()) {
            (Receipt::Arrival { arrival, refunded }, Parameters::Gcra { .. } | Parameters::LeakyBucket { .. }) => {
                let refunded = u64::try_from(u128::from_le_bytes(refunded)).ok();
                let ticks = arrival.ticks.checked_sub(origin);
                SmallVec::from_buf([ticks, Some(u64::from(arrival.part)), Some(u64::from(arrival.base)), refunded])
            }
            (Receipt::Window { id }, Parameters::FixedWindow { .. }) => [id.checked_sub(origin)].into_iter().collect(),
            (
                Receipt::Window { id },
                Parameters::SlidingWindowCounter { window: width, .. } | Parameters::SlidingWindowRing { width, .. },
            ) => [id.checked_sub(origin / width)].into_iter().collect(),
            (Receipt::Stamp { at, clamps }, Parameters::SlidingWindow { .. }) => {
                [at.checked_sub(origin), Some(u64::from(clamps))].into_iter().collect()
            }
            (Receipt::Entry { sequence, at }, Parameters::SlidingWindowLog { .. }) => {
                [Some(sequence), at.checked_sub(origin)].into_iter().collect()
            }
            _ => return false,
        };
        let Some(numbers) = numbers.into_iter().collect::<Option<SmallVec<[u64; 4]>>>() else { return false };
        self.key(charge);
        self.arguments(kind, 0, charge, cost);
        self.finish(charge);
        self.numbers(&numbers);
        self.end();
        true
    }

    /// Ends the arguments of a charge.
    fn finish(&mut self, charge: &Charge<'_>) {
        if self.scripts.build.is_injected() {
            self.number(self.now_ns / self.scripts.build.unit_ns() - self.origin_base(charge));
        }
        self.end();
    }

    /// From when on the script counts the time of a charge, by its own clock.
    fn origin_base(&self, charge: &Charge<'_>) -> u64 {
        self.era.origin(charge.meter) * (charge.meter.tick().nanos() / self.scripts.build.unit_ns())
    }

    /// A tick is so many powers of ten of the clock's unit.
    fn exponent(&mut self, tick_ns: u64) {
        let exponent = (tick_ns / self.scripts.build.unit_ns()).ilog10();
        self.bytes.push(u8::try_from(exponent).unwrap_or(u8::MAX));
    }

    fn numbers(&mut self, numbers: &[u64]) {
        for &number in numbers {
            self.number(number);
        }
    }

    /// A cost that no quota admits and no debt holds is as good as any other; this one Lua can tell from the largest limit.
    fn cost(&mut self, cost: u64) {
        self.number(if cost > UNITS_MAX { UNITS_MAX + 2 } else { cost });
    }

    /// A number as Lua has them.
    #[allow(clippy::cast_precision_loss, reason = "the meter was compiled so that all of its numbers are exact")]
    fn number(&mut self, number: u64) {
        self.bytes.extend_from_slice(&(number as f64).to_le_bytes());
    }

    #[allow(
        clippy::cast_possible_truncation,
        reason = "keys have 50 bytes, arguments 100, and a request has at most 65,535 charges"
    )]
    fn end(&mut self) {
        self.ends.push(self.bytes.len() as u32);
    }
}

/// A weight of a compiled meter: below 2^53.
fn narrow(weight: u128) -> u64 {
    u64::try_from(weight).unwrap_or(u64::MAX)
}

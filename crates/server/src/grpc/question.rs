//! What a caller of `ShouldRateLimit` asks, borrowed from the bytes of its message.
//!
//! The one message on the path of every decision is read by hand: nothing is copied, and a message of many tiny parts, each of which would become
//! a value many times its size, is refused while it is read. A fuzz target holds it against what the generated types read.

mod fields;

use std::ops::Range;

use smallvec::SmallVec;
use tidegate_core::descriptors::{Entry, Unit};
use tidegate_engine::engine::{DescriptorAsk, OwnLimit};

use self::fields::{Field, each_field};
use super::failure::Failure;
use super::proto;

/// The most descriptors of a question.
pub const DESCRIPTORS_MAX: usize = 1_000;

/// The most entries of all descriptors of a question.
pub const ENTRIES_MAX: usize = 10_000;

/// A question.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Question<'a> {
    /// Who answers it.
    pub domain: &'a str,
    /// How many hits descriptors count that do not say it; 0 is not said.
    pub hits_addend: u32,
    /// Those of all descriptors.
    entries: SmallVec<[Entry<'a>; 8]>,
    descriptors: SmallVec<[Descriptor; 2]>,
}

/// One descriptor.
#[derive(Debug, Clone, PartialEq, Default)]
struct Descriptor {
    entries: Range<usize>,
    limit: Option<OwnLimit>,
    hits: Option<u64>,
    is_negative: bool,
}

/// Why bytes are no question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It is another message, or none.
    #[error("the message is no RateLimitRequest")]
    Malformed,
    /// Too many descriptors.
    #[error("more than {DESCRIPTORS_MAX} descriptors are given")]
    TooManyDescriptors,
    /// Too many entries.
    #[error("the descriptors have more than {ENTRIES_MAX} entries")]
    TooManyEntries,
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::invalid(refusal.to_string())
    }
}

impl<'a> Question<'a> {
    /// Reads a message.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn read(message: &'a [u8]) -> Result<Self, Refusal> {
        let mut question = Self::default();
        each_field(message, |field| {
            match field {
                Field { tag: 1, value } => question.domain = value.text()?,
                Field { tag: 2, value } => {
                    let descriptor = question.descriptor(value.bytes()?)?;
                    question.push(descriptor)?;
                }
                Field { tag: 3, value } => question.hits_addend = value.number_u32()?,
                _ => {}
            }
            Ok(())
        })?;
        Ok(question)
    }

    /// The same from a message that was read already.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn of(message: &'a proto::RateLimitRequest) -> Result<Self, Refusal> {
        let mut question = Self { domain: &message.domain, hits_addend: message.hits_addend, ..Self::default() };
        for descriptor in &message.descriptors {
            let start = question.entries.len();
            for entry in &descriptor.entries {
                question.push_entry(Entry { key: &entry.key, value: &entry.value })?;
            }
            question.push(Descriptor {
                entries: start..question.entries.len(),
                limit: descriptor.limit.map(|limit| own_limit(limit.requests_per_unit, limit.unit)),
                hits: descriptor.hits_addend,
                is_negative: descriptor.is_negative_hits,
            })?;
        }
        Ok(question)
    }

    /// The descriptors.
    pub fn asks(&self) -> impl ExactSizeIterator<Item = DescriptorAsk<'_>> {
        self.descriptors.iter().map(|descriptor| DescriptorAsk {
            entries: &self.entries[descriptor.entries.clone()],
            limit: descriptor.limit,
            hits: descriptor.hits,
            is_negative: descriptor.is_negative,
        })
    }

    fn push(&mut self, descriptor: Descriptor) -> Result<(), Refusal> {
        if self.descriptors.len() == DESCRIPTORS_MAX {
            return Err(Refusal::TooManyDescriptors);
        }
        self.descriptors.push(descriptor);
        Ok(())
    }

    fn push_entry(&mut self, entry: Entry<'a>) -> Result<(), Refusal> {
        if self.entries.len() == ENTRIES_MAX {
            return Err(Refusal::TooManyEntries);
        }
        self.entries.push(entry);
        Ok(())
    }

    fn descriptor(&mut self, message: &'a [u8]) -> Result<Descriptor, Refusal> {
        let start = self.entries.len();
        let mut limit = None;
        let mut descriptor = Descriptor::default();
        each_field(message, |field| {
            match field {
                Field { tag: 1, value } => self.push_entry(entry(value.bytes()?)?)?,
                // A message that comes twice is one message in two parts.
                Field { tag: 2, value } => read_limit(value.bytes()?, limit.get_or_insert((0, 0)))?,
                Field { tag: 3, value } => read_hits(value.bytes()?, descriptor.hits.get_or_insert(0))?,
                Field { tag: 4, value } => descriptor.is_negative = value.number()? != 0,
                _ => {}
            }
            Ok(())
        })?;
        Ok(Descriptor {
            entries: start..self.entries.len(),
            limit: limit.map(|(so_many, unit)| own_limit(so_many, unit)),
            ..descriptor
        })
    }
}

fn entry(message: &[u8]) -> Result<Entry<'_>, Refusal> {
    let mut entry = Entry { key: "", value: "" };
    each_field(message, |field| {
        match field {
            Field { tag: 1, value } => entry.key = value.text()?,
            Field { tag: 2, value } => entry.value = value.text()?,
            _ => {}
        }
        Ok(())
    })?;
    Ok(entry)
}

fn read_limit(message: &[u8], (requests_per_unit, unit): &mut (u32, i32)) -> Result<(), Refusal> {
    each_field(message, |field| {
        match field {
            Field { tag: 1, value } => *requests_per_unit = value.number_u32()?,
            Field { tag: 2, value } => *unit = value.number_i32()?,
            _ => {}
        }
        Ok(())
    })
}

fn read_hits(message: &[u8], hits: &mut u64) -> Result<(), Refusal> {
    each_field(message, |field| {
        if let Field { tag: 1, value } = field {
            *hits = value.number()?;
        }
        Ok(())
    })
}

/// A unit that nobody knows is none, and the engine refuses it.
fn own_limit(requests_per_unit: u32, unit: i32) -> OwnLimit {
    OwnLimit { requests_per_unit, unit: Unit::from_number(unit).unwrap_or(Unit::Unknown) }
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::super::proto::rate_limit_descriptor::{Entry as EntryMessage, RateLimitOverride};
    use super::super::proto::{RateLimitDescriptor, RateLimitRequest};
    use super::*;

    fn entry_of(key: &str, value: &str) -> EntryMessage {
        EntryMessage { key: key.to_owned(), value: value.to_owned() }
    }

    fn request() -> RateLimitRequest {
        let limit = RateLimitOverride { requests_per_unit: 7, unit: 3 };
        RateLimitRequest {
            domain: "shop".to_owned(),
            descriptors: vec![
                RateLimitDescriptor { entries: vec![entry_of("a", "1"), entry_of("b", "")], ..Default::default() },
                RateLimitDescriptor::default(),
                RateLimitDescriptor {
                    entries: vec![entry_of("größe", "ä")],
                    limit: Some(limit),
                    hits_addend: Some(0),
                    is_negative_hits: true,
                },
            ],
            hits_addend: 4,
        }
    }

    #[test]
    fn a_message_is_read_as_the_generated_types_read_it() {
        let message = request();
        let bytes = message.encode_to_vec();

        let question = Question::read(&bytes).expect("a question");

        assert_eq!(Ok(&question), Question::of(&message).as_ref());
        let asks: Vec<_> = question.asks().collect();
        assert_eq!((question.domain, question.hits_addend, asks.len()), ("shop", 4, 3));
        assert_eq!(asks[0].entries, [Entry { key: "a", value: "1" }, Entry { key: "b", value: "" }]);
        assert_eq!((asks[1].entries.len(), asks[1].hits, asks[1].limit), (0, None, None));
        assert_eq!(asks[2].limit, Some(OwnLimit { requests_per_unit: 7, unit: Unit::Hour }));
        assert_eq!((asks[2].hits, asks[2].is_negative), (Some(0), true));
    }

    #[test]
    fn every_cut_message_is_refused_or_read_alike() {
        let bytes = request().encode_to_vec();
        for end in 0..bytes.len() {
            let message = RateLimitRequest::decode(&bytes[..end]).ok();
            let read = message.as_ref().map(|message| Question::of(message).expect("a small one"));
            assert_eq!(Question::read(&bytes[..end]).ok(), read, "cut at {end}");
        }
    }

    #[test]
    fn what_newer_callers_add_is_passed_over() {
        // Tag 15 in each way that a value can be written.
        let unknown: [&[u8]; 5] =
            [&[0x78, 1], &[0x79, 0, 0, 0, 0, 0, 0, 0, 0], &[0x7a, 1, 0], &[0x7d, 0, 0, 0, 0], &[0x7b, 0x08, 1, 0x7c]];
        for added in unknown {
            let bytes = [&request().encode_to_vec(), added].concat();
            assert_eq!(Question::read(&bytes).map(|question| question.domain), Ok("shop"), "{added:?}");
        }
    }

    #[test]
    fn what_is_no_question_is_refused() {
        let table: [(&[u8], &str); 7] = [
            (&[0x0a, 2, 0xff, 0xfe], "a domain that is no text"),
            (&[0x0a, 5, b'a'], "a length beyond the end"),
            (&[0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1], "a length beyond all memory"),
            (&[0x08, 1], "a number where a text should be"),
            (&[0x18, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1], "a number without an end"),
            (&[0x00], "a field without a number"),
            (&[0x7c], "the end of a group that never began"),
        ];
        for (bytes, why) in table {
            assert_eq!(Question::read(bytes), Err(Refusal::Malformed), "{why}");
        }
        assert_eq!(Question::read(&[0x7b; 1_000]), Err(Refusal::Malformed), "groups in groups");
    }

    #[test]
    fn a_message_of_many_tiny_parts_is_refused_while_it_is_read() {
        let descriptors = [0x12, 0].repeat(DESCRIPTORS_MAX);
        assert_eq!(Question::read(&descriptors).map(|question| question.asks().len()), Ok(DESCRIPTORS_MAX));
        assert_eq!(Question::read(&[0x12, 0].repeat(DESCRIPTORS_MAX + 1)), Err(Refusal::TooManyDescriptors));

        let descriptor = RateLimitDescriptor { entries: vec![entry_of("", ""); ENTRIES_MAX + 1], ..Default::default() };
        let message = RateLimitRequest { descriptors: vec![descriptor], ..Default::default() };
        assert_eq!(Question::read(&message.encode_to_vec()), Err(Refusal::TooManyEntries));
        assert_eq!(Question::of(&message), Err(Refusal::TooManyEntries));
    }
}

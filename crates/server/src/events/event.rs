//! One decision, as it is told.

use std::sync::Arc;

use serde::ser::{SerializeMap as _, SerializeSeq as _};
use serde::{Serialize, Serializer};
use smallvec::SmallVec;
use tidegate_store::digest::Digest;

use crate::metrics::Protocol;

/// The longest texts, in characters.
const METHOD_MAX: usize = 16;
const TEXT_MAX: usize = 256;

/// One decision. Its texts are short and harmless, whatever the request said.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) at_ns: u64,
    pub(super) protocol: Protocol,
    /// Who asked, as keys are shown.
    pub(super) client: Box<str>,
    /// Who asked, as the control plane knows them: the digest of the API key, or of the client.
    pub(super) digest: Option<Digest>,
    pub(super) method: Box<str>,
    pub(super) path: Box<str>,
    pub(super) tier: Box<str>,
    /// The rule that decided what is reported; `None` if none did.
    pub(super) rule: Option<Arc<str>>,
    pub(super) is_allowed: bool,
    /// Rules in shadow that would have denied it.
    pub(super) shadowed: SmallVec<[Arc<str>; 1]>,
    /// Why it was decided without the store.
    pub(super) degraded: Option<&'static str>,
    /// What is used of the limit, and the limit; `None` is unlimited.
    pub(super) used: Option<(u64, u64)>,
    pub(super) cost: u64,
    /// How many decisions of its kind it stands for; 0 if it is only recorded.
    pub(super) weight: u64,
    pub(super) recording: Option<Box<Recording>>,
}

/// What is needed to decide a request again by other rules.
#[derive(Debug)]
pub(super) struct Recording {
    /// How many requests it stands for.
    pub(super) weight: u64,
    pub(super) attributes: Vec<(Box<str>, Box<str>)>,
}

/// An event with its name.
pub(super) struct Told<'a> {
    /// Unique among all instances, and growing with time.
    pub(super) id: u128,
    pub(super) event: &'a Event,
}

impl Serialize for Told<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { id, event } = self;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("event_id", &format_args!("{id:032x}"))?;
        map.serialize_entry("at", &seconds(event.at_ns))?;
        map.serialize_entry("protocol", event.protocol.as_str())?;
        map.serialize_entry("client", &event.client)?;
        map.serialize_entry("digest", &event.digest.map(|digest| format!("{digest:?}")))?;
        map.serialize_entry("method", &event.method)?;
        map.serialize_entry("path", &event.path)?;
        map.serialize_entry("tier", &event.tier)?;
        map.serialize_entry("rule", &event.rule.as_deref())?;
        map.serialize_entry("allowed", &event.is_allowed)?;
        map.serialize_entry("shadowed", &Names(&event.shadowed))?;
        map.serialize_entry("degraded", &event.degraded)?;
        map.serialize_entry("current", &event.used.map(|(used, _)| used))?;
        map.serialize_entry("limit", &event.used.map(|(_, limit)| limit))?;
        map.serialize_entry("cost", &event.cost)?;
        map.serialize_entry("weight", &event.weight)?;
        if let Some(recording) = &event.recording {
            map.serialize_entry("recording", recording)?;
        }
        map.end()
    }
}

impl Serialize for Recording {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("weight", &self.weight)?;
        map.serialize_entry("attributes", &Attributes(&self.attributes))?;
        map.end()
    }
}

struct Names<'a>(&'a [Arc<str>]);

impl Serialize for Names<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut names = serializer.serialize_seq(Some(self.0.len()))?;
        self.0.iter().try_for_each(|name| names.serialize_element(&**name))?;
        names.end()
    }
}

struct Attributes<'a>(&'a [(Box<str>, Box<str>)]);

impl Serialize for Attributes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

/// A method, cut to what methods have.
pub(super) fn method(text: &str) -> Box<str> {
    cut(text, METHOD_MAX)
}

/// A text, cut and made harmless.
pub(super) fn text(text: &str) -> Box<str> {
    cut(text, TEXT_MAX)
}

fn cut(text: &str, max: usize) -> Box<str> {
    // Most texts are short and plain.
    if text.len() <= max && !text.chars().any(char::is_control) {
        return text.into();
    }
    let harmless = text.chars().map(|character| if character.is_control() { '\u{fffd}' } else { character });
    harmless.take(max).collect::<String>().into()
}

#[allow(clippy::cast_precision_loss, reason = "microseconds since the epoch are exact for a long time")]
fn seconds(ns: u64) -> f64 {
    (ns / 1_000) as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_short_and_harmless() {
        assert_eq!(&*text("/api/v1"), "/api/v1");
        assert_eq!(&*text("/a\u{1b}[2J\n"), "/a\u{fffd}[2J\u{fffd}");
        assert_eq!(text(&"é".repeat(1_000)).chars().count(), TEXT_MAX);
        assert_eq!(&*method(&"X".repeat(99)), "XXXXXXXXXXXXXXXX");
    }
}

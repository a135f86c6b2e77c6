//! The algorithms that have a counter, as the scripts number them.

use tidegate_core::meter::{Meter, Parameters};

/// An algorithm with a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(super) enum Kind {
    Gcra = 1,
    LeakyBucket = 2,
    FixedWindow = 3,
    SlidingWindowCounter = 4,
    SlidingWindowRing = 5,
    SlidingWindow = 6,
    SlidingWindowLog = 7,
    /// `many.lua` knows this number: slots cannot be owed.
    Concurrency = 8,
}

impl Kind {
    pub(super) const ALL: [Self; 8] = [
        Self::Gcra,
        Self::LeakyBucket,
        Self::FixedWindow,
        Self::SlidingWindowCounter,
        Self::SlidingWindowRing,
        Self::SlidingWindow,
        Self::SlidingWindowLog,
        Self::Concurrency,
    ];

    /// `None` for quotas without a counter: unlimited, or closed.
    pub(super) fn of(meter: &Meter) -> Option<Self> {
        Some(match meter.parameters() {
            Parameters::Unlimited | Parameters::Closed => return None,
            Parameters::Gcra { .. } => Self::Gcra,
            Parameters::LeakyBucket { .. } => Self::LeakyBucket,
            Parameters::FixedWindow { .. } => Self::FixedWindow,
            Parameters::SlidingWindowCounter { .. } => Self::SlidingWindowCounter,
            Parameters::SlidingWindowRing { .. } => Self::SlidingWindowRing,
            Parameters::SlidingWindow { .. } => Self::SlidingWindow,
            Parameters::SlidingWindowLog { .. } => Self::SlidingWindowLog,
            Parameters::Concurrency { .. } => Self::Concurrency,
        })
    }

    /// The stem of its file, its functions and its name.
    pub(super) fn stem(self) -> &'static str {
        match self {
            Self::Gcra => "gcra",
            Self::LeakyBucket => "leaky_bucket",
            Self::FixedWindow => "fixed_window",
            Self::SlidingWindowCounter => "sliding_window_counter",
            Self::SlidingWindowRing => "sliding_window_ring",
            Self::SlidingWindow => "sliding_window",
            Self::SlidingWindowLog => "sliding_window_log",
            Self::Concurrency => "concurrency",
        }
    }

    /// Whether it has functions, which take its state as a table.
    fn has_functions(self) -> bool {
        matches!(self, Self::SlidingWindowLog | Self::Concurrency)
    }

    /// How many numbers it reports, after the wait.
    pub(super) fn fields(self) -> usize {
        match self {
            Self::Gcra | Self::FixedWindow | Self::SlidingWindowCounter | Self::SlidingWindowRing | Self::Concurrency => 2,
            Self::LeakyBucket | Self::SlidingWindow | Self::SlidingWindowLog => 3,
        }
    }
}

/// A set of algorithms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Kinds(u8);

impl Kinds {
    pub(super) fn insert(&mut self, kind: Kind) {
        self.0 |= 1 << (kind as u8 - 1);
    }

    pub(super) fn iter(self) -> impl Iterator<Item = Kind> {
        Kind::ALL.into_iter().filter(move |&kind| self.0 & (1 << (kind as u8 - 1)) != 0)
    }

    pub(super) fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// A few algorithms in the order of their charges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Sequence([Option<Kind>; Self::MOST]);

impl Sequence {
    /// More are not worth a script of their own: it is sent to every server, and stays there.
    pub(super) const MOST: usize = 4;

    /// `None` if there are none, too many, or one among others whose state is a table.
    pub(super) fn of(kinds: impl ExactSizeIterator<Item = Option<Kind>>) -> Option<Self> {
        let count = kinds.len();
        let mut sequence = Self::default();
        for (place, kind) in sequence.0.iter_mut().zip(kinds) {
            *place = Some(kind.filter(|kind| count == 1 || !kind.has_functions())?);
        }
        (1..=Self::MOST).contains(&count).then_some(sequence)
    }

    pub(super) fn iter(self) -> impl Iterator<Item = Kind> {
        self.0.into_iter().flatten()
    }
}

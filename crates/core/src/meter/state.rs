//! What is remembered of one key under one quota, and the one place that lists the algorithms.

use crate::algorithm::Algorithm;
use crate::algorithm::concurrency::Concurrency;
use crate::algorithm::constant::{Closed, Unlimited};
use crate::algorithm::fixed_window::FixedWindow;
use crate::algorithm::gcra::Gcra;
use crate::algorithm::leaky_bucket::LeakyBucket;
use crate::algorithm::sliding_window::SlidingWindow;
use crate::algorithm::sliding_window_counter::SlidingWindowCounter;
use crate::algorithm::sliding_window_log::SlidingWindowLog;
use crate::algorithm::sliding_window_ring::SlidingWindowRing;
use crate::time::Ticks;

/// What one key has used of one quota. Made by [`Meter::empty`](super::Meter::empty), and only ever shown to that quota's meter.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    pub(super) usage: Usage,
    /// Only with `min_interval`: when a request was last admitted.
    pub(super) last_admitted: Option<Ticks>,
}

/// An algorithm whose states can be kept in a [`State`].
pub(super) trait Stored: Algorithm {
    fn usage(state: Self::State) -> Usage;
}

macro_rules! algorithms {
    ($($algorithm:ident),* $(,)?) => {
        /// The algorithms, each with its parameters.
        #[derive(Debug, Clone)]
        pub(super) enum Kernel {
            $($algorithm($algorithm),)*
        }

        /// Their states.
        #[derive(Debug, Clone, PartialEq)]
        pub(super) enum Usage {
            $($algorithm(<$algorithm as Algorithm>::State),)*
        }

        $(impl Stored for $algorithm {
            fn usage(state: Self::State) -> Usage {
                Usage::$algorithm(state)
            }
        })*

        impl State {
            /// Bytes held beyond the state itself.
            pub fn heap_bytes(&self) -> usize {
                match &self.usage {
                    $(Usage::$algorithm(state) => $algorithm::heap_bytes(state),)*
                }
            }
        }
    };
}

algorithms!(
    Unlimited,
    Closed,
    Gcra,
    LeakyBucket,
    FixedWindow,
    SlidingWindowCounter,
    SlidingWindowRing,
    SlidingWindow,
    SlidingWindowLog,
    Concurrency,
);

/// Runs `$body` with the meter's algorithm.
macro_rules! with_kernel {
    ($meter:expr, |$kernel:ident| $body:expr) => {
        match &$meter.kernel {
            Kernel::Unlimited($kernel) => $body,
            Kernel::Closed($kernel) => $body,
            Kernel::Gcra($kernel) => $body,
            Kernel::LeakyBucket($kernel) => $body,
            Kernel::FixedWindow($kernel) => $body,
            Kernel::SlidingWindowCounter($kernel) => $body,
            Kernel::SlidingWindowRing($kernel) => $body,
            Kernel::SlidingWindow($kernel) => $body,
            Kernel::SlidingWindowLog($kernel) => $body,
            Kernel::Concurrency($kernel) => $body,
        }
    };
}

/// Runs `$body` with the meter's algorithm and the state that belongs to it.
macro_rules! with_state {
    ($meter:expr, $usage:expr, |$kernel:ident, $state:ident| $body:expr) => {
        match (&$meter.kernel, $usage) {
            (Kernel::Unlimited($kernel), Usage::Unlimited($state)) => $body,
            (Kernel::Closed($kernel), Usage::Closed($state)) => $body,
            (Kernel::Gcra($kernel), Usage::Gcra($state)) => $body,
            (Kernel::LeakyBucket($kernel), Usage::LeakyBucket($state)) => $body,
            (Kernel::FixedWindow($kernel), Usage::FixedWindow($state)) => $body,
            (Kernel::SlidingWindowCounter($kernel), Usage::SlidingWindowCounter($state)) => $body,
            (Kernel::SlidingWindowRing($kernel), Usage::SlidingWindowRing($state)) => $body,
            (Kernel::SlidingWindow($kernel), Usage::SlidingWindow($state)) => $body,
            (Kernel::SlidingWindowLog($kernel), Usage::SlidingWindowLog($state)) => $body,
            (Kernel::Concurrency($kernel), Usage::Concurrency($state)) => $body,
            _ => unreachable!("a state is only shown to a meter of its own algorithm"),
        }
    };
}

pub(super) use {with_kernel, with_state};

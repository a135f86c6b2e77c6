//! One call of one script.

use std::sync::Arc;

use smallvec::SmallVec;
use tidegate_core::decision::Verdict;
use tidegate_core::meter::Refund;

use super::assemble::Script;
use super::decode::Asked;
use crate::redis::resp::Command;
use crate::redis::topology::Calls;

/// What is asked of the counters of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// Charges all or none.
    Check,
    /// Answers what a check would.
    Peek,
    /// Charges without asking.
    Debit,
    /// Gives back what still counts of a charge. Takes one charge, whose `ask` is not looked at.
    Refund(Refund),
    /// Extends the lease of one charge.
    Renew,
    /// Gives the lease of one charge back.
    Release,
}

/// What a script answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// To a check, a peek or a debit. All times are nanoseconds.
    Verdict {
        /// The store's clock, in nanoseconds since the epoch.
        now_ns: u64,
        /// What the quotas said. Receipts are in the ticks of their meters.
        verdict: Verdict,
    },
    /// To the others: whether there was something to give back or to extend.
    Done(bool),
    /// Nothing was done: the estimate of the server's clock was more than a calendar window off. To be called again with this one.
    Clock {
        /// The store's clock, in nanoseconds since the epoch.
        now_ns: u64,
    },
}

/// A call of a script: all that has to be sent, and all that is needed to understand the reply.
///
/// The estimate of the time is of use for calendars only, and in the [build for tests](super::Build::Injected), where it is the time.
#[derive(Debug, Clone)]
pub struct Call {
    pub(super) script: Arc<Script>,
    /// Keys, then arguments, one after the other.
    pub(super) bytes: Vec<u8>,
    /// Where each of them ends.
    pub(super) ends: SmallVec<[u32; 4]>,
    pub(super) keys: u32,
    pub(super) asked: Asked,
}

impl Call {
    /// The script.
    pub fn script(&self) -> &Arc<Script> {
        &self.script
    }

    /// The command for a server that knows the script. It answers `NOSCRIPT` if it does not.
    pub fn by_hash(&self) -> Command {
        self.command(b"EVALSHA", self.script.hash().as_bytes())
    }

    /// The command for any server, which will know the script from then on.
    pub fn by_text(&self) -> Command {
        self.command(b"EVAL", self.script.text().as_bytes())
    }

    /// The names of the counters that it touches.
    pub fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.parts().take(self.keys as usize)
    }

    /// What the script is told.
    pub fn arguments(&self) -> impl Iterator<Item = &[u8]> {
        self.parts().skip(self.keys as usize)
    }

    fn command(&self, name: &[u8], script: &[u8]) -> Command {
        let bytes = 48 + script.len() + self.bytes.len() + 10 * self.ends.len();
        let mut command = Command::build(3 + self.ends.len(), bytes);
        command.bytes(name).bytes(script).uint(u64::from(self.keys));
        for part in self.parts() {
            command.bytes(part);
        }
        command.finish()
    }

    fn parts(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| &self.bytes[start as usize..end as usize])
    }
}

impl Calls for Call {
    fn by_hash(&self) -> Command {
        self.by_hash()
    }

    fn by_text(&self) -> Command {
        self.by_text()
    }
}

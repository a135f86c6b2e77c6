//! What the entries of a descriptor say about a request.

use tidegate_core::descriptors::Entry;
use tidegate_core::rules::Request;
use tidegate_engine::engine::Facts;

/// What Envoy calls things that rules know by other names.
const ALIASES: [(&str, &str); 4] = [(":method", "method"), (":path", "path"), (":authority", "host"), ("remote_address", "ip")];

/// The entry that makes a descriptor a debit: it is charged without being asked whether it fits.
const DEBIT: Entry<'_> = Entry { key: "tidegate", value: "debit" };

/// The entries of a descriptor.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entries<'a>(pub(super) &'a [Entry<'a>]);

impl Entries<'_> {
    /// Whether it is charged in any case, for what was used already.
    pub(super) fn is_debit(&self) -> bool {
        self.0.contains(&DEBIT)
    }
}

impl Facts for Entries<'_> {
    fn state<'r>(&'r self, request: &mut Request<'r>) {
        for entry in self.0 {
            if let Some((_, name)) = ALIASES.iter().find(|(alias, _)| *alias == entry.key) {
                request.set(name, entry.value);
            }
        }
        // Whoever says `path` means it.
        for entry in self.0 {
            request.set(entry.key, entry.value);
        }
    }
}

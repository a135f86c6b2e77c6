//! Room for the fields of messages, kept by each thread for the next message: it is too large for what an allocator finds at once.

use std::cell::RefCell;

use http::HeaderMap;

/// Fields that most messages get in addition on their way.
pub(super) const FIELDS_ADDED: usize = 6;

/// The most fields that room is kept for, and how often. A message has two: those of its request, and those of its response.
const FIELDS_MAX: usize = 64;
const KEPT_MAX: usize = 16;

thread_local! {
    static KEPT: RefCell<Vec<HeaderMap>> = const { RefCell::new(Vec::new()) };
}

/// Room for so many fields, and for those that are added.
pub(super) fn fields(count: usize) -> HeaderMap {
    let mut fields = KEPT.with_borrow_mut(Vec::pop).unwrap_or_default();
    fields.reserve(count + FIELDS_ADDED);
    fields
}

/// Takes back the room of fields that nobody needs any more.
pub(crate) fn take_back(mut fields: HeaderMap) {
    fields.clear();
    KEPT.with_borrow_mut(|kept| {
        if kept.len() < KEPT_MAX && (1..=FIELDS_MAX).contains(&fields.capacity()) {
            kept.push(fields);
        }
    });
}

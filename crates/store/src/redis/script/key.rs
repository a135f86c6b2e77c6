//! The names of counters.
//!
//! `prefix { tag } key namespace`: 16 bytes of the tag, which alone says where a cluster keeps the counter; 16 bytes of the key, unless it is the tag
//! itself; 7 bytes of the namespace. With the prefix `tg:` that is 28 bytes for most keys.

use tidegate_core::meter::Meter;
use tidegate_core::mutant::Mutant;

use crate::digest::Digest;
use crate::store::{Charge, Place};

/// What stands between the braces.
///
/// The first closing brace ends a tag, so one inside is written as another byte. That two tags become one by it is as likely as any collision of 124
/// bits.
pub fn tag(place: Place) -> [u8; 16] {
    bytes(place.tag).map(|byte| if byte == b'}' { b'|' } else { byte })
}

/// Appends the name of the counter of a charge.
pub fn write(into: &mut Vec<u8>, prefix: &[u8], charge: &Charge<'_>) {
    into.extend_from_slice(prefix);
    into.push(b'{');
    into.extend_from_slice(&tag(charge.place));
    into.push(b'}');
    if charge.key != charge.place.tag {
        into.extend_from_slice(&bytes(charge.key));
    }
    if !Mutant::TiersShareCounters.is_active() {
        into.extend_from_slice(&charge.namespace.0[0].to_be_bytes()[..7]);
    }
}

/// Whether two charges have the same counter.
pub(super) fn is_same(a: &Charge<'_>, b: &Charge<'_>) -> bool {
    let counts = |meter: &Meter| !meter.is_stateless();
    a.key == b.key && a.namespace == b.namespace && a.place.tag == b.place.tag && counts(a.meter) && counts(b.meter)
}

fn bytes(digest: Digest) -> [u8; 16] {
    let [high, low] = digest.0;
    (u128::from(high) << 64 | u128::from(low)).to_be_bytes()
}

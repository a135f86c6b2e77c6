//! Which of the 16,384 hash slots of a cluster a key is in.

use std::fmt;

/// How many hash slots a cluster has.
pub const SLOTS: u16 = 16_384;

/// A hash slot. Where nothing is spread, everything is in slot 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Slot(u16);

impl Slot {
    /// The only slot of a store that is not spread.
    pub const ZERO: Self = Self(0);

    /// The slot of all keys with this hash tag: the bytes between the braces, without them.
    ///
    /// A tag must not be empty and must not hold a `}`: the server would then see another tag.
    pub fn of_tag(tag: &[u8]) -> Self {
        Self(crc16(tag) % SLOTS)
    }

    /// The slot of a whole key: what stands between its first `{` and the next `}` decides, if that is anything, else all of it.
    ///
    /// ```
    /// use tidegate_store::redis::topology::Slot;
    ///
    /// assert_eq!(Slot::of_key(b"{user1000}.following"), Slot::of_tag(b"user1000"));
    /// assert_eq!(Slot::of_key(b"123456789").number(), 12_739);
    /// ```
    pub fn of_key(key: &[u8]) -> Self {
        Self::of_tag(hash_tag(key))
    }

    /// The slot with this number, if a cluster has it.
    pub fn new(number: u16) -> Option<Self> {
        (number < SLOTS).then_some(Self(number))
    }

    /// Its number.
    pub fn number(self) -> u16 {
        self.0
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

fn hash_tag(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|&byte| byte == b'{') else { return key };
    let rest = &key[open + 1..];
    match rest.iter().position(|&byte| byte == b'}') {
        None | Some(0) => key,
        Some(close) => &rest[..close],
    }
}

/// CRC16/XMODEM: polynomial 0x1021, start 0, nothing reflected.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, &byte| (crc << 8) ^ TABLE[usize::from(crc.to_be_bytes()[0] ^ byte)])
}

const TABLE: [u16; 256] = table();

const fn table() -> [u16; 256] {
    let mut table = [0; 256];
    let mut byte = 0_u16;
    while byte < 256 {
        let mut crc = byte << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
            bit += 1;
        }
        table[byte as usize] = crc;
        byte += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn known_keys_are_in_known_slots() {
        for (key, slot) in [("123456789", 12_739), ("foo", 12_182), ("bar", 5_061), ("", 0), ("user1000", 3_443)] {
            assert_eq!(Slot::of_key(key.as_bytes()).number(), slot, "{key}");
        }
    }

    #[test]
    fn keys_with_one_tag_share_a_slot() {
        assert_eq!(Slot::of_key(b"{user1000}.following"), Slot::of_key(b"{user1000}.followers"));
        assert_eq!(Slot::of_key(b"tg:{tag}more}"), Slot::of_tag(b"tag"));
        assert_eq!(Slot::of_key(b"foo{{bar}}zap"), Slot::of_tag(b"{bar"), "the first brace opens, the next one closes");
        assert_eq!(Slot::of_key(b"foo{bar}{zap}"), Slot::of_tag(b"bar"));
    }

    #[test]
    fn a_tag_that_is_empty_or_open_is_none() {
        assert_eq!(Slot::of_key(b"foo{}{bar}"), Slot::of_tag(b"foo{}{bar}"));
        assert_eq!(Slot::of_key(b"foo{bar"), Slot::of_tag(b"foo{bar"));
        assert_eq!(Slot::of_key(b"foo}bar{"), Slot::of_tag(b"foo}bar{"));
    }

    proptest! {
        #[test]
        fn every_key_has_a_slot_of_the_cluster(key in proptest::collection::vec(any::<u8>(), 0..64)) {
            prop_assert!(Slot::of_key(&key).number() < SLOTS);
        }
    }
}

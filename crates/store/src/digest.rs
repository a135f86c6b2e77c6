//! Keys as 128-bit keyed hashes.
//!
//! A key comes from outside: it may be a megabyte, hold any byte, or be chosen to collide. Its digest has one size and, because the hash is keyed, an
//! attacker cannot aim. No store ever sees the key itself.

use std::fmt;
use std::ops::BitXor;

use siphasher::sip128::SipHasher13;

/// The digest of a key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Digest(pub [u64; 2]);

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}{:016x}", self.0[0], self.0[1])
    }
}

/// Combines the digests of a key and of a namespace: both are pseudo-random, so the result is too.
impl BitXor for Digest {
    type Output = Self;

    fn bitxor(self, other: Self) -> Self {
        Self([self.0[0] ^ other.0[0], self.0[1] ^ other.0[1]])
    }
}

/// Makes digests under a secret.
#[derive(Clone, Copy)]
pub struct Digester {
    hasher: SipHasher13,
}

impl fmt::Debug for Digester {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Digester(secret)")
    }
}

impl Digester {
    /// Digests under this secret.
    pub fn new(secret: [u8; 16]) -> Self {
        Self { hasher: SipHasher13::new_with_key(&secret) }
    }

    /// The digest of these bytes.
    pub fn digest(&self, bytes: &[u8]) -> Digest {
        let hash = self.hasher.hash(bytes);
        Digest([hash.h1, hash.h2])
    }
}

//! Keys that are made when the first test asks for one.

use std::sync::LazyLock;

use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, EcdsaSigningAlgorithm, Ed25519KeyPair,
    KeyPair as _, RsaKeyPair,
};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use jsonwebtoken::EncodingKey;

pub(super) static KEYS: LazyLock<Keys> = LazyLock::new(Keys::make);

pub(super) struct Keys {
    pub(super) rsa: Pair,
    pub(super) p256: Pair,
    pub(super) p384: Pair,
    pub(super) ed25519: Pair,
    /// Public only, and too short.
    pub(super) rsa_1024: String,
}

pub(super) struct Pair {
    pub(super) private: EncodingKey,
    pub(super) private_pem: String,
    pub(super) public: String,
}

impl Keys {
    fn make() -> Self {
        Self {
            rsa: rsa(),
            p256: ec(&ECDSA_P256_SHA256_FIXED_SIGNING),
            p384: ec(&ECDSA_P384_SHA384_FIXED_SIGNING),
            ed25519: ed25519(),
            rsa_1024: rsa_public(&[0xC5; 128]),
        }
    }
}

fn rsa() -> Pair {
    let pair = RsaKeyPair::generate(KeySize::Rsa2048).expect("a key");
    let private_pem = pem("PRIVATE KEY", pair.as_der().expect("a key in DER").as_ref());
    let public = pem("PUBLIC KEY", pair.public_key().as_der().expect("a key in DER").as_ref());
    Pair { private: EncodingKey::from_rsa_pem(private_pem.as_bytes()).expect("a key"), private_pem, public }
}

fn ec(algorithm: &'static EcdsaSigningAlgorithm) -> Pair {
    let pkcs8 = EcdsaKeyPair::generate_pkcs8(algorithm, &SystemRandom::new()).expect("a key");
    let pair = EcdsaKeyPair::from_pkcs8(algorithm, pkcs8.as_ref()).expect("a key");
    let public = pem("PUBLIC KEY", pair.public_key().as_der().expect("a key in DER").as_ref());
    Pair { private: EncodingKey::from_ec_der(pkcs8.as_ref()), private_pem: pem("PRIVATE KEY", pkcs8.as_ref()), public }
}

fn ed25519() -> Pair {
    let pkcs8 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).expect("a key");
    let pair = Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).expect("a key");
    let public = pem("PUBLIC KEY", pair.public_key().as_der().expect("a key in DER").as_ref());
    Pair { private: EncodingKey::from_ed_der(pkcs8.as_ref()), private_pem: pem("PRIVATE KEY", pkcs8.as_ref()), public }
}

/// A key with this modulus and the usual exponent, as its few lengths below 128 and 256 are written in DER.
fn rsa_public(modulus: &[u8; 128]) -> String {
    // INTEGER (with a zero in front, since it is positive), INTEGER 65537; in a SEQUENCE.
    let mut numbers = vec![0x02, 0x81, 129, 0x00];
    numbers.extend_from_slice(modulus);
    numbers.extend_from_slice(&[0x02, 0x03, 0x01, 0x00, 0x01]);
    let length = u8::try_from(numbers.len()).expect("less than 256 bytes");
    let mut der = vec![0x30, 0x81, length];
    der.extend_from_slice(&numbers);
    pem("RSA PUBLIC KEY", &der)
}

fn pem(kind: &str, der: &[u8]) -> String {
    format!("-----BEGIN {kind}-----\n{}\n-----END {kind}-----\n", BASE64_STANDARD.encode(der))
}

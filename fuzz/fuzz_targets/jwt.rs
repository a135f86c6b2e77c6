//! Any text is a token or none: nobody but the holder of a key can name anybody, and nothing panics.
//!
//! The corpus has tokens of `ada` that are signed for these keys. The private halves are lost, and no mutation makes a MAC; so whoever else is
//! named was forged.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use tidegate_engine::jwt::Jwt;

/// Within the years of the signed tokens.
const NOW: u64 = 1_767_225_600;

static VERIFIERS: LazyLock<Vec<Jwt>> = LazyLock::new(|| {
    let verifier = |algorithms: Value, key: &str, text: &str| {
        let spec = json!({"header": "authorization", "algorithms": algorithms, key: text});
        Jwt::new(&serde_json::from_value(spec).expect("a spec")).expect("a key that fits")
    };
    vec![
        verifier(
            json!(["HS256", "HS384", "HS512"]),
            "secret",
            "YSBzZWNyZXQgdGhhdCBldmVyeWJvZHkga25vd3MsIGFuZCBpcyBvZiBubyB1c2U=",
        ),
        verifier(json!(["RS256", "PS256"]), "public_key", include_str!("../keys/rsa.pem")),
        verifier(json!(["ES256"]), "public_key", include_str!("../keys/p256.pem")),
        verifier(json!(["EdDSA"]), "public_key", include_str!("../keys/ed25519.pem")),
    ]
});

static UPSTREAM: LazyLock<Jwt> = LazyLock::new(|| {
    let spec = json!({"header": "authorization", "verified_by": "upstream"});
    Jwt::new(&serde_json::from_value(spec).expect("a spec")).expect("a spec without a key")
});

fuzz_target!(|text: &str| {
    for jwt in VERIFIERS.iter() {
        let named = jwt.claim(text, "sub", NOW);
        assert!(named.as_deref().is_none_or(|name| name == "ada"), "{named:?} was forged");
    }
    for now_s in [0, NOW, u64::MAX] {
        let read = UPSTREAM.claim(text, "sub", now_s);
        assert!(read.is_none_or(|name| !name.is_empty()));
    }
});

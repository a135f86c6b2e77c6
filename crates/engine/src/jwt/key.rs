//! The key that verifies, and the algorithms that fit it.
//!
//! The oldest attack on tokens signs with a public key as if it were a secret. So a key is of one kind, all algorithms must be of that kind, and both
//! are checked before the first token comes.

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey};
use tidegate_core::rules::spec::JwtSpec;

use super::JwtError;

/// Characters of base64 in the moduli of the shortest and the longest RSA keys that signatures are verified with: 2,048 and 8,192 bits.
const MODULUS_CHARS: std::ops::RangeInclusive<usize> = 342..=1_366;

/// The key, with the algorithms that it may verify.
pub(super) fn read(spec: &JwtSpec) -> Result<(DecodingKey, Vec<Algorithm>), JwtError> {
    let algorithms = spec.algorithms.iter().map(|name| algorithm(name)).collect::<Result<Vec<_>, _>>()?;
    let Some(family) = algorithms.first().map(|algorithm| algorithm.family()) else {
        return Err(JwtError::Verifier("name the algorithms to accept, or write verified_by: upstream"));
    };
    let key = match (&spec.secret, &spec.public_key) {
        (Some(secret), None) if family == AlgorithmFamily::Hmac => shared(secret)?,
        (None, Some(key)) if family != AlgorithmFamily::Hmac => public(key, family)?,
        (Some(_), None) => return Err(JwtError::Key("these algorithms are verified with a public key, not with a secret")),
        (None, Some(_)) => return Err(JwtError::Key("HS algorithms are verified with a secret, not with a public key")),
        _ => return Err(JwtError::Key("exactly one of secret and public key must be given")),
    };
    for (algorithm, name) in algorithms.iter().zip(&spec.algorithms) {
        if !fits(*algorithm, &key) {
            return Err(JwtError::Algorithm { name: name.clone(), why: "does not fit the key" });
        }
    }
    Ok((key, algorithms))
}

fn algorithm(name: &str) -> Result<Algorithm, JwtError> {
    name.parse().map_err(|_| JwtError::Algorithm {
        name: name.to_owned(),
        why: if name.eq_ignore_ascii_case("none") { "would accept any token" } else { "is no algorithm that is known" },
    })
}

/// A shared secret, in base64.
fn shared(secret: &str) -> Result<DecodingKey, JwtError> {
    let key = DecodingKey::from_base64_secret(secret).map_err(|_| JwtError::Key("the secret is not in base64"))?;
    match key.try_get_as_bytes() {
        Ok([]) | Err(_) => Err(JwtError::Key("the secret is empty")),
        Ok(bytes) if bytes.trim_ascii_start().starts_with(b"-----BEGIN") => {
            Err(JwtError::Key("the secret is a key in PEM, which others may know"))
        }
        Ok(_) => Ok(key),
    }
}

/// A public key in PEM, of the kind that the algorithms need.
fn public(text: &str, family: AlgorithmFamily) -> Result<DecodingKey, JwtError> {
    if text.contains("PRIVATE KEY") {
        return Err(JwtError::Key("a private key was given; the public one is enough"));
    }
    // A certificate would be searched for something that looks like a key, and has several.
    if !text.contains("-----BEGIN PUBLIC KEY-----") && !text.contains("-----BEGIN RSA PUBLIC KEY-----") {
        return Err(JwtError::Key("the public key is not in PEM: it begins with -----BEGIN PUBLIC KEY-----"));
    }
    let key = match family {
        AlgorithmFamily::Rsa => DecodingKey::from_rsa_pem(text.as_bytes()),
        AlgorithmFamily::Ec => DecodingKey::from_ec_pem(text.as_bytes()),
        AlgorithmFamily::Ed => DecodingKey::from_ed_pem(text.as_bytes()),
        AlgorithmFamily::Hmac => return Err(JwtError::Key("HS algorithms are verified with a secret, not with a public key")),
    };
    key.map_err(|_| JwtError::Key("the public key cannot be read, or is not of the kind that the algorithms need"))
}

/// Whether tokens with this algorithm can be verified with the key at all.
fn fits(algorithm: Algorithm, key: &DecodingKey) -> bool {
    if key.family() == AlgorithmFamily::Hmac {
        return algorithm.family() == AlgorithmFamily::Hmac;
    }
    match Jwk::from_decoding_key(key, None).map(|jwk| jwk.algorithm) {
        Ok(AlgorithmParameters::RSA(rsa)) => algorithm.family() == AlgorithmFamily::Rsa && MODULUS_CHARS.contains(&rsa.n.len()),
        Ok(AlgorithmParameters::EllipticCurve(curve)) => match algorithm {
            Algorithm::ES256 => curve.curve == EllipticCurve::P256,
            Algorithm::ES384 => curve.curve == EllipticCurve::P384,
            _ => false,
        },
        Ok(AlgorithmParameters::OctetKeyPair(_)) => algorithm == Algorithm::EdDSA,
        _ => false,
    }
}

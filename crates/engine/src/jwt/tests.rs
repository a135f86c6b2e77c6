//! Tokens as issuers and as attackers make them. All keys are made for one run.

mod keys;

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use proptest::prelude::*;
use serde_json::{Value, json};

use self::keys::KEYS;
use super::*;

const NOW: u64 = 1_767_225_600;
const SECRET: &[u8] = b"a secret that only tests know, of 48 bytes or so";

fn spec() -> JwtSpec {
    serde_json::from_value(json!({"header": "authorization"})).expect("a spec")
}

fn with_secret(algorithms: &[&str]) -> JwtSpec {
    let algorithms = algorithms.iter().map(ToString::to_string).collect();
    JwtSpec { algorithms, secret: Some(BASE64_STANDARD.encode(SECRET)), ..spec() }
}

fn with_public_key(algorithms: &[&str], key: &str) -> JwtSpec {
    JwtSpec { algorithms: algorithms.iter().map(ToString::to_string).collect(), public_key: Some(key.to_owned()), ..spec() }
}

fn upstream() -> JwtSpec {
    JwtSpec { verified_by: Some("upstream".to_owned()), ..spec() }
}

fn jwt(spec: &JwtSpec) -> Jwt {
    Jwt::new(spec).expect("a spec that can be compiled")
}

fn refusal(spec: &JwtSpec) -> String {
    Jwt::new(spec).map(drop).expect_err("a spec that is refused").to_string()
}

fn signed(algorithm: Algorithm, key: &EncodingKey, claims: &Value) -> String {
    encode(&Header::new(algorithm), claims, key).expect("a token")
}

fn hs256(claims: &Value) -> String {
    signed(Algorithm::HS256, &EncodingKey::from_secret(SECRET), claims)
}

/// A token of any parts, right or wrong.
fn assembled(header: &Value, claims: &Value, signature: &[u8]) -> String {
    let part = |text: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(text);
    format!("{}.{}.{}", part(header.to_string().as_bytes()), part(claims.to_string().as_bytes()), part(signature))
}

/// Who the token names.
fn subject(jwt: &Jwt, token: &str) -> Option<String> {
    jwt.claim(&format!("Bearer {token}"), "sub", NOW)
}

fn is_ada(jwt: &Jwt, token: &str) -> bool {
    subject(jwt, token).as_deref() == Some("ada")
}

#[test]
fn every_algorithm_verifies_what_it_signed_and_nothing_that_was_changed() {
    let hmac = EncodingKey::from_secret(SECRET);
    let keys = &*KEYS;
    let table = [
        (Algorithm::HS256, "HS256", &hmac, with_secret(&["HS256"])),
        (Algorithm::HS384, "HS384", &hmac, with_secret(&["HS384"])),
        (Algorithm::HS512, "HS512", &hmac, with_secret(&["HS512"])),
        (Algorithm::RS256, "RS256", &keys.rsa.private, with_public_key(&["RS256"], &keys.rsa.public)),
        (Algorithm::RS384, "RS384", &keys.rsa.private, with_public_key(&["RS384"], &keys.rsa.public)),
        (Algorithm::RS512, "RS512", &keys.rsa.private, with_public_key(&["RS512"], &keys.rsa.public)),
        (Algorithm::PS256, "PS256", &keys.rsa.private, with_public_key(&["PS256"], &keys.rsa.public)),
        (Algorithm::PS384, "PS384", &keys.rsa.private, with_public_key(&["PS384"], &keys.rsa.public)),
        (Algorithm::PS512, "PS512", &keys.rsa.private, with_public_key(&["PS512"], &keys.rsa.public)),
        (Algorithm::ES256, "ES256", &keys.p256.private, with_public_key(&["ES256"], &keys.p256.public)),
        (Algorithm::ES384, "ES384", &keys.p384.private, with_public_key(&["ES384"], &keys.p384.public)),
        (Algorithm::EdDSA, "EdDSA", &keys.ed25519.private, with_public_key(&["EdDSA"], &keys.ed25519.public)),
    ];
    for (algorithm, name, key, spec) in table {
        let jwt = jwt(&spec);
        let token = signed(algorithm, key, &json!({"sub": "ada"}));
        assert!(is_ada(&jwt, &token), "{name}");
        let (message, signature) = token.rsplit_once('.').expect("three parts");
        let forged = assembled(&json!({"alg": name}), &json!({"sub": "eve"}), b"");
        let forged = forged.trim_end_matches('.');
        for wrong in [format!("{forged}.{signature}"), format!("{message}."), format!("{message}.{}", &signature[4..])] {
            assert_eq!(subject(&jwt, &wrong), None, "{name}: {wrong}");
        }
    }
}

#[test]
fn a_signature_of_another_key_is_wrong() {
    let jwt = jwt(&with_secret(&["HS256"]));
    let token = signed(Algorithm::HS256, &EncodingKey::from_secret(b"another secret"), &json!({"sub": "ada"}));
    assert_eq!(subject(&jwt, &token), None);
}

#[test]
fn only_algorithms_in_the_list_are_accepted() {
    let key = EncodingKey::from_secret(SECRET);
    let token = signed(Algorithm::HS512, &key, &json!({"sub": "ada"}));
    assert_eq!(subject(&jwt(&with_secret(&["HS256", "HS384"])), &token), None);
    assert!(is_ada(&jwt(&with_secret(&["HS256", "HS512"])), &token));
}

#[test]
fn a_token_that_says_none_is_not_believed() {
    for name in ["none", "None", "NONE", "nOnE", ""] {
        let token = assembled(&json!({"alg": name, "typ": "JWT"}), &json!({"sub": "ada"}), b"");
        for spec in [with_secret(&["HS256"]), with_public_key(&["ES256"], &KEYS.p256.public)] {
            assert_eq!(subject(&jwt(&spec), &token), None, "{name}");
        }
    }
}

#[test]
fn a_public_key_is_no_secret() {
    // The attacker has the public key, and signs with its text as if it were a secret.
    let public = &KEYS.rsa.public;
    let claims = json!({"sub": "ada"});
    let jwt = jwt(&with_public_key(&["RS256"], public));
    for bytes in [public.as_bytes(), public.trim().as_bytes()] {
        let token = signed(Algorithm::HS256, &EncodingKey::from_secret(bytes), &claims);
        assert_eq!(subject(&jwt, &token), None);
    }
    let refused = JwtSpec { secret: Some(BASE64_STANDARD.encode(public)), ..with_secret(&["HS256"]) };
    assert_eq!(refusal(&refused), "jwt: the secret is a key in PEM, which others may know");
}

#[test]
fn a_critical_header_that_nobody_understands_is_refused() {
    let mut header = Header::new(Algorithm::HS256);
    header.crit = Some(vec!["b64".to_owned()]);
    let token = encode(&header, &json!({"sub": "ada"}), &EncodingKey::from_secret(SECRET)).expect("a token");
    assert_eq!(subject(&jwt(&with_secret(&["HS256"])), &token), None);
}

#[test]
fn a_token_holds_from_nbf_until_before_exp() {
    let table = [
        (json!({}), 0, true),
        (json!({"exp": NOW + 1}), 0, true),
        (json!({"exp": NOW}), 0, false),
        (json!({"exp": NOW}), 1, true),
        (json!({"exp": NOW - 30}), 30, false),
        (json!({"exp": NOW - 29}), 30, true),
        (json!({"nbf": NOW}), 0, true),
        (json!({"nbf": NOW + 1}), 0, false),
        (json!({"nbf": NOW + 30}), 30, true),
        (json!({"nbf": NOW + 31}), 30, false),
        (json!({"nbf": NOW - 10, "exp": NOW + 10}), 0, true),
        // Fractions of a second, times before the epoch, and leeways at the end of time.
        (json!({"exp": 1_767_225_600.5}), 0, true),
        (json!({"exp": 1_767_225_599.5}), 0, false),
        (json!({"nbf": 1_767_225_600.5}), 0, false),
        (json!({"exp": -1}), 0, false),
        (json!({"nbf": -1}), 0, true),
        (json!({"exp": u64::MAX}), u64::MAX, true),
        (json!({"nbf": u64::MAX}), u64::MAX, true),
        (json!({"exp": 1e300}), 0, true),
        // What is no time holds never.
        (json!({"exp": null}), 0, false),
        (json!({"exp": "4102444800"}), 0, false),
        (json!({"exp": true}), 0, false),
        (json!({"exp": [NOW + 1]}), 0, false),
        (json!({"nbf": "0"}), 0, false),
    ];
    for (mut claims, leeway_s, is_valid) in table {
        claims["sub"] = json!("ada");
        for spec in [with_secret(&["HS256"]), upstream()] {
            let jwt = jwt(&JwtSpec { leeway_s, ..spec });
            assert_eq!(is_ada(&jwt, &hs256(&claims)), is_valid, "{claims} with {leeway_s} s by {jwt:?}");
        }
    }
}

#[test]
fn issuer_and_audience_are_asked_for_when_they_are_configured() {
    let some = |text: &str| Some(text.to_owned());
    let table = [
        (json!({}), None, &[][..], true),
        (json!({"iss": "a", "aud": "b"}), None, &[], true),
        (json!({"iss": "https://id.example"}), some("https://id.example"), &[], true),
        (json!({"iss": "https://id.example/"}), some("https://id.example"), &[], false),
        (json!({"iss": ["https://id.example"]}), some("https://id.example"), &[], false),
        (json!({}), some("https://id.example"), &[], false),
        (json!({"aud": "api"}), None, &["api", "web"], true),
        (json!({"aud": ["x", "web"]}), None, &["api", "web"], true),
        (json!({"aud": "apis"}), None, &["api", "web"], false),
        (json!({"aud": []}), None, &["api"], false),
        (json!({"aud": {"api": true}}), None, &["api"], false),
        (json!({}), None, &["api"], false),
    ];
    for (mut claims, issuer, audience, is_valid) in table {
        claims["sub"] = json!("ada");
        let audience: Vec<String> = audience.iter().map(ToString::to_string).collect();
        for spec in [with_secret(&["HS256"]), upstream()] {
            let jwt = jwt(&JwtSpec { issuer: issuer.clone(), audience: audience.clone(), ..spec });
            assert_eq!(is_ada(&jwt, &hs256(&claims)), is_valid, "{claims} for {issuer:?} {audience:?}");
        }
    }
}

#[test]
fn a_plain_value_is_a_text_and_anything_else_is_nobody() {
    let jwt = jwt(&with_secret(&["HS256"]));
    let table = [
        (json!("ada"), Some("ada")),
        (json!("é\n"), Some("é\n")),
        (json!(42), Some("42")),
        (json!(-42), Some("-42")),
        (json!(u64::MAX), Some("18446744073709551615")),
        (json!(0.5), Some("0.5")),
        (json!(true), Some("true")),
        (json!(false), Some("false")),
        (json!(""), None),
        (json!(null), None),
        (json!(["ada"]), None),
        (json!({"name": "ada"}), None),
        (json!(1e20), None),
    ];
    for (claim, expected) in table {
        assert_eq!(subject(&jwt, &hs256(&json!({"sub": claim}))).as_deref(), expected, "{claim}");
    }
    assert_eq!(subject(&jwt, &hs256(&json!({"name": "ada"}))), None, "another claim");
    let namespaced = hs256(&json!({"https://example.com/tier": "pro"}));
    assert_eq!(jwt.claim(&namespaced, "https://example.com/tier", NOW).as_deref(), Some("pro"));
}

#[test]
fn the_word_bearer_is_stripped_in_any_case() {
    let jwt = jwt(&with_secret(&["HS256"]));
    let token = hs256(&json!({"sub": "ada"}));
    for prefix in ["", "Bearer ", "bearer ", "BEARER ", "Bearer   ", "  bearer "] {
        assert_eq!(jwt.claim(&format!("{prefix}{token} "), "sub", NOW).as_deref(), Some("ada"), "{prefix:?}");
    }
    for prefix in ["Basic ", "Bearer", "Bearer: ", "Token ", "Bearer Bearer "] {
        assert_eq!(jwt.claim(&format!("{prefix}{token}"), "sub", NOW), None, "{prefix:?}");
    }
}

#[test]
fn upstream_reads_what_others_verified() {
    let jwt = jwt(&upstream());
    assert!(is_ada(&jwt, &assembled(&json!({"alg": "RS256"}), &json!({"sub": "ada"}), b"whatever")));
    assert!(is_ada(&jwt, &assembled(&json!({"alg": "none"}), &json!({"sub": "ada"}), b"")));
    assert_eq!(subject(&jwt, &assembled(&json!({}), &json!(["sub", "ada"]), b"")), None);
}

#[test]
fn a_long_token_is_not_looked_at() {
    let jwt = jwt(&with_secret(&["HS256"]));
    let padded = |length: usize| hs256(&json!({"sub": "ada", "padding": "x".repeat(length)}));
    let longest = (0..TOKEN_BYTES_MAX).map(padded).take_while(|token| token.len() <= TOKEN_BYTES_MAX).last();
    let longest = longest.expect("a token that is short enough");
    assert!(longest.len() > TOKEN_BYTES_MAX - 4);
    assert!(is_ada(&jwt, &longest));
    assert_eq!(subject(&jwt, &padded(TOKEN_BYTES_MAX)), None);
}

#[test]
fn junk_names_nobody() {
    let nested = BASE64_URL_SAFE_NO_PAD.encode("[".repeat(5_000));
    let deep = format!("{}.{nested}.", BASE64_URL_SAFE_NO_PAD.encode(r#"{"alg":"HS256"}"#));
    let junk = ["", " ", ".", "..", "...", "a.b.c", "Bearer", "Bearer ", "é.é.é", "\0.\0.\0", "e30.e30.e30", "e30.W10.", &deep];
    for jwt in [jwt(&with_secret(&["HS256"])), jwt(&upstream()), jwt(&with_public_key(&["EdDSA"], &KEYS.ed25519.public))] {
        for token in junk {
            assert_eq!(subject(&jwt, token), None, "{token:?}");
        }
    }
}

#[test]
fn keys_and_algorithms_that_do_not_fit_are_refused() {
    let keys = &*KEYS;
    let table = [
        (spec(), "jwt: name the algorithms to accept, or write verified_by: upstream"),
        (JwtSpec { verified_by: Some("me".to_owned()), ..spec() }, "jwt: verified_by can only be upstream"),
        (
            JwtSpec { verified_by: upstream().verified_by, ..with_secret(&["HS256"]) },
            "jwt: verified_by stands alone: there is nothing to do for a key",
        ),
        (with_secret(&["none"]), "jwt: \"none\" would accept any token"),
        (with_secret(&["HS256", "None"]), "jwt: \"None\" would accept any token"),
        (with_secret(&["HS257"]), "jwt: \"HS257\" is no algorithm that is known"),
        (with_secret(&["HS256", "RS256"]), "jwt: \"RS256\" does not fit the key"),
        (with_secret(&["RS256"]), "jwt: these algorithms are verified with a public key, not with a secret"),
        (with_public_key(&["HS256"], &keys.rsa.public), "jwt: HS algorithms are verified with a secret, not with a public key"),
        (with_public_key(&["RS256", "HS256"], &keys.rsa.public), "jwt: \"HS256\" does not fit the key"),
        (with_public_key(&["RS256", "ES256"], &keys.rsa.public), "jwt: \"ES256\" does not fit the key"),
        (
            with_public_key(&["RS256"], &keys.p256.public),
            "jwt: the public key cannot be read, or is not of the kind that the algorithms need",
        ),
        (with_public_key(&["ES384"], &keys.p256.public), "jwt: \"ES384\" does not fit the key"),
        (with_public_key(&["ES256", "ES384"], &keys.p384.public), "jwt: \"ES256\" does not fit the key"),
        (with_public_key(&["RS256"], &keys.rsa.private_pem), "jwt: a private key was given; the public one is enough"),
        (
            with_public_key(&["RS256"], "ssh-rsa AAAA"),
            "jwt: the public key is not in PEM: it begins with -----BEGIN PUBLIC KEY-----",
        ),
        (
            JwtSpec { secret: with_secret(&[]).secret, ..with_public_key(&["RS256"], &keys.rsa.public) },
            "jwt: exactly one of secret and public key must be given",
        ),
        (JwtSpec { secret: None, ..with_secret(&["HS256"]) }, "jwt: exactly one of secret and public key must be given"),
        (JwtSpec { secret: Some(String::new()), ..with_secret(&["HS256"]) }, "jwt: the secret is empty"),
        (JwtSpec { secret: Some("?".to_owned()), ..with_secret(&["HS256"]) }, "jwt: the secret is not in base64"),
    ];
    for (spec, expected) in table {
        assert_eq!(refusal(&spec), expected, "{spec:?}");
    }
}

#[test]
fn an_rsa_key_that_is_too_short_is_refused() {
    let pem = KEYS.rsa_1024.as_str();
    assert_eq!(refusal(&with_public_key(&["RS256"], pem)), "jwt: \"RS256\" does not fit the key");
}

#[test]
fn secrets_are_shown_nowhere() {
    let spec = with_secret(&["HS256"]);
    let secret = spec.secret.clone().expect("a secret");
    let shown = format!("{:?} {spec:?} {:?}", jwt(&spec), JwtSpec { issuer: Some("i".to_owned()), ..spec.clone() });
    for hidden in [secret.as_str(), "a secret that", &format!("{SECRET:?}")] {
        assert!(!shown.contains(hidden), "{shown}");
    }
    let wrong = JwtSpec { secret: Some(format!("{secret}?")), ..spec };
    assert!(!format!("{:?}", Jwt::new(&wrong)).contains(&secret));
}

proptest! {
    /// Cut anywhere, with any byte changed, or made up: nobody, and no panic.
    #[test]
    fn a_token_that_was_tampered_with_names_nobody(at in 0..4_096_usize, with in any::<char>(), is_cut in any::<bool>()) {
        let jwt = jwt(&with_secret(&["HS256"]));
        let token = hs256(&json!({"sub": "ada", "exp": NOW + 60}));
        let at = at % token.len();
        let changed = if is_cut { token[..at].to_owned() } else { format!("{}{with}{}", &token[..at], &token[at + 1..]) };
        prop_assume!(changed != token);
        prop_assert_eq!(subject(&jwt, &changed), None);
    }

    #[test]
    fn any_text_is_looked_at_without_a_panic(text in any::<String>(), name in any::<String>(), now_s in any::<u64>()) {
        for jwt in [jwt(&with_secret(&["HS256"])), jwt(&upstream())] {
            prop_assert_eq!(jwt.claim(&text, &name, now_s), None);
        }
    }
}

//! A name for each request, the same here, at the server and at the client.

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::chance::random;

/// The longest id that is believed.
const LENGTH_MAX: usize = 128;

/// Finds the id of a request, or gives it one, and tells the server. What somebody says who is not believed is replaced.
pub(super) fn of(headers: &mut HeaderMap, name: &HeaderName, is_trusted: bool) -> HeaderValue {
    let mut said = headers.get_all(name).iter();
    let only = said.next().filter(|id| is_trusted && is_id(id) && said.next().is_none()).cloned();
    let id = only.unwrap_or_else(made);
    headers.insert(name, id.clone());
    id
}

fn is_id(value: &HeaderValue) -> bool {
    let is_harmless = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:=+/@~".contains(byte);
    (1..=LENGTH_MAX).contains(&value.len()) && value.as_bytes().iter().all(is_harmless)
}

/// 128 random bits. They need not be secret, but the ids of a fleet must not collide.
fn made() -> HeaderValue {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [0; 32];
    let bytes = [random().to_be_bytes(), random().to_be_bytes()];
    for (pair, byte) in text.chunks_exact_mut(2).zip(bytes.as_flattened()) {
        pair.copy_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
    HeaderValue::from_bytes(&text).expect("digits are text")
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: HeaderName = HeaderName::from_static("x-request-id");

    fn id_of(said: &[&[u8]], is_trusted: bool) -> String {
        let mut headers = HeaderMap::new();
        for value in said {
            headers.append(NAME, HeaderValue::from_bytes(value).unwrap());
        }
        let id = of(&mut headers, &NAME, is_trusted);
        assert_eq!(headers.get_all(NAME).iter().collect::<Vec<_>>(), [&id]);
        id.to_str().unwrap().to_owned()
    }

    #[test]
    fn who_is_trusted_says_it_and_others_get_one() {
        assert_eq!(id_of(&[b"abc-123"], true), "abc-123");
        let long = [b'x'; 129];
        for (said, is_trusted) in [
            (vec![&b"abc-123"[..]], false),
            (vec![], true),
            (vec![&b"a"[..], b"b"], true),
            (vec![&b"a\"b"[..]], true),
            (vec![&b"a b"[..]], true),
            (vec![&b"\xff"[..]], true),
            (vec![&b""[..]], true),
            (vec![&long[..]], true),
        ] {
            let id = id_of(&said, is_trusted);
            assert!(id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{said:?}: {id}");
        }
        assert_ne!(id_of(&[], false), id_of(&[], false));
    }
}

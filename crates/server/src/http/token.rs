//! Who may ask.

use http::HeaderMap;
use http::header::AUTHORIZATION;

use crate::app::{App, Peer};

/// Where the token is, if `Authorization` belongs to somebody else, as behind a gateway.
pub(super) const TOKEN_HEADER: &str = "x-tidegate-token";

/// Whether a request shows the token, if there is one.
pub(super) fn is_right(app: &App, headers: &HeaderMap) -> bool {
    let [authorization, own] =
        [headers.get(AUTHORIZATION), headers.get(TOKEN_HEADER)].map(|value| value.map(http::HeaderValue::as_bytes));
    is_shown(app, authorization, own)
}

/// The same for the values of the two fields.
pub(super) fn is_shown(app: &App, authorization: Option<&[u8]>, own: Option<&[u8]>) -> bool {
    let Some(token) = app.settings.http.as_ref().and_then(|listener| listener.token.as_ref()) else { return true };
    let bearer = authorization.and_then(bearer);
    // Both are compared, so that the time does not tell which one came near.
    let [bearer, own] = [bearer, own].map(|shown| shown.is_some_and(|shown| is_same(shown, token.0.as_bytes())));
    bearer | own
}

/// Whether a caller that showed what it has to may loosen limits: there was something to show, or it is on this machine.
pub(super) fn is_operator(app: &App, peer: Peer) -> bool {
    let listener = app.settings.http.as_ref();
    let certificates = listener.and_then(|listener| listener.tls.as_ref()?.client_ca.as_ref());
    let is_known = certificates.is_some() || listener.is_some_and(|listener| listener.token.is_some());
    is_known || peer.address.is_none_or(|address| address.to_canonical().is_loopback())
}

fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then_some(token.trim_ascii())
}

/// Whether two texts are the same. How long it takes tells their lengths and nothing else.
fn is_same(shown: &[u8], token: &[u8]) -> bool {
    let differences =
        shown.iter().zip(token).fold(0, |differences, (one, other)| std::hint::black_box(differences | (one ^ other)));
    differences == 0 && shown.len() == token.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_token_is_the_token() {
        for (shown, expected) in [("secret", true), ("secre", false), ("secrets", false), ("", false), ("Secret", false)] {
            assert_eq!(is_same(shown.as_bytes(), b"secret"), expected, "{shown}");
        }
        assert_eq!(bearer(b"bEaReR  secret "), Some(&b"secret"[..]));
        assert_eq!(bearer(b"Basic secret"), None);
        assert_eq!(bearer(b"Bear"), None);
    }
}

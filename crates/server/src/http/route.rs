//! Which path is what, and by which methods.

use http::Method;

use super::check::Kind;

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Route {
    Ask(Kind),
    ForwardAuth,
    Json,
    Top,
    Health,
    Ready,
    Metrics,
    OpenApi,
}

/// What gateways ask; they may add the original path behind it.
pub(super) const FORWARD_AUTH: &str = "/api/v1/rate-limit/forward-auth";

impl Route {
    /// The route of a path.
    pub(super) fn find(path: &str) -> Option<Self> {
        Some(match path {
            "/api/v1/rate-limit/check" => Self::Ask(Kind::Check),
            "/api/v1/rate-limit/check/batch" => Self::Ask(Kind::Batch),
            "/api/v1/rate-limit/peek" => Self::Ask(Kind::Peek),
            "/api/v1/rate-limit/usage" => Self::Ask(Kind::Usage),
            "/api/v1/rate-limit/debit" => Self::Ask(Kind::Debit),
            "/api/v1/rate-limit/release" => Self::Ask(Kind::Release),
            "/api/v1/rate-limit/renew" => Self::Ask(Kind::Renew),
            "/api/v1/rate-limit/reset" => Self::Ask(Kind::Reset),
            "/api/v1/rate-limit/top" => Self::Top,
            "/json" => Self::Json,
            "/healthz" => Self::Health,
            "/readyz" => Self::Ready,
            "/metrics" => Self::Metrics,
            "/openapi.json" => Self::OpenApi,
            _ => {
                let behind = path.strip_prefix(FORWARD_AUTH)?;
                return (behind.is_empty() || behind.starts_with('/')).then_some(Self::ForwardAuth);
            }
        })
    }

    /// Whether it is asked by this method.
    pub(super) fn takes(self, method: &Method) -> bool {
        match self {
            Self::Ask(_) | Self::Json => *method == Method::POST,
            Self::ForwardAuth => true,
            Self::Top | Self::Health | Self::Ready | Self::Metrics | Self::OpenApi => {
                *method == Method::GET || *method == Method::HEAD
            }
        }
    }

    /// The methods by which it is asked, for `Allow`.
    pub(super) fn methods(self) -> &'static str {
        if self.takes(&Method::POST) { "POST" } else { "GET, HEAD" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_forward_auth_has_paths_behind_it() {
        let suffixed = format!("{FORWARD_AUTH}/api/v1/orders");
        assert_eq!(Route::find(&suffixed), Some(Route::ForwardAuth));
        assert_eq!(Route::find(FORWARD_AUTH), Some(Route::ForwardAuth));
        for path in ["/api/v1/rate-limit/forward-authority", "/api/v1/rate-limit/check/", "/", "*", "/HEALTHZ"] {
            assert_eq!(Route::find(path), None, "{path}");
        }
    }
}

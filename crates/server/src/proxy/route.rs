//! Which request goes where: routes by host and path, the most exact first.

use http::Uri;
use http::uri::PathAndQuery;

use super::settings::RouteSettings;

/// All routes.
#[derive(Debug)]
pub(super) struct Routes(Vec<Route>);

/// One route.
#[derive(Debug)]
pub(super) struct Route {
    host: HostPattern,
    /// How the path begins; without a slash at its end, so `/` is empty.
    path: String,
    /// What stands in its place; `None` leaves it.
    rewrite: Option<String>,
    /// The number of the group.
    pub(super) group: usize,
}

/// A name of a host, in lower case. The later ones are the more exact ones.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum HostPattern {
    Any,
    /// Everything that ends with this: `.example.com`.
    Suffix(String),
    Exact(String),
}

impl Routes {
    /// Routes to groups of these names. A route to a group that does not exist leads nowhere.
    pub(super) fn new(routes: &[RouteSettings], groups: &[&str]) -> Self {
        let mut all: Vec<Route> = routes.iter().flat_map(|route| Route::all(route, groups)).collect();
        // Stable: of two that are alike the first one wins.
        all.sort_by(|one, other| {
            let exactness = |route: &Route| (route.host.exactness(), route.path.len());
            exactness(other).cmp(&exactness(one))
        });
        Self(all)
    }

    /// The route of a request. `host` may have a port.
    pub(super) fn find(&self, host: &str, path: &str) -> Option<&Route> {
        let host = without_port(host).to_ascii_lowercase();
        self.0.iter().find(|route| route.host.fits(&host) && route.fits(path))
    }
}

impl Route {
    fn all<'a>(route: &'a RouteSettings, groups: &[&str]) -> impl Iterator<Item = Self> + use<'a> {
        let group = groups.iter().position(|name| *name == route.upstream);
        let hosts = if route.hosts.is_empty() { vec![HostPattern::Any] } else { patterns(&route.hosts) };
        let made = move |host| {
            let rewrite = route.rewrite.as_ref().map(|path| path.trim_end_matches('/').to_owned());
            Some(Self { host, path: route.path.trim_end_matches('/').to_owned(), rewrite, group: group? })
        };
        hosts.into_iter().filter_map(made)
    }

    fn fits(&self, path: &str) -> bool {
        path.strip_prefix(&self.path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || self.path.is_empty())
    }

    /// The path and query that the server is asked for.
    pub(super) fn path(&self, uri: &Uri) -> PathAndQuery {
        let asked = path_of(uri);
        // `*` is the whole server, and no path.
        let Some(rewrite) = self.rewrite.as_ref().filter(|_| asked != "*") else { return asked };
        let rest = asked.as_str().strip_prefix(&self.path).unwrap_or(asked.as_str());
        let slash = if rewrite.is_empty() && !rest.starts_with('/') { "/" } else { "" };
        // Settings were checked, and the rest was understood when it came.
        PathAndQuery::try_from([rewrite, slash, rest].concat()).unwrap_or(asked)
    }
}

/// The path and query of a target. One that names a host may have no path, and is written without a slash then, or as nothing at all.
fn path_of(uri: &Uri) -> PathAndQuery {
    const ROOT: PathAndQuery = PathAndQuery::from_static("/");
    match uri.path_and_query() {
        Some(path) if path.as_str() != "/" && path.as_str().starts_with(['/', '*']) => path.clone(),
        Some(path) => PathAndQuery::try_from(path.to_string()).unwrap_or(ROOT),
        None => ROOT,
    }
}

impl HostPattern {
    fn exactness(&self) -> (u8, usize) {
        match self {
            Self::Any => (0, 0),
            Self::Suffix(suffix) => (1, suffix.len()),
            Self::Exact(_) => (2, 0),
        }
    }

    fn fits(&self, host: &str) -> bool {
        match self {
            Self::Any => true,
            // Something has to stand before the dot.
            Self::Suffix(suffix) => host.len() > suffix.len() && host.ends_with(&**suffix),
            Self::Exact(name) => host == name,
        }
    }
}

fn patterns(hosts: &[String]) -> Vec<HostPattern> {
    let pattern = |host: &String| {
        let host = host.to_ascii_lowercase();
        match host.strip_prefix('*') {
            Some("") => HostPattern::Any,
            Some(suffix) => HostPattern::Suffix(suffix.to_owned()),
            None => HostPattern::Exact(host),
        }
    };
    hosts.iter().map(pattern).collect()
}

/// The name of a host without its port, and without the dot that may end it.
fn without_port(host: &str) -> &str {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    name.strip_suffix('.').unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routes() -> Routes {
        let route = |hosts: &[&str], path: &str, upstream: &str, rewrite: Option<&str>| RouteSettings {
            hosts: hosts.iter().map(ToString::to_string).collect(),
            path: path.to_owned(),
            upstream: upstream.to_owned(),
            rewrite: rewrite.map(str::to_owned),
        };
        let all = [
            route(&[], "/", "any", None),
            route(&[], "/api", "api", Some("/")),
            route(&["*.example.com"], "/", "wild", None),
            route(&["shop.example.com", "SHOP.example.org"], "/", "shop", None),
            route(&["shop.example.com"], "/v1/", "v1", Some("/v2")),
            route(&["lost.example.com"], "/", "nobody", None),
        ];
        Routes::new(&all, &["any", "api", "wild", "shop", "v1"])
    }

    #[test]
    fn a_target_without_a_path_is_for_the_root() {
        let table = [
            ("/a?b", "/a?b"),
            ("/", "/"),
            ("*", "*"),
            ("http://j", "/"),
            ("http://j/a", "/a"),
            ("http://j?x=1", "/?x=1"),
            ("http://j#/x", "/"),
        ];
        for (target, expected) in table {
            let path = path_of(&target.parse().expect("a target"));
            assert_eq!((path.as_str(), Uri::from(path.clone()).to_string().as_str()), (expected, expected), "{target}");
        }
    }

    #[test]
    fn the_most_exact_route_wins() {
        let routes = routes();
        let table = [
            ("elsewhere.org", "/", Some("any")),
            ("elsewhere.org", "/apis", Some("any")),
            ("elsewhere.org", "/api", Some("api")),
            ("elsewhere.org", "/api/orders", Some("api")),
            ("a.example.com", "/api", Some("wild")),
            ("A.EXAMPLE.COM:8000", "/", Some("wild")),
            ("example.com", "/", Some("any")),
            (".example.com", "/", Some("any")),
            ("shop.example.com.", "/", Some("shop")),
            ("shop.example.org:80", "/v1", Some("shop")),
            ("shop.example.com", "/v1", Some("v1")),
            ("lost.example.com", "/", Some("wild")),
            ("[::1]:8000", "*", Some("any")),
            ("", "/", Some("any")),
        ];
        for (host, path, expected) in table {
            let names = ["any", "api", "wild", "shop", "v1"];
            assert_eq!(routes.find(host, path).map(|route| names[route.group]), expected, "{host}{path}");
        }
        assert!(Routes::new(&[], &["any"]).find("a", "/").is_none(), "without routes nothing goes anywhere");
    }

    #[test]
    fn a_prefix_is_replaced_and_the_query_stays() {
        let routes = routes();
        let table = [
            ("elsewhere.org", "/api", "/"),
            ("elsewhere.org", "/api?q=/api", "/?q=/api"),
            ("elsewhere.org", "/api/", "/"),
            ("elsewhere.org", "/api/orders?a=1", "/orders?a=1"),
            ("elsewhere.org", "/apis", "/apis"),
            ("shop.example.com", "/v1/x", "/v2/x"),
            ("shop.example.com", "/v1", "/v2"),
        ];
        for (host, path, expected) in table {
            let uri: Uri = path.parse().unwrap();
            let route = routes.find(host, uri.path()).unwrap();
            assert_eq!(route.path(&uri).as_str(), expected, "{host}{path}");
        }
    }
}

//! What is known of servers behind the proxy.
//!
//! Labels are groups and servers of the settings, and addresses that names lead to: nothing that clients send, and no more than [`SERVERS_MAX`] servers.

use super::page::{Kind, Page};
use super::render::write_histogram;
use crate::proxy::{DialError, GroupSummary, Outcome, Proxy, ServerSummary, State};

/// The most servers that have samples of their own. What is known of the others is on the page in sums over groups only.
const SERVERS_MAX: usize = 1_000;

pub(super) fn write(page: &mut Page, proxy: &Proxy) {
    let groups = proxy.summary();
    write_groups(page, &groups);
    let servers: Vec<(&str, &ServerSummary)> = groups
        .iter()
        .flat_map(|group| group.servers.iter().map(|server| (group.name.as_str(), server)))
        .take(SERVERS_MAX)
        .collect();
    write_requests(page, &servers);
    write_health(page, &servers);
    let name = "ratelimit_upstream_reloads_total";
    page.begin(name, Kind::Counter, "Attempts to load other upstreams and routes.");
    for (result, count) in ["failed", "loaded"].into_iter().zip(proxy.reloads()) {
        page.sample(name, &[("result", result)], count);
    }
    let help = "1 while the upstreams and routes on disk are wrong, and older ones are in force.";
    page.single("ratelimit_upstreams_stale", Kind::Gauge, help, u8::from(proxy.problem().is_some()));
}

fn write_groups(page: &mut Page, groups: &[GroupSummary]) {
    let name = "ratelimit_upstream_duration_seconds";
    page.begin(name, Kind::Histogram, "From the choice of a server to the head of its response.");
    for group in groups {
        write_histogram(page, name, ("upstream", &group.name), &group.durations);
    }
    let name = "ratelimit_upstream_retries_total";
    page.begin(name, Kind::Counter, "Requests that were sent to another server, because one could not be reached or broke off.");
    for group in groups {
        page.sample(name, &[("upstream", &group.name)], group.retries);
    }
    let name = "ratelimit_upstream_unresolved_total";
    page.begin(name, Kind::Counter, "Names of servers that led nowhere when they were looked up; the last addresses stay.");
    for group in groups {
        page.sample(name, &[("upstream", &group.name)], group.unresolved);
    }
    let name = "ratelimit_upstream_servers";
    page.begin(name, Kind::Gauge, "Servers of a group, by what they are.");
    for group in groups {
        for state in State::ALL {
            let count = group.servers.iter().filter(|server| server.state == state).count();
            page.sample(name, &[("upstream", &group.name), ("state", state.as_str())], count);
        }
    }
}

fn write_requests(page: &mut Page, servers: &[(&str, &ServerSummary)]) {
    let name = "ratelimit_upstream_requests_total";
    page.begin(name, Kind::Counter, "What became of requests at servers: the class of the status, or why there was none.");
    for (upstream, server) in servers {
        for outcome in Outcome::ALL {
            let labels = [("upstream", *upstream), ("server", server.name.as_str()), ("outcome", outcome.as_str())];
            page.sample(name, &labels, server.requests[outcome as usize]);
        }
    }
    let name = "ratelimit_upstream_in_flight";
    page.begin(name, Kind::Gauge, "Requests that servers have under way.");
    for (upstream, server) in servers {
        page.sample(name, &[("upstream", upstream), ("server", &server.name)], server.in_flight);
    }
    let name = "ratelimit_upstream_connections_total";
    page.begin(name, Kind::Counter, "New connections to servers.");
    for (upstream, server) in servers {
        page.sample(name, &[("upstream", upstream), ("server", &server.name)], server.connections);
    }
    let name = "ratelimit_upstream_connect_failures_total";
    page.begin(name, Kind::Counter, "Attempts to connect to servers that failed.");
    for (upstream, server) in servers {
        for error in DialError::ALL {
            let labels = [("upstream", *upstream), ("server", server.name.as_str()), ("reason", error.as_str())];
            page.sample(name, &labels, server.unconnected[error as usize]);
        }
    }
}

fn write_health(page: &mut Page, servers: &[(&str, &ServerSummary)]) {
    let name = "ratelimit_upstream_up";
    page.begin(name, Kind::Gauge, "1 while a server gets requests, 0 while it is ejected or its checks fail.");
    for (upstream, server) in servers {
        page.sample(name, &[("upstream", upstream), ("server", &server.name)], u8::from(server.state == State::Up));
    }
    let name = "ratelimit_upstream_ejections_total";
    page.begin(name, Kind::Counter, "How often a server was left out because it failed.");
    for (upstream, server) in servers {
        page.sample(name, &[("upstream", upstream), ("server", &server.name)], server.ejections);
    }
    let name = "ratelimit_upstream_checks_total";
    page.begin(name, Kind::Counter, "Health checks.");
    for (upstream, server) in servers {
        for (result, count) in ["failed", "passed"].into_iter().zip(server.checks) {
            page.sample(name, &[("upstream", upstream), ("server", &server.name), ("result", result)], count);
        }
    }
}

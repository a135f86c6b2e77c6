//! How long it takes to find the rules that apply to one request, among 10, 1,000 and 10,000.
//!
//! ```console
//! $ cargo run --release --example bench_rules -p tidegate-core [-- --quick]
//! ```
//!
//! Each rule is for one method and one path of an API, with a segment that may be anything; three more apply to every request. Requests are drawn at
//! random from all paths, and from paths that no rule knows. A match is what the engine does: state the facts, identify the client, find the rules,
//! make their keys. Prints JSON lines, which `benchmarks/rules_speed.py` reads.

#![allow(clippy::print_stdout, reason = "the lines are the result")]
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the time")]

use std::hint::black_box;
use std::time::Instant;

use tidegate_core::rules::identity::NoClaims;
use tidegate_core::rules::{RuleSet, RuleSetSpec, Standing};

const METHODS: [&str; 4] = ["GET", "POST", "PUT", "DELETE"];

fn main() {
    let is_quick = std::env::args().any(|argument| argument == "--quick");
    let (rounds, requests) = if is_quick { (3, 20_000) } else { (11, 400_000) };
    let sets: Vec<_> = [10, 1_000, 10_000].into_iter().map(|rules| (rules, load(rules))).collect();
    let mut times: Vec<Vec<f64>> = vec![Vec::new(); sets.len()];
    let paths: Vec<Vec<String>> = sets.iter().map(|(rules, _)| paths(*rules)).collect();
    for _ in 0..rounds {
        for (index, (_, (set, _))) in sets.iter().enumerate() {
            times[index].push(run(set, &paths[index], requests));
        }
    }
    for ((rules, (_, load_ms)), nanos) in sets.iter().zip(&mut times) {
        nanos.sort_by(f64::total_cmp);
        let median = nanos[nanos.len() / 2];
        println!(r#"{{"rules": {rules}, "match_ns": {median:.1}, "compile_ms": {load_ms:.1}}}"#);
    }
}

/// Compiles a set; returns it with the milliseconds that took.
fn load(rules: usize) -> (RuleSet, f64) {
    let specific = (0..rules.saturating_sub(3)).map(|number| {
        let (method, path) = (METHODS[number % METHODS.len()], path(number, "*"));
        rule(
            &format!("rule_{number}"),
            &format!(
                r#"{{"attribute": "path", "test": {{"pattern": ["{path}"]}}, "not": false, "ignore_case": false}},
                   {{"attribute": "method", "test": {{"exact": ["{method}"]}}, "not": false, "ignore_case": false}}"#
            ),
            r#""client""#,
        )
    });
    let general = [rule("per_client", "", r#""client""#), rule("per_address", "", r#""ip""#), rule("everybody", "", "")];
    let rules: Vec<String> = specific.chain(general).collect();
    let document = format!(
        r#"{{"version": 1, "domain": "bench", "rules": [{}], "identity": [
            {{"header": "x-api-key", "attribute": "api_key"}}, {{"ip": {{"trusted_proxies": [], "ipv6_prefix": 64}}}}]}}"#,
        rules.join(",")
    );
    let started = Instant::now();
    let spec: RuleSetSpec = serde_json::from_str(&document).expect("a rule set");
    let set = RuleSet::new(spec).expect("rules that compile");
    (set, started.elapsed().as_secs_f64() * 1e3)
}

fn rule(name: &str, conditions: &str, per: &str) -> String {
    format!(
        r#"{{"name": "{name}", "match": [{conditions}], "per": [{per}], "quotas": [{{"text": "100/minute"}}], "cost": {{"units": 1}},
            "mode": "enforce", "rollout": 10000, "priority": 0, "stop": false, "headers": true}}"#
    )
}

fn path(number: usize, id: &str) -> String {
    format!("/api/v{}/resource{}/{id}/part{}", number % 3, number / 12, number % 12)
}

/// Paths in the order in which they are asked for; every eighth is unknown.
fn paths(rules: usize) -> Vec<String> {
    let mut state = 20_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state >> 33).unwrap_or(0)
    };
    (0..4_096).map(|index| if index % 8 == 0 { format!("/unknown/{}", next()) } else { path(next() % rules, "4711") }).collect()
}

/// Nanoseconds per request.
#[allow(clippy::cast_precision_loss, reason = "numbers of requests are far below 2^53")]
fn run(set: &RuleSet, paths: &[String], requests: usize) -> f64 {
    let started = Instant::now();
    for (index, path) in paths.iter().cycle().take(requests).enumerate() {
        let mut request = set.request();
        request.set("method", METHODS[index % METHODS.len()]);
        request.set("path", path.as_str());
        request.set("ip", "203.0.113.7");
        request.set_header("x-api-key", "key-4711");
        set.identity().resolve(&mut request, &NoClaims);
        black_box(set.matches(&request, Standing::default(), None));
    }
    started.elapsed().as_secs_f64() * 1e9 / requests as f64
}

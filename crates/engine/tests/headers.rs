//! Decisions as header fields: structured, and rounded so that they stay true.

mod limiter;

use tidegate_core::quota::QuotaSpec;
use tidegate_engine::decision::Decision;
use tidegate_engine::engine::OnStoreError;
use tidegate_engine::headers::{self, Field, Profile, XRateLimit};

use limiter::{Limiter, SECOND, START, quotas};

/// The values of `RateLimit-Policy`, `RateLimit` and `Retry-After`.
fn fields(decision: &Decision) -> [Option<String>; 3] {
    let fields = headers::fields(decision);
    let value = |name| fields.iter().find(|(field, _)| *field == name).map(|(_, value)| value.clone());
    ["RateLimit-Policy", "RateLimit", "Retry-After"].map(value)
}

fn some<const N: usize>(values: [&str; N]) -> [Option<String>; N] {
    values.map(|value| Some(value.to_owned()).filter(|value| !value.is_empty()))
}

#[test]
fn an_allowed_request_is_told_policy_and_what_is_left() {
    let limiter = Limiter::new("10/minute");
    let decision = limiter.check("a", 3);
    assert_eq!(fields(&decision), some([r#""10/minute";q=10;w=60"#, r#""10/minute";r=7;t=60"#, ""]));
}

#[test]
fn waits_are_rounded_up_and_never_to_nothing() {
    let limiter = Limiter::new("10/minute");
    assert!(limiter.allows("a", 10));
    limiter.advance(SECOND / 2);
    assert_eq!(fields(&limiter.check("a", 1)), some([r#""10/minute";q=10;w=60"#, r#""10/minute";r=0;t=60"#, "60"]));
    limiter.advance(59 * SECOND);
    assert_eq!(fields(&limiter.check("a", 1))[2].as_deref(), Some("1"), "half a second is left");
    limiter.advance(SECOND / 2 - 1);
    assert_eq!(fields(&limiter.check("a", 1))[2].as_deref(), Some("1"), "a nanosecond is left");
}

#[test]
fn a_client_that_waits_for_the_seconds_it_was_told_is_admitted() {
    for text in ["7/13s", "7/13s gcra", "7/13s fixed_window", "7/13s sliding_window_counter", "3/7s queue 2s"] {
        let limiter = Limiter::new(text);
        limiter.advance(123_456_789);
        for _ in 0..200 {
            let decision = limiter.check("a", 1);
            if let Some(seconds) = &fields(&decision)[2] {
                limiter.advance(seconds.parse::<u64>().expect("whole seconds") * SECOND);
                assert!(limiter.allows("a", 1), "{text}");
            }
        }
    }
}

#[test]
fn a_cost_that_is_never_admitted_has_no_retry_after() {
    let limiter = Limiter::new("10/minute");
    assert_eq!(fields(&limiter.check("a", 11))[2], None);
    let limiter = Limiter::new("0/minute");
    assert_eq!(fields(&limiter.check("a", 1)), some([r#""0/minute";q=0;w=60"#, r#""0/minute";r=0"#, ""]));
}

#[test]
fn all_policies_are_listed_and_the_one_that_binds_is_reported() {
    let limiter = Limiter::new("10/minute, 100/hour burst 20, 5 concurrent, unlimited, 1000/day calendar");
    let [policy, available, _] = fields(&limiter.check("a", 4));
    let policies = [
        r#""10/minute";q=10;w=60"#,
        r#""100/hour-burst-20";q=20;w=720"#,
        r#""5-concurrent";q=5;qu="concurrent-requests""#,
        r#""1000/day-calendar";q=1000"#,
    ];
    assert_eq!(policy.as_deref(), Some(policies.join(", ").as_str()));
    assert_eq!(available.as_deref(), Some(r#""5-concurrent";r=1"#));
}

#[test]
fn a_bucket_offers_what_can_be_had_in_the_time_it_names() {
    let limiter = Limiter::new("60/minute burst 5");
    assert_eq!(fields(&limiter.check("a", 2)), some([r#""60/minute-burst-5";q=5;w=5"#, r#""60/minute-burst-5";r=3;t=3"#, ""]));
}

#[test]
fn names_are_used_as_they_were_given() {
    let spec =
        QuotaSpec { name: Some("per-client".to_owned()), limit: Some(10), period_ns: Some(60 * SECOND), ..QuotaSpec::default() };
    let limiter = Limiter::of(vec![spec.build().expect("a quota")]);
    assert_eq!(fields(&limiter.check("a", 1)), some([r#""per-client";q=10;w=60"#, r#""per-client";r=9;t=60"#, ""]));
}

#[test]
fn unlimited_quotas_are_not_mentioned() {
    assert_eq!(headers::fields(&Limiter::new("unlimited").check("a", 1)), []);
}

#[test]
fn a_decision_without_the_store_says_when_to_come_back() {
    let limiter = Limiter::with_room_for(quotas("5/minute"), 1, OnStoreError::Deny);
    assert!(limiter.allows("known", 5));
    let [policy, _, retry_after] = fields(&limiter.check("new", 1));
    assert_eq!((policy.as_deref(), retry_after.as_deref()), (Some(r#""5/minute";q=5;w=60"#), Some("60")));
}

/// Strings with nothing to escape, parameters with whole numbers or strings: what RFC 9651 calls items with parameters.
#[test]
fn every_field_is_a_list_of_items_with_parameters() {
    let texts = [
        "5/second",
        "9007199254740992/36500d",
        "7/13us gcra",
        "3/7s queue 2s nodelay 2",
        "5 concurrent ttl 7s",
        "2/week calendar Europe/Berlin",
    ];
    for text in texts {
        let limiter = Limiter::new(text);
        for _ in 0..3 {
            for (name, value) in headers::fields(&limiter.check("a", 2)) {
                if name == "Retry-After" {
                    assert!(value.parse::<u64>().is_ok_and(|seconds| seconds > 0), "{value}");
                    continue;
                }
                for item in value.split(", ") {
                    let mut parts = item.split(';');
                    let label = parts.next().expect("a label");
                    assert!(is_string(label), "{name}: {value}");
                    for parameter in parts {
                        let (key, value) = parameter.split_once('=').expect("a key and a value");
                        assert!(["q", "w", "qu", "r", "t"].contains(&key), "{parameter}");
                        assert!(is_string(value) || value.parse::<u64>().is_ok(), "{parameter}");
                    }
                }
            }
        }
    }
}

fn is_string(text: &str) -> bool {
    let inner = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    inner.is_some_and(|inner| !inner.is_empty() && inner.chars().all(|c| c.is_ascii_graphic() && c != '"' && c != '\\'))
}

/// The values of `X-RateLimit-Limit`, `-Remaining` and `-Reset`.
fn x_fields(limiter: &Limiter, decision: &Decision, form: XRateLimit) -> [Option<String>; 3] {
    let profile = Profile { standard: false, retry_after: false, x_ratelimit: form };
    let fields = headers::fields_in(decision, profile, limiter.engine.now_ns());
    let value = |name: Field| fields.iter().find(|(field, _)| *field == name).map(|(_, value)| value.clone());
    assert!(fields.iter().all(|(field, _)| field.as_str().starts_with("X-RateLimit-")));
    [Field::XLimit, Field::XRemaining, Field::XReset].map(value)
}

#[test]
fn the_old_fields_come_in_the_form_that_is_asked_for() {
    let limiter = Limiter::new("10/minute, 1000/hour");
    limiter.advance(SECOND / 2);
    let decision = limiter.check("a", 3);
    let reset = (START / SECOND + 61).to_string();
    let table = [
        (XRateLimit::Off, ["", "", ""]),
        (XRateLimit::Epoch, ["10", "7", &reset]),
        (XRateLimit::Delta, ["10", "7", "60"]),
        (XRateLimit::Draft03, [r#"10, 10;w=60;name="10/minute", 1000;w=3600;name="1000/hour""#, "7", "60"]),
    ];
    for (form, expected) in table {
        assert_eq!(x_fields(&limiter, &decision, form), some(expected), "{form:?}");
    }
}

#[test]
fn who_waits_until_the_old_reset_of_a_denial_is_admitted() {
    for text in ["7/13s", "7/13s gcra", "7/13s fixed_window", "3/7s queue 2s"] {
        let limiter = Limiter::new(text);
        limiter.advance(123_456_789);
        for _ in 0..100 {
            let decision = limiter.check("a", 1);
            let [_, _, reset] = x_fields(&limiter, &decision, XRateLimit::Epoch);
            if !decision.is_allowed() {
                let reset: u64 = reset.expect("a time").parse().expect("whole seconds");
                limiter.advance(reset * SECOND - limiter.engine.now_ns());
                assert!(limiter.allows("a", 1), "{text}");
            }
        }
    }
}

#[test]
fn a_reset_that_nobody_knows_is_not_told() {
    for (text, cost) in [("5 concurrent", 1), ("0/minute", 1), ("5/minute", 6)] {
        let limiter = Limiter::new(text);
        let decision = limiter.check("a", cost);
        assert_eq!(x_fields(&limiter, &decision, XRateLimit::Delta)[2], None, "{text}");
    }
}

#[test]
fn each_field_can_be_switched_off() {
    let limiter = Limiter::new("1/minute");
    assert!(limiter.allows("a", 1));
    let decision = limiter.check("a", 1);
    let names =
        |profile| -> Vec<&str> { headers::fields_in(&decision, profile, 0).iter().map(|(field, _)| field.as_str()).collect() };
    assert_eq!(names(Profile::STANDARD), ["RateLimit-Policy", "RateLimit", "Retry-After"]);
    assert_eq!(names(Profile { standard: false, ..Profile::STANDARD }), ["Retry-After"]);
    assert_eq!(names(Profile { retry_after: false, ..Profile::STANDARD }), ["RateLimit-Policy", "RateLimit"]);
}

/// RFC 9651 has fifteen digits.
#[test]
fn numbers_are_no_larger_than_a_structured_field_can_hold() {
    let limiter = Limiter::new("9007199254740992/day");
    let [policy, available, _] = fields(&limiter.check("a", 1));
    assert!(policy.is_some_and(|policy| policy.contains(";q=999999999999999;")));
    assert!(available.is_some_and(|available| available.contains(";r=999999999999999;")));
}
